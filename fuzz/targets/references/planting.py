"""Plants known bugs in a reference: parts of gcmodel are replaced by parts with the bugs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuzz.problems import BadInputError, did_you_mean
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS, planted_parts


def parts_with(base: str, bugs: Sequence[str]) -> dict[str, type[Any]]:
    """The parts of `base` with these bugs. Raises BadInputError if one cannot be planted."""
    name = "+".join((base, *bugs))
    for bug in bugs:
        _check_bug(bug, base, name)
        if bugs.count(bug) > 1:
            raise BadInputError(f"the bug {bug!r} is planted twice in target {name!r}")
    return planted_parts(bugs)


def _check_bug(bug: str, base: str, name: str) -> None:
    if not bug:
        raise BadInputError(f"the target {name!r} names no bug after +")
    if bug not in KNOWN_BUGS:
        raise BadInputError(f"unknown bug {bug!r} in target {name!r}{_known_in(base, bug)}")
    host = KNOWN_BUGS[bug].host
    if host != base:
        raise BadInputError(f"the bug {bug!r} can be planted in {host} only, not in {base}")


def _known_in(base: str, wanted: str) -> str:
    """A suggestion: the most similar bug of `base`, or a list of all its bugs."""
    bugs = [bug.id for bug in KNOWN_BUGS.values() if bug.host == base]
    if not bugs:
        return f"; no bug can be planted in {base}"
    return did_you_mean(wanted, bugs) or f"; {base} has {', '.join(bugs)}"
