"""The state of a failure after a night: open, flaky, fixed, or not looked for.

Invariant: a failure is `fixed` only if its trace passes, or, for a flaky one, if it has passed so
often that its share of failures makes that unlikely. A night that cannot show the failure leaves
its state as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from fuzz.sessions.failure_history import FIXED, FLAKY, NOT_LOOKED_FOR, OPEN, Life, Shown, State

CHANCE_MAX = 0.01
"""A flaky failure is fixed if it passes so often that its share of failures makes it unlikely."""


def state_after(life: Life, shown: Shown, is_looked_for: bool) -> State:
    """The state of a failure after a night that is not part of its life yet."""
    if shown.failed and (life.is_flaky or shown.failed < shown.runs):
        return FLAKY
    if shown.failed:
        return OPEN
    if shown.sessions:
        return FLAKY if shown.runs or life.is_flaky else OPEN
    if shown.runs:
        return FLAKY if life.is_flaky and not _is_past(life, shown, is_looked_for) else FIXED
    if life.state == FIXED:
        return FIXED
    return (life.state or OPEN) if is_looked_for else NOT_LOOKED_FOR


def _is_past(life: Life, shown: Shown, is_looked_for: bool) -> bool:
    """Whether a flaky failure is fixed: it failed in replays, or sessions found it, but no more.

    No replay of a rare one may have failed. Then a night is a run: it failed if a session found it.
    """
    runs = [*life.runs, (0, shown.runs)]
    if any(failed for failed, _ in runs):
        return _must_be_fixed(runs)
    last = next((i for i, each in enumerate(reversed(life.shown)) if each.sessions), -1)
    since_fixed = [*takewhile(lambda each: each.state != FIXED, reversed(life.shown))]
    found = sum(bool(each.sessions) for each in since_fixed)
    if not is_looked_for or last < 0 or not found:
        return False
    passed = last + 1
    share = (found + 1) / (len(since_fixed) - last + 2)
    return (1 - share) ** passed < CHANCE_MAX


def _must_be_fixed(runs: Sequence[tuple[int, int]]) -> bool:
    """Whether the last runs all passed, and that is unlikely for a flaky failure."""
    last = max((number for number, (failed, _) in enumerate(runs) if failed), default=-1)
    if last < 0:
        return False
    share = sum(failed for failed, _ in runs) / sum(count for _, count in runs[: last + 1])
    return (1 - share) ** sum(count for _, count in runs[last + 1 :]) < CHANCE_MAX
