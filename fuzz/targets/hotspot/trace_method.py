"""A trace as one method in bytecode: its roots are local variables.

The method carries out each action once. A read compares what it finds with what the actions wrote,
and shows it only if it differs. All roots are shown where the heap is checked, and at the end.
Invariants: each action has a line of its own, and a local variable holds objects of one kind only,
as the compilers expect of verified code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.targets.hotspot.answers import MEMBERS, SHOWN_TOGETHER
from fuzz.targets.hotspot.assembler import FIELD, METHOD, Members
from fuzz.targets.hotspot.class_file import NEXT, NODE, NUMBER, OBJECT, PREV

RUN = "run"
"""The name of the method."""
LINE_OF_FIRST, LINE_OF_WEAK, LINE_OF_TRAP = 1, 0xFFFE, 0xFFFF
"""The line of the first action, and of allocations that belong to none. Line 0 is what comes
before."""
WEAK_REFERENCE = "java/lang/ref/WeakReference"
FOUND, NUMBER_FOUND, COUNTER, LOCK, HELD, WEAK, FIRST_LOCAL = 0, 1, 3, 4, 5, 6, 7
"""Local variables: what a read has found, a loop's counter, a lock, an object and a weak reference
to it; the first root."""
PART_STARTS = (0, 4, 12, 28)
"""The first action of each part. A trimming is around one of them. A trace that is cut behind its
first wrong answer has the same trimmings up to there."""
PARTS = len(PART_STARTS)
TRIMMINGS = ("weak", "loop", "branch", "catching", "locked", "trap")
"""The settings that say around which part something is, from 1; 0 for none. The innermost first."""
CALLS = "calls"
"""The setting that says in which part a call follows each action."""
STRING_CODES = {1: 8, 8: 11}
"""The operand of `newarray` by the size of an item."""
ITEMS = {1: "[B", 8: "[J"}


@attrs.define(eq=False)
class Expected:
    """An object as the actions left it."""

    kind: str
    number: int
    refs: list[Expected | None]


@attrs.frozen
class Root:
    """A root: what it must be, and the local variable that has it."""

    obj: Expected
    local: int


class TraceMethod:
    """The code of `run` for a trace. Raises IndexError if a root does not exist."""

    def __init__(
        self, trace: Sequence[Action], settings: Mapping[str, int], node: str = NODE
    ) -> None:
        self._node, self._item_bytes = node, settings["string_item_bytes"]
        self._settings = settings
        self._roots: list[Root] = []
        self._free: dict[str, list[int]] = {}
        self._labels = 0
        self._next_local = FIRST_LOCAL
        self.expected: dict[int, int | None] = {}
        """What reads must answer, by the numbers of their actions."""
        self._kinds = {"node": node, "string": ITEMS[self._item_bytes], "array": f"[L{OBJECT}"}
        self.lines = [[*self._line(number, action)] for number, action in enumerate(trace)]
        self._end = [
            f"line {len(trace) + LINE_OF_FIRST}",
            *self._show_roots(),
            *_tell(len(trace), "lconst_0"),
        ]

    @property
    def traps_at(self) -> int:
        """The first action after the trap, where machine code of C2 is left."""
        part = self._settings["trap"]
        return min(PART_STARTS[part - 1], len(self.lines)) if part else len(self.lines) + 1

    def is_locked(self, number: int) -> bool:
        """Whether the program has its lock at an action."""
        part = self._settings["locked"]
        start, end = (*PART_STARTS, None)[part - 1 : part + 1] if part else (0, 0)
        return number in range(len(self.lines))[start:end]

    @property
    def code(self) -> str:
        """The method. Its first round must not see the objects of the round before."""
        end = max(self._next_local, FIRST_LOCAL + 1)  # A weak reference refers to the first one.
        nothing = [f"aconst_null; astore {each}" for each in range(FIRST_LOCAL, end)]
        again = "invokestatic again; ifne round" if self._settings["rounds_inside"] else ""
        body = [line for part in range(PARTS) for line in self._trimmed(part)]
        lines = ("line 0", "round: iconst_0; istore 3", *nothing, *body, *self._end, again)
        return "\n".join((*lines, "return"))

    @property
    def members(self) -> Members:
        """What the code refers to."""
        fields = (("number", NUMBER), ("prev", PREV), ("next", NEXT))
        return {
            **{name: (FIELD, NODE, *field) for name, field in fields},
            **MEMBERS,
            "copy": (METHOD, "java/lang/System", "arraycopy", f"(L{OBJECT};IL{OBJECT};II)V"),
            "hash": (METHOD, "java/lang/System", "identityHashCode", f"(L{OBJECT};)I"),
            "refer": (METHOD, WEAK_REFERENCE, "<init>", f"(L{OBJECT};)V"),
            "referent": (METHOD, WEAK_REFERENCE, "get", f"()L{OBJECT};"),
        }

    def _trimmed(self, part: int) -> list[str]:
        """The actions of one part, with what is around them."""
        start, end = (*PART_STARTS, None)[part : part + 2]
        around = {name for name, chosen in self._settings.items() if chosen == part + 1}
        # A call that is not inlined spills registers.
        calls = ["invokestatic call"] if CALLS in around else []
        code = [line for action in self.lines[start:end] for line in (*action, *calls)]
        for name in TRIMMINGS:
            if name in around:
                code = getattr(self, f"_{name}")(code)
        return code

    # What may be around a part.

    def _weak(self, code: list[str]) -> list[str]:
        """A weak reference to an object that the method has, and so must the reference later."""
        [end] = self._new_labels(1)
        return [
            f"line {LINE_OF_WEAK}; aload {FIRST_LOCAL}; astore {HELD}",
            f"new {WEAK_REFERENCE}; dup; aload {HELD}; invokespecial refer; astore {WEAK}",
            *code,
            f"aload {WEAK}; invokevirtual referent; aload {HELD}; if_acmpeq {end}",
            f"aconst_null; athrow; {end}:",
        ]

    def _loop(self, code: list[str]) -> list[str]:
        """A loop. Only one of its rounds carries the actions out."""
        start, skip, end = self._new_labels(3)
        return [
            f"getstatic rounds; istore {COUNTER}",
            f"{start}: iload {COUNTER}; ifle {end}",
            f"iload {COUNTER}; getstatic round; if_icmpne {skip}",
            *code,
            f"{skip}: iinc {COUNTER} -1; goto {start}",
            f"{end}:",
        ]

    def _branch(self, code: list[str]) -> list[str]:
        """A branch that is taken each time."""
        [end] = self._new_labels(1)
        return [f"getstatic taken; ifeq {end}", *code, f"{end}:"]

    def _catching(self, code: list[str]) -> list[str]:
        """A handler of the exception that is thrown after the part."""
        start, end, handler = self._new_labels(3)
        return [
            f"{start}:",
            *code,
            "getstatic thrown; athrow",
            f"{end}:",
            f"{handler}: astore {FOUND}",
            f"aload {FOUND}; getstatic thrown; if_acmpeq {handler}_end; aload {FOUND}; athrow",
            f"{handler}_end: catch {start} {end} {handler}",
        ]

    def _locked(self, code: list[str]) -> list[str]:
        """A lock. As compilers of Java do, a handler unlocks it."""
        start, end, handler = self._new_labels(3)
        unlock = f"aload {LOCK}; monitorexit"
        return [
            f"getstatic thrown; astore {LOCK}; aload {LOCK}; monitorenter",
            f"{start}:",
            *code,
            f"{end}: {unlock}; goto {handler}_end",
            f"{handler}: astore {FOUND}; {unlock}; aload {FOUND}; athrow",
            f"{handler}_end: catch {start} {end} {handler}",
        ]

    def _trap(self, code: list[str]) -> list[str]:
        """A branch that is taken in the last round only. Every second root escapes there."""
        [end] = self._new_labels(1)
        escaping = [
            f"aload {local}; invokestatic escape"
            for local in range(FIRST_LOCAL, self._next_local, 2)
        ]
        return [f"line {LINE_OF_TRAP}; getstatic rare; ifeq {end}", *escaping, f"{end}:", *code]

    # Actions.

    def _line(self, number: int, action: Action) -> Iterator[str]:
        """The code of an action."""
        yield f"line {number + LINE_OF_FIRST}"
        match action:
            case actions.Free():
                root = self._roots.pop(action.root)
                self._free.setdefault(root.obj.kind, []).append(root.local)
            case actions.Read():
                yield from self._read(number, action)
            case actions.ReadNumber():
                yield from self._read_number(number, action)
            case actions.Write():
                yield from self._write(action)
            case actions.WriteNumber():
                root = self._roots[action.root]
                root.obj.number = action.number
                yield f"aload {root.local}; ldc2_w {action.number}; putfield number"
            case actions.CopyArray():
                yield from self._copy(action)
            case _ if action.allocates:
                yield from self._allocate(action)
            case _:
                yield from self._ask(number, action)

    def _allocate(self, action: Action) -> Iterator[str]:
        match action:
            case actions.AllocateNode():
                new = self._add("node", action.number, 2)
                yield f"new {self._node}; astore {new}"
                yield f"aload {new}; ldc2_w {action.number}; putfield number"
            case actions.AllocateString():
                new = self._add("string", action.length, 0)
                code = STRING_CODES[self._item_bytes]
                yield f"sipush {action.length}; newarray {code}; astore {new}"
            case actions.AllocateArray():
                new = self._add("array", action.length, action.length)
                yield f"sipush {action.length}; anewarray {OBJECT}; astore {new}"

    def _ask(self, number: int, action: Action) -> Iterator[str]:
        """What the driver carries out, or gets."""
        value = "lconst_0"
        match action:
            case actions.TakeIdentity():
                value = f"aload {self._roots[action.root].local}; invokestatic hash; i2l"
            case actions.CheckHeap():
                yield from self._show_roots()
        yield from _tell(number, value)

    def _add(self, kind: str, number: int, references: int) -> int:
        return self._add_root(Expected(kind, number, [None] * references))

    def _add_root(self, obj: Expected) -> int:
        """Append an object to the roots; returns its local variable."""
        unused = self._free.get(obj.kind)
        if unused:
            local = unused.pop()
        else:
            local, self._next_local = self._next_local, self._next_local + 1
        self._roots.append(Root(obj, local))
        return local

    def _place(self, root: int, field: int) -> tuple[str, Expected | None]:
        """The code that loads an object, and an item's index; what the field has."""
        holder = self._roots[root]
        index = f"; sipush {field}" if holder.obj.kind == "array" else ""
        return f"aload {holder.local}{index}", holder.obj.refs[field]

    def _read(self, number: int, action: actions.Read) -> Iterator[str]:
        place, expected = self._place(action.root, action.field)
        is_array = self._roots[action.root].obj.kind == "array"
        load = "aaload" if is_array else f"getfield {('prev', 'next')[action.field]}"
        yield f"{place}; {load}; astore {FOUND}"
        known = [each.local for each in self._roots if each.obj is expected]
        right, wrong = self._new_labels(2)
        if expected is None:
            self.expected[number] = None
            yield f"aload {FOUND}; ifnull {right}"
        elif known:
            objects = [each.obj for each in self._roots]
            self.expected[number] = objects.index(expected)
            yield f"aload {FOUND}; aload {known[0]}; if_acmpeq {right}"
        else:
            self.expected[number] = len(self._roots)
            yield f"aload {FOUND}; ifnull {wrong}"
            locals_of_objects = {each.obj: each.local for each in self._roots}
            for local in locals_of_objects.values():
                yield f"aload {FOUND}; aload {local}; if_acmpeq {wrong}"
            yield f"goto {right}"
        yield f"{wrong}:"
        yield from self._show_roots()
        yield f"aload {FOUND}; invokestatic show"
        yield from _tell(number, "lconst_0")
        yield f"{right}:"
        if expected is not None:
            kind = self._kinds[expected.kind]
            yield f"aload {FOUND}; checkcast {kind}; astore {self._add_root(expected)}"

    def _read_number(self, number: int, action: actions.ReadNumber) -> Iterator[str]:
        root = self._roots[action.root]
        self.expected[number] = root.obj.number
        load = "getfield number" if root.obj.kind == "node" else "arraylength; i2l"
        [right] = self._new_labels(1)
        yield f"aload {root.local}; {load}; lstore {NUMBER_FOUND}"
        yield f"lload {NUMBER_FOUND}; ldc2_w {root.obj.number}; lcmp; ifeq {right}"
        yield from _tell(number, f"lload {NUMBER_FOUND}")
        yield f"{right}:"

    def _write(self, action: actions.Write) -> Iterator[str]:
        place, _ = self._place(action.root, action.field)
        holder = self._roots[action.root].obj
        value = None if action.value is None else self._roots[action.value]
        holder.refs[action.field] = None if value is None else value.obj
        load = "aconst_null" if value is None else f"aload {value.local}"
        is_array = holder.kind == "array"
        store = "aastore" if is_array else f"putfield {('prev', 'next')[action.field]}"
        yield f"{place}; {load}; {store}"

    def _copy(self, action: actions.CopyArray) -> Iterator[str]:
        source, dest = self._roots[action.source], self._roots[action.dest]
        start, to, length = action.source_start, action.dest_start, action.length
        dest.obj.refs[to : to + length] = source.obj.refs[start : start + length]
        yield f"aload {source.local}; sipush {start}; aload {dest.local}; sipush {to}"
        yield f"sipush {length}; invokestatic copy"

    def _show_roots(self) -> Iterator[str]:
        places = [root.local for root in self._roots]
        while len(places) >= SHOWN_TOGETHER:
            several, places = places[:SHOWN_TOGETHER], places[SHOWN_TOGETHER:]
            loads = "; ".join(f"aload {local}" for local in several)
            yield f"{loads}; invokestatic showSeveral"
        for local in places:
            yield f"aload {local}; invokestatic show"

    def _new_labels(self, count: int) -> list[str]:
        self._labels += count
        return [f"l{self._labels - each}" for each in range(count)]


def _tell(number: int, value: str) -> Iterator[str]:
    """Call the driver, with the number of an action and a value."""
    yield f"sipush {number}; {value}; invokestatic tell"
