"""Facts meet: the general scenario, for mistakes that need several things at once.

A scenario of its own for each mistake does not scale. This one draws some facts first: of an object
(it is pinned, its identity is known, another one holds it) and of the sampler (it is on, paused).
Then it brings each fact about, in any order and between steps of the collector, and checks all
that can be seen of the objects. A fact that is not legal here is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from fuzz.drawing.rules import Choices, Scenario
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.mutator.shadow import ShadowObject
from fuzz.protocol import actions
from fuzz.protocol.actions import Action

FACTS_MIN, FACTS_MAX = 2, 6
STEPS_MAX = 12
"""At most this many steps are taken to reach a phase of the major collection."""
MARKING, SWEEPING = 1, 2
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

    def act(self, action: Callable[..., Action], *given: object) -> Scenario:
        """The action, if it is legal."""
        return self.mutator.if_legal(partial(action, *given))

    def add(
        self, to: list[ShadowObject], action: Callable[..., Action], *given: object
    ) -> Scenario:
        """Allocate or load an object, if that is legal, and add it to a list."""
        for allocation in self.act(action, *given):
            yield allocation
            to.append(self.mutator.newest())

    def any(self) -> ShadowObject:
        """The main object, or any."""
        return self.choices.pick(self.objects) if self.choices.one_in(2) else self.objects[0]

    def subject(self) -> Action:
        """An allocation of an object that facts are about; only strings can be pinned."""
        choices = self.choices
        if self.is_about_pins and choices.one_in(2):
            return actions.AllocateString(choices.pick(STRING_LENGTHS))
        return self.holder()

    def holder(self) -> Action:
        """An allocation of an object that has references."""
        choices = self.choices
        if choices.one_in(3):
            return actions.AllocateNode(0, nonmovable=choices.one_in(8))
        return actions.AllocateArray(choices.pick(ARRAY_LENGTHS), nonmovable=choices.one_in(4))


# Facts of an object.


def _pinned(cast: Cast, obj: ShadowObject) -> Scenario:
    yield from cast.act(cast.mutator.unpin if obj.pinned else cast.mutator.pin, obj)


def _identity_known(cast: Cast, obj: ShadowObject) -> Scenario:
    yield from cast.act(cast.mutator.take_identity, obj)


def _weakly_referenced(cast: Cast, obj: ShadowObject) -> Scenario:
    yield from cast.add(cast.weakrefs, cast.mutator.weakref, obj)


def _held(cast: Cast, obj: ShadowObject) -> Scenario:
    """Another object refers to it, which may be prebuilt, or old."""
    choices, mutator = cast.choices, cast.mutator
    holders = [each for each in cast.objects if each.refs and each is not obj]
    if not holders or choices.one_in(2):
        prebuilt = len(mutator.situation.bench.shadow.prebuilt)
        if prebuilt and choices.one_in(3):
            yield from cast.add(cast.objects, actions.LoadPrebuilt, choices.below(prebuilt))
        else:
            yield from cast.add(cast.objects, cast.holder)
        if choices.one_in(2):
            yield from _collected(cast)
        holders = cast.objects[-1:]
    yield from cast.act(mutator.write, choices.pick(holders), obj)


def _has_children(cast: Cast, obj: ShadowObject) -> Scenario:
    """It alone refers to other objects."""
    for _ in range(1 + cast.choices.below(2)):
        children: list[ShadowObject] = []
        yield from cast.add(children, cast.subject)
        for child in children:
            yield from cast.act(cast.mutator.write, obj, child)
            yield from cast.act(cast.mutator.free, child)


def _copied(cast: Cast, obj: ShadowObject) -> Scenario:
    """The items of an array are copied to another one."""
    arrays = [each for each in cast.objects if each.kind == "array" and any(each.refs)]
    if arrays:
        source, copies = cast.choices.pick(arrays), list[ShadowObject]()
        yield from cast.add(copies, actions.AllocateArray, len(source.refs))
        if cast.choices.one_in(2):
            yield from _collected(cast)
        for dest in copies:
            yield from cast.act(cast.mutator.copy, source, dest, 0, 0, len(source.refs))
        cast.objects.extend(copies)


def _freed(cast: Cast, obj: ShadowObject) -> Scenario:
    yield from cast.act(cast.mutator.free, obj)


def _written_over(cast: Cast, obj: ShadowObject) -> Scenario:
    yield from cast.act(cast.mutator.write, obj, None)


# Facts of the sampler, and of the heap.


def _switched(cast: Cast, obj: ShadowObject) -> Scenario:
    """Sampling is on, off, paused or on again."""
    choices, mutator = cast.choices, cast.mutator
    ways = mutator.situation.contract.sampling.disabling
    reports = "report" in ways and choices.one_in(2)
    switches: tuple[Callable[[], Action], ...] = (
        *(mutator.sample_often, actions.PauseSampling, actions.ResumeSampling, mutator.sample),
        *(actions.Fork, partial(actions.DisableSampling, reports)),
    )
    yield from cast.act(choices.pick(switches))


def _joined(cast: Cast, obj: ShadowObject) -> Scenario:
    """Another object is there, of which facts may hold too."""
    yield from cast.add(cast.objects, cast.subject)


def _crowded(cast: Cast, obj: ShadowObject) -> Scenario:
    """The nursery is full, or a sample is due, or nearly so."""
    crowd: list[ShadowObject] = []
    yield from cast.add(crowd, lambda: actions.AllocateString(cast.mutator.edge_length()))
    for each in crowd:
        yield from cast.act(cast.mutator.free, each)


def _collected(cast: Cast) -> Scenario:
    """A minor collection, or steps until some phase of a major one."""
    choices, situation = cast.choices, cast.mutator.situation
    match choices.below(4):
        case 0:
            yield from cast.act(actions.CollectMinor)
        case 1:
            yield from cast.act(actions.CollectStep)
        case _:
            phase = choices.pick((MARKING, SWEEPING))
            for _ in range(STEPS_MAX):
                yield from cast.act(actions.CollectStep)
                if situation.phase in (phase, None):
                    return


Fact = Callable[[Cast, ShadowObject], Scenario]
FACTS: tuple[Fact, ...] = (
    *(_pinned, _identity_known, _weakly_referenced, _held, _has_children, _copied),
    *(_switched, _switched, _freed, _written_over, _joined, _crowded),
)


def facts_meet(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Facts about some objects meet, in any order and in any phase of the collector."""
    facts = [choices.pick(FACTS) for _ in range(choices.between(FACTS_MIN, FACTS_MAX))]
    cast = Cast(mutator, choices, is_about_pins=_pinned in facts)
    # Most of the time few collections come in between, so that much is true of young objects.
    share = choices.pick((2, 6))
    if choices.one_in(3):
        yield from cast.act(mutator.sample_often)
    if choices.one_in(share):
        yield from _collected(cast)
    yield from cast.add(cast.objects, cast.subject)
    if not cast.objects:
        return
    for fact in facts:
        yield from fact(cast, cast.any())
        if choices.one_in(share):
            yield from _collected(cast)
    yield from _checked(cast)


def _checked(cast: Cast) -> Scenario:
    """What can be seen of the objects: now, when they have moved, and when they are dead."""
    choices, mutator = cast.choices, cast.mutator
    for obj in cast.objects:
        yield from cast.act(mutator.take_identity, obj)
        if obj.pinned:
            yield from cast.act(mutator.unpin, obj)
    if choices.one_in(2):
        yield from cast.act(actions.ResumeSampling)
        yield from _crowded(cast, cast.objects[0])
    yield from cast.act(actions.CollectMinor)
    for weakref in cast.weakrefs:
        yield from cast.act(mutator.read_weakref, weakref)
    if choices.one_in(2):
        for obj in cast.objects:
            yield from cast.act(mutator.free, obj)
    yield from cast.act(actions.CollectFull)
    for weakref in cast.weakrefs:
        yield from cast.act(mutator.read_weakref, weakref)
    for obj in (*cast.weakrefs, *cast.objects):
        yield from cast.act(mutator.free, obj)
