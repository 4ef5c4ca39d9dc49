"""The options that name a target, for every command that takes one."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from typing_extensions import override

from fuzz.former_names import target_named
from fuzz.plain import is_url, plain
from fuzz.problems import BadInputError, did_you_mean

if TYPE_CHECKING:
    from fuzz.protocol.target import Target
    from fuzz.protocol.trace import Header
    from fuzz.targets import TargetOptions

TIMEOUT_SECONDS_MAX = 120.0
"""A session ends a worker that is silent for much longer."""
SECONDS_PER_UNIT = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
BYTES_PER_UNIT = {"": 1, "k": 2**10, "M": 2**20, "G": 2**30}
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)


class OneOf(click.Choice[str]):
    """One of the names in a module's constant, which is imported only if it is needed."""

    def __init__(self, module: str, constant: str, listed_in: str = "") -> None:
        """`listed_in` is the command that lists names that are too many for a message."""
        self._module, self._constant, self._listed_in = module, constant, listed_in
        self.case_sensitive = True

    @cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
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
    """A range of chunks like 0:5120."""
    match = re.fullmatch(r"(\d{1,15}):(\d{1,15})", text, re.ASCII)
    if not match or int(match[1]) >= int(match[2]):
        raise click.BadParameter(f"{text!r} are no chunks; write 0:5120")
    return range(int(match[1]), int(match[2]))


def part(text: str) -> slice:
    """One part of several, like 3/16, as a slice of all chunks."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise click.BadParameter(f"{text!r} is no part; write 3/16 for the third of sixteen")
    return slice(int(match[1]) - 1, None, int(match[2]))


def share(text: str) -> tuple[int, int]:
    """How many of how many runs failed, like 3/20."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    if not match or not 0 < int(match[1]) < int(match[2]):
        raise click.BadParameter(f"{text!r} is no share; write 3/20 for three of twenty runs")
    return int(match[1]), int(match[2])


