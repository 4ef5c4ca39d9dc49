"""The registration of a target: the value `TARGETS` that a target's package exports.

A package names its registrations in its pyproject.toml:

    [project.entry-points."gcfuzz.targets"]
    mine = "my_package:TARGETS"

Every command that takes a target loads all registrations. Invariants: a registration imports no
driver and no runtime, and names what finds a runtime with `lazily("my_package.find:program")`. It
states all by which a variant differs, so no module of a target takes its name apart.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, TypeAlias

import attrs

from fuzz.problems import BadInputError, noted, summary_of, traceback_of
from fuzz.protocol.target import AS_DOCUMENTED, DOCUMENTED, GuardedTarget, Target
from fuzz.targets.options import TargetOptions

Command: TypeAlias = Callable[[str, TargetOptions], Sequence[str]]
"""Returns the command line of the target with that name. Raises BadInputError if something is
missing."""

CHUNK_ACTIONS = 4096
"""Of a target whose speed nothing is known of: a third of a second for a fast one."""


def lazily(place: str) -> Callable[..., Any]:
    """A function that imports MODULE:NAME when it is called, and calls that."""

    def call(*arguments: Any, **options: Any) -> object:  # noqa: ANN401 - those of the function
        return resolve_name(place)(*arguments, **options)

    return call


def python_driver(
    package: str | None, name: str, *arguments: str | Path, module: str = "driver"
) -> tuple[str, ...]:
    """The command line of a driver: a module of a package, with the target's name first."""
    return (sys.executable, "-m", f"{package}.{module}", name, *map(str, arguments))


@attrs.frozen
class PythonDriver:
    """The command of a driver in Python."""

    package: str
    find: Callable[[TargetOptions], Sequence[str | Path]]
    """Returns what the driver needs: its arguments. Raises BadInputError if that is missing."""
    module: str = "driver"

    def __call__(self, name: str, options: TargetOptions) -> tuple[str, ...]:
        return python_driver(self.package, name, *self.find(options), module=self.module)


@attrs.frozen
class PathOption:
    """An option `--name PATH` for the place of a runtime. Several targets may share one."""

    name: str
    help: str
    choices: tuple[str, ...] = ()
    """The option takes one of these words instead of a path, if there are any."""


@attrs.frozen(kw_only=True)
class Registration(ABC):
    """A registered target. Its class creates the target."""

    is_program: ClassVar = False
    """Whether it runs in its own process."""
    hosts_bugs: ClassVar = False
    """Whether known bugs can be planted in it."""

    name: str
    description: str
    """A phrase for `gcfuzz targets`."""
    options: tuple[PathOption, ...] = ()
    variant_of: str | None = None
    """The target with the same runtime and another contract, or None."""
    needs_more: bool = False
    """Whether it needs more than the target that it is a variant of."""
    chunk_actions: int = CHUNK_ACTIONS
    """The default of `--chunk-actions`: a power of two that takes five to ten seconds, so that a
    cluster's scheduler can feed hundreds of workers."""

    distinguished_by: str | None = attrs.field()
    """The option that distinguishes two targets of this name: by default the first one."""

    @distinguished_by.default
    def _first_option(self) -> str | None:
        return self.options[0].name if self.options else None

    @abstractmethod
    def make(self, options: TargetOptions, bugs: Sequence[str]) -> Target:
        """Create the target, with these known bugs planted. Raises BadInputError."""


@attrs.frozen(kw_only=True)
class InProcess(Registration):
    """A target in Python, in this process."""

    create: Callable[[], Target]

    def make(self, options: TargetOptions, bugs: Sequence[str] = ()) -> Target:
        try:
            target = self.create()
        except BadInputError:
            raise
        except Exception as raised:
            error = BadInputError(
                f"the target {self.name}: creating it raised {summary_of(raised)}"
            )
            raise noted(error, traceback_of(raised)) from raised
        return GuardedTarget(target, self.name, options.without)


@attrs.frozen(kw_only=True)
class Program(Registration):
    """A target that is a program and speaks the protocol."""

    is_program = True

    command: Command
    environment: tuple[str, ...] = ()
    """Assignments to environment variables: `NAME=VALUE`."""

    def command_line(self, options: TargetOptions) -> tuple[str, ...]:
        """The command line of the program. Raises BadInputError if something is missing."""
        command = self.command(self.name, options)
        return ("env", *self.environment, *command) if self.environment else tuple(command)

    def make(self, options: TargetOptions, bugs: Sequence[str] = ()) -> Target:
        from fuzz.targets.process.program import ProcessTarget

        return ProcessTarget(
            self.name,
            self.command_line(options),
            options.timeout_seconds,
            options.without,
            options.contract,
            fresh_process=options.fresh_process,
            memory_bytes=options.memory_bytes,
        )

    def variant(  # noqa: PLR0913 - all by which variants differ
        self,
        suffix: str,
        description: str,
        *,
        driver: str | None = None,
        command: Command | None = None,
        environment: Sequence[str] = (),
        chunk_actions: int | None = None,
    ) -> Program:
        """A target with the same runtime and another contract; its name ends in the suffix.

        `driver` is the module of its driver, if it is one in Python. The assignments are added to
        those of this target.
        """
        if driver is not None:
            assert isinstance(self.command, PythonDriver)
            command = attrs.evolve(self.command, module=driver)
        return attrs.evolve(
            self,
            name=self.name + suffix,
            description=description,
            variant_of=self.variant_of or self.name,
            command=command or self.command,
            environment=(*self.environment, *environment),
            chunk_actions=chunk_actions or self.chunk_actions,
        )

    def as_documented(self) -> Program:
        """The same program under the contract that its documentation promises."""
        return self.variant(
            AS_DOCUMENTED,
            f"{self.name}, under the contract that its documentation promises",
            environment=[f"{DOCUMENTED}=1"],
        )


def _given_command(name: str, options: TargetOptions) -> Sequence[str]:
    if not options.command:
        raise BadInputError(f'the target {name} needs a program; name it with --command "PROGRAM"')
    return options.command


PROCESS = "process"
TARGETS = (
    Program(
        name=PROCESS,
        description="any program that speaks the protocol (`gcfuzz help protocol`)",
        distinguished_by="command",
        command=_given_command,
    ),
)
