"""The samples of a program: the event of each names the line of an action that allocates.

A compiler may leave an object out, so there is at most one event for each. One that it left out is
allocated if the machine code is left, and its event names the place where that happens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from fuzz.protocol.actions import Action
from fuzz.protocol.layout import Layout
from fuzz.targets.hotspot.java_machine import JavaError, JavaMachine
from fuzz.targets.hotspot.program_contract import DEOPTIMIZE, LINES
from fuzz.targets.hotspot.trace_method import LINE_OF_FIRST, LINE_OF_TRAP, LINE_OF_WEAK


class AllocatedObject(NamedTuple):
    """What an action allocates."""

    kind: int
    """A reference to the class."""
    size_bytes: int


def allocation_of(
    action: Action, classes: Mapping[str, int], layout: Layout
) -> AllocatedObject | None:
    """What an action allocates, if it does that; `classes` are those of the kinds."""
    if action.kind is None or not action.allocates:
        return None
    size_bytes, _ = layout.cost(action.kind, getattr(action, "length", 0), nonmovable=False)
    return AllocatedObject(classes[action.kind], size_bytes)


def lines_of_left_out(settings: Mapping[str, int], is_generational_z: bool) -> Container[int]:
    """The lines that the event of an object may have that was left out: where code is left."""
    if settings.get(LINES.name):
        return ()
    if settings["callback"] == DEOPTIMIZE or is_generational_z:
        return range(LINE_OF_TRAP + 1)  # At any event.
    return (LINE_OF_TRAP,)


class ProgramSamples:
    """The events of one program."""

    def __init__(
        self,
        machine: JavaMachine,
        method: int,
        allocations: Sequence[AllocatedObject | None],
        moved_to: Container[int],
    ) -> None:
        """`allocations` are those of the program's actions.

        The event of an object that was left out may have the lines `moved_to`.
        """
        self._machine, self._method = machine, method
        self._allocations, self._moved_to = allocations, moved_to
        self._sampled: set[int] = set()
        self.is_counted = False
        """Whether each object is sampled, so that the number of samples does not depend on chance.
        """
        self.counted: list[int] = []
        """The numbers of the actions whose own lines had an event meanwhile."""
        self.at = 0
        """The number of the action, or of none, whose line the last event had."""
        self._newest = 0
        self._starts, self._lines = zip(*machine.lines_of(method), strict=True)

    def add(self, env: int, kind: int, size_bytes: int) -> bool:
        """Add an event; returns whether it is that of an object that was left out.

        Raises JavaError if no action of the program can have it.
        """
        method, place = self._machine.caller()
        if method != self._method:
            raise JavaError("the event of a sample is that of another method")
        line: int = self._lines[bisect_right(self._starts, place) - 1]
        if line == LINE_OF_WEAK:
            return False
        self.at = number = line - LINE_OF_FIRST
        if not self._problem(number, env, kind, size_bytes):
            if number < self._newest:
                raise JavaError(f"the event of a sample at line {line} comes after a later one")
            self._newest = number
            if self.is_counted:
                self.counted.append(number)
        elif line in self._moved_to:
            number = next(self._left_out(env, kind, size_bytes), -1)
            if number < 0:
                raise JavaError(f"no action has the object that is sampled at line {line}")
        else:
            problem = self._problem(number, env, kind, size_bytes)
            raise JavaError(f"the event of a sample at line {line} has another {problem}")
        self._sampled.add(number)
        return number != line - LINE_OF_FIRST

    def _left_out(self, env: int, kind: int, size_bytes: int) -> Iterator[int]:
        """The actions whose object this may be, if the compiler had left it out."""
        for number in range(len(self._allocations)):
            if not self._problem(number, env, kind, size_bytes):
                yield number

    def _problem(self, number: int, env: int, kind: int, size_bytes: int) -> str | None:
        """What differs between an event and the object that an action allocates."""
        known = 0 <= number < len(self._allocations)
        expected = self._allocations[number] if known else None
        if expected is None:
            return "line"
        if not self._machine.jni.IsSameObject(env, kind, expected.kind):
            return "class"
        if size_bytes != expected.size_bytes:
            return "size"
        return "object" if number in self._sampled else None
