"""Contracts of heaps that promise less about death: each answer they allow, others forbid.

Weak references that linger or are read into roots, steps that do not collect, and what Lua does
with finalizers that were taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.engines.engine import slices_of
from fuzz.failure import Failure
from fuzz.mutator.legality import why_illegal
from fuzz.mutator.shadow import Shadow
from fuzz.protocol import actions as do
from fuzz.protocol.actions import NAMES, Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.observation import Observation
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.sessions.plan import make_engine
from fuzz.targets import make_target
from fuzz.targets.references.collector import ReferenceTarget
from fuzz.targets.references.with_finalizers import FinalizersTarget
from gcmodel import Parts

NODE, FULL, MINOR, STEP = do.AllocateNode(0), do.CollectFull(), do.CollectMinor(), do.CollectStep()
STRING = do.AllocateString(0)
RUN, KEEP = do.RunFinalizers(), do.RunFinalizers(keep=True)
ACTIONS = 4000


def judge(contract: Contract, **changes: Any) -> Judge:
    """Without walks; each collecting action has one minor collection."""
    observes = ("minors", "alive", "value", "finalized")
    plain = attrs.evolve(contract, observes=observes, promises=(), prebuilt=())
    return Judge(attrs.evolve(plain, **changes), usual=_collecting)


def _collecting(action: Action) -> dict[str, int]:
    return {"minors": int(action.collects != "never")}


def alive(root: int, is_alive: bool, *, keep: bool = False) -> Step:
    return answer(do.ReadWeakref(root, keep=keep), alive=is_alive)


def finalized(*numbers: int, keep: bool = False) -> Step:
    return answer(do.RunFinalizers(keep=keep), finalized=[*numbers])


def why(judge: Judge, *steps: Step) -> str | None:
    found = judge.verdict(*steps)
    return found.why if found else None


# How long the dead linger.

WEAKLY_REACHABLE: list[Step] = [NODE, do.AllocateWeakref(0), do.Free(0)]


@pytest.mark.parametrize(("dead_within", "collections"), [(1, 0), (2, 1), (3, 2), (0, 9)])
def test_an_unreachable_object_may_linger_for_so_many_full_collections(
    dead_within: int, collections: int, contract: Contract
) -> None:
    may = judge(contract, dead_within=dead_within)
    may(*WEAKLY_REACHABLE, *[FULL] * collections, alive(0, True))
    if dead_within:
        assert why(may, FULL, alive(0, True)) == "its object did not survive"


def test_an_object_that_may_linger_may_be_dead(contract: Contract) -> None:
    assert why(judge(contract, dead_within=0), *WEAKLY_REACHABLE, MINOR, alive(0, False)) is None


def test_an_object_that_may_linger_is_alive_while_it_is_reachable(contract: Contract) -> None:
    steps = [NODE, do.AllocateWeakref(0), FULL]
    problem = why(judge(contract, dead_within=0), *steps, alive(1, False))
    assert problem == "its object is reachable"


def test_the_collections_are_counted_again_when_an_object_was_reachable(contract: Contract) -> None:
    keeping = judge(contract, dead_within=2, weak_reads="kept")
    keeping(*WEAKLY_REACHABLE, FULL, alive(0, True, keep=True), FULL, do.Free(1), FULL)
    assert why(keeping, alive(0, True)) is None


def test_a_young_object_may_linger_too(contract: Contract) -> None:
    steps = [*WEAKLY_REACHABLE, MINOR, alive(0, True)]
    assert why(judge(contract), *steps) == "its object did not survive"
    assert why(judge(contract, dead_within=2), *steps) is None


def test_the_value_of_an_ephemeron_may_linger_with_its_key(finalizing: Contract) -> None:
    steps: list[Step] = [NODE, do.AllocateNode(7), do.AllocateEphemeron(0, 1), do.Free(0), FULL]
    read = answer(do.ReadEphemeron(1), value=7)
    assert why(judge(finalizing), *steps, read) == "its key is dead"
    assert why(judge(finalizing, dead_within=2), *steps, read) is None
    assert why(judge(finalizing, dead_within=2), *steps, FULL, read) == "its key is dead"


# A weak reference that is read into a root.


@pytest.mark.parametrize("engine", ["random", "stateful"])
def test_a_weak_reference_that_leads_to_another_object_is_found(engine: str) -> None:
    target = make_target("reference+weak-read-takes-neighbour")
    # Of 16 seeds, three took more than 3,000 actions.
    slices = slices_of(make_engine(engine, target, "1"), 20_000, ProbeCounter())
    failure = next(failure for each in slices for failure in each.failures)
    assert failure.oracle in ("heap", "contents")
    assert any(isinstance(action, do.ReadWeakref) and action.keep for action in failure.actions)


def test_a_dead_object_s_weak_reference_is_a_root_once_more(contract: Contract) -> None:
    keeping = judge(contract, weak_reads="kept")
    keeping(*WEAKLY_REACHABLE, FULL, alive(0, False, keep=True))
    assert [obj.kind for obj in keeping.shadow.roots] == ["weakref", "weakref"]


def test_nothing_is_kept_unless_the_contract_says_so(contract: Contract) -> None:
    kept, shadow = do.ReadWeakref(1, keep=True), Shadow(contract)
    for action in (NODE, do.AllocateWeakref(0)):
        shadow.follow(action, minors=0)
    assert "does not keep" in (why_illegal(kept, contract, shadow) or "")
    assert why_illegal(kept, attrs.evolve(contract, weak_reads="kept"), shadow) is None


# Steps that do not collect.


class StepsWithoutMinor(ReferenceTarget):
    """The reference, whose contract says that a step may be of any kind, or does not."""

    def __init__(self, **promised: Any) -> None:
        super().__init__("steps", Parts())
        self._promised = promised
        self.carry_out = {**self.carry_out, do.CollectStep: lambda heap, _: heap.walk() and None}

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        return attrs.evolve(contract, promises=("collections",), **self._promised)


def test_a_step_need_not_begin_with_a_minor_collection_if_steps_are_open() -> None:
    assert run_actions(StepsWithoutMinor(steps="open"), {}, [NODE, STEP]) is None
    failure = run_actions(StepsWithoutMinor(), {}, [NODE, STEP])
    assert failure is not None
    assert (failure.field, failure.action) == ("minors", NAMES[do.CollectStep])


# Finalizers that are called later, or were taken back.


@pytest.mark.parametrize(
    ("called", "problem"),
    [("in_collection", "node #1 was reachable at each collection"), ("later", None)],
)
def test_a_finalizer_may_be_called_after_the_collection_that_found_its_object_dead(
    called: str, problem: str | None, finalizing: Contract
) -> None:
    steps = [NODE, do.RegisterFinalizer(0, 0), do.Free(0), STEP, finalized()]
    later = finalizing_as_lua(finalizing, called=called)
    assert why(later, *steps, answer(STEP, minors=0), finalized(0)) == problem


def test_a_finalizer_is_called_later_but_not_after_a_full_collection(finalizing: Contract) -> None:
    steps = [NODE, do.RegisterFinalizer(0, 0), do.Free(0), FULL, finalized()]
    assert why(finalizing_as_lua(finalizing, called="later"), *steps) == "after 1 full collection"


DEAD: list[Step] = [NODE, do.RegisterFinalizer(0, 0), do.Free(0)]


@pytest.mark.parametrize("within", [2, 3])
def test_a_finalizer_is_called_within_the_stated_number_of_collections(
    within: int, finalizing: Contract
) -> None:
    steps = [*DEAD, MINOR, finalized(), *[STEP] * (within - 2)]
    promised = called_within(finalizing, within)
    assert why(promised(), *steps, finalized()) is None
    assert why(promised(), *steps, MINOR, finalized(0)) is None
    assert why(promised(), *steps, MINOR, finalized()) == f"after {within} collections"


def test_a_collection_before_the_object_is_dropped_does_not_count(finalizing: Contract) -> None:
    dropped = [NODE, do.RegisterFinalizer(0, 0), answer(do.Free(0), minors=1), MINOR]
    promised = called_within(finalizing, 2)
    assert why(promised(), *dropped, finalized()) is None
    assert why(promised(), *dropped, MINOR, finalized()) == "after 2 collections"


def test_the_collections_before_an_object_came_back_do_not_count(finalizing: Contract) -> None:
    """The next one may have marked it while it was read and kept, and not find it dead."""
    promised = called_within(finalizing, 2, weak="cleared_after")
    steps: list[Step] = [NODE, do.RegisterFinalizer(0, 0), do.AllocateWeakref(0), do.Free(0), MINOR]
    back: list[Step] = [alive(0, True, keep=True), do.Free(1)]
    assert why(promised(), *steps, MINOR, finalized()) == "after 2 collections"
    assert why(promised(), *steps, *back, MINOR, finalized()) is None


def test_collections_count_again_for_what_a_called_one_kept(finalizing: Contract) -> None:
    promised = called_within(finalizing, 2)
    steps = [NODE, do.RegisterFinalizer(0, 1), do.Free(0), MINOR, *DEAD, MINOR, finalized(1)]
    assert why(promised(), *steps, MINOR, finalized()) is None
    assert why(promised(), *steps, MINOR, MINOR, finalized()) == "after 2 collections"


def called_within(contract: Contract, collections: int, **finalizers: Any) -> Callable[[], Judge]:
    keys = {"called": "later", "within_collections": collections, **finalizers}
    return partial(finalizing_as_lua, contract, **keys)


class FullEverySecond(FinalizersTarget):
    """The reference, whose every second collection leads to a full one."""

    def __init__(self, within_collections: int) -> None:
        super().__init__("every-second", FinalizersTarget.PARTS)
        self._within_collections, self._collections = within_collections, 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract, self._collections = super().start(configuration), 0
        assert contract.finalizers is not None
        within: dict[str, Any] = {"called": "later", "within_collections": self._within_collections}
        finalizers = attrs.evolve(contract.finalizers, **within)
        return attrs.evolve(
            contract.without(("pin", "unpin")),
            observes=("minors", "alive", "value", "graph", "finalized"),
            promises=(),
            finalizers=finalizers,
            pins_max=0,
            # A new object may become old at once, by the full collection.
            survivor_bytes=0,
        )

    def _answer(self, action: Action, observation: Observation) -> None:
        super()._answer(action, observation)
        self._collections += self._heap.events.order.count("M")
        if self._collections > 1:
            self._heap.collect_full()
            self._collections = 0


def failures_of(engine: str, within_collections: int) -> Iterator[Failure]:
    slices = slices_of(
        make_engine(engine, FullEverySecond(within_collections), "1"), ACTIONS, ProbeCounter()
    )
    return (failure for each in slices for failure in each.failures)


@pytest.mark.slow
def test_a_session_is_clean_whose_finalizers_are_called_within_two_collections() -> None:
    assert [failure.message for failure in failures_of("random", 2)] == []


@pytest.mark.parametrize("engine", ["random", "stateful"])
def test_a_number_of_collections_that_is_too_small_is_found(engine: str) -> None:
    failure = next(failures_of(engine, 1))
    assert (failure.oracle, failure.why) == ("finalization", "after 1 collection")


def test_an_object_with_a_destructor_that_was_kept_counts_its_collections_again() -> None:
    steps = (
        *(do.AllocateNode(0, destructor=0), do.AllocateWeakref(0), MINOR, MINOR, do.Free(0), MINOR),
        *(do.ReadWeakref(0, keep=True), MINOR, do.Free(1), MINOR, do.RunFinalizers()),
    )
    assert run_actions(FullEverySecond(2), {}, steps) is None


def test_an_object_that_was_kept_may_linger_again(contract: Contract) -> None:
    lingering = judge(contract, dead_within=2, weak_reads="kept")
    steps: list[Step] = [
        *(NODE, do.AllocateWeakref(0), do.Free(0), FULL),
        *(answer(do.ReadWeakref(0, keep=True), alive=True), do.Free(1), FULL),
    ]
    assert why(lingering, *steps, answer(do.ReadWeakref(0), alive=True)) is None


def test_the_rest_of_a_due_cycle_is_due_again(finalizing: Contract) -> None:
    """The finalizer of one of two that refer to each other is taken back while both are due."""
    assert finalizing.finalizers is not None
    promised = attrs.evolve(finalizing.finalizers, within=1, weak="cleared_after")
    steps: list[Step] = [
        *(NODE, NODE, do.RegisterFinalizer(0, 0), do.RegisterFinalizer(1, 1)),
        *(
            do.Write(0, 0, 1),
            do.Write(1, 0, 0),
            do.AllocateWeakref(0),
            do.Free(0),
            do.Free(0),
            FULL,
        ),
        *(answer(do.ReadWeakref(0, keep=True), alive=True), do.UnregisterFinalizer(1), do.Free(1)),
        *(finalized(), FULL, FULL, finalized()),
    ]
    kept = judge(finalizing, finalizers=promised, weak_reads="kept")
    assert why(kept, *steps) == "after 1 full collection"


def finalizing_as_lua(contract: Contract, **finalizers: Any) -> Judge:
    promised = {"order": "reverse_registration", "cycles": "any", "weak": "cleared_before"}
    assert contract.finalizers is not None
    changed = attrs.evolve(contract.finalizers, **{**promised, **finalizers})
    return judge(contract, finalizers=changed)


REGISTERED_AGAIN: list[Step] = [
    *(NODE, NODE, do.RegisterFinalizer(0, 0), do.RegisterFinalizer(1, 1)),
    *(do.UnregisterFinalizer(0), do.RegisterFinalizer(0, 2)),
]


@pytest.mark.parametrize(
    ("again", "right", "wrong"), [("new_place", (2, 1), (1, 2)), ("old_place", (1, 2), (2, 1))]
)
def test_an_object_that_is_registered_again_has_the_stated_place(
    again: str, right: tuple[int, ...], wrong: tuple[int, ...], finalizing: Contract
) -> None:
    steps = [*REGISTERED_AGAIN, do.Free(0), do.Free(0), FULL]
    assert why(finalizing_as_lua(finalizing, again=again), *steps, finalized(*right)) is None
    problem = why(finalizing_as_lua(finalizing, again=again), *steps, finalized(*wrong))
    assert problem == "the last registered first, of those that died together"


def test_a_place_is_unknown_if_the_object_may_have_died_without_a_finalizer(
    finalizing: Contract,
) -> None:
    """It is resurrected with another one, before or after which a collection may have found it."""
    steps: list[Step] = [
        *(NODE, NODE, do.RegisterFinalizer(0, 0), do.RegisterFinalizer(1, 1), do.Write(1, 0, 0)),
        *(do.UnregisterFinalizer(0), do.Free(0), do.Free(0), MINOR, finalized(1, keep=True)),
        *(do.Resurrect(1), answer(do.Read(0, 0), value=1), NODE),
        *(do.RegisterFinalizer(2, 2), do.RegisterFinalizer(1, 3), do.RegisterFinalizer(0, 4)),
        *(do.Free(0), do.Free(0), do.Free(0), finalized(), FULL),
    ]
    for order in ((4, 3, 2), (4, 2, 3)):
        assert (
            why(finalizing_as_lua(finalizing, again="old_place"), *steps, finalized(*order)) is None
        )


TAKEN_BACK: list[Step] = [
    *(NODE, do.RegisterFinalizer(0, 0), do.UnregisterFinalizer(0), do.AllocateNode(7)),
    do.AllocateEphemeron(0, 1),
]


def test_what_an_object_that_is_kept_once_refers_to_may_be_kept_too(finalizing: Contract) -> None:
    # In Lua an allocation that fails collects, so that a full collection finds the object queued.
    steps: list[Step] = [NODE, do.RegisterFinalizer(0, 1), NODE, do.UnregisterFinalizer(0)]
    steps += [do.Write(0, 0, 1), do.Free(0), do.AllocateWeakref(0), do.Free(0), FULL]
    assert why(finalizing_as_lua(finalizing), *steps, alive(0, True)) is not None
    keeping = {"taken_back": "kept_once"}
    assert why(finalizing_as_lua(finalizing, **keeping), *steps, alive(0, True)) is None
    assert why(finalizing_as_lua(finalizing, **keeping), *steps, FULL, alive(0, True)) is not None


def test_a_cleared_weak_reference_does_not_show_that_it_is_dead(finalizing: Contract) -> None:
    # Another weak reference was unreachable when the collection cleared the first one.
    steps: list[Step] = [STRING, do.AllocateWeakref(0), do.AllocateWeakref(0), NODE]
    steps += [do.RegisterFinalizer(3, 1), NODE, do.RegisterFinalizer(4, 0), do.Write(3, 0, 1)]
    steps += [do.UnregisterFinalizer(4), do.Write(4, 0, 0), *map(do.Free, (0, 2, 2, 0)), STEP]
    steps += [alive(0, False), finalized(1, keep=True), do.Resurrect(1)]
    steps += [answer(do.Read(1, 0), value=2)]
    keeping = partial(finalizing_as_lua, finalizing, weak_in_dead="kept")
    assert why(keeping(), *steps, alive(2, True)) == "its object did not survive"
    assert why(keeping(taken_back="kept_once"), *steps, alive(2, True)) is None


def test_a_finalizer_of_what_it_refers_to_may_be_called_later(finalizing: Contract) -> None:
    steps: list[Step] = [NODE, do.RegisterFinalizer(0, 0), NODE, do.RegisterFinalizer(1, 1)]
    steps += [do.UnregisterFinalizer(1), do.Write(1, 0, 0), do.Free(1), do.Free(0), FULL]
    late = "after 1 full collection"
    assert why(finalizing_as_lua(finalizing, within=1), *steps, finalized()) == late
    keeping = partial(finalizing_as_lua, finalizing, within=1, taken_back="kept_once")
    assert why(keeping(), *steps, finalized()) is None
    assert why(keeping(), *steps, FULL, finalized()) == late


def test_it_may_be_called_later_too_if_a_dead_object_keeps_that_one(finalizing: Contract) -> None:
    steps: list[Step] = [NODE, do.RegisterFinalizer(0, 0), NODE, do.RegisterFinalizer(1, 1)]
    steps += [do.UnregisterFinalizer(1), do.Write(1, 0, 0), do.AllocateEphemeron(0, 1), NODE]
    steps += [do.RegisterFinalizer(3, 2), do.Write(3, 0, 2), *[do.Free(0)] * 4, FULL]
    late = "after 1 full collection"
    assert why(finalizing_as_lua(finalizing, within=1), *steps, finalized(2)) == late
    keeping = partial(finalizing_as_lua, finalizing, within=1, taken_back="kept_once")
    assert why(keeping(), *steps, finalized(2)) is None
    assert why(keeping(), *steps, finalized(2), FULL, finalized()) is None
    assert why(keeping(), *steps, finalized(2), FULL, FULL, finalized()) == late


@pytest.mark.parametrize(("links", "collections"), [(0, 1), (1, 2), (2, 2)])
def test_one_that_another_of_them_refers_to_may_be_kept_once_more(
    finalizing: Contract, links: int, collections: int
) -> None:
    steps: list[Step] = []
    for number in range(links + 1):
        steps += [NODE, do.RegisterFinalizer(number, number), do.UnregisterFinalizer(number)]
    steps += [do.Write(number, 0, number + 1) for number in range(links)]
    steps += [do.AllocateWeakref(links), *[do.Free(0)] * (links + 1)]
    for count in range(1, 5):
        may = finalizing_as_lua(finalizing, taken_back="kept_once", weak_in_dead="kept")
        problem = why(may, *steps, *[FULL] * count, alive(0, True))
        assert (problem is None) is (count <= collections)


def test_those_of_a_cycle_are_kept_once_together(finalizing: Contract) -> None:
    steps: list[Step] = []
    for number in range(2):
        steps += [NODE, do.RegisterFinalizer(number, number), do.UnregisterFinalizer(number)]
    steps += [do.Write(0, 0, 1), do.Write(1, 0, 0), do.AllocateWeakref(1), do.Free(0), do.Free(0)]
    may = partial(finalizing_as_lua, finalizing, taken_back="kept_once", weak_in_dead="kept")
    assert why(may(), *steps, FULL, alive(0, True)) is None
    assert why(may(), *steps, FULL, FULL, alive(0, True)) is not None


def test_one_that_was_kept_once_is_dead_without_weak_references(finalizing: Contract) -> None:
    steps = [NODE, do.RegisterFinalizer(0, 0), do.UnregisterFinalizer(0), do.Free(0)]
    memory: dict[str, Any] = {"observes": ("minors", "memory"), "promises": ("memory",)}
    may = partial(judge, finalizing, finalizers=Finalizers(taken_back="kept_once"), **memory)
    full = answer(FULL, memory=[32, 0])
    assert why(may(), *steps, full) is None
    assert why(may(), *steps, full, full) is not None


def test_an_object_whose_finalizer_was_taken_back_may_be_kept_once(finalizing: Contract) -> None:
    steps = [*TAKEN_BACK, do.Free(0), FULL]
    read = answer(do.ReadEphemeron(1), value=7)
    assert why(finalizing_as_lua(finalizing), *steps, read) == "its key is dead"
    kept = {"taken_back": "kept_once"}
    assert why(finalizing_as_lua(finalizing, **kept), *steps, read) is None
    problem = why(finalizing_as_lua(finalizing, **kept), *steps, FULL, read)
    assert problem == "its key is dead"


def test_its_memory_may_be_free_or_not(finalizing: Contract) -> None:
    steps = [NODE, do.RegisterFinalizer(0, 0), do.UnregisterFinalizer(0), do.Free(0)]
    memory: dict[str, Any] = {
        "observes": ("minors", "memory", "finalized"),
        "promises": ("memory",),
    }
    stated: tuple[tuple[Literal["dropped", "kept_once"], int], ...]
    stated = (("dropped", 0), ("kept_once", 32))
    for taken_back, most in stated:
        changed = Finalizers(taken_back=taken_back)
        for used in (0, 32, 64):
            may = judge(finalizing, finalizers=changed, **memory)
            full = answer(FULL, memory=[used, 0])
            assert (why(may, *steps, full) is None) is (used <= most)
            if used == most:
                assert why(may, answer(FULL, memory=[0, 0])) is None


# Weak references that are resurrected.

IN_DEAD: list[Step] = [
    *(NODE, do.RegisterFinalizer(0, 0), do.AllocateWeakref(0), do.Write(0, 0, 1)),
    *(do.Free(0), do.Free(0), FULL, finalized(0, keep=True), do.Resurrect(0)),
    answer(do.Read(0, 0), value=1),
]


def test_a_weak_reference_of_a_dead_object_may_not_be_cleared(finalizing: Contract) -> None:
    problem = why(finalizing_as_lua(finalizing), *IN_DEAD, alive(1, True))
    assert problem == "its object did not survive"
    for is_alive in (True, False):
        may = finalizing_as_lua(finalizing, weak_in_dead="kept")
        assert why(may, *IN_DEAD, alive(1, is_alive)) is None


def test_a_weak_reference_that_dies_after_its_object_may_not_be_cleared(
    finalizing: Contract,
) -> None:
    """The minor collection, at which it is reachable, need not find the object."""
    steps: list[Step] = [
        *(NODE, do.RegisterFinalizer(0, 0), do.AllocateWeakref(0), do.Write(0, 0, 1)),
        *(do.Free(0), MINOR, do.Free(0), FULL, finalized(0, keep=True), do.Resurrect(0)),
        answer(do.Read(0, 0), value=1),
    ]
    assert why(finalizing_as_lua(finalizing), *steps, alive(1, True)) is not None
    assert why(finalizing_as_lua(finalizing, weak_in_dead="kept"), *steps, alive(1, True)) is None


def test_it_is_cleared_when_the_object_is_dead(finalizing: Contract) -> None:
    dead = [*IN_DEAD, do.Free(0), finalized(), FULL, alive(0, True)]
    problem = why(finalizing_as_lua(finalizing, weak_in_dead="kept"), *dead)
    assert problem == "its object did not survive"


def test_a_reachable_weak_reference_is_cleared_before(finalizing: Contract) -> None:
    steps: list[Step] = [
        *(NODE, do.RegisterFinalizer(0, 0), do.AllocateWeakref(0), do.Free(0), FULL, finalized(0)),
        alive(0, True),
    ]
    problem = why(finalizing_as_lua(finalizing, weak_in_dead="kept"), *steps)
    assert problem == "its object did not survive"
