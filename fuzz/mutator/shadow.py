"""The shadow heap: the mutator's own view of its objects, without looking at the target.

It follows the actions, and uses the observations only for whether a minor collection took place.
Invariant: `roots` corresponds slot by slot to the target's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any

from fuzz.mutator.finalizer_table import FinalizerTable
from fuzz.mutator.objects import DEAD, OLD, YOUNG, ShadowObject
from fuzz.mutator.occupancy import Exhausted, Occupancy
from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of, requested_bytes
from fuzz.protocol.contract import Contract

NODE_REFERENCES = 2
GROUP = "group"
"""The kind of a group that is looked at as one object."""


class _Effects(dict[type[Action], tuple[Callable[..., None], bool]]):
    """`Shadow.effect_of` each kind of action, computed when the first one comes."""

    def __missing__(self, kind: type[Action]) -> tuple[Callable[..., None], bool]:
        self[kind] = Shadow.effect_of(kind)
        return self[kind]


_EFFECTS = _Effects()


class Shadow:
    """The mutator's view of one heap."""

    placed: ShadowObject
    """What was allocated or resized last. A group is one object here, as it is for what counts
    bytes. It has no value before the first allocation."""

    def __init__(self, contract: Contract) -> None:
        self._layout = contract.layout
        self.roots: list[ShadowObject] = []
        self.prebuilt = [
            self._object(item.kind, item.length, item.length, nonmovable=True)
            for item in contract.prebuilt
        ]
        for index, obj in enumerate(self.prebuilt):
            obj.origin, obj.age = f"prebuilt {index}", OLD
        self._followed = self.place = 0
        self._filled = 0  # How many strings and blocks have got a number.
        self.young: list[ShadowObject] = []
        # The periods; None if sampling is off, and if it is not paused.
        self.sampling_bytes = contract.sampling.initial_period_bytes or None
        self.paused_bytes: int | None = None
        self.callback_bytes = 0
        # The pinned objects that may be alive.
        self.pinned: list[ShadowObject] = []
        self.has_obstacles = False
        self.collection_may_be_due = False
        self._written: list[ShadowObject] = []
        # The result of the last walk, until something changes that a walk could find.
        self._graph: list[list[int]] | None = None
        self._walked: list[ShadowObject] = []
        self.weak_targets: list[ShadowObject] = []
        self.finalizers = FinalizerTable(contract.finalizers)
        promised = contract.exhaustion
        self._is_soft = promised is not None and promised.soft
        self.occupancy = (
            Occupancy(contract, promised, lambda: self.living() - {*self.prebuilt})
            if promised is not None
            else None
        )
        self.ended_threads: set[int] = set()
        self._survivor_bytes_max = contract.survivor_bytes
        self._dead_within = contract.dead_within
        # How many full collections in a row have found these objects unreachable.
        self._unreachable: dict[ShadowObject, int] = {}
        # Whether the object of the last weak reference that was read is alive, if that is answered.
        self._alive: bool | None = None
        # The bytes of survivors since the last full collection.
        self._survivor_bytes: float = 0
        # The object in the slot that was freed last.
        self.freed: ShadowObject | None = None

    def _object(self, kind: str, number: int, length: int, nonmovable: bool) -> ShadowObject:
        references = NODE_REFERENCES if kind == "node" else length if kind == "array" else 0
        size_bytes, outside = self._layout.cost(kind, length, nonmovable)
        layout = self._layout.kinds[kind]
        obj = ShadowObject(
            kind, layout.type_index, number, [None] * references, size_bytes, outside
        )
        if layout.parts:
            obj.parts = self._layout.costs_of_parts(kind, length, nonmovable)
        return obj

    def follow(
        self,
        action: Action,
        minors: int,
        finalized: Sequence[int] = (),
        place: int = 0,
        alive: bool | None = None,
    ) -> None:
        """The target carried out `action`, after that number of minor collections.

        `finalized` are the finalizers that it ran. `place` is that of a member, from 1, in a group
        that is followed member by member. `alive` is the answer to `read_weakref`, if there is one.
        """
        self.place, self._alive = place, alive
        if place <= 1:
            self._followed += 1
        if minors:
            if isinstance(action, actions.RunAtOnce):
                # The threads keep objects that the shadow does not have.
                self._survivor_bytes = math.inf
            self._collect_minor()
        effect, is_seen = _EFFECTS[type(action)]
        effect(self, action)
        if is_seen:
            self._graph = None
        if isinstance(action, actions.RunFinalizers):
            self.finalizers.run(finalized, action.keep)
        elif minors and self.finalizers.may_clear:
            self._weakrefs_may_be_cleared()
        if self.occupancy is not None:
            self.occupancy.follow(action, minors, self.roots[-1] if self.roots else None)

    @classmethod
    def effect_of(cls, kind: type[Action]) -> tuple[Callable[..., None], bool]:
        """What an action does to a shadow, and whether a walk can find it.

        The method `_on_ACTION`, or else what the class of the action declares.
        """
        own: Callable[..., None] | None = getattr(cls, f"_on_{name_of(kind)}", None)
        if own is not None:
            return own, True
        if kind.allocates:
            return cls._allocate_block if kind.kind == "block" else cls._allocate, True
        if kind.sampling:
            return cls._switch_sampling, False
        return cls._collect_full if kind.collects == "full" else cls._do_nothing, False

    # What actions do.

    def _do_nothing(self, action: Action) -> None:
        """The action only asks, or collects only young objects."""

    def object_of(self, action: Any) -> ShadowObject:  # noqa: ANN401 - any allocation
        """The object that the action allocates, which is not one of the heap yet."""
        length = getattr(action, "length", 0)
        number = getattr(action, "number", length)
        nonmovable = action.old or getattr(action, "nonmovable", False)
        return self._object(action.kind, number, length, nonmovable)

    def _append(self, obj: ShadowObject, origin: int | str) -> None:
        obj.origin = origin
        if obj.kind == "string":
            self._number(obj)
        self.roots.append(obj)

    def _on_allocate_group(self, action: actions.AllocateGroup) -> None:
        size_bytes = 0
        for place, member in enumerate(action.members, 1):
            number = member.number if member.kind == "node" else member.length
            obj = self._object(member.kind, number, member.length, nonmovable=False)
            self._append(obj, f"#{self._followed}.{place}")
            self.young.append(obj)
            size_bytes += obj.size_bytes
        members = len(action.members)
        self.placed = ShadowObject(GROUP, 0, members, [], size_bytes, False, self._followed)

    def _allocate(self, action: Any) -> None:  # noqa: ANN401 - any allocation
        kind, obj = action.kind, self.object_of(action)
        self._append(obj, f"#{self._followed}.{self.place}" if self.place else self._followed)
        self.placed = obj
        if action.old:
            obj.age = OLD
            obj.survived = True
        else:
            self.young.append(obj)
        destructor = getattr(action, "destructor", None)
        if destructor is not None:
            self.finalizers.destructors[destructor] = obj
        if kind == "weakref":
            obj.target = self.roots[action.root]
            self.weak_targets.append(obj.target)
            self.finalizers.add_weakref(obj)
        elif kind == "ephemeron":
            obj.target, obj.value = self.roots[action.key], self.roots[action.value]
            obj.refers = True
            self.finalizers.ephemerons.append(obj)

    def _allocate_block(self, action: actions.Malloc | actions.Calloc) -> None:
        size_bytes = requested_bytes(action)
        block = self._object("block", size_bytes, size_bytes, nonmovable=True)
        block.origin = self._followed
        block.size_bytes = self._layout.capacity_bytes(size_bytes)
        self._number(block)
        self.roots.append(block)
        self.placed = block

    def _number(self, obj: ShadowObject) -> None:
        self._filled += 1
        obj.contents = self._filled

    def _switch_sampling(self, action: Any) -> None:  # noqa: ANN401 - any that does
        match action.sampling:
            case "starts":
                self.sampling_bytes, self.paused_bytes = action.period_bytes, None
            case "stops":
                self.sampling_bytes = self.paused_bytes = None
            case "pauses" if self.sampling_bytes is not None:
                self.sampling_bytes, self.paused_bytes = None, self.sampling_bytes
            case "resumes" if self.paused_bytes is not None:
                self.sampling_bytes, self.paused_bytes = self.paused_bytes, None
            case "sets period" if self.sampling_bytes is not None:
                self.sampling_bytes = action.period_bytes
            case "sets period" if self.paused_bytes is not None:
                self.paused_bytes = action.period_bytes

    def _on_end_thread(self, action: actions.EndThread) -> None:
        self.ended_threads.add(action.thread)

    def _on_realloc(self, action: actions.Realloc) -> None:
        self.placed = self.roots[action.root]
        self.placed.number = action.size_bytes

    def _on_pin(self, action: actions.Pin) -> None:
        obj = self.roots[action.root]
        obj.pinned = True
        self.pinned.append(obj)

    def _on_unpin(self, action: actions.Unpin) -> None:
        obj = self.roots[action.root]
        obj.pinned = False
        self.pinned.remove(obj)

    def _on_register_finalizer(self, action: actions.RegisterFinalizer) -> None:
        self.finalizers.register(action.number, self.roots[action.root])

    def _on_unregister_finalizer(self, action: actions.UnregisterFinalizer) -> None:
        self.finalizers.unregister(self.roots[action.root])

    def _on_resurrect(self, action: actions.Resurrect) -> None:
        self.roots.append(self.finalizers.registered[action.number])

    def _on_set_callback(self, action: actions.SetCallback) -> None:
        length = action.length
        self.callback_bytes = (
            0 if length is None else self._layout.cost("string", length, nonmovable=False)[0]
        )

    def _on_add_memory_pressure(self, action: actions.AddMemoryPressure) -> None:
        self.collection_may_be_due = True

    def _on_load_prebuilt(self, action: actions.LoadPrebuilt) -> None:
        self.roots.append(self.prebuilt[action.index])

    def _on_free(self, action: actions.Free) -> None:
        self.freed = self.roots.pop(action.root)

    def _on_read(self, action: actions.Read) -> None:
        found = self.roots[action.root].refs[action.field]
        if found is not None:
            self.roots.append(found)

    def _on_read_weakref(self, action: actions.ReadWeakref) -> None:
        weakref = self.roots[action.root]
        target = weakref.target
        if action.keep and target is not None:
            is_alive = target.age is not DEAD if self._alive is None else self._alive
            kept = self.finalizers.original(target) if is_alive else weakref
            self.roots.append(kept)
            # They are reachable again, perhaps not for long.
            returned = self._closure([kept]) if self._unreachable or self.finalizers.delayed else ()
            for obj in returned:
                self._unreachable.pop(obj, None)
            self.finalizers.returned(returned)

    def _on_write(self, action: actions.Write) -> None:
        obj = self.roots[action.root]
        obj.refs[action.field] = None if action.value is None else self.roots[action.value]
        self._note_written(obj)

    def _note_written(self, obj: ShadowObject) -> None:
        obj.refers = True
        if obj.age is OLD:
            self._written.append(obj)

    def _on_write_number(self, action: actions.WriteNumber) -> None:
        self.roots[action.root].number = action.number

    def _on_copy_array(self, action: actions.CopyArray) -> None:
        source, dest = self.roots[action.source], self.roots[action.dest]
        items = source.refs[action.source_start : action.source_start + action.length]
        dest.refs[action.dest_start : action.dest_start + action.length] = items
        self._note_written(dest)

    def _on_fill_array(self, action: actions.FillArray) -> None:
        array = self.roots[action.root]
        value = None if action.value is None else self.roots[action.value]
        array.refs[:] = [value] * len(array.refs)
        self._note_written(array)

    def _on_move_array(self, action: actions.MoveArray) -> None:
        array = self.roots[action.root]
        items = array.refs[action.source_start : action.source_start + action.length]
        array.refs[action.dest_start : action.dest_start + action.length] = items
        self._note_written(array)

    def _collect_full(self, action: Action) -> None:
        """What nothing keeps is dead. Only weak references and ephemerons can show that."""
        self.ended_threads.discard(action.thread)  # BeginThread collects too.
        self._survivor_bytes = 0
        finalizers = self.finalizers
        are_kept_once = finalizers.keeps_once or finalizers.kept_once
        if not (self.weak_targets or self.pinned or finalizers.ephemerons or are_kept_once):
            return
        living = self.living()
        self.pinned = [obj for obj in self.pinned if obj in living]
        watched = [*self.weak_targets, *filter(None, (e.target for e in finalizers.ephemerons))]
        perhaps = self._perhaps_living(living, watched)
        finalizers.found_dead(perhaps, lambda obj: self._closure([*perhaps, obj]))
        # What is kept once may have been found dead before: Lua collects if an allocation fails.
        perhaps = self.with_kept_once(perhaps)
        finalizers.decide(perhaps)
        finalizers.clear_ephemerons(perhaps)
        if self._is_soft and not isinstance(action, Exhausted):
            return
        for target in self.weak_targets:
            if target not in perhaps:
                target.age = DEAD
        self.weak_targets = [obj for obj in self.weak_targets if obj.age is not DEAD]

    def _perhaps_living(
        self, living: set[ShadowObject], watched: Iterable[ShadowObject]
    ) -> set[ShadowObject]:
        """The living objects after a full collection, and the watched ones that may stay longer."""
        if self._dead_within == 1:
            return living
        dead = {obj for obj in watched if obj not in living}
        self._unreachable = {obj: self._unreachable.get(obj, 0) + 1 for obj in dead}
        within = self._dead_within or math.inf
        return living | {obj for obj, times in self._unreachable.items() if times < within}

    def with_kept_once(self, living: set[ShadowObject]) -> set[ShadowObject]:
        """These, and what lives until the next full collection since a finalizer was taken back."""
        kept = self.finalizers.kept_once
        return self._closure([*living, *kept]) if kept else living

    # What collections do.

    def _weakrefs_may_be_cleared(self) -> None:
        finalizers, living = self.finalizers, self.living()
        once = [*finalizers.keeps_once, *finalizers.kept_once]
        once_kept = self._closure([*living, *once]) if once else living
        finalizers.collected(self.reachable(), living, once_kept)

    def _collect_minor(self) -> None:
        """Young objects survive exactly when reachable from the roots or from an old object.

        One with a finalizer survives too, and so do the key and the value of an ephemeron. The
        value of a dead ephemeron may survive, since a runtime may keep the pair outside the nursery
        (OCaml).

        An old object can refer to a young one only if it was written since the last minor
        collection, so the walk starts from these. The exception is a pinned object that survived
        before: its holder may be an old object that is dead, so it counts as old. So does an object
        that a weak reference may keep alive. The next full collection decides about both.
        """
        if self.young:
            self._age(self.roots)
            self._age(self.finalizers.keeping())
            for obj in self._written:
                self._age(obj.refs)
            self._age(self.finalizers.values(), surely=False)
            self._age(self.finalizers.keeps_once, surely=False)
            is_open = self._is_soft or self._dead_within != 1
            fate = OLD if is_open or self._survivors_may_overflow() else DEAD
            for obj in self.young:
                if obj.age is YOUNG:
                    obj.age = OLD if obj.survived else fate
        self._written = []
        self.young = self._remaining_young() if self.pinned else []
        self.has_obstacles = bool(self.pinned)
        self.collection_may_be_due = False

    def _survivors_may_overflow(self) -> bool:
        """Count the survivors; whether one may be a weak reference that is old at once."""
        if self._survivor_bytes_max is None:
            return False
        self._survivor_bytes += sum(obj.size_bytes for obj in self.young if obj.age is OLD)
        return self._survivor_bytes > self._survivor_bytes_max

    def _age(self, refs: Iterable[ShadowObject | None], *, surely: bool = True) -> None:
        """Make the young objects among these old, and all young objects that they lead to.

        Unless `surely`, they may be dead instead.
        """
        pending = [ref for ref in filter(None, refs) if ref.age is YOUNG]
        while pending:
            obj = pending.pop()
            if obj.age is YOUNG:
                obj.age = OLD
                obj.survived |= surely
                if obj.refers:
                    pending.extend(filter(None, obj.refs or (obj.target, obj.value)))

    def _remaining_young(self) -> list[ShadowObject]:
        """The pinned objects, which stay in the nursery until the next minor collection.

        A pinned object that only dead objects refer to dies when a major collection frees those.
        The mutator cannot observe that, so nothing is expected of it any more: it is old.
        """
        living = self.living()
        self.pinned = [obj for obj in self.pinned if obj.age is not DEAD]
        young = [obj for obj in self.pinned if obj in living]
        for obj in young:
            obj.age = YOUNG
        return young

    # What follows only from the answers of the target; the oracles call these.

    def lose(self, obj: ShadowObject) -> None:
        """An unreachable object is dead."""
        obj.age = DEAD

    def lose_value(self, ephemeron: ShadowObject) -> None:
        """An ephemeron was found without its value."""
        ephemeron.value = None

    def resize(self, block: ShadowObject, requested_bytes: int) -> None:
        """A block that moved has room for that many bytes."""
        block.size_bytes = self._layout.capacity_bytes(requested_bytes)

    # Questions.

    def members(self, action: Action) -> list[ShadowObject]:
        """The objects that the last action allocated."""
        return self.roots[-actions.objects_of(action) :]

    def reachable(self) -> set[ShadowObject]:
        """All objects that the mutator can reach, also by ephemerons or by resurrecting them."""
        self.graph()
        if not (self.finalizers.kept or self.finalizers.ephemerons):
            return {*self._walked}
        return self._closure([*self._walked, *self.finalizers.kept.values()])

    def living(self) -> set[ShadowObject]:
        """These objects, and those that objects with a finalizer keep alive."""
        return self.reachable_with(self.finalizers.keeping())

    def reachable_with(self, others: Iterable[ShadowObject]) -> set[ShadowObject]:
        """All objects that would be reachable if these were."""
        reachable = self.reachable()
        more = [obj for obj in others if obj not in reachable]
        return self._closure([*reachable, *more]) if more else reachable

    def _closure(self, objects: Iterable[ShadowObject]) -> set[ShadowObject]:
        """All objects to which these lead."""
        found: dict[ShadowObject, None] = {}
        pending = list(objects)
        while pending:
            found.update(dict.fromkeys(pending))
            refs = (ref for obj in pending if obj.refers for ref in obj.refs)
            pending = [ref for ref in refs if ref is not None and ref not in found]
            if not pending:
                pending.extend(self.finalizers.extend_by_values(found))
        return {*found}

    def names(self) -> list[str]:
        """The names of the objects in the rows of `graph`."""
        self.graph()
        return [obj.name for obj in self._walked]

    def filled(self) -> list[ShadowObject]:
        """The strings and blocks that the mutator can reach, in the order of `graph`."""
        self.graph()
        return [obj for obj in self._walked if obj.contents]

    def graph(self) -> list[list[int]]:
        """What a walk through the target's heap must find; see Observation.graph."""
        if self._graph is None:
            self._graph = self._walk()
        return self._graph

    def _walk(self) -> list[list[int]]:
        self._walked = queue = list(dict.fromkeys(self.roots + self.prebuilt))
        numbers: dict[ShadowObject, int] = {}
        graph = []
        for obj in queue:  # The queue grows.
            row = [obj.type_index, obj.number]
            graph.append(row)
            refs = obj.refs
            if obj.refers and any(refs):
                numbers = numbers or dict(zip(queue, range(len(queue)), strict=True))
                for field, ref in compress(enumerate(refs), refs):  # Most of them are null.
                    assert ref is not None
                    number = numbers.setdefault(ref, len(queue))
                    if number == len(queue):
                        queue.append(ref)
                    row += field, number
        return graph
