"""hotspot-program with one mistake: `python mistaken_program.py MISTAKE LIBJVM`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fuzz.protocol.actions import Action, CopyArray, Read, Write, WriteNumber
from fuzz.targets.hotspot import answers, program_driver
from fuzz.targets.hotspot.compilers import C1, C2, INTERPRETER
from fuzz.targets.hotspot.java_machine import JavaError
from fuzz.targets.hotspot.program_driver import ProgramDriver
from fuzz.targets.hotspot.trace_method import TraceMethod

WRITES = (Write, WriteNumber, CopyArray)


def removed_from(trace: Sequence[Action]) -> int | None:
    """The number of the write that `WithoutWrite` leaves out; None if there is none."""
    writes = [number for number, each in enumerate(trace) if isinstance(each, WRITES)]
    return writes[len(trace) % len(writes)] if writes else None


class WithoutWrite(TraceMethod):
    """One write is left out."""

    TIERS: tuple[int, ...] = (INTERPRETER, C1, C2)

    def __init__(self, trace: Sequence[Action], settings: Mapping[str, int], node: str) -> None:
        self._removed = removed_from(trace) if settings["tier"] in self.TIERS else None
        super().__init__(trace, settings, node)

    def _line(self, number: int, action: Action) -> Iterator[str]:
        lines = [*super()._line(number, action)]
        return iter(lines[:1] if number == self._removed else lines)


class StaleRead(TraceMethod):
    """A read finds what the field of its object had when the trace began: nothing."""

    def _line(self, number: int, action: Action) -> Iterator[str]:
        lines = [*super()._line(number, action)]
        if isinstance(action, Read):
            lines[1] = "aconst_null; astore 0"
        return iter(lines)


class WrongLine(TraceMethod):
    """Each action has the line of the one before."""

    def _line(self, number: int, action: Action) -> Iterator[str]:
        _, *lines = super()._line(number, action)
        return iter([f"line {number}", *lines])


class EachRound(TraceMethod):
    """Each round of a loop carries the actions out."""

    def _loop(self, code: list[str]) -> list[str]:
        return [each for each in super()._loop(code) if "if_icmpne" not in each]


class Unlocked(TraceMethod):
    """A lock is not released."""

    def _locked(self, code: list[str]) -> list[str]:
        return [each.replace("monitorexit", "pop") for each in super()._locked(code)]


class Cleared(TraceMethod):
    """A weak reference has lost its object."""

    def _weak(self, code: list[str]) -> list[str]:
        return [
            each.replace("invokevirtual referent", "pop; aconst_null")
            for each in super()._weak(code)
        ]


class OnlyInterpreted(WithoutWrite):
    """One write is left out in the interpreter, and none in machine code."""

    TIERS = (INTERPRETER,)


class Uncompiled(ProgramDriver):
    """No program is compiled."""

    def flags_for(self, chosen: Any) -> tuple[str, ...]:
        excluded = "-XX:CompileCommand=exclude,gcfuzz/Program*.run"
        return *super().flags_for(chosen), excluded


class FewPrograms(ProgramDriver):
    """A process runs two programs at most."""

    def __init__(self, *more: str) -> None:
        super().__init__(*more)
        vars(program_driver)["PROGRAMS_MAX"] = 2


class StaysMounted(ProgramDriver):
    """A virtual thread does not leave its carrier."""

    def __init__(self, *more: str) -> None:
        super().__init__(*more)
        code = vars(answers)["CODE"]
        code["tell"] = code["tell"].replace("invokestatic yield;", "")


class AnswersWhileMounted(ProgramDriver):
    """An action is carried out while the virtual thread has its carrier."""

    def _leaves_at(self, number: int) -> bool:
        if super()._leaves_at(number):
            try:
                self._virtual_threads.check_unmounted()
            except JavaError as problem:
                self._fail(number, problem)
        return False


class AnotherThread(ProgramDriver):
    """The event of a sample has another object as its thread: the class of what was sampled."""

    def _sampled(self, *more: int) -> None:
        tools, env, _, sampled, kind, size_bytes = more
        super()._sampled(tools, env, kind, sampled, kind, size_bytes)


PROGRAMS = {
    "write": WithoutWrite,
    "stale read": StaleRead,
    "wrong line": WrongLine,
    "only interpreted": OnlyInterpreted,
    "each round": EachRound,
    "unlocked": Unlocked,
    "cleared": Cleared,
}
DRIVERS: dict[str, type[ProgramDriver]] = {
    "uncompiled": Uncompiled,
    "few programs": FewPrograms,
    "stays mounted": StaysMounted,
    "answers while mounted": AnswersWhileMounted,
    "another thread": AnotherThread,
}

if __name__ == "__main__":
    mistake, library = sys.argv[1:]
    sys.argv[1] = "hotspot-program"
    if mistake in PROGRAMS:
        vars(program_driver)["TraceMethod"] = PROGRAMS[mistake]
    DRIVERS.get(mistake, ProgramDriver).main()
