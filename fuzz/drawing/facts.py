"""Facts meet: the general scenario, for mistakes that need several things at once.

A scenario of its own for each mistake does not scale. This one draws some facts first: of an object
(it is pinned, its identity is known, another one holds it) and of the sampler (it is on, paused).
Then it brings each fact about, several times, in any order and between steps of the collector, and
checks all that can be seen of the objects. An object to which only another one refers is read for a
fact, and dropped again. A fact that is not legal here is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import attrs

from fuzz.drawing.rules import any_node
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.situation import Choices, Scenario
from fuzz.mutator.legality import callback_length_max, can_be_pinned, why_nothing_pinned
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions
from fuzz.protocol.actions import Action

KINDS_MIN, KINDS_MAX = 3, 6
FACTS_MIN, FACTS_MAX = 5, 12
"""Few kinds of facts are drawn, and each of the facts is of one of these kinds.

So a kind occurs several times. Three known mistakes need that, and were missed without it
(docs/evidence/effectiveness.md)."""
STEPS_MAX = 5
"""At most this many steps are taken to reach a state of the major collection."""
MARKING, SWEEPING = 1, 2
WHILE_ALIVE = ((), (actions.CollectMinor,), (actions.CollectFull,))
"""What is collected before the objects are dropped, one of these."""
STRING_LENGTHS = (0, 7, 16)
ARRAY_LENGTHS = (2, 4, 5, 1, 12, 34)
"""In a page or not, with one card or two, or with cards in a second byte."""


@attrs.frozen
class Cast:
    """The objects of the scenario. The facts are about `objects`; the first is the main one."""

    mutator: ScenarioMutator
    choices: Choices
    is_about_pins: bool
    objects: list[ShadowObject] = attrs.Factory(list)
    weakrefs: list[ShadowObject] = attrs.Factory(list)
    identified: list[ShadowObject] = attrs.Factory(list)

    def act(self, action: Callable[..., Action], *given: object) -> Scenario:
        """The action, if it is legal."""
        return self.mutator.if_legal(action, *given)

    def add(
        self, to: list[ShadowObject], action: Callable[..., Action], *given: object
    ) -> Scenario:
        """Allocate or load an object, if that is legal, and add it to a list."""
        for allocation in self.act(action, *given):
            yield allocation
            to.append(self.mutator.newest())

    def among(
        self, may_be: Callable[[ShadowObject], object] = lambda obj: True
    ) -> Sequence[ShadowObject]:
        """The main one of the objects of which that is true, or any; none if there is none."""
        roots = self.mutator.situation.roots
        objects = [obj for obj in self.objects if obj in roots and may_be(obj)]
        if not objects:
            return ()
        return [objects[0] if self.choices.below(4) else self.choices.pick(objects)]

    def subject(self) -> Action:
        """An allocation of an object that facts are about; only strings can be pinned."""
        choices = self.choices
        if self.is_about_pins and (not self.objects or choices.below(2)):
            return actions.AllocateString(choices.pick(STRING_LENGTHS))
        return self.holder()

    def length(self) -> int:
        """The length of a string: small, or at an edge."""
        is_small = self.choices.below(2)
        return self.choices.pick(STRING_LENGTHS) if is_small else self.mutator.edge_length()

    def holder(self) -> Action:
        """An allocation of an object that has references."""
        choices = self.choices
        if choices.one_in(3):
            return any_node(self.mutator.situation, choices, 0)
        return actions.AllocateArray(choices.pick(ARRAY_LENGTHS), nonmovable=choices.one_in(4))


# Facts of an object.


def _pinned(cast: Cast) -> Scenario:
    """It is pinned, or unpinned. What excludes pins, ends."""
    mutator, choices = cast.mutator, cast.choices
    if choices.one_in(3):
        for obj in cast.among(lambda obj: obj.pinned):
            yield from cast.act(mutator.unpin, obj)
            return
    situation = mutator.situation
    shadow, contract = situation.bench.shadow, situation.contract
    if shadow.callback_bytes:
        yield from cast.act(actions.SetCallback, None)
    if shadow.sampling_bytes and why_nothing_pinned(contract, shadow):
        yield from cast.act(actions.PauseSampling)
    if why_nothing_pinned(contract, shadow):
        return
    if choices.one_in(3) or not any(map(can_be_pinned, cast.objects)):
        strings: list[ShadowObject] = []
        for _ in range(choices.between(1, 2)):
            yield from cast.add(strings, actions.AllocateString, choices.pick(STRING_LENGTHS))
        # The last one is pinned, and is the main one from now on.
        cast.objects[:0] = reversed(strings)
        for obj in strings[-1:]:
            yield from cast.act(mutator.pin, obj)
        return
    for obj in cast.among(can_be_pinned):
        yield from cast.act(mutator.pin, obj)


def _identity_known(cast: Cast) -> Scenario:
    for obj in cast.among():
        yield from cast.act(cast.mutator.take_identity, obj)
        cast.identified.append(obj)


def _weakly_referenced(cast: Cast) -> Scenario:
    for obj in cast.among():
        yield from cast.add(cast.weakrefs, cast.mutator.weakref, obj)


def _held(cast: Cast) -> Scenario:
    """Another object refers to it, which may be prebuilt, or old."""
    choices, mutator = cast.choices, cast.mutator
    for obj in cast.among():
        holders = [holder for holder in cast.objects if holder.refs and holder is not obj]
        if not holders or choices.one_in(2):
            prebuilt = len(mutator.situation.bench.shadow.prebuilt)
            if prebuilt and choices.one_in(3):
                yield from cast.add(cast.objects, actions.LoadPrebuilt, choices.below(prebuilt))
            else:
                yield from cast.add(cast.objects, cast.holder)
            holders = cast.objects[-1:]
            if choices.one_in(2):
                yield from _collected(cast)
        yield from cast.act(mutator.write, choices.pick(holders), obj)
        if choices.one_in(3):
            yield from cast.act(mutator.free, obj)


def _has_child(cast: Cast) -> Scenario:
    """It alone refers to another object, or to two."""
    for obj in [*cast.among(lambda obj: obj.refs)] * cast.choices.between(1, 2):
        children: list[ShadowObject] = []
        yield from cast.add(children, cast.subject)
        for child in children:
            yield from cast.act(cast.mutator.write, obj, child)
            yield from cast.act(cast.mutator.free, child)
        cast.objects.extend(children)


def _copied(cast: Cast) -> Scenario:
    """The items of an array are copied to another one."""
    for source in cast.among(lambda obj: obj.kind == "array" and any(obj.refs)):
        copies: list[ShadowObject] = []
        yield from cast.add(copies, actions.AllocateArray, len(source.refs))
        if cast.choices.one_in(2):
            yield from _collected(cast)
        for dest in copies:
            yield from cast.act(cast.mutator.copy, source, dest, 0, 0, len(source.refs))
        cast.objects.extend(copies)


def _written(cast: Cast) -> Scenario:
    """It refers to another one, or to nothing more."""
    choices, roots = cast.choices, cast.mutator.situation.roots
    for obj in cast.among(lambda obj: obj.refs):
        value = choices.pick(roots) if choices.one_in(2) else None
        yield from cast.act(cast.mutator.write, obj, value)


def _dropped(cast: Cast) -> Scenario:
    """The mutator drops it."""
    for obj in cast.among():
        yield from cast.act(cast.mutator.free, obj)


def _finalizable(cast: Cast) -> Scenario:
    """It has a finalizer; or those that are pending run."""
    mutator, choices = cast.mutator, cast.choices
    if choices.one_in(4):
        yield from cast.act(actions.RunFinalizers, choices.one_in(2))
    for obj in cast.among(lambda obj: obj.kind == "node"):
        yield from cast.act(mutator.register_finalizer, obj)


# Facts of the sampler, and of the nursery.


def _switched(cast: Cast) -> Scenario:
    """Sampling is on, off, paused or on again."""
    choices, mutator = cast.choices, cast.mutator
    disabling = mutator.situation.contract.sampling.disabling
    off = partial(actions.DisableSampling, "report" in disabling and choices.one_in(2))
    shadow = mutator.situation.bench.shadow
    pause, resume = actions.PauseSampling, actions.ResumeSampling
    switches: tuple[Callable[[], Action], ...] = (mutator.sample_often, mutator.sample, resume)
    if shadow.paused_bytes is not None:
        switches = (resume, resume, pause, actions.Fork, off)
    elif shadow.sampling_bytes is not None:
        switches = (pause, pause, mutator.sample, actions.Fork, off)
    yield from cast.act(choices.pick(switches))


def _called_back(cast: Cast) -> Scenario:
    """A callback allocates after collections, or none does any more."""
    longest = max(callback_length_max(cast.mutator.situation.contract), 0)
    yield from cast.act(actions.SetCallback, cast.choices.pick((0, longest, None)))


def _crowded(cast: Cast) -> Scenario:
    """The nursery is full, or a sample is due, or nearly so."""
    crowd: list[ShadowObject] = []
    yield from cast.add(crowd, actions.AllocateString, cast.length())
    for member in crowd:
        yield from cast.act(cast.mutator.free, member)


def _collected(cast: Cast) -> Scenario:
    """A minor collection, or steps into some state of a major one."""
    choices, situation = cast.choices, cast.mutator.situation
    match choices.below(4):
        case 0:
            yield from cast.act(actions.CollectMinor)
        case 1:
            for _ in range(choices.between(1, 2)):
                yield from cast.act(actions.CollectStep)
        case _:
            state = choices.pick((MARKING, SWEEPING))
            for _ in range(STEPS_MAX):
                yield from cast.act(actions.CollectStep)
                if situation.state in (state, None):
                    break
            # The first step into marking has marked nothing. Sweeping is soon over: without steps
            # within it, one of six hard bugs was found by 14 of 16 seeds, and not by 9
            # (docs/evidence/effectiveness.md).
            for _ in range(choices.between(0, 3) if state == MARKING else 0):
                yield from cast.act(actions.CollectStep)


Fact = Callable[[Cast], Scenario]
WITHOUT_PINS: tuple[Fact, ...] = (
    *(_identity_known, _weakly_referenced, _held, _has_child, _copied, _written, _dropped),
    *(_switched, _called_back, _crowded),
)
FACTS: tuple[Fact, ...] = (_pinned, _pinned, *WITHOUT_PINS)


def facts_meet(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Facts about some objects meet, in any order and in any state of the collector."""
    contract = mutator.situation.contract
    among = FACTS if contract.pins_max else WITHOUT_PINS
    if contract.finalizers:
        among = (*among, _finalizable, _finalizable)
    kinds = [choices.pick(among) for _ in range(choices.between(KINDS_MIN, KINDS_MAX))]
    facts = [choices.pick(kinds) for _ in range(choices.between(FACTS_MIN, FACTS_MAX))]
    cast = Cast(mutator, choices, is_about_pins=_pinned in facts)
    # Most of the time few collections come in between, so that much is true of young objects.
    share = choices.pick((2, 3, 6))
    if choices.below(4):
        yield from cast.act(mutator.sample_often)
    if choices.one_in(share):
        yield from _collected(cast)
    for fact in facts:
        if not cast.objects or choices.one_in(6):
            yield from cast.add(cast.objects, cast.subject)
        yield from _about_held(cast, fact) if choices.one_in(2) else fact(cast)
        if choices.one_in(share):
            yield from _collected(cast)
    yield from _checked(cast)