def day(text: str) -> str:
    """A date like 2027-01-31."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").date().isoformat()  # noqa: DTZ007 - a day
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a date; write 2027-01-31") from None


def url(text: str) -> str:
    """The address of a page."""
    if not is_url(text):
        raise click.BadParameter(f"{text!r} is not an address; write https://example.com/issues/7")
    return text


def byte_size(text: str) -> int:
    """A size like 64, 4k, 1M or 2G, in bytes."""
    match = re.fullmatch(r"(\d{1,20})([kMG]?)", text, re.ASCII)
    if not match:
        raise click.BadParameter(f"{text!r} is no size; write 64, 4k, 1M or 2G")
    return int(match[1]) * BYTES_PER_UNIT[match[2]]


duration_option = functools.partial(click.option, type=duration, metavar="TIME")
size_option = functools.partial(click.option, type=byte_size, metavar="SIZE")


class TargetChoice(NamedTuple):
    """The target that the command line names; `name` is None if the trace names it."""

    name: str | None
    options: TargetOptions

    def name_for(self, named_by_trace: str) -> str:
        """The name on the command line, or in the trace. Raises BadInputError."""
        from fuzz.targets import is_user_class

        if self.name is not None:
            return self.name
        if is_user_class(named_by_trace):
            raise BadInputError(
                f"the trace's target is the Python class {named_by_trace}; if you trust its "
                f"module, say --target {named_by_trace}"
            )
        return target_named(named_by_trace)

    @property
    def name_without_trace(self) -> str:
        """The target without a trace: by default the only one with the path options given.

        Raises BadInputError if several have them.
        """
        from fuzz.targets import REFERENCE, registry

        if self.name is not None:
            return self.name
        if not self.options.paths:
            return REFERENCE
        paths = self.options.paths.keys()
        runtimes = (each for each in registry().targets.values() if each.variant_of is None)
        having = [each.name for each in runtimes if {it.name for it in each.options} >= paths]
        if len(having) == 1:
            return having[0]
        given = " and ".join(f"--{name}" for name in sorted(paths))
        which = f"one of {', '.join(having)}" if having else "a target"
        raise BadInputError(f"{given}: name {which} with --target")

    @property
    def arguments(self) -> list[str]:
        is_implied = self.name is None or bool(self.options.command)
        return [*([] if is_implied else ["--target", str(self.name)]), *self.options.arguments]

    def version(self, value: str) -> TargetChoice:
        """One of two versions of the target, or the target `value` if there is none.

        `value` is the value of the option that distinguishes them. Raises BadInputError.
        """
        import attrs

        from fuzz.targets import registry
        from fuzz.targets.options import arguments_in

        if self.name is None:
            return TargetChoice(target_named(value), self.options)
        registered = registry().targets.get(self.name)
        option = registered.distinguished_by if registered else None
        if option is None:
            raise BadInputError(
                f"--target {self.name}: --before and --after are two versions of a target, and "
                f"{self.name} has no option that distinguishes two; without --target they name two "
                "targets"
            )
        options = self.options
        if option == "command" and not options.command:
            options = attrs.evolve(options, command=arguments_in(value))
        elif option != "command" and option not in options.paths:
            options = attrs.evolve(options, paths={**options.paths, option: Path(value)})
        else:
            raise BadInputError(f"--before and --after stand for --{option}; leave that out")
        return TargetChoice(self.name, options)

    def options_for(self, header: Header) -> TargetOptions:
        """The options, with what the trace needs: its own process, a limit of memory."""
        import attrs

        from fuzz.targets import is_program

        needs = header.fresh_process and is_program(self.name_for(header.target))
        return attrs.evolve(
            self.options,
            fresh_process=self.options.fresh_process or needs,
            memory_bytes=self.options.memory_bytes or header.memory_bytes,
        )

    def make(self) -> Target:
        from fuzz.targets import make_target

        return make_target(self.name_without_trace, self.options)

    def make_for(self, header: Header) -> Target:
        from fuzz.targets import make_target

        return make_target(self.name_for(header.target), self.options_for(header))


PATH_PARAMETER = "path_of_"
"""The prefix of the parameter names of path options."""


class PathOptions(click.Option):
    """A placeholder for the path options of all registered targets."""


class PathOptionOfTargets(click.Option):
    """A path option, which several targets may share, each with its own meaning."""

    def __init__(
        self,
        declarations: list[str],
        meanings: list[str],
        **attributes: Any,  # noqa: ANN401 - those of an option
    ) -> None:
        super().__init__(declarations, help=" ".join(meanings), **attributes)
        self._meanings = meanings

    @override
    def get_help_record(self, ctx: click.Context) -> None:
        """It is not among the command's own options."""

    def help_records(self, ctx: click.Context) -> list[tuple[str, str]]:
        """A line for each meaning."""
        record = super().get_help_record(ctx)
        return [(record[0], each) for each in self._meanings] if record else []


class TargetsCommand(click.Command):
    """A command whose path options are added when it is called, since that loads all targets."""

    @override
    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [
            each
            for declared in super().get_params(ctx)
            for each in (self._paths if isinstance(declared, PathOptions) else [declared])
        ]

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        options = (each for each in self.get_params(ctx) if isinstance(each, PathOptionOfTargets))
        records = [record for option in options for record in option.help_records(ctx)]
        if records:
            with formatter.section("Options of targets"):
                formatter.write_dl(records)

    @cached_property
    def _paths(self) -> list[click.Option]:
        from fuzz.targets import registry

        problems = list(registry().problems)
        own = {name for each in self.params for name in each.opts}
        options: list[click.Option] = []
        for name, declared in sorted(registry().path_options.items()):
            if f"--{name}" in own:
                problems.append(
                    f"`gcfuzz {self.name}` has an option --{name}, so the one of a registered "
                    "target is left out; rename it in that target's package"
                )
                continue
            parameter = PATH_PARAMETER + name.replace("-", "_")
            choices = declared[0].choices
            options.append(
                PathOptionOfTargets(
                    [f"--{name}", parameter],
                    [each.help for each in declared],
                    metavar=None if choices else "PATH",
                    type=click.Choice(choices) if choices else PATH,
                )
            )
        for problem in problems:
            click.echo(plain(f"gcfuzz: {problem}"), err=True)
        return options


