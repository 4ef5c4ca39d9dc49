"""The call stacks of a program, numbered as they come, and written once each.

    the program ◄── its outermost frame ◄── its callee ◄── … ◄── the frame that allocates

Invariant: a stack has the same number as long as the table lasts, and its caller was written
before it. So a sample is one number. The table is bounded: a program with ever new stacks empties
it now and then, and what comes afterwards is written anew under other numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Protocol, TypeVar

from gcmodel.profiling.profile import Frame

STACKS_MAX = 2**16
DEPTH_MAX = 512
"""Of a deeper stack the innermost frames are kept, below one that says so."""
LEFT_OUT = Frame("(outer frames left out)", "", 0, 0)
_ROOMS = "memory", "collector", "sampling", "blocks", "profiling"
COLLECTOR = frozenset(
    str(path) for room in _ROOMS for path in (Path(__file__).parents[1] / room).glob("*.py")
)
"""The files whose frames are the recorder's and the collector's own, and not the program's."""

A = TypeVar("A")
T = TypeVar("T")


class StackLines(Protocol):
    """Where stacks are written to."""

    def frame(self, frame: Frame) -> None:
        """The next frame."""

    def stack(self, caller: int | None, frame: int) -> None:
        """The next stack."""


class StackTable:
    """Numbers for stacks."""

    def __init__(self, lines: StackLines) -> None:
        self._lines = lines
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[int | None, int], int] = {}
        self._frames_written = 0
        self._stacks_written = 0

    def clear(self) -> None:
        """Forget all numbers."""
        self._frames.clear()
        self._stacks.clear()

    def number(self, caller: int | None, frame: Frame) -> int:
        """The number of the stack of `frame`, called from the stack `caller`."""
        key = caller, self._frame_number(frame)
        number = self._stacks.get(key)
        if number is None:
            self._lines.stack(*key)
            number = self._stacks[key] = self._stacks_written
            self._stacks_written += 1
        return number

    def _frame_number(self, frame: Frame) -> int:
        number = self._frames.get(frame)
        if number is None:
            self._lines.frame(frame)
            number = self._frames[frame] = self._frames_written
            self._frames_written += 1
        return number


class PythonStacks:
    """The stacks of a Python program, from the call of `run` inwards.

    A frame is looked up by its caller's stack, its code and its instruction; only one that is not
    found there is turned into a function's name and a line.
    """

    def __init__(self, lines: StackLines, program: str) -> None:
        self._is_running = False
        self._table = StackTable(lines)
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
        while frame and frame.f_code.co_filename in COLLECTOR and frame.f_code is not _beginning():
            frame = frame.f_back
        return self._of_frame(frame)

    def of_moment(self, interrupted: FrameType | None) -> int | None:
        """The stack that a signal interrupted; None if the program is not running."""
        return self._of_frame(interrupted) if self._is_running else None

    def _of_frame(self, innermost: FrameType | None) -> int:
        if len(self._known) >= STACKS_MAX:
            self._forget()
        frames, is_whole = _frames_from(innermost)
        number = self._root if is_whole else self._table.number(self._root, LEFT_OUT)
        for frame in reversed(frames):
            key = number, id(frame.f_code), frame.f_lasti
            known = self._known.get(key)
            number = self._learn(key, frame) if known is None else known
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


def _beginning() -> CodeType:
    """Whose frame is the caller of the program's outermost."""
    return PythonStacks.run.__code__


def _frames_from(innermost: FrameType | None) -> tuple[list[FrameType], bool]:
    """The program's frames, the innermost first, and whether these are all."""
    beginning = _beginning()
    frames: list[FrameType] = []
    frame = innermost
    while frame is not None and frame.f_code is not beginning:
        if len(frames) == DEPTH_MAX:
            return frames, False
        frames.append(frame)
        frame = frame.f_back
    return frames, True
