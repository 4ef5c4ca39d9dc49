"""Combinations: which facts of an object, the sampler, the collector and the heap held at once.

A mistake that needs three things at once shows only if a session brings these three about. So the
share of pairs and triples that held is a measure of coverage. Each fact belongs to a dimension, and
a combination has facts of different dimensions. `IMPOSSIBLE` gives a reason for each pair that can
never hold. Any other combination that a session does not reach counts as missed. Invariant: a fact
is seen in the shadow and in observations, for any target, and never depends on what drew the
actions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import combinations

import attrs
from typing_extensions import override

from fuzz.drawing.probes import ProbeCounter, features_of_sizes
from fuzz.mutator.objects import Age, ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Bench
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import MAJOR_STATES, Observation

Combination = tuple[str, ...]
"""The names of facts, in the order of `SEEN`."""


@attrs.define(slots=False)
class Look:
    """What can be seen after an action."""

    bench: Bench
    state: int | None
    """The state of the major collection."""
    pending: Collection[ShadowObject]
    """The objects with samples that were not reported yet."""
    identified: set[ShadowObject] = attrs.Factory(set)
    copied: set[ShadowObject] = attrs.Factory(set)
    resurrected: set[ShadowObject] = attrs.Factory(set)
    is_forked: bool = False

    @property
    def shadow(self) -> Shadow:
        return self.bench.shadow

    @property
    def is_exhausted(self) -> bool:
        """Whether an action was exhausted."""
        return bool(self.shadow.occupancy and self.shadow.occupancy.exhausted)

    @property
    def is_paused(self) -> bool:
        return self.shadow.paused_bytes is not None

    @property
    def is_point_near(self) -> bool:
        """Whether the next sample may be taken before the nursery is full."""
        sampling = self.bench.sampling
        free_bytes = self.bench.nursery_bytes - sampling.nursery_used_bytes
        return sampling.is_on and sampling.bytes_until_sample() <= free_bytes

    @cached_property
    def living(self) -> set[ShadowObject]:
        return {*self.shadow.living()}

    @cached_property
    def children(self) -> set[ShadowObject | None]:
        return {ref for obj in self.living if obj.refers for ref in obj.refs}

    @cached_property
    def weakly_held(self) -> set[ShadowObject]:
        return {*self.shadow.weak_targets}

    @cached_property
    def keys(self) -> set[ShadowObject | None]:
        return {each.target for each in self.shadow.finalizers.ephemerons if each in self.living}

    @cached_property
    def values(self) -> set[ShadowObject | None]:
        return {each.value for each in self.shadow.finalizers.ephemerons if each in self.living}

    @cached_property
    def finalizable(self) -> set[ShadowObject]:
        return {*self.shadow.finalizers.waiting.values()}

    @cached_property
    def destructible(self) -> set[ShadowObject]:
        return {*self.shadow.finalizers.destructors.values()}

    @cached_property
    def kept(self) -> set[ShadowObject]:
        return {*self.shadow.finalizers.kept.values()}

    def remember(self, earlier: Look) -> None:
        """Take over what the shadow does not remember."""
        self.identified, self.copied = earlier.identified, earlier.copied
        self.resurrected, self.is_forked = earlier.resurrected, earlier.is_forked

    def follow(self, action: Action) -> None:
        roots = self.shadow.roots
        match action:
            case actions.TakeIdentity(root=root):
                self.identified.add(roots[root])
            case actions.CopyArray(dest=dest):
                self.copied.add(roots[dest])
            case actions.Resurrect():
                self.resurrected.add(roots[-1])
            case actions.Fork():
                self.is_forked = True


OfObject = Callable[[Look, ShadowObject], object]
OfHeap = Callable[[Look], object]


@attrs.frozen(eq=False)
class SeenFact:
    """A fact, how to see of which objects it holds, and what it needs of a contract."""

    name: str
    dimension: str
    of_object: OfObject | None
    of_heap: OfHeap | None
    needs: str
    """An action, an observed field or a feature; empty if every contract has it."""


PREBUILT, DESTRUCTORS, EXHAUSTION = "prebuilt objects", "destructors", "exhaustion"
SAMPLES, OUTSIDE = "samples", "objects outside"
"""Features of contracts that facts need."""


def _of_object(name: str, dimension: str, holds: OfObject, needs: str = "") -> SeenFact:
    return SeenFact(name, dimension, holds, None, needs)


def _of_heap(name: str, dimension: str, holds: OfHeap, needs: str) -> SeenFact:
    return SeenFact(name, dimension, None, holds, needs)


def _kind(name: str, needs: str) -> SeenFact:
    return _of_object(name, "kind", lambda _, obj: obj.kind == name, needs)


def _state(number: int, name: str) -> SeenFact:
    return _of_heap(name, "state", lambda look: look.state == number, "state")


SEEN: tuple[SeenFact, ...] = (
    *(_kind("string", "allocate_string"), _kind("node", "allocate_node")),
    *(_kind("array", "allocate_array"), _kind("weakref", "allocate_weakref")),
    _kind("ephemeron", "allocate_ephemeron"),
    _of_object("young", "age", lambda _, obj: obj.age is Age.YOUNG, "minors"),
    _of_object("old", "age", lambda _, obj: obj.age is Age.OLD, "minors"),
    _of_object("prebuilt", "origin", lambda look, obj: obj in look.shadow.prebuilt, PREBUILT),
    _of_object("outside", "place", lambda _, obj: obj.outside, OUTSIDE),
    _of_object("pinned", "pin", lambda _, obj: obj.pinned, "pin"),
    _of_object("identity", "identity", lambda look, obj: obj in look.identified, "take_identity"),
    _of_object("only held", "root", lambda look, obj: obj not in look.shadow.roots, "write"),
    _of_object("parent", "parent", lambda _, obj: any(obj.refs), "write"),
    _of_object("child", "child", lambda look, obj: obj in look.children, "write"),
    _of_object("copied to", "copied", lambda look, obj: obj in look.copied, "copy_array"),
    _of_object(
        "weakly held", "weak", lambda look, obj: obj in look.weakly_held, "allocate_weakref"
    ),
    _of_object("key", "key", lambda look, obj: obj in look.keys, "allocate_ephemeron"),
    _of_object("value", "value", lambda look, obj: obj in look.values, "allocate_ephemeron"),
    _of_object(
        "finalizer", "finalizer", lambda look, obj: obj in look.finalizable, "register_finalizer"
    ),
    _of_object("destructor", "destructor", lambda look, obj: obj in look.destructible, DESTRUCTORS),
    _of_object("kept", "kept", lambda look, obj: obj in look.kept, "resurrect"),
    _of_object(
        "resurrected", "resurrected", lambda look, obj: obj in look.resurrected, "resurrect"
    ),
    _of_object("sampled", "sampled", lambda look, obj: obj in look.pending, "reports"),
    _of_heap("sampling", "sampler", lambda look: look.bench.sampling.is_on, SAMPLES),
    _of_heap("paused", "sampler", lambda look: look.is_paused, "pause_sampling"),
    _of_heap("point near", "point", lambda look: look.is_point_near, "sample_point"),
    *(_state(number, name) for number, name in enumerate(MAJOR_STATES)),
    _of_heap("due", "due", lambda look: look.shadow.collection_may_be_due, "add_memory_pressure"),
    _of_heap("callback", "callback", lambda look: look.shadow.callback_bytes, "set_callback"),
    _of_heap("forked", "process", lambda look: look.is_forked, "fork"),
    _of_heap("exhausted", "exhaustion", lambda look: look.is_exhausted, EXHAUSTION),
)
"""All facts that can be seen."""
_REFERRING = ("parent", "copied to", "key", "value")
_FINALIZED = ("finalizer", "destructor", "kept", "resurrected")
IMPOSSIBLE: tuple[tuple[str, Sequence[str], Sequence[str]], ...] = (
    (
        "only nodes and arrays have fields, and are keys or values",
        ("string", "weakref", "ephemeron"),
        _REFERRING,
    ),
    ("only arrays are copied to", ("node",), ("copied to",)),
    (
        "only nodes have finalizers",
        ("string", "array", "weakref", "ephemeron", "copied to", "prebuilt"),
        _FINALIZED,
    ),
    ("only nodes and arrays are prebuilt", ("prebuilt",), ("string", "weakref", "ephemeron")),
    ("prebuilt objects are old from the start", ("prebuilt",), ("young", "sampled")),
    (
        "only strings are pinned",
        ("pinned",),
        ("node", "array", "weakref", "ephemeron", *_REFERRING, *_FINALIZED),
    ),
    ("a pinned object lies in the nursery", ("pinned",), ("old", "outside", "prebuilt")),
    ("a callback excludes pins", ("pinned",), ("callback",)),
    ("an object with a destructor begins in the nursery", ("outside",), ("destructor",)),
    (
        "the collection that finds an object dead makes it old and reports its samples",
        ("kept", "resurrected"),
        ("young", "sampled"),
    ),
    ("pausing drops the samples that are not reported", ("paused",), ("sampled",)),
    ("there is no sample point while sampling is paused", ("paused",), ("point near",)),
)
"""Why any of some facts never holds with any of others."""


def facts_for(contract: Contract) -> Sequence[SeenFact]:
    """The facts that can be seen under the contract."""
    finalizers = contract.finalizers
    features = {
        PREBUILT: bool(contract.prebuilt),
        DESTRUCTORS: finalizers is not None and finalizers.destructors,
        EXHAUSTION: contract.exhaustion is not None,
        SAMPLES: contract.samples,
        OUTSIDE: features_of_sizes(contract)[OUTSIDE],
    }
    has = {"", *contract.actions, *contract.observes}
    has.update(name for name, is_there in features.items() if is_there)
    return [fact for fact in SEEN if fact.needs in has]


def combinations_for(contract: Contract, size: int) -> Sequence[Combination]:
    """All combinations of that many facts for which no reason says that they never hold."""
    return [
        tuple(fact.name for fact in chosen)
        for chosen in combinations(facts_for(contract), size)
        if len({fact.dimension for fact in chosen}) == size
        and not why_impossible({fact.name for fact in chosen})
    ]


def why_impossible(names: Collection[str]) -> str | None:
    """Why these facts never hold at once; None if nothing says that they do not."""
    for reason, ones, others in IMPOSSIBLE:
        if not {*names}.isdisjoint(ones) and not {*names}.isdisjoint(others):
            return reason
    return None


class CombinationCounter(ProbeCounter):
    """Remembers which facts held at once, instead of counting probes."""

    def __init__(self, contract: Contract) -> None:
        super().__init__()
        self._facts = facts_for(contract)
        self._look: Look | None = None
        self._held: set[Combination] = set()

    def reached(self, size: int) -> set[Combination]:
        """The combinations of that many facts that held."""
        return {part for facts in self._held for part in combinations(facts, size)}

    @override
    def watch(
        self,
        action: Action,
        observation: Observation,
        bench: Bench,
        before: SamplingState,
        pending: Mapping[ShadowObject, int],
    ) -> None:
        """Look at all objects after an action that the oracles found right."""
        look = Look(bench, observation.state, bench.pending)
        if self._look is not None and self._look.bench is bench:
            look.remember(self._look)
        self._look = look
        look.follow(action)
        of_heap = {fact for fact in self._facts if fact.of_heap and fact.of_heap(look)}
        self._add(of_heap)
        for obj in look.living:
            self._add(
                of_heap.union(
                    fact for fact in self._facts if fact.of_object and fact.of_object(look, obj)
                )
            )

    def _add(self, holding: Collection[SeenFact]) -> None:
        self._held.add(tuple(fact.name for fact in self._facts if fact in holding))