path_options_here = click.option("--paths", cls=PathOptions)
_OPTIONS = (
    click.option(
        "--target",
        "name",
        callback=lambda _, __, name: name and target_named(name),
        help="A name that `gcfuzz targets` lists, reference+BUG, or MODULE:CLASS.  [default: "
        "the one that a trace names, or reference]",
    ),
    click.option(
        "--command",
        "program",
        metavar="PROGRAM",
        help="The program of the target process, with arguments; it speaks the protocol (see "
        "`gcfuzz help protocol`).",
    ),
    duration_option(
        "--timeout",
        "timeout_seconds",
        default="10s",
        show_default=True,
        help="The time limit of an answer; the first answer may take 30s.",
    ),
    path_options_here,
    size_option(
        "--memory",
        "memory_bytes",
        help="The limit of the program's resident memory, 4G; a trace that exceeds it fails.  "
        "[default: for a session half of the memory, divided by the workers]",
    ),
    click.option(
        "--check-invariants",
        is_flag=True,
        help="Check the invariants of the reference collectors after each action.",
    ),
    click.option(
        "--fresh-process",
        is_flag=True,
        help="Start a process for each trace. By default a process serves many traces.",
    ),
)


def target_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options that name a target, as one argument `choice`."""

    @functools.wraps(command)
    def with_choice(
        *arguments: Any,  # noqa: ANN401 - the command's own
        name: str | None,
        program: str | None,
        **options: Any,  # noqa: ANN401
    ) -> int:
        from fuzz.targets import PROCESS, TargetOptions
        from fuzz.targets.options import arguments_in

        general = ("timeout_seconds", "memory_bytes", "check_invariants", "fresh_process")
        chosen = TargetOptions(
            arguments_in(program) if program is not None else (),
            paths=_taken_paths(options),
            **{each: options.pop(each) for each in general},
        )
        if chosen.timeout_seconds > TIMEOUT_SECONDS_MAX:
            seconds = chosen.timeout_seconds
            raise BadInputError(f"--timeout is {seconds:g} s; it must be at most 2m")
        if program is not None and name is None:
            name = PROCESS
        return command(*arguments, choice=TargetChoice(name, chosen), **options)

    return functools.reduce(lambda made, option: option(made), reversed(_OPTIONS), with_choice)


def options_of_session(target: str, options: TargetOptions, workers: int) -> TargetOptions:
    """The options with a limit of memory: by default half of it, shared by the workers."""
    import attrs

    from fuzz.targets import is_program

    if not is_program(target) or options.memory_bytes is not None:
        return options
    import psutil

    most_bytes = int(psutil.virtual_memory().total) // 2 // workers
    return attrs.evolve(options, memory_bytes=most_bytes)


def path_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the path options, as one argument `paths`."""

    @functools.wraps(command)
    def with_paths(*arguments: Any, **options: Any) -> int:  # noqa: ANN401 - the command's own
        from fuzz.targets import TargetOptions

        paths = TargetOptions(paths=_taken_paths(options))
        return command(*arguments, paths=paths, **options)

    return path_options_here(with_paths)


def _taken_paths(options: dict[str, Any]) -> dict[str, Path]:
    names = [each for each in options if each.startswith(PATH_PARAMETER)]
    given = {each: options.pop(each) for each in names}
    return {
        name.removeprefix(PATH_PARAMETER).replace("_", "-"): Path(value)
        for name, value in given.items()
        if value is not None
    }
