"""What a scenario acts through: copies of an item with others, and prebuilt objects of a kind."""

from __future__ import annotations

import pytest

from fuzz.drawing.scenario_mutator import ObjectGoneError, ScenarioMutator
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.protocol import actions as do
from fuzz.run import Run
from fuzz.targets import make_target


@pytest.mark.parametrize(("source_length", "dest_length"), [(1, 3), (3, 1), (5, 8), (8, 5), (6, 6)])
def test_an_item_is_copied_with_others_beside_it(source_length: int, dest_length: int) -> None:
    lengths = set()
    for number in range(100):
        run = Run(make_target("reference"), {})
        run.step(do.AllocateArray(source_length))
        run.step(do.AllocateArray(dest_length))
        choices = RandomChoices(str(number))
        source, dest = run.situation.roots
        item = choices.below(source_length)
        copy = ScenarioMutator(run.situation, choices).copy_with_others(source, dest, item)
        assert isinstance(copy, do.CopyArray)
        assert why_illegal(copy, run.contract, run.bench.shadow) is None
        assert copy.source_start <= item < copy.source_start + copy.length
        lengths.add(copy.length)
    assert lengths == {*range(1, min(source_length, dest_length) + 1)}


def test_a_prebuilt_object_of_a_kind_is_loaded() -> None:
    run = Run(make_target("reference"), {"prebuilt_nodes": 2, "prebuilt_arrays": 2})
    mutator = ScenarioMutator(run.situation, RandomChoices("0"))
    for _ in range(20):
        run.step(mutator.load_prebuilt("array"))
    assert {obj.origin for obj in run.situation.roots} == {"prebuilt 2", "prebuilt 3"}


def test_without_a_prebuilt_object_of_the_kind_the_scenario_ends() -> None:
    run = Run(make_target("reference"), {"prebuilt_nodes": 2, "prebuilt_arrays": 0})
    with pytest.raises(ObjectGoneError):
        ScenarioMutator(run.situation, RandomChoices("0")).load_prebuilt("array")
