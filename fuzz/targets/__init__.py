"""Targets: each carries out actions and returns observations.

A folder here is a target, or a family of targets. It exports `TARGETS` (see `registration`), and
pyproject.toml lists it in the entry-point group `gcfuzz.targets`. Other packages register their
targets in the same way. Invariant: a broken registration, and one with a name that is taken, is
left out and does not affect the others; `problems` has a line about it.

A target's name is registered, or a registered reference's with known bugs
(`reference+stale-limit-after-large`), or MODULE:CLASS, a class that is imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING

import attrs

from fuzz.former_names import target_named
from fuzz.problems import BadInputError, did_you_mean, summary_of
from fuzz.protocol.target import Target
from fuzz.targets.options import NO_OPTIONS, TargetOptions
from fuzz.targets.registration import PROCESS, InProcess, PathOption, Registration, lazily

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

__all__ = [
    "NO_OPTIONS",
    "PROCESS",
    "REFERENCE",
    "TargetOptions",
    "is_program",
    "is_user_class",
    "make_target",
    "registry",
]
REFERENCE = "reference"
GROUP = "gcfuzz.targets"
OWN_PACKAGE = "gcfuzz"
NAME = re.compile(r"[a-z][a-z0-9-]*")


@attrs.frozen
class Registry:
    """All registered targets, by name."""

    targets: Mapping[str, Registration]
    problems: tuple[str, ...]
    """A line for each registration that was left out."""

    @property
    def path_options(self) -> dict[str, list[PathOption]]:
        """The different options of each name."""
        options: dict[str, list[PathOption]] = {}
        for option in (option for each in self.targets.values() for option in each.options):
            if option not in options.setdefault(option.name, []):
                options[option.name].append(option)
        return options


@cache
def registry() -> Registry:
    """The registered targets of all installed packages, those of gcfuzz first."""
    from importlib.metadata import entry_points

    targets: dict[str, Registration] = {}
    problems = []
    for entry in sorted(entry_points(group=GROUP), key=_order):
        try:
            for each in entry.load():
                _check(each, targets)
                targets[each.name] = each
        except Exception as raised:  # noqa: BLE001 - code of other packages
            problems.append(
                f"{_package_of(entry)}: the target {entry.name} ({entry.value}) is left out: "
                f"{summary_of(raised)}; fix or uninstall that package"
            )
    if REFERENCE not in targets:
        problems.append(f"{OWN_PACKAGE} is not installed: run `pip install .` in its folder")
    return Registry(targets, tuple(problems))


def _package_of(entry: EntryPoint) -> str:
    return _name_of(entry.dist) if entry.dist else "an unknown package"


@cache
def _name_of(package: Distribution) -> str:
    return package.name  # Each time it is read, all metadata are parsed.


def _order(entry: EntryPoint) -> tuple[bool, str, str]:
    # The package's name is in its metadata, which take longer to parse than all entry points. No
    # other package has modules here.
    if entry.value.startswith(f"{__name__}."):
        return False, "", entry.name
    return True, _package_of(entry), entry.name


def _check(each: object, targets: Mapping[str, Registration]) -> None:
    if not isinstance(each, Registration):
        raise TypeError(f"{each!r} is not a Registration")
    for name in (each.name, *(option.name for option in each.options)):
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name of letters a-z, digits and hyphens")
    if each.name in targets:
        raise ValueError(f"there is another target {each.name}: {targets[each.name].description}")


def is_user_class(name: str) -> bool:
    """Whether a target's name is MODULE:CLASS."""
    return ":" in name


def is_program(name: str) -> bool:
    """Whether the target of that name is a program."""
    found = registry().targets.get(target_named(name))
    return found is not None and found.is_program


def make_target(name: str, options: TargetOptions = NO_OPTIONS) -> Target:
    """Create the target of that name. Raises BadInputError if there is none."""
    found, bugs = _found(name)
    if options.command and found.name != PROCESS:
        raise BadInputError(f"--command is the program of {PROCESS}; {name} needs none")
    if bugs and not found.hosts_bugs:
        raise BadInputError(f"{name}: bugs can be planted in reference targets only")
    if options.fresh_process and not found.is_program:
        raise BadInputError(f"--fresh-process: {name} is not a program")
    target = found.make(options, bugs)
    if options.check_invariants:
        check_invariants = getattr(target, "check_invariants", None)
        if check_invariants is None:
            raise BadInputError(f"--check-invariants: {name} is not a reference collector")
        check_invariants()
    return target


def chunk_actions_of(name: str) -> int:
    """How many actions a chunk of a session has by default. Raises BadInputError."""
    found, _ = _found(name)
    return found.chunk_actions


def _found(name: str) -> tuple[Registration, list[str]]:
    """The registration of a target's name, and the bugs to plant in it. Raises BadInputError."""
    if is_user_class(name):
        create = partial(lazily("fuzz.targets.user_classes:make_user_target"), name)
        return InProcess(name=name, description="", create=create), []
    base, *bugs = target_named(name).split("+")
    targets = registry().targets
    if base not in targets:
        like = did_you_mean(base, targets) or ";"
        raise BadInputError(
            f"unknown target {base!r}{like} `gcfuzz targets` lists them, and --command takes a "
            "program that is none of these"
        )
    return targets[base], bugs
