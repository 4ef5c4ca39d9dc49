"""The call stacks of a program, numbered as they come, and written once each.

    the program ◄── its outermost frame ◄── its callee ◄── … ◄── the frame that allocates

Invariant: a stack has the same number as long as the table lasts, and its caller was written
before it. So a sample is one number. The table is bounded: a program with ever new stacks empties
it now and then, and what comes afterwards is written anew under other numbers.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import TypeVar

import attrs

from gcmodel.profiling.profile import Frame

STACKS_MAX = 2**16
DEPTH_MAX = 512
"""Of a deeper stack the innermost frames are kept, below one that says so."""
LEFT_OUT = Frame("[outer frames left out]", "", 0, 0)
_ROOMS = "memory", "collector", "sampling", "blocks", "profiling"
COLLECTOR = frozenset(
    str(path) for room in _ROOMS for path in (Path(__file__).parents[1] / room).glob("*.py")
)
"""The files whose frames are the recorder's and the collector's own, and not the program's."""

A = TypeVar("A")
T = TypeVar("T")


class StackTable:
    """Numbers for stacks, and for frames. `write` takes the line of each new one."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[int | None, int], int] = {}
        self._frame_numbers, self._stack_numbers = count(), count()

    def clear(self) -> None:
        self._frames.clear()
        self._stacks.clear()

    def number(self, caller: int | None, frame: Frame) -> int:
        """The number of the stack of `frame`, called from the stack `caller`."""
        if frame not in self._frames:
            self._write(json.dumps(["frame", *attrs.astuple(frame)]))
            self._frames[frame] = next(self._frame_numbers)
        stack = caller, self._frames[frame]
        if stack not in self._stacks:
            self._write(json.dumps(["stack", *stack]))
            self._stacks[stack] = next(self._stack_numbers)
        return self._stacks[stack]


class PythonStacks:
    """The stacks of a Python program, from the call of `run` inwards.

    A frame is looked up by its caller's stack, its code and its instruction; only one that is not
    found there is turned into a function's name and a line.
    """

    def __init__(self, write: Callable[[str], None], program: str) -> None:
        self._is_running = False
        self._table = StackTable(write)
        self._program = Frame(program, "", 0, 0)
        self._known: dict[tuple[int, int, int], int] = {}
        # The codes in `_known`, whose numbers others could get if they were freed.
        self._codes: dict[int, CodeType] = {}
        self._root = self._table.number(None, self._program)

    def run(self, program: Callable[[A], T], argument: A) -> T:
        """Call a program, whose stacks begin here."""
        self._is_running = True
        try:
            return program(argument)
        finally:
            self._is_running = False

    def of_allocation(self) -> int:
        """The stack of the program that has just called the collector, which calls this."""
        frame = inspect.currentframe()
        while frame and frame.f_code.co_filename in COLLECTOR and frame.f_code is not _BEGINNING:
            frame = frame.f_back
        return self._of_frame(frame)

    def of_moment(self, interrupted: FrameType | None) -> int | None:
        """The stack that a signal interrupted; None if the program is not running."""
        return self._of_frame(interrupted) if self._is_running else None

    def _of_frame(self, frame: FrameType | None) -> int:
        if len(self._known) >= STACKS_MAX:
            self._forget()
        frames: list[FrameType] = []
        while frame and frame.f_code is not _BEGINNING and len(frames) < DEPTH_MAX:
            frames.append(frame)
            frame = frame.f_back
        is_whole = not frame or frame.f_code is _BEGINNING
        number = self._root if is_whole else self._table.number(self._root, LEFT_OUT)
        for each in reversed(frames):
            key = number, id(each.f_code), each.f_lasti
            known = self._known.get(key)
            number = self._learn(key, each) if known is None else known
        return number

    def _learn(self, key: tuple[int, int, int], frame: FrameType) -> int:
        code = frame.f_code
        self._codes[id(code)] = code
        line = frame.f_lineno or code.co_firstlineno
        place = Frame(code.co_qualname, code.co_filename, code.co_firstlineno, line)
        number = self._known[key] = self._table.number(key[0], place)
        return number

    def _forget(self) -> None:
        self._known.clear()
        self._codes.clear()
        self._table.clear()
        self._root = self._table.number(None, self._program)


_BEGINNING = PythonStacks.run.__code__
"""Whose frame is the caller of the program's outermost."""
