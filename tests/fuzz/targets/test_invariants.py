"""The collector's invariants hold after each action, and each mistake breaks one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from night import fresh, part_of
from target_helpers import first_failure

from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.problems import BadInputError
from fuzz.protocol.actions import AllocateNode, CollectStep, Free, LoadPrebuilt, Write
from fuzz.protocol.target import Target
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
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
    """A sample point moves, but not the nursery's limit."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        limit = self._nursery.nursery_limit
        super().allocated_outside(obj, counted_bytes)
        self._nursery.nursery_limit = limit


class PendingKept(Sampling):
    """A report does not remove the pending samples."""

    def report(self, statistics: Any) -> None:
        pending = [*self.pending]
        super().report(statistics)
        self.pending += pending


class UnpinnedCounted(Pinning):
    """An unpinned object still counts."""

    def unpin(self, obj: Object) -> None:
        super().unpin(obj)
        self.count += 1


class FreedBytesCounted(LargeObjects):
    """Freed large objects still count."""

    def free_young(self, collection: str) -> None:
        used_bytes = self.used_bytes
        super().free_young(collection)
        self.used_bytes = used_bytes


class NeverRemembered(Barrier):
    """A write is remembered in the flag, but not in the list."""

    def remember(self, obj: Object) -> None:
        super().remember(obj)
        self.remembered.remove(obj)


class NextCard(Barrier):
    """A write makes the next card dirty."""

    def mark_card(self, array: Object, card: int) -> None:
        super().mark_card(array, card + 1)


class CopyNeverWhileMarking(Barrier):
    """A copy checks only for young objects, even while marking."""

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


def broken_in(target: Target, actions: int) -> set[str]:
    """The names of the broken invariants."""
    slices = slices_of(RandomEngine(target, "1"), actions, ProbeCounter())
    failures = (failure for each in slices for failure in each.failures)
    problems = (failure.got.partition("InvariantError: ")[2] for failure in failures)
    return {each.partition(":")[0] for each in problems if each}


@pytest.mark.parametrize("name", COLLECTORS)
def test_the_invariants_hold(name: str) -> None:
    assert first_failure(make_target(name, CHECKED), 500) is None


@pytest.mark.slow
def test_the_invariants_hold_in_a_long_session() -> None:
    target = make_target("reference", CHECKED)
    assert first_failure(target, part_of(100_000), fresh("1")) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", COLLECTORS[1:])
def test_under_another_sampler_they_hold_in_a_long_session(name: str) -> None:
    assert first_failure(make_target(name, CHECKED), part_of(30_000), fresh("1")) is None


def test_a_black_object_may_refer_to_a_new_root_among_prebuilt_objects() -> None:
    held = [LoadPrebuilt(0), AllocateNode(0), Write(1, 0, 0), Free(0), *[CollectStep()] * 3]
    actions = [*held, LoadPrebuilt(0), Write(1, 0, None)]
    target = make_target("reference", CHECKED)
    assert run_actions(target, {"single_step_marking": 1}, actions) is None


@pytest.mark.slow
@pytest.mark.parametrize("invariant", MISTAKES)
def test_a_mistake_breaks_the_invariant_that_names_it(invariant: str) -> None:
    target = ReferenceTarget("reference", Parts(**MISTAKES[invariant]))
    target.check_invariants()
    # With 20 seeds, the one of copies took at most 4,618 actions, and 5,278 in commit 7140188f.
    assert broken_in(target, 12_000) == {invariant}


def test_invariants_are_not_checked_by_default() -> None:
    mistaken = ReferenceTarget("reference", Parts(**MISTAKES["spaces"]))
    assert broken_in(mistaken, 1_000) == set()


def test_only_reference_collectors_have_invariants() -> None:
    with pytest.raises(BadInputError, match="reference-jemalloc is not a reference collector"):
        make_target("reference-jemalloc", CHECKED)
