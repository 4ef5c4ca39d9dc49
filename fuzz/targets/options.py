"""The options of a target on the command line, beside its name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol.contract import Contract

TIMEOUT_SECONDS = 10.0


@attrs.frozen
class TargetOptions:
    """The general options, and the paths of runtimes."""

    command: tuple[str, ...] = ()
    """The program of the target `process`, with its arguments."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """The longest time that a program may take for an answer."""
    without: tuple[str, ...] = ()
    """Actions that are not used, so that a known failure does not hide others."""
    paths: Mapping[str, Path] = attrs.field(factory=dict, hash=False)
    """The value of each path option that was given, by its name (see PathOption). The word of an
    option with choices is a path here, too."""
    check_invariants: bool = False
    """Whether the reference collectors check their invariants after each action."""
    fresh_process: bool = False
    """Whether each trace gets its own process."""
    memory_bytes: int | None = None
    """The limit of a program's resident memory, or None. The header of a trace that exceeds it has
    the limit."""
    contract: Contract | None = None
    """The contract that the program stated before. With it, a crash at a header is a failure."""

    @property
    def arguments(self) -> list[str]:
        arguments = ["--command", shlex.join(self.command)] if self.command else []
        if self.timeout_seconds != TIMEOUT_SECONDS:
            arguments += ["--timeout", f"{self.timeout_seconds:g}s"]
        for name, path in sorted(self.paths.items()):
            arguments += [f"--{name}", str(path)]
        arguments += ["--fresh-process"] if self.fresh_process else []
        return [*arguments, "--check-invariants"] if self.check_invariants else arguments

    @property
    def keeps_processes(self) -> bool:
        """Whether a process may serve several traces."""
        is_alone = self.contract is not None and self.contract.fresh_process
        return not (self.fresh_process or is_alone)


NO_OPTIONS = TargetOptions()


def arguments_in(program: str, name: str = "--command") -> tuple[str, ...]:
    """The program and its arguments, written as for a shell. Raises BadInputError."""
    try:
        arguments = tuple(shlex.split(program))
    except ValueError as problem:
        raise BadInputError(f"{name} {program!r}: {problem}") from problem
    if not arguments:
        raise BadInputError(f"{name} is empty; name a program")
    return arguments
