"""Targets: whatever carries actions out and says what it observed, each kind in a folder.

`make_target` knows the names that a header or the command line may give: `reference` and its kin,
the same with known bugs planted (`reference+stale-limit-after-large`), `process`, any program that
speaks the protocol, MODULE:CLASS, a class of the user's, `incminimark`, PyPy's collector,
`hotspot`, a stock Java virtual machine, `dotnet`, a stock runtime of .NET 10, `ocaml`, a stock
OCaml 4.13, `go`, a stock Go, `v8`, a stock Node, stock allocators, and Python's profilers; several
of these under each of two contracts. It may import these folders (but for `bugs`, which
`references` plants), the protocol, problems and plain, and imports a folder when one of its targets
is made: a target's own process needs no other. A newcomer begins with `references`.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import attrs

from fuzz.problems import BadInputError, did_you_mean
from fuzz.protocol.contract import Contract
from fuzz.protocol.target import GuardedTarget, Target
from fuzz.targets.allocators.stock_commands import STOCK_ALLOCATORS, driver_command
from fuzz.targets.dotnet import RUNTIMES
from fuzz.targets.go import GOS
from fuzz.targets.hotspot.hotspot_command import MACHINES
from fuzz.targets.python_profilers import profilers

REFERENCE, PROCESS, INCMINIMARK = "reference", "process", "incminimark"
OCAML, V8 = "ocaml", "v8"
PROGRAMS = (
    *(PROCESS, INCMINIMARK, *MACHINES, *RUNTIMES, OCAML, *GOS, V8),
    *STOCK_ALLOCATORS,
    *profilers.PROFILERS,
)
"""The targets that are a process of their own."""
TOLD_APART_BY = {
    PROCESS: "command",
    INCMINIMARK: "source",
    **dict.fromkeys(MACHINES, "java"),
    **dict.fromkeys(RUNTIMES, "dotnet"),
    OCAML: "ocaml",
    **dict.fromkeys(GOS, "go"),
    V8: "node",
    **dict.fromkeys(STOCK_ALLOCATORS, "library"),
    **dict.fromkeys(profilers.PROFILERS, "python"),
}
"""The option that says what it is that runs: by that, two of one name are told apart."""
KNOWN_FINDINGS = {
    INCMINIMARK: (
        "incminimark",
        (
            *("arraycopy-clean-cards", "arraycopy-into-prebuilt", "arraycopy-while-marking"),
            *("copied-cards-beyond-end", "enable-beside-old-obstacle"),
            *("fork-keeps-young-samples", "marking-without-end"),
            *("nonyoung-reported-dead", "old-objects-count-rounded", "pinned-shadow-freed"),
            *("pressure-taken-for-sample", "rotating-nursery-old-limit"),
            *("second-minor-reads-null", "stale-limit-after-large", "too-many-pinned"),
            "weakref-to-pinned",
        ),
    ),
    "gperftools-as-documented": (
        "gperftools",
        ("class-size-vs-request", "placeholder-first-interval", "reseed-drops-sample"),
    ),
    "dotnet-as-documented": ("dotnet", ("rest-of-context-unsampled",)),
    "go-as-documented": ("go", ("new-rate-sampled", "sampled-a-byte-late", "small-blocks-share")),
    "hotspot-as-documented": (
        "hotspot",
        (
            *("hotspot/collection-charges-tlab", "hotspot/counts-while-off"),
            "hotspot/deaf-after-enabling",
        ),
    ),
    OCAML: ("ocaml", ("first-words-after-collection",)),
    profilers.DDTRACE_AS_DOCUMENTED: (
        "ddtrace",
        ("counts-cut-off", "processes-alike", "small-sites-drown"),
    ),
    profilers.SCALENE_AS_DOCUMENTED: ("scalene", ("allocation-taken-for-mark", "lines-in-step")),
}
"""What was found in a target: the folder of its traces in the corpus, and its pages in
docs/findings. A trace's name begins with the last part of its page's."""
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
    """The Python 2.7 of `incminimark`, None for the first that is there; or the one that has a
    profiler, None for this one."""
    source: Path | None = None
    """The folder with its `rpython`."""
    library: Path | None = None
    """The file of a stock allocator; None for the one that is installed."""
    java: Path | None = None
    """The `libjvm.so` of `hotspot`, or the folder that has it; None for the first that is there."""
    dotnet: Path | None = None
    """The program with the runtime of `dotnet` in it; None for the wheel's."""
    ocaml: Path | None = None
    """The compiler of `ocaml`; None for the one that is installed."""
    go: Path | None = None
    """The program `go` that compiles the mutator of `go`; None for the first that is there."""
    node: Path | None = None
    """The Node of `v8`; None for the one that is on PATH."""
    check_invariants: bool = False
    """Whether the collectors of this package look at themselves after each action."""
    fresh_process: bool = False
    """Whether each trace gets a process of its own."""
    memory_bytes: int | None = None
    """The most that a program may have resident; None if that is not bounded. A trace that fails
    for it has the limit in its header."""
    contract: Contract | None = None
    """What a program has promised already: one that breaks at a header since then is a find."""

    @property
    def words(self) -> list[str]:
        """The same on the command line, as far as a replay needs it."""
        words = ["--command", shlex.join(self.command)] if self.command else []
        if self.timeout_seconds != TIMEOUT_SECONDS:
            words += ["--timeout", f"{self.timeout_seconds:g}s"]
        for option in ("python", "source", "library", "java", "dotnet", "ocaml", "go", "node"):
            place = getattr(self, option)
            words += [f"--{option}", str(place)] if place is not None else []
        words += ["--fresh-process"] if self.fresh_process else []
        return [*words, "--check-invariants"] if self.check_invariants else words

    @property
    def keeps_processes(self) -> bool:
        """Whether a program serves several traces, as far as is known."""
        promised = self.contract is not None and self.contract.fresh_process
        return not (self.fresh_process or promised)