def _about_held(cast: Cast, fact: Fact) -> Scenario:
    """The fact is about an object that only another one refers to: it is read, and dropped."""
    roots = cast.mutator.situation.roots
    for held in [obj for obj in cast.objects if obj not in roots]:
        for slot, holder in enumerate(roots):
            if held in holder.refs:
                yield from cast.act(actions.Read, slot, holder.refs.index(held))
                yield from fact(attrs.evolve(cast, objects=[held]))
                yield from cast.act(cast.mutator.free, held)
                return
    yield from fact(cast)


def _checked(cast: Cast) -> Scenario:
    """What can be seen of the objects: where they are, when they have moved, when they are dead."""
    choices, mutator = cast.choices, cast.mutator
    if choices.one_in(2):
        for obj in cast.objects:
            yield from cast.act(mutator.unpin, obj)
    for collect in choices.pick(WHILE_ALIVE):
        yield from cast.act(collect)
    for obj in cast.objects if choices.one_in(2) else dict.fromkeys(cast.identified):
        yield from cast.act(mutator.take_identity, obj)
    if mutator.situation.bench.shadow.paused_bytes is not None or choices.one_in(4):
        yield from cast.act(actions.ResumeSampling)
        yield from _crowded(cast)
    yield from _checked_dead(cast)


def _checked_dead(cast: Cast) -> Scenario:
    """Most of the time the mutator drops the objects; a full collection frees them."""
    mutator = cast.mutator
    if cast.choices.below(4):
        for obj in cast.objects:
            yield from cast.act(mutator.free, obj)
    for collect in (actions.CollectMinor, actions.CollectFull):
        yield from cast.act(collect)
        for weakref in cast.weakrefs:
            yield from cast.act(mutator.read_weakref, weakref)
    for weakref in cast.weakrefs:
        yield from cast.act(mutator.free, weakref)
    yield from cast.act(actions.RunFinalizers)
