"""Combinations: which facts of an object, the sampler, the collector and the heap held at once.

A mistake that needs three things at once shows only if a session brings these three about. So the
share of pairs and triples that held is a measure of coverage. Each fact belongs to a dimension, and
a combination has facts of different dimensions. `IMPOSSIBLE` gives a reason for each pair that can
never hold. Any other combination that a session does not reach counts as missed. Invariant: a fact
is seen in the shadow and in observations, for any target, and never depends on what drew the
actions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import combinations

import attrs
from typing_extensions import override

from fuzz.mutator.objects import Age, ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Bench
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import MAJOR_STATES, Observation
from fuzz.reached.probes import ProbeCounter, features_of_sizes

Combination = tuple[str, ...]
"""The names of facts, in the order of `SEEN`."""
SIZES = (1, 2, 3)
"""Of how many facts the combinations are."""


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

    @property
    def roots(self) -> Sequence[ShadowObject]:
        return self.shadow.roots

    @cached_property
    def living(self) -> set[ShadowObject]:
        return {*self.shadow.living()}

    def where(self, holds: Callable[[ShadowObject], object]) -> Sequence[ShadowObject]:
        """The living objects of which that is true."""
        return [obj for obj in self.living if holds(obj)]

    @cached_property
    def children(self) -> set[ShadowObject | None]:
        return {ref for obj in self.living if obj.refers for ref in obj.refs}

    @property
    def weakly_held(self) -> Collection[ShadowObject]:
        return self.shadow.weak_targets

    @property
    def keys(self) -> Sequence[ShadowObject | None]:
        return [each.target for each in self.shadow.finalizers.ephemerons if each in self.living]

    @property
    def values(self) -> Sequence[ShadowObject | None]:
        return [each.value for each in self.shadow.finalizers.ephemerons if each in self.living]

    @property
    def finalizable(self) -> Collection[ShadowObject]:
        return self.shadow.finalizers.waiting.values()

    @property
    def destructible(self) -> Collection[ShadowObject]:
        return self.shadow.finalizers.destructors.values()

    @property
    def kept(self) -> Collection[ShadowObject]:
        return self.shadow.finalizers.kept.values()

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


OfObjects = Callable[[Look], Collection[ShadowObject | None]]
OfHeap = Callable[[Look], object]


@attrs.frozen(eq=False)
class SeenFact:
    """A fact, how to see of which objects it holds, and what it needs of a contract.

    It names the objects: to ask about each object took three times as long.
    """

    name: str
    dimension: str
    of_objects: OfObjects | None
    of_heap: OfHeap | None
    needs: str
    """An action, an observed field or a feature; empty if every contract has it."""


PREBUILT, DESTRUCTORS, EXHAUSTION = "prebuilt objects", "destructors", "exhaustion"
SAMPLES, OUTSIDE = "samples", "objects outside"
"""Features of contracts that facts need."""


def _of_objects(name: str, dimension: str, holds: OfObjects, needs: str = "") -> SeenFact:
    return SeenFact(name, dimension, holds, None, needs)


def _of_heap(name: str, dimension: str, holds: OfHeap, needs: str) -> SeenFact:
    return SeenFact(name, dimension, None, holds, needs)


def _kind(name: str, needs: str) -> SeenFact:
    return _of_objects(name, "kind", lambda look: look.where(lambda obj: obj.kind == name), needs)


def _state(number: int, name: str) -> SeenFact:
    return _of_heap(name, "state", lambda look: look.state == number, "state")


def _is_young(obj: ShadowObject) -> bool:
    return obj.age is Age.YOUNG


def _is_old(obj: ShadowObject) -> bool:
    # The shadow calls a pinned object old that only dead ones refer to: they may keep it alive.
    return obj.age is Age.OLD and not obj.pinned


SEEN: tuple[SeenFact, ...] = (
    *(_kind("string", "allocate_string"), _kind("node", "allocate_node")),
    *(_kind("array", "allocate_array"), _kind("weakref", "allocate_weakref")),
    _kind("ephemeron", "allocate_ephemeron"),
    _of_objects("young", "age", lambda look: look.where(_is_young), "minors"),
    _of_objects("old", "age", lambda look: look.where(_is_old), "minors"),
    _of_objects("prebuilt", "origin", lambda look: look.shadow.prebuilt, PREBUILT),
    _of_objects("outside", "place", lambda look: look.where(lambda obj: obj.outside), OUTSIDE),
    _of_objects("pinned", "pin", lambda look: look.where(lambda obj: obj.pinned), "pin"),
    _of_objects("identity", "identity", lambda look: look.identified, "take_identity"),
    _of_objects("only held", "root", lambda look: look.living.difference(look.roots), "write"),
    _of_objects("parent", "parent", lambda look: look.where(lambda obj: any(obj.refs)), "write"),
    _of_objects("child", "child", lambda look: look.children, "write"),
    _of_objects("copied to", "copied", lambda look: look.copied, "copy_array"),
    _of_objects("weakly held", "weak", lambda look: look.weakly_held, "allocate_weakref"),
    _of_objects("key", "key", lambda look: look.keys, "allocate_ephemeron"),
    _of_objects("value", "value", lambda look: look.values, "allocate_ephemeron"),
    _of_objects("finalizer", "finalizer", lambda look: look.finalizable, "register_finalizer"),
    _of_objects("destructor", "destructor", lambda look: look.destructible, DESTRUCTORS),
    _of_objects("kept", "kept", lambda look: look.kept, "resurrect"),
    _of_objects("resurrected", "resurrected", lambda look: look.resurrected, "resurrect"),
    _of_objects("sampled", "sampled", lambda look: look.pending, "reports"),
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
    return possible_among(tuple(fact.name for fact in facts_for(contract)), size)


@cache
def possible_among(names: Combination, size: int) -> Sequence[Combination]:
    """The same for the names of facts. A name that this version does not know is left out."""
    dimensions = {fact.name: fact.dimension for fact in SEEN}
    return [
        chosen
        for chosen in combinations([name for name in names if name in dimensions], size)
        if len({dimensions[name] for name in chosen}) == size and not why_impossible(chosen)
    ]


def why_impossible(names: Collection[str]) -> str | None:
    """Why these facts never hold at once; None if nothing says that they do not."""
    for reason, ones, others in IMPOSSIBLE:
        if not {*names}.isdisjoint(ones) and not {*names}.isdisjoint(others):
            return reason
    return None


@attrs.frozen
class Held:
    """Which facts held at once, small enough for the record of a session.

    Of sets of names, the union takes as long, and a record of all triples has 200 kB more.
    """

    facts: Combination = ()
    """The facts that could be seen; none if the session did not look."""
    bits: tuple[str, ...] = ()
    """For each size in SIZES a number in hexadecimal digits. Its bit n is set if combination n of
    `itertools.combinations(facts, size)` held."""

    def __bool__(self) -> bool:
        return bool(self.facts)

    def __or__(self, other: Held) -> Held:
        """What held in either of two sessions."""
        if self.facts == other.facts:
            each = zip(self.bits, other.bits, strict=True)
            return Held(self.facts, tuple(f"{int(one, 16) | int(two, 16):x}" for one, two in each))
        if not (self and other):
            return self or other
        places = {fact.name: place for place, fact in enumerate(SEEN)}
        facts = sorted({*self.facts, *other.facts}, key=lambda name: (places.get(name, 0), name))
        return held_among(tuple(facts), [self.of(size) | other.of(size) for size in SIZES])

    def check(self) -> None:
        """Raise ValueError if it is not what `held_among` makes."""
        if len(self.bits) != len(SIZES) * bool(self):
            raise ValueError(f"held.bits has {len(self.bits)} numbers, and not one for each size")
        if not all(re.fullmatch("[0-9a-f]+", each) for each in self.bits):
            raise ValueError("held.bits must be numbers in hexadecimal digits")

    def of(self, size: int) -> set[Combination]:
        """The combinations of that many facts that held."""
        bits = f"{int(self.bits[SIZES.index(size)], 16):b}"[::-1]
        each_and_bit = zip(combinations(self.facts, size), bits, strict=False)  # The rest is 0.
        return {each for each, bit in each_and_bit if bit == "1"}


def held_among(facts: Combination, combinations_of: Iterable[Collection[Combination]]) -> Held:
    """Held combinations of these facts, by size."""
    bits = []
    for size, held in zip(SIZES, combinations_of, strict=True):
        digits = "".join("01"[each in held] for each in combinations(facts, size))
        bits.append(f"{int(digits[::-1] or '0', 2):x}")
    return Held(facts, tuple(bits))


class CombinationCounter(ProbeCounter):
    """Also remembers which facts held at once."""

    def __init__(self, contract: Contract) -> None:
        super().__init__()
        self._names = tuple(fact.name for fact in facts_for(contract))
        facts = [(1 << place, fact) for place, fact in enumerate(facts_for(contract))]
        self._of_heap = [(bit, fact.of_heap) for bit, fact in facts if fact.of_heap]
        self._of_objects = [(bit, fact.of_objects) for bit, fact in facts if fact.of_objects]
        self._look: Look | None = None
        self._together: set[int] = set()
        """Sets of facts that held at once, each as a number with a bit for each fact."""

    @property
    def held(self) -> Held:
        """All combinations that held."""
        pairs: dict[tuple[int, int], int] = defaultdict(int)
        for together in self._together:
            for pair in combinations(_places_in(together), 2):
                pairs[pair] |= together  # What held together with the pair.
        places: list[Collection[tuple[int, ...]]] = [
            {(place,) for together in self._together for place in _places_in(together)},
            pairs,
            {
                (*pair, it)
                for pair, all_ in pairs.items()
                for it in _places_in(all_)
                if it > pair[1]
            },
        ]
        names = self._names
        named = ({tuple(names[place] for place in each) for each in held} for held in places)
        return held_among(names, named)

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
        super().watch(action, observation, bench, before, pending)
        look = Look(bench, observation.state, bench.pending)
        if self._look is not None and self._look.bench is bench:
            look.remember(self._look)
        self._look = look
        look.follow(action)
        of_heap = sum(bit for bit, holds in self._of_heap if holds(look))
        together: dict[ShadowObject | None, int] = dict.fromkeys(look.living, of_heap)
        for bit, holding in self._of_objects:
            for obj in holding(look):
                if obj in together:  # Among them may be None, and objects that are dead.
                    together[obj] |= bit
        self._together.update(together.values(), (of_heap,))


def _places_in(together: int) -> Sequence[int]:
    """The places of the bits that are set."""
    return [place for place in range(together.bit_length()) if together >> place & 1]
