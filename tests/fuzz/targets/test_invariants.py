"""The collector's invariants hold after each action, and a mistake breaks the one that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.problems import BadInputError
from fuzz.protocol.actions import AllocateNode, CollectStep, Free, LoadPrebuilt, Write
from fuzz.protocol.target import Target
from fuzz.run import Failure, run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.references.collector import ReferenceTarget
from gcmodel import Configuration, Parts
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.large_objects import LargeObjects
from gcmodel.collector.pinning import Pinning
from gcmodel.memory.objects import Object
from gcmodel.sampling.sample_point import Sampling

COLLECTORS = ("reference", "reference-geometric", "reference-random", "reference-dotnet")
CHECKED = TargetOptions(check_invariants=True)


class LimitForgotten(Sampling):
    """A sample point that moves leaves the nursery's limit where it was."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        limit = self._nursery.nursery_limit
        super().allocated_outside(obj, counted_bytes)
        self._nursery.nursery_limit = limit


class PendingKept(Sampling):
    """A report says which samples were pending, and forgets to forget them."""

    def report(self, statistics: Any) -> None:
        pending = [*self.pending]
        super().report(statistics)
        self.pending += pending


class UnpinnedCounted(Pinning):
    """An object that is unpinned still counts."""

    def unpin(self, obj: Object) -> None:
        super().unpin(obj)
        self.count += 1


class FreedBytesCounted(LargeObjects):
    """What a minor collection frees outside still counts."""

    def free_young(self, collection: str) -> None:
        used_bytes = self.used_bytes
        super().free_young(collection)
        self.used_bytes = used_bytes


class NeverRemembered(Barrier):
    """A write is remembered in the flag, and not in the list."""

    def remember(self, obj: Object) -> None:
        super().remember(obj)
        self.remembered.remove(obj)


class NextCard(Barrier):
    """A write makes the card dirty that follows."""

    def mark_card(self, array: Object, card: int) -> None:
        super().mark_card(array, card + 1)


class CopyNeverWhileMarking(Barrier):
    """A copy looks at what is young only, also while a black array may get what is white."""

    def __init__(self, configuration: Configuration, is_marking: Callable[[], bool]) -> None:
        super().__init__(configuration, lambda: False)


MISTAKES: dict[str, dict[str, Any]] = {
    "nursery pointers": {"sampling": LimitForgotten},
    "pending samples": {"sampling": PendingKept},
    "pinned objects": {"pinning": UnpinnedCounted},
    "spaces": {"large_objects": FreedBytesCounted},
    "remembered set": {"barrier": NeverRemembered},
    "cards": {"barrier": NextCard},
    "tri-colour": {"barrier": CopyNeverWhileMarking},
}


def failures_of(target: Target, actions: int) -> list[Failure]:
    slices = slices_of(RandomEngine(target, "1"), actions, ProbeCounter())
    return [failure for each in slices for failure in each.failures]


def broken_in(failures: list[Failure]) -> set[str]:
    """The names of the invariants that some failure says are broken."""
    told = (failure.got.partition("InvariantError: ")[2] for failure in failures)
    return {each.partition(":")[0] for each in told if each}


@pytest.mark.parametrize("name", COLLECTORS)
def test_the_invariants_hold(name: str) -> None:
    assert failures_of(make_target(name, CHECKED), 500) == []


@pytest.mark.slow
def test_the_invariants_hold_in_100_000_actions() -> None:
    assert failures_of(make_target("reference", CHECKED), 100_000) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", COLLECTORS[1:])
def test_under_another_sampler_they_hold_in_30_000(name: str) -> None:
    """It is the same collector, and only where samples fall is another."""
    assert failures_of(make_target(name, CHECKED), 30_000) == []


def test_a_black_object_may_refer_to_what_is_prebuilt_and_written_for_the_first_time() -> None:
    held = [LoadPrebuilt(0), AllocateNode(0), Write(1, 0, 0), Free(0), *[CollectStep()] * 3]
    actions = [*held, LoadPrebuilt(0), Write(1, 0, None)]
    target = make_target("reference", CHECKED)
    assert run_actions(target, {"single_step_marking": 1}, actions) is None


@pytest.mark.slow
@pytest.mark.parametrize("invariant", MISTAKES)
def test_a_mistake_breaks_the_invariant_that_names_it(invariant: str) -> None:
    target = ReferenceTarget("reference", Parts(**MISTAKES[invariant]))
    target.check_invariants()
    assert broken_in(failures_of(target, 4_000)) == {invariant}


def test_no_invariant_is_checked_unless_that_is_asked_for() -> None:
    mistaken = ReferenceTarget("reference", Parts(**MISTAKES["spaces"]))
    assert broken_in(failures_of(mistaken, 1_000)) == set()


def test_only_a_collector_of_gcfuzz_has_invariants_to_check() -> None:
    with pytest.raises(BadInputError, match="reference-jemalloc is not a reference collector"):
        make_target("reference-jemalloc", CHECKED)


def test_a_find_is_replayed_with_the_invariants_that_it_breaks() -> None:
    assert CHECKED.arguments == ["--check-invariants"]
