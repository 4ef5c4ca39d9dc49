"""The shadow heap: what the mutator knows of its objects without looking at the target.

It follows the actions alone, and of the observations only whether a minor collection took place.
Young and old mean here what they mean to every generational collector: an object is old once it
has survived a minor collection. Invariant: `roots` corresponds slot by slot to the target's.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from fuzz.actions import (
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    Calloc,
    CollectFull,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Fork,
    Free,
    LoadPrebuilt,
    Malloc,
    PauseSampling,
    Pin,
    Read,
    Realloc,
    ResumeSampling,
    SetCallback,
    SetPeriod,
    Unpin,
    Write,
    WriteNumber,
    requested_bytes,
)
from fuzz.contract import Contract

NODE_REFERENCES = 2


class Age(IntEnum):
    """How long an object has lived. A dead one is known to be dead."""

    YOUNG = 0
    OLD = 1
    DEAD = 2


class ShadowObject:
    """An object as the mutator sees it. `refs` are strong references, `target` a weak one.

    `survived` is whether it came through its first minor collection, whatever became of it later.
    `pinned` is what the mutator last asked for.
    """

    __slots__ = (
        "age",
        "kind",
        "number",
        "outside",
        "pinned",
        "refs",
        "size_bytes",
        "survived",
        "target",
        "type_index",
    )

    def __init__(
        self,
        kind: str,
        type_index: int,
        number: int,
        references: int,
        cost: tuple[int, bool],
    ) -> None:
        self.kind = kind
        self.type_index = type_index
        self.number = number  # a node's integer, a string's, array's or block's length
        self.refs: list[ShadowObject | None] = [None] * references
        self.size_bytes, self.outside = cost
        self.age = Age.YOUNG
        self.survived = False
        self.pinned = False
        self.target: ShadowObject | None = None

    @property
    def is_in_nursery(self) -> bool:
        """Whether it can still move. One that is pinned stays young."""
        return self.age is Age.YOUNG and not self.outside


class Shadow:
    """The mutator's view of one heap."""

    def __init__(self, contract: Contract) -> None:
        self._layout = contract.layout
        self.roots: list[ShadowObject] = []
        self.prebuilt = [self._immortal(each.kind, each.length) for each in contract.prebuilt]
        self.young: list[ShadowObject] = []
        self.sampling_bytes = contract.sampling.initial_period_bytes
        self.paused_bytes = 0
        self.callback_bytes = 0
        # Those that may be alive.
        self.pinned: list[ShadowObject] = []
        self.has_barriers = False
        self.collection_may_be_due = False
        self._written: list[ShadowObject] = []
        self.weak_targets: list[ShadowObject] = []
        self._effects: dict[type[Action], Callable[..., None]] = {
            AllocateNode: self._allocate_node,
            AllocateString: self._allocate_string,
            AllocateArray: self._allocate_array,
            AllocateWeakref: self._allocate_weakref,
            Malloc: self._allocate_block,
            Calloc: self._allocate_block,
            Realloc: self._reallocate,
            LoadPrebuilt: self._load_prebuilt,
            Free: self._free,
            Read: self._read,
            Write: self._write,
            WriteNumber: self._write_number,
            CopyArray: self._copy_array,
            CollectFull: self._collect_full,
            AllocateOldString: self._allocate_old_string,
            Pin: self._pin,
            Unpin: self._unpin,
            SetCallback: self._set_callback,
            AddMemoryPressure: self._add_memory_pressure,
            EnableSampling: self._enable_sampling,
            DisableSampling: self._disable_sampling,
            PauseSampling: self._pause_sampling,
            ResumeSampling: self._resume_sampling,
            SetPeriod: self._set_period,
            Fork: self._disable_sampling,
        }

    def _immortal(self, kind: str, length: int) -> ShadowObject:
        references = NODE_REFERENCES if kind == "node" else length
        obj = self._object(kind, length, references, length, nonmovable=True)
        obj.age = Age.OLD
        return obj

    def _object(
        self, kind: str, number: int, references: int, length: int, nonmovable: bool
    ) -> ShadowObject:
        type_index = self._layout.kinds[kind].type_index
        cost = self._layout.cost(kind, length, nonmovable)
        return ShadowObject(kind, type_index, number, references, cost)

    def follow(self, action: Action, minors: int) -> None:
        """The target carried out `action`, and first so many minor collections."""
        if minors:
            self._collect_minor()
            self.collection_may_be_due = False
            if self.pinned:
                self._keep_pinned()
            self.has_barriers = bool(self.pinned)
        effect = self._effects.get(type(action))
        if effect is not None:
            effect(action)

    # What each action does.

    def _allocate_node(self, action: AllocateNode) -> None:
        self._add("node", action.number, NODE_REFERENCES, 0, action.nonmovable)

    def _allocate_string(self, action: AllocateString) -> None:
        self._add("string", action.length, 0, action.length, action.nonmovable)

    def _allocate_array(self, action: AllocateArray) -> None:
        self._add("array", action.length, action.length, action.length, action.nonmovable)

    def _allocate_weakref(self, action: AllocateWeakref) -> None:
        target = self.roots[action.root]
        self._add("weakref", 0, 0, 0, nonmovable=False)
        self.roots[-1].target = target
        self.weak_targets.append(target)

    def _add(self, kind: str, number: int, references: int, length: int, nonmovable: bool) -> None:
        obj = self._object(kind, number, references, length, nonmovable)
        self.roots.append(obj)
        self.young.append(obj)

    def _allocate_old_string(self, action: AllocateOldString) -> None:
        obj = self._object("string", action.length, 0, action.length, nonmovable=True)
        obj.age = Age.OLD
        obj.survived = True
        self.roots.append(obj)

    def _allocate_block(self, action: Malloc | Calloc) -> None:
        size_bytes = requested_bytes(action)
        block = self._object("block", size_bytes, 0, size_bytes, nonmovable=True)
        block.size_bytes = self._layout.room_bytes(size_bytes)
        self.roots.append(block)

    def _reallocate(self, action: Realloc) -> None:
        self.roots[action.root].number = action.size_bytes

    def _pin(self, action: Pin) -> None:
        obj = self.roots[action.root]
        obj.pinned = True
        self.pinned.append(obj)

    def _unpin(self, action: Unpin) -> None:
        obj = self.roots[action.root]
        obj.pinned = False
        self.pinned.remove(obj)

    def _set_callback(self, action: SetCallback) -> None:
        length = action.length
        self.callback_bytes = (
            0 if length is None else self._layout.cost("string", length, nonmovable=False)[0]
        )

    def _add_memory_pressure(self, action: AddMemoryPressure) -> None:
        self.collection_may_be_due = True

    # Sampling, as the mutator asked for it.

    def _enable_sampling(self, action: EnableSampling) -> None:
        self.sampling_bytes, self.paused_bytes = action.period_bytes, 0

    def _disable_sampling(self, action: Action) -> None:
        self.sampling_bytes = self.paused_bytes = 0

    def _pause_sampling(self, action: PauseSampling) -> None:
        self.paused_bytes = self.sampling_bytes or self.paused_bytes
        self.sampling_bytes = 0

    def _resume_sampling(self, action: ResumeSampling) -> None:
        if self.paused_bytes:
            self.sampling_bytes, self.paused_bytes = self.paused_bytes, 0

    def _set_period(self, action: SetPeriod) -> None:
        if self.sampling_bytes:
            self.sampling_bytes = action.period_bytes
        elif self.paused_bytes:
            self.paused_bytes = action.period_bytes

    def _load_prebuilt(self, action: LoadPrebuilt) -> None:
        self.roots.append(self.prebuilt[action.index])

    def _free(self, action: Free) -> None:
        del self.roots[action.root]

    def _read(self, action: Read) -> None:
        found = self.roots[action.root].refs[action.field]
        if found is not None:
            self.roots.append(found)

    def _write(self, action: Write) -> None:
        obj = self.roots[action.root]
        obj.refs[action.field] = None if action.value is None else self.roots[action.value]
        if obj.age is Age.OLD:
            self._written.append(obj)

    def _write_number(self, action: WriteNumber) -> None:
        self.roots[action.root].number = action.number

    def _copy_array(self, action: CopyArray) -> None:
        source, dest = self.roots[action.source], self.roots[action.dest]
        items = source.refs[action.source_start : action.source_start + action.length]
        dest.refs[action.dest_start : action.dest_start + action.length] = items
        if dest.age is Age.OLD:
            self._written.append(dest)

    # What collections do.

    def _collect_minor(self) -> None:
        """Young objects survive exactly when reachable from the roots or from an old object.

        An old object can only refer to a young one if it was written since the last minor
        collection, so these are all the old objects to start from. Or else the young one is pinned,
        which has survived before and refers to nothing.
        """
        pending = [obj for obj in self.roots if obj.age is Age.YOUNG]
        for obj in self._written:
            pending.extend([ref for ref in obj.refs if ref is not None and ref.age is Age.YOUNG])
        while pending:
            obj = pending.pop()
            if obj.age is Age.YOUNG:
                obj.age = Age.OLD
                obj.survived = True
                pending.extend([ref for ref in obj.refs if ref is not None])
        for obj in self.young:
            if obj.age is Age.YOUNG:
                # One that was pinned before may yet be held by an old object that is dead itself.
                obj.age = Age.OLD if obj.survived else Age.DEAD
        self.young = []
        self._written = []

    def _keep_pinned(self) -> None:
        """Pinned objects that survived stay in the nursery, and the next minor collection decides.

        One that only dead objects can refer to dies when a major collection frees those; of that
        the mutator knows nothing, so nothing is expected of it any more.
        """
        reachable = self.reachable()
        self.pinned = [obj for obj in self.pinned if obj.age is not Age.DEAD]
        for obj in self.pinned:
            obj.age = Age.YOUNG if obj in reachable else Age.OLD
        self.young = [obj for obj in self.pinned if obj.age is Age.YOUNG]

    def _collect_full(self, action: CollectFull) -> None:
        """What is unreachable is dead. Only weak references could still tell."""
        if self.weak_targets or self.pinned:
            reachable = self.reachable()
            self.pinned = [obj for obj in self.pinned if obj in reachable]
            for target in self.weak_targets:
                if target not in reachable:
                    target.age = Age.DEAD
            self.weak_targets = [obj for obj in self.weak_targets if obj.age is not Age.DEAD]

    # Questions.

    def placed_by(self, action: Action) -> ShadowObject:
        """What the last action, which allocated or resized, made or made anew."""
        return self.roots[action.root if isinstance(action, Realloc) else -1]

    def reachable(self) -> set[ShadowObject]:
        """All objects that the mutator can reach."""
        reached = {*self.roots, *self.prebuilt}
        pending = list(reached)
        while pending:
            new = {ref for ref in pending.pop().refs if ref is not None} - reached
            reached |= new
            pending.extend(new)
        return reached

    def graph(self) -> list[list[int]]:
        """What a walk through the target's heap must find; see Observation.graph."""
        queue = list(dict.fromkeys(self.roots + self.prebuilt))
        numbers = dict(zip(queue, range(len(queue)), strict=True))
        graph = []
        for obj in queue:
            row = [obj.type_index, obj.number]
            graph.append(row)
            if any(obj.refs):  # Most references of most objects are null.
                for field, ref in enumerate(obj.refs):
                    if ref is not None:
                        number = numbers.setdefault(ref, len(queue))
                        if number == len(queue):
                            queue.append(ref)
                        row += (field, number)
        return graph
