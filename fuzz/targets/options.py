"""What the command line says about a target, beside its name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import attrs

from fuzz.protocol.contract import Contract

TIMEOUT_SECONDS = 10.0


@attrs.frozen
class TargetOptions:
    """The options of a target: general ones, and where its runtime is."""

    command: tuple[str, ...] = ()
    """The program of the target `process`, with its arguments."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """How long a program may take for an answer."""
    without: tuple[str, ...] = ()
    """Actions that are not drawn, so that a known failure does not hide others."""
    paths: Mapping[str, Path] = attrs.field(factory=dict, hash=False)
    """The value of each path option that was given, by its name (see PathOption)."""
    check_invariants: bool = False
    """Whether the reference collectors check their invariants after each action."""
    fresh_process: bool = False
    """Whether each trace gets a process of its own."""
    memory_bytes: int | None = None
    """The most resident memory that a program may use; None for no limit. If a trace fails because
    of it, the trace's header has the limit."""
    contract: Contract | None = None
    """The contract that a program has already stated: breaking at a header is then a failure."""

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
        """Whether a program serves several traces, as far as is known."""
        is_alone = self.contract is not None and self.contract.fresh_process
        return not (self.fresh_process or is_alone)


NO_OPTIONS = TargetOptions()
