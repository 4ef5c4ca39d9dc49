"""Targets: whatever carries actions out and says what it observed.

`make_target` knows the names that a header or the command line may give. A name is a target, or a
target with known bugs planted in it: `reference+stale-limit-after-large`.
"""

from __future__ import annotations

from fuzz.problems import BadInputError
from fuzz.targets.known_bugs import KNOWN_BUGS, plant
from fuzz.targets.reference import ReferenceTarget
from fuzz.targets.target import Target

__all__ = ["KNOWN_BUGS", "Target", "make_target", "planted"]


def make_target(name: str) -> Target:
    """The target of that name. Raises BadInputError if there is none."""
    base, *bugs = name.split("+")
    if base != "reference":
        raise BadInputError(f"unknown target {base!r}; `gcfuzz targets` lists them")
    for bug in bugs:
        if bug not in KNOWN_BUGS:
            known = ", ".join(KNOWN_BUGS)
            raise BadInputError(f"unknown bug {bug!r} in target {name!r}; known are {known}")
        if bugs.count(bug) > 1:
            raise BadInputError(f"the bug {bug!r} is planted twice in target {name!r}")
    return ReferenceTarget(name, plant(bugs))


def planted(target: str, bug: str) -> str:
    """The name of `target` with `bug` planted in it."""
    return f"{target}+{bug}"
