"""Targets: whatever carries actions out and says what it observed.

`make_target` knows the names that a header or the command line may give: `reference` and its kin,
the same with known bugs planted (`reference+stale-limit-after-large`), `process`, any program that
speaks the protocol, `incminimark`, PyPy's collector, and two stock allocators: `jemalloc`, and
`gperftools` under either of its contracts.
"""

from __future__ import annotations

import difflib
import shlex
from pathlib import Path

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol.contract import Contract
from fuzz.protocol.target import Target, contract_of
from fuzz.targets.allocators import stock_commands
from fuzz.targets.allocators.stock_commands import AS_BUILT, AS_DOCUMENTED, JEMALLOC
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.targets.incminimark import command as incminimark
from fuzz.targets.process.program import ProcessTarget
from fuzz.targets.references.collector import ReferenceTarget
from fuzz.targets.references.kin import REFERENCES, make_reference

__all__ = [
    "GPERFTOOLS",
    "INCMINIMARK",
    "JEMALLOC",
    "KNOWN_BUGS",
    "NO_OPTIONS",
    "PROCESS",
    "REFERENCE",
    "REFERENCES",
    "TIMEOUT_SECONDS",
    "Target",
    "TargetOptions",
    "contract_of",
    "make_target",
    "planted",
]

REFERENCE, PROCESS, INCMINIMARK = "reference", "process", "incminimark"
GPERFTOOLS = (AS_BUILT, AS_DOCUMENTED)
TIMEOUT_SECONDS = 10.0


@attrs.frozen
class TargetOptions:
    """What the command line says of a target beside its name."""

    command: tuple[str, ...] = ()
    """The program of `process`, and its arguments."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """How long a program may take for an answer."""
    without: tuple[str, ...] = ()
    """Actions that are never asked for, so that a find known already does not hide others."""
    python: Path | None = None
    """The Python 2.7 of `incminimark`; None for the first that is there."""
    source: Path | None = None
    """The folder with its `rpython`."""
    check_invariants: bool = False
    """Whether the collectors of this package look at themselves after each action."""
    contract: Contract | None = None
    """What a program has promised already: one that breaks at a header since then is a find."""

    @property
    def words(self) -> list[str]:
        """The same on the command line, as far as a replay needs it."""
        words = ["--command", shlex.join(self.command)] if self.command else []
        if self.timeout_seconds != TIMEOUT_SECONDS:
            words += ["--timeout", f"{self.timeout_seconds:g}s"]
        for option, place in (("--python", self.python), ("--source", self.source)):
            words += [option, str(place)] if place is not None else []
        return [*words, "--check-invariants"] if self.check_invariants else words


NO_OPTIONS = TargetOptions()


def make_target(name: str, options: TargetOptions = NO_OPTIONS) -> Target:
    """The target of that name. Raises BadInputError if there is none."""
    target = _make_target(name, options)
    if options.check_invariants:
        if not isinstance(target, ReferenceTarget):
            raise BadInputError(f"--check-invariants: {name} is no collector of gcfuzz's own")
        target.check_invariants()
    return target


def _make_target(name: str, options: TargetOptions) -> Target:
    base, *bugs = name.split("+")
    if base not in (*REFERENCES, PROCESS, INCMINIMARK, JEMALLOC, *GPERFTOOLS):
        raise BadInputError(f"unknown target {base!r}; `gcfuzz targets` lists them")
    if options.command and base != PROCESS:
        raise BadInputError(f"--command is the program of {PROCESS}; {name} needs none")
    if base in REFERENCES:
        _check_bugs(name, base, bugs)
        return make_reference(base, name, bugs, options.without)
    if bugs:
        raise BadInputError(f"{name}: bugs can be planted in {REFERENCE} and its kin only")
    return ProcessTarget(
        name,
        _command_of(name, options),
        options.timeout_seconds,
        options.without,
        options.contract,
    )


def _command_of(name: str, options: TargetOptions) -> tuple[str, ...]:
    """The program that is the target. Raises BadInputError."""
    if name == INCMINIMARK:
        return incminimark.driver_command(options.python, options.source)
    if name in (JEMALLOC, *GPERFTOOLS):
        return stock_commands.driver_command(name)
    if not options.command:
        raise BadInputError(f'the target {name} needs a program; name it with --command "PROGRAM"')
    return options.command


def _check_bugs(name: str, base: str, bugs: list[str]) -> None:
    for bug in bugs:
        if not bug:
            raise BadInputError(f"the target {name!r} names no bug after +")
        if bug not in KNOWN_BUGS:
            raise BadInputError(f"unknown bug {bug!r} in target {name!r}; {_known_in(base, bug)}")
        host = KNOWN_BUGS[bug].host
        if host != base:
            raise BadInputError(f"the bug {bug!r} can be planted in {host} only, not in {base}")
        if bugs.count(bug) > 1:
            raise BadInputError(f"the bug {bug!r} is planted twice in target {name!r}")


def _known_in(base: str, wanted: str) -> str:
    """Which bugs can be planted in `base`, the one first that may be meant."""
    bugs = [bug.id for bug in KNOWN_BUGS.values() if bug.host == base]
    if not bugs:
        return f"no bug can be planted in {base}"
    known = f"{base} has {', '.join(bugs)}"
    closest = difflib.get_close_matches(wanted, bugs, n=1)
    return f"did you mean {closest[0]}? {known}" if closest else known


def planted(bug: str) -> str:
    """The name of the target that is the bug's host, with the bug planted in it."""
    return f"{KNOWN_BUGS[bug].host}+{bug}"