NO_OPTIONS = TargetOptions()


def is_user_class(name: str) -> bool:
    """Whether a target's name is MODULE:CLASS, a class that has to be imported."""
    return ":" in name


def make_target(name: str, options: TargetOptions = NO_OPTIONS) -> Target:
    """The target of that name. Raises BadInputError if there is none."""
    base, *bugs = name.split("+")
    if options.command and base != PROCESS:
        raise BadInputError(f"--command is the program of {PROCESS}; {name} needs none")
    if is_user_class(name):
        target = _user_target(name, options)
    elif base in PROGRAMS:
        if bugs:
            raise BadInputError(f"{name}: bugs can be planted in {REFERENCE} and its kin only")
        target = _program(name, options)
    else:
        if options.fresh_process:
            raise BadInputError(f"--fresh-process: {name} is no program")
        from fuzz.targets.references.kin import REFERENCES, make_reference

        if base not in REFERENCES:
            like = did_you_mean(base, [*REFERENCES, *PROGRAMS]) or ";"
            raise BadInputError(
                f"unknown target {base!r}{like} `gcfuzz targets` lists them, and --command takes "
                "a program that is none of these"
            )
        target = make_reference(name, options.without)
    if options.check_invariants:
        check_invariants = getattr(target, "check_invariants", None)
        if check_invariants is None:
            raise BadInputError(f"--check-invariants: {name} is no collector of gcfuzz's own")
        check_invariants()
    return target


def _user_target(name: str, options: TargetOptions) -> Target:
    """A class of the user's, MODULE:CLASS, in this process. Raises BadInputError."""
    if options.fresh_process:
        raise BadInputError(f"--fresh-process: {name} is not a program")
    from fuzz.targets.user_classes import make_user_target

    return GuardedTarget(make_user_target(name), name, options.without)


def _program(name: str, options: TargetOptions) -> Target:
    """A target that is a program. Raises BadInputError."""
    from fuzz.targets.process.program import ProcessTarget

    command = _command_of(name, options)
    return ProcessTarget(
        name,
        command,
        options.timeout_seconds,
        options.without,
        options.contract,
        fresh_process=options.fresh_process,
        memory_bytes=options.memory_bytes,
    )


def _command_of(name: str, options: TargetOptions) -> tuple[str, ...]:
    """The program that is the target. Raises BadInputError."""
    if name == INCMINIMARK:
        from fuzz.targets.incminimark import command

        return command.driver_command(options.python, options.source)
    if name in (*MACHINES, *RUNTIMES, OCAML, *GOS, V8):
        return _command_of_runtime(name, options)
    if name in STOCK_ALLOCATORS:
        return driver_command(name, options.library)
    if name in profilers.PROFILERS:
        return profilers.driver_command(name, options.python)
    if not options.command:
        raise BadInputError(f'the target {name} needs a program; name it with --command "PROGRAM"')
    return options.command


def _command_of_runtime(name: str, options: TargetOptions) -> tuple[str, ...]:
    """The program that drives a language's own collector. Raises BadInputError."""
    if name in MACHINES:
        from fuzz.targets.hotspot import hotspot_command

        return hotspot_command.driver_command(name, options.java)
    if name in RUNTIMES:
        from fuzz.targets.dotnet import dotnet_command

        return dotnet_command.driver_command(name, options.dotnet)
    if name in GOS:
        from fuzz.targets.go import go_command

        return go_command.driver_command(name, options.go)
    if name == V8:
        from fuzz.targets.v8 import v8_command

        return v8_command.driver_command(options.node)
    from fuzz.targets.ocaml import ocaml_command

    return ocaml_command.driver_command(options.ocaml)
