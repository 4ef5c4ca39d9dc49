"""Facts of objects: how old they are, what refers to them, where they lie, and how they die."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.drawing.cast import Cast
from fuzz.drawing.fact import fact
from fuzz.drawing.facts_of_heaps import collected
from fuzz.drawing.members_drawn import allocate_group
from fuzz.drawing.rules import finalizer_number
from fuzz.drawing.situation import Scenario
from fuzz.mutator.legality import can_be_pinned, can_have_destructor, why_nothing_pinned
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions

CARDED_LENGTHS = (34, 34, 36, 66, 12)
"""Arrays of several cards; most have cards in a second byte."""
ITEMS_MIN = 5
"""An array of that length may have two cards."""
LONGER = (0, 0, 1, 4)
"""By how many items the destination of a copy is longer than its source."""
TOGETHER_MAX = 3


def _refers(obj: ShadowObject) -> bool:
    return obj.kind in ("node", "array")


def _may_have_cards(obj: ShadowObject) -> bool:
    return obj.kind == "array" and len(obj.refs) >= ITEMS_MIN


def _is_filled_array(obj: ShadowObject) -> bool:
    return obj.kind == "array" and any(obj.refs)


@fact("age", collects=True)
def old(cast: Cast) -> Scenario:
    """All that is alive is old."""
    yield from cast.act(actions.CollectMinor)


@fact("age", "load_prebuilt")
def is_prebuilt(cast: Cast) -> Scenario:
    """The main object was there from the start, and may never have been written."""
    yield from cast.new(cast.mutator.load_prebuilt)


# What is known of it.


@fact("identity", "take_identity")
def identity_is_known(cast: Cast) -> Scenario:
    """Its identity was taken."""
    for obj in cast.among():
        yield from cast.act(cast.mutator.take_identity, obj)
        cast.identified.append(obj)


@fact("identity", "take_identity")
def identities_are_known(cast: Cast) -> Scenario:
    """The identities of several objects were taken."""
    for obj in cast.living()[:TOGETHER_MAX]:
        yield from cast.act(cast.mutator.take_identity, obj)
        cast.identified.append(obj)


@fact("weak references", "allocate_weakref")
def is_weakly_referenced(cast: Cast) -> Scenario:
    """A weak reference refers to it."""
    for obj in cast.among():
        yield from cast.add(cast.weakrefs, cast.mutator.weakref, obj)


@fact("weak references", "allocate_weakref")
def is_weakly_referenced_twice(cast: Cast) -> Scenario:
    """The second weak reference may refer to the first one."""
    for obj in cast.among():
        yield from cast.add(cast.weakrefs, cast.mutator.weakref, obj)
        to_first = cast.weakrefs and cast.choices.below(2)
        target = cast.weakrefs[-1] if to_first else obj
        yield from cast.add(cast.weakrefs, cast.mutator.weakref, target)


# What refers to it, and to what it refers.


@fact("holder", "write")
def is_held(cast: Cast) -> Scenario:
    """Another object refers to it, perhaps an old or a prebuilt one, and perhaps alone."""
    yield from _held(cast, only=cast.choices.one_in(2))


@fact("holder", "write")
def is_only_held(cast: Cast) -> Scenario:
    """The mutator has no other reference to it than that of another object."""
    yield from _held(cast, only=True)


def _held(cast: Cast, *, only: bool) -> Scenario:
    choices = cast.choices
    for obj in cast.among():
        holders = [each for each in cast.objects if each.refs and each is not obj][:1]
        if not holders or choices.one_in(2):
            holders = []
            if cast.shadow.prebuilt and choices.one_in(4):
                yield from cast.add(holders, cast.mutator.load_prebuilt)
            else:
                yield from cast.add(holders, cast.holder)
            cast.objects.extend(holders)
            if choices.one_in(3):
                yield from cast.act(actions.CollectMinor)
        for holder in holders:
            yield from cast.act(cast.mutator.write, holder, obj)
            if only and choices.below(2):
                cast.to_drop.append(obj)
            elif only:
                yield from cast.act(cast.mutator.free, obj)


@fact("children", "write")
def has_child(cast: Cast) -> Scenario:
    """It refers to another object, most of the time alone."""
    yield from _has_children(cast, 1)


@fact("children", "write")
def has_children(cast: Cast) -> Scenario:
    """It refers to two other objects."""
    yield from _has_children(cast, 2)


def _has_children(cast: Cast, count: int) -> Scenario:
    for obj in cast.among(lambda obj: obj.refs):
        for _ in range(count):
            children: list[ShadowObject] = []
            yield from cast.add(children, cast.anything)
            for child in children:
                yield from cast.act(cast.mutator.write, obj, child)
                if cast.choices.below(4):
                    yield from cast.act(cast.mutator.free, child)
            cast.objects.extend(children)


@fact("children", "read", "write")
def has_moved_child(cast: Cast) -> Scenario:
    """What only another object referred to has moved to this one."""
    mutator, choices = cast.mutator, cast.choices
    for source in cast.among(lambda obj: any(obj.refs)):
        field = choices.pick([field for field, ref in enumerate(source.refs) if ref is not None])
        child = source.refs[field]
        dests = [obj for obj in cast.living(lambda obj: obj.refs) if obj is not source][:1]
        if not dests:
            yield from cast.add(dests, cast.holder)
            cast.objects.extend(dests)
        for dest in dests:
            yield from cast.act(mutator.read, source, field)
            yield from cast.act(mutator.write, dest, child)
            yield from cast.act(mutator.write, source, None, field)
            yield from cast.act(mutator.free, child)


@fact("written", "write")
def is_written(cast: Cast) -> Scenario:
    """It refers to another root, or to nothing more; an array may be filled with the root."""
    mutator, choices = cast.mutator, cast.choices
    for obj in cast.among(lambda obj: obj.refs):
        value = choices.pick(cast.roots) if choices.below(3) else None
        if value is not None and obj.kind == "array" and choices.one_in(4):
            slots = mutator.slot(obj), mutator.slot(value)
            yield from cast.act(actions.FillArray, *slots)
        else:
            yield from cast.act(mutator.write, obj, value)


@fact("cards", "write")
def has_dirty_cards(cast: Cast) -> Scenario:
    """Items of different cards refer to young objects, in one array or in two."""
    arrays = cast.living(_may_have_cards)[:2]
    if not arrays:
        length = cast.choices.pick(CARDED_LENGTHS)
        for _ in range(cast.choices.between(1, 2)):
            yield from cast.add(arrays, actions.AllocateArray, length)
        cast.objects.extend(arrays)
        if len(arrays) > 1:
            yield from cast.act(actions.CollectMinor)
    # A rule may have put another object in the place of an array.
    for array in filter(_may_have_cards, arrays):
        last = len(array.refs) - 1
        for item in dict.fromkeys((0, cast.choices.below(last), last)):
            if cast.choices.below(2):
                children: list[ShadowObject] = []
                yield from cast.add(children, actions.AllocateNode, 0)
                for child in children:
                    yield from cast.act(cast.mutator.write, array, child, item)
                    yield from cast.act(cast.mutator.free, child)


@fact("copied", "copy_array")
def is_copied(cast: Cast) -> Scenario:
    """Its items are copied to another array, from the first one on, or one of them anywhere."""
    mutator, choices = cast.mutator, cast.choices
    for source in cast.among(_is_filled_array):
        length = len(source.refs)
        arrays = cast.living(lambda obj: obj.kind == "array" and obj.refs)
        dests = [array for array in arrays if array is not source][-1:]
        if not dests or choices.one_in(3):
            dests = []
            yield from cast.add(dests, actions.AllocateArray, length + choices.pick(LONGER))
            cast.objects.extend(dests)
            if choices.one_in(3):
                yield from cast.act(actions.CollectMinor)
        for dest in dests:
            if choices.below(3):
                most = min(length, len(dest.refs))
                copied = most if choices.below(2) else choices.between(1, max(most, 1))
                yield from cast.act(mutator.copy, source, dest, 0, 0, copied)
            else:
                filled = [item for item, ref in enumerate(source.refs) if ref is not None]
                for item in filled[:1]:
                    yield from cast.act(mutator.copy_with_others, source, dest, item)


@fact("copied", "move_array")
def is_moved_within(cast: Cast) -> Scenario:
    """Some of its items are moved to other places in it."""
    choices = cast.choices
    for array in cast.among(_is_filled_array):
        length = choices.between(1, max(len(array.refs) - 1, 1))
        last = len(array.refs) - length
        places = choices.between(0, last), choices.between(0, last)
        yield from cast.act(actions.MoveArray, cast.mutator.slot(array), *places, length)


# Where it lies.


@fact("place", collects=True)
def has_place_of_dead(cast: Cast) -> Scenario:
    """One of the same size dies beside it, and another one may have its place."""
    for obj in cast.among(lambda obj: obj.kind in ("array", "string", "node")):
        dying: list[ShadowObject] = []
        yield from cast.add(dying, cast.like, obj)
        for other in dying:
            if cast.choices.below(2):
                yield from cast.act(cast.mutator.take_identity, other)
            if cast.choices.one_in(2):
                yield from cast.act(actions.CollectMinor)
            yield from cast.act(cast.mutator.free, other)
            full = cast.choices.below(2)
            yield from cast.act(actions.CollectFull if full else actions.CollectMinor)
            yield from cast.new(cast.like, obj)


@fact("group", "allocate_group")
def is_grouped(cast: Cast) -> Scenario:
    """It was allocated together with others."""
    for group in cast.act(allocate_group, cast.mutator.situation, cast.choices):
        yield group
        assert isinstance(group, actions.AllocateGroup)
        members = cast.roots[-len(group.members) :]
        cast.objects[:0] = members if cast.choices.below(2) else members[::-1]


@fact("pins", "pin")
def is_pinned(cast: Cast) -> Scenario:
    """A string is pinned, perhaps a new one, which is the main object from now on."""
    yield from _pins_are_legal(cast)
    if why_nothing_pinned(cast.contract, cast.shadow):
        return
    if cast.choices.one_in(3) or not any(map(can_be_pinned, cast.objects)):
        for _ in range(cast.choices.between(1, 2)):
            yield from cast.new(cast.string)
    for obj in cast.among(can_be_pinned):
        yield from cast.act(cast.mutator.pin, obj)


@fact("obstacles", "pin", collects=True)
def is_obstacle(cast: Cast) -> Scenario:
    """A pinned object lies in the way of allocations, and may be unpinned already."""
    yield from is_pinned(cast)
    yield from cast.act(actions.CollectMinor)
    if cast.choices.one_in(2):
        yield from is_unpinned(cast)


@fact("pins", "pin", "write")
def has_pinned_child(cast: Cast) -> Scenario:
    """It refers to a pinned string, perhaps alone."""
    for obj in cast.among(lambda obj: obj.refs):
        children: list[ShadowObject] = []
        yield from cast.add(children, cast.string)
        for child in children:
            yield from _pins_are_legal(cast)
            yield from cast.act(cast.mutator.pin, child)
            yield from cast.act(cast.mutator.write, obj, child)
            if cast.choices.one_in(2):
                yield from cast.act(cast.mutator.free, child)
        cast.objects.extend(children)


def _pins_are_legal(cast: Cast) -> Scenario:
    """What excludes pins, ends."""
    if cast.shadow.callback_bytes:
        yield from cast.act(actions.SetCallback, None)
    if cast.shadow.sampling_bytes and why_nothing_pinned(cast.contract, cast.shadow):
        yield from cast.act(actions.PauseSampling)


def is_unpinned(cast: Cast) -> Scenario:
    """A pinned object is pinned no more."""
    for obj in cast.among(lambda obj: obj.pinned):
        yield from cast.act(cast.mutator.unpin, obj)


# How it dies.


@fact("finalizer", "register_finalizer")
def has_finalizer(cast: Cast) -> Scenario:
    """A node has a finalizer, perhaps one more. A new one may have a destructor, too."""
    if cast.choices.one_in(3) or not cast.living(lambda obj: obj.kind == "node"):
        yield from cast.new(_new_node, cast)
    for node in cast.among(lambda obj: obj.kind == "node"):
        yield from cast.act(cast.mutator.register_finalizer, node)


def _new_node(cast: Cast) -> actions.AllocateNode:
    may_have_destructor = can_have_destructor(cast.contract, nonmovable=False)
    if may_have_destructor and cast.choices.one_in(2):
        return actions.AllocateNode(0, destructor=finalizer_number(cast.mutator.situation))
    return actions.AllocateNode(0)


@fact("finalizer", "register_finalizer", collects=True)
def is_queued(cast: Cast) -> Scenario:
    """It has a finalizer, and a collection may have found it dead."""
    yield from has_finalizer(cast)
    waiting = cast.shadow.finalizers.waiting
    for obj in cast.among(lambda obj: obj in waiting.values()):
        yield from cast.act(cast.mutator.free, obj)
        yield from collected(cast)


@fact("finalized", "run_finalizers")
def is_finalized(cast: Cast) -> Scenario:
    """Finalizers run. What they keep may be resurrected."""
    yield from cast.act(actions.RunFinalizers, bool(cast.choices.below(3)))
    if cast.choices.below(3):
        yield from is_resurrected(cast)


def is_resurrected(cast: Cast) -> Scenario:
    """What finalizers kept is a root again."""
    for number in [*cast.shadow.finalizers.kept]:
        if cast.choices.below(3):
            yield from cast.new(actions.Resurrect, number)


def is_unregistered(cast: Cast) -> Scenario:
    """The finalizers of a node are taken back."""
    waiting = cast.shadow.finalizers.waiting
    for obj in cast.among(lambda obj: obj in waiting.values()):
        yield from cast.act(cast.mutator.unregister_finalizer, obj)


@fact("ephemerons", "allocate_ephemeron")
def is_key(cast: Cast) -> Scenario:
    """It is the key of an ephemeron, which alone may have the value."""
    yield from _in_ephemeron(cast, is_key=True)


@fact("ephemerons", "allocate_ephemeron")
def is_value(cast: Cast) -> Scenario:
    """It is the value of an ephemeron, which alone may have it."""
    yield from _in_ephemeron(cast, is_key=False)


@fact("ephemerons", "allocate_ephemeron")
def is_in_chain(cast: Cast) -> Scenario:
    """It may be the key of one ephemeron and the value of another."""
    yield from _in_ephemeron(cast, is_key=True)
    yield from _in_ephemeron(cast, is_key=False)


def _in_ephemeron(cast: Cast, *, is_key: bool) -> Scenario:
    mutator, choices = cast.mutator, cast.choices
    for obj in cast.among(_refers):
        others = [other for other in cast.living(_refers) if other is not obj][-1:]
        if not others or choices.one_in(2):
            others = []
            yield from cast.add(others, cast.holder)
            cast.objects.extend(others)
        for other in others:
            key, value = (obj, other) if is_key else (other, obj)
            yield from cast.add(cast.ephemerons, mutator.ephemeron, key, value)
            if choices.below(3):
                cast.to_drop.append(value)


def is_dropped(cast: Cast) -> Scenario:
    """The mutator drops it."""
    for obj in cast.among():
        yield from cast.act(cast.mutator.free, obj)


def weak_are_read(cast: Cast, objects: Sequence[ShadowObject]) -> Scenario:
    """Those of the objects that are weak references or ephemerons are read."""
    for obj in objects:
        if obj.kind == "weakref":
            yield from cast.act(cast.mutator.read_weakref, obj)
        elif obj.kind == "ephemeron":
            yield from cast.act(cast.mutator.read_ephemeron, obj)
