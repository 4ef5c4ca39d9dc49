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
    AllocateArray,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    CollectFull,
    CopyArray,
    Free,
    LoadPrebuilt,
    Read,
    Write,
    WriteNumber,
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
    """

    __slots__ = (
        "age",
        "kind",
        "number",
        "outside",
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
        self.number = number  # a node's integer, a string's or array's length
        self.refs: list[ShadowObject | None] = [None] * references
        self.size_bytes, self.outside = cost
        self.age = Age.YOUNG
        self.survived = False
        self.target: ShadowObject | None = None


class Shadow:
    """The mutator's view of one heap."""

    def __init__(self, contract: Contract) -> None:
        self._layout = contract.layout
        self.roots: list[ShadowObject] = []
        self.prebuilt = [self._immortal(each.kind, each.length) for each in contract.prebuilt]
        self.young: list[ShadowObject] = []
        self._written: list[ShadowObject] = []
        self._weak_targets: list[ShadowObject] = []
        self._effects: dict[type[Action], Callable[..., None]] = {
            AllocateNode: self._allocate_node,
            AllocateString: self._allocate_string,
            AllocateArray: self._allocate_array,
            AllocateWeakref: self._allocate_weakref,
            LoadPrebuilt: self._load_prebuilt,
            Free: self._free,
            Read: self._read,
            Write: self._write,
            WriteNumber: self._write_number,
            CopyArray: self._copy_array,
            CollectFull: self._collect_full,
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
        self._weak_targets.append(target)

    def _add(self, kind: str, number: int, references: int, length: int, nonmovable: bool) -> None:
        obj = self._object(kind, number, references, length, nonmovable)
        self.roots.append(obj)
        self.young.append(obj)

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
        collection, so these are all the old objects to start from.
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
                obj.age = Age.DEAD
        self.young = []
        self._written = []

    def _collect_full(self, action: CollectFull) -> None:
        """What is unreachable is dead. Only weak references could still tell."""
        if self._weak_targets:
            reachable = self.reachable()
            for target in self._weak_targets:
                if target not in reachable:
                    target.age = Age.DEAD
            self._weak_targets = [obj for obj in self._weak_targets if obj.age is not Age.DEAD]

    # Questions.

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
