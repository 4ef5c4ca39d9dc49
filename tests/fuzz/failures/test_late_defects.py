"""An old defect hides no new one that comes later in the trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import attrs
import pytest
from night import rest_at_night

from fuzz.failure import BROKE, Failure
from fuzz.failures.compare import Pair
from fuzz.failures.comparing_engine import ComparingEngine
from fuzz.oracles.excluded import field_of
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import SURVIVED, Observation
from fuzz.protocol.target import FullTarget
from fuzz.reached.probes import ProbeCounter
from fuzz.targets import make_target

Defect = Callable[[Action, Observation], None]
SLICES_MAX = 200
ALLOCATIONS = 10
"""A late defect begins after this many allocations of a trace."""


def more(field: str, action: type[Action], by: int = 1) -> Defect:
    """Answers to these actions have a field that is too large."""

    def change(done: Action, answer: Observation) -> None:
        if isinstance(done, action) and (value := getattr(answer, field)) is not None:
            setattr(answer, field, value + by)

    return change


def nowhere(action: type[Action]) -> Defect:
    def change(done: Action, answer: Observation) -> None:
        if isinstance(done, action) and answer.outside is not None:
            answer.outside = not answer.outside

    return change


def miscounted(place: int) -> Defect:
    """The row of one object in `contents` is wrong."""

    def change(done: Action, answer: Observation) -> None:
        if isinstance(done, do.CheckContents) and answer.contents:
            answer.contents[place] = [0]

    return change


def misreported(type_index: int) -> Defect:
    def change(_: Action, answer: Observation) -> None:
        for report in answer.reports:
            report.entries = [
                entry ^ SURVIVED if entry >> 2 == type_index else entry for entry in report.entries
            ]

    return change


NODE, ARRAY = 1, 3
"""The indices of these types."""


class Defective(FullTarget):
    """The reference with defects, of which some begin late in a trace."""

    name = "defective"

    def __init__(self, *early: Defect, late: Defect | None = None) -> None:
        self._target = make_target("reference")
        self._early, self._late = early, late

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self._allocations = 0
        contract = self._target.start(configuration)
        # A wrong number of samples would contradict the order as well.
        observes = tuple(each for each in contract.observes if each != "order")
        return attrs.evolve(contract, observes=observes)

    def perform(self, action: Action) -> Observation:
        answer = self._target.perform(action)
        for defect in self._early:
            defect(action, answer)
        self._allocations += action.allocates
        if self._late and self._allocations > ALLOCATIONS:
            self._late(action, answer)
        return answer


SIZE = more("size", do.AllocateNode)
PAIRS: dict[str, tuple[tuple[Defect, ...], Defect, str]] = {
    "sizes": ((SIZE,), more("size", do.AllocateArray), "size"),
    "samples": ((more("samples", do.AllocateNode),), more("samples", do.AllocateArray), "samples"),
    "places": ((more("at", do.AllocateNode, 8),), more("at", do.AllocateString, 8), "at"),
    "outside": ((nowhere(do.AllocateNode),), nowhere(do.AllocateString), "outside"),
    "values": ((more("value", do.ReadNumber),), more("value", do.Read), "value"),
    "contents": ((miscounted(0),), miscounted(-1), "contents"),
    "reports": ((misreported(NODE),), misreported(ARRAY), "reports"),
    "another wrong answer": ((SIZE,), SIZE, "size"),
    "two old ones, sizes": (
        (SIZE, more("samples", do.AllocateNode)),
        more("size", do.AllocateArray),
        "size",
    ),
    "two old ones, samples": (
        (SIZE, more("samples", do.AllocateNode)),
        more("samples", do.AllocateNode),
        "samples",
    ),
}


def drawn(pair: Pair, seed: int, slices: int = SLICES_MAX) -> list[Failure]:
    """The first difference that is broken, if there is one."""
    engine = ComparingEngine(pair, str(seed))
    found = (
        each
        for number in range(slices)
        for each in engine.run_slice(number, 300, ProbeCounter()).failures
        if each.change == BROKE
    )
    return [*islice(found, 1)]


FIXED_ALONE = ("sizes", "samples", "places", "outside", "values", "two old ones, sizes")
"""In the other pairs the old defect then gives another wrong answer to the same action."""
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.night) for seed in range(2, 6))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PAIRS)
def test_an_old_defect_hides_no_new_one_that_comes_later(name: str, seed: int) -> None:
    old, new, field = PAIRS[name]
    [found] = drawn(Pair(Defective(*old), Defective(*old, late=new)), seed)
    assert field_of(found.field) == field


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", rest_at_night(reversed(PAIRS)))
def test_two_equal_targets_with_late_defects_are_never_broken(name: str, seed: int) -> None:
    old, new, _ = PAIRS[name]
    pair = Pair(*(Defective(*old, late=new) for _ in range(2)))
    assert drawn(pair, seed, slices=10) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", rest_at_night(FIXED_ALONE))
def test_one_defect_less_is_never_broken(name: str, seed: int) -> None:
    old, new, _ = PAIRS[name]
    assert drawn(Pair(Defective(*old, late=new), Defective(*old)), seed, slices=10) == []
