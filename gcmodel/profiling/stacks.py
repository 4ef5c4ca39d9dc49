"""The call stacks of a program, numbered as they come, and written once each.

    the program ◄── its outermost frame ◄── its callee ◄── … ◄── the frame that allocates

Invariant: a stack keeps its number as long as the table lasts, and its caller is written before it.
So a sample is one number. The table is bounded: when it is full, it is emptied, and later stacks
are written again under other numbers.
"""

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
"""The innermost frames that are kept of a deeper stack."""
LEFT_OUT = Frame("[outer frames left out]", "", 0, 0)
_PACKAGES = "memory", "collector", "sampling", "blocks", "profiling"
_ROOT = Path(__file__).parents[1]
COLLECTOR = frozenset(str(path) for each in _PACKAGES for path in (_ROOT / each).glob("*.py"))
"""The files whose frames belong to the recorder and the collector, not to the program."""

A = TypeVar("A")
T = TypeVar("T")


class StackTable:
    """Numbers for stacks, and for frames. `write` writes the line of each new one."""

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

    Frames are looked up by their caller's stack, code and instruction. Only a new one is turned
    into a function's name and a line.
    """

    def __init__(self, write: Callable[[str], None], program: str) -> None:
        self._is_running = False
        self._table = StackTable(write)
        self._program = Frame(program, "", 0, 0)
        self._known: dict[tuple[int, int, int], int] = {}
        # The codes in `_known`. A freed code's id could be used again.
        self._codes: dict[int, CodeType] = {}
        self._root = self._table.number(None, self._program)

    def run(self, program: Callable[[A], T], argument: A) -> T:
        """Call a program, whose stacks start here."""
        self._is_running = True
        try:
            return program(argument)
        finally:
            self._is_running = False

    def of_allocation(self) -> int:
        """The stack of the program that called the collector, which calls this."""
        frame = inspect.currentframe()
        while frame and frame.f_code.co_filename in COLLECTOR and frame.f_code is not _BEGINNING:
            frame = frame.f_back
        return self._of_frame(frame)

    def of_moment(self, interrupted: FrameType | None) -> int | None:
        """The stack that a signal interrupted; None if the program does not run."""
        return self._of_frame(interrupted) if self._is_running else None

    def _of_frame(self, frame: FrameType | None) -> int:
        if len(self._known) >= STACKS_MAX:
            self._known.clear()
            self._codes.clear()
            self._table.clear()
            self._root = self._table.number(None, self._program)
        frames: list[FrameType] = []
        while frame and frame.f_code is not _BEGINNING and len(frames) < DEPTH_MAX:
            frames.append(frame)
            frame = frame.f_back
        is_whole = not frame or frame.f_code is _BEGINNING
        number = self._root if is_whole else self._table.number(self._root, LEFT_OUT)
        for each in reversed(frames):
            code = each.f_code
            key = number, id(code), each.f_lasti
            if key not in self._known:
                self._codes[id(code)] = code
                line = each.f_lineno or code.co_firstlineno
                place = Frame(code.co_qualname, code.co_filename, code.co_firstlineno, line)
                self._known[key] = self._table.number(number, place)
            number = self._known[key]
        return number


_BEGINNING = PythonStacks.run.__code__
"""The code of the caller of the program's outermost frame."""
