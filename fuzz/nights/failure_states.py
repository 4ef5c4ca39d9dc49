"""The state of a failure after a night: open, flaky, fixed, or not looked for.

Invariant: a failure is `fixed` only if its trace passes, or, for a flaky one, if it has passed so
often on later builds that its share of failures makes that unlikely. A night that cannot show the
failure leaves its state as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from fuzz.failures.flaky import MISSED_MAX
from fuzz.nights.failure_history import FIXED, FLAKY, NOT_LOOKED_FOR, OPEN, Life, Shown, State, Told


def state_after(life: Life, shown: Shown) -> State:
    """The state of a failure after a night that is not part of its life yet.

    The night's own state is what its sessions showed, without replays: open or flaky.

    A failure that is not flaky is fixed if each replay passes. If each one failed in the night
    before, five of each are less likely than MISSED_MAX, whatever its share of failures is.
    """
    if shown.failed or shown.sessions:
        is_mixed = shown.state == FLAKY or shown.failed < shown.runs
        return FLAKY if is_mixed or life.is_flaky else OPEN
    if shown.runs:
        return FLAKY if life.is_flaky and not _is_past(life, shown) else FIXED
    if life.state == FIXED:
        return FIXED
    return (life.state or OPEN) if shown.is_looked_for else NOT_LOOKED_FOR


class _Look(NamedTuple):
    """One or more runs that could show a failure."""

    failed: int
    runs: int
    version: str
    """The build, as the target names it; empty if it does not."""
    bad_versions: tuple[str, ...]
    """The versions on which it failed in that night."""
    is_bad: bool
    """Whether it failed in that night, in a replay or in a session."""


def _is_past(life: Life, shown: Shown) -> bool:
    """Whether a flaky failure has passed so often on later builds that it must be fixed.

    If a replay has failed, replays are counted, and the share is that of the replays on the builds
    that have the failure. Else each night is one look, of sessions that could find it, and the
    share is that of the nights, by the rule of succession: a failure that one night of one found
    has 2/3. A later build is one on which it did not fail, after the last night on which it did.
    Without a version each night has a build of its own.
    """
    told = [*takewhile(lambda each: not _is_fixed(each), reversed((*life.told, shown)))][::-1]
    replays = [_replays_of(each) for each in told]
    if any(each.failed for each in replays):
        failed, runs, passed = _counted(replays)
        return (1 - failed / runs) ** passed < MISSED_MAX
    nights = [_night_of(each) for each in told if isinstance(each, Shown) and each.is_looked_for]
    found, count, passed = _counted(nights)
    return shown.is_looked_for and (1 - (found + 1) / (count + 2)) ** passed < MISSED_MAX


def _is_fixed(line: Told) -> bool:
    return isinstance(line, Shown) and line.state == FIXED


def _replays_of(line: Told) -> _Look:
    if not isinstance(line, Shown):
        return _Look(line.failed, line.runs, "", (), line.failed > 0)
    is_bad = bool(line.failed or line.sessions)
    return _Look(line.failed, line.runs, line.version, line.bad_versions, is_bad)


def _night_of(shown: Shown) -> _Look:
    is_found = bool(shown.sessions)
    return _Look(int(is_found), 1, shown.version, shown.bad_versions, is_found)


def _counted(looks: Sequence[_Look]) -> tuple[int, int, int]:
    """The failed runs, all runs on builds that have the failure, and those on later builds."""
    last = max((place for place, each in enumerate(looks) if each.is_bad), default=-1)
    bad = {version for each in looks for version in each.bad_versions}
    later = [each for each in looks[last + 1 :] if each.version not in bad]
    passed = sum(each.runs for each in later)
    return sum(each.failed for each in looks), sum(each.runs for each in looks) - passed, passed
