"""Chance in a comparison: whether the other target fails like one that was seen to fail.

A flaky defect that both targets have shows in one run and not in the next. One run of each target
would then be a difference. Invariant: `broke` and `fixed` are verdicts over enough runs that the
other target would miss the failure with a chance below MISSED_MAX, at the measured rate.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import attrs

from fuzz import run as runs
from fuzz.cancellation import Cancelled, cancelled_when
from fuzz.protocol.target import Target
from fuzz.run import BROKE, STILL_FAILS, UNCLEAR, Failure
from fuzz.sessions.compare import Pair

RUNS_MAX = 200
"""Runs on each target at most."""
MISSED_MAX = 0.001
SURE_RUNS = 10
"""A trace that fails in each of these runs fails in at least half of all runs: a rarer failure
does that with a chance below MISSED_MAX. So the other target needs no more runs either."""


@attrs.frozen
class Verdict:
    """A difference with the change that its runs show, and whether one of the two failed again."""

    failure: Failure
    failed_again: bool


def judged(make_pair: Callable[[], Target], found: Failure, is_over: Callable[[], bool]) -> Verdict:
    """Run a difference that is `broke` or `fixed` on both targets, until its change is known.

    If the time is over before that, the change stays as it is.
    """
    failed = count = 0
    with suppress(Cancelled), cancelled_when(is_over):
        for count in range(1, RUNS_MAX + 1):
            pair = make_pair()
            assert isinstance(pair, Pair)
            wrong, other = pair.after, pair.before
            if found.change != BROKE:
                wrong, other = other, wrong
            failed += _fails(wrong, found)
            if _fails(other, found):
                why = f"{found.why}; flaky: the other target failed, too, in run {count}"
                return Verdict(attrs.evolve(found, change=STILL_FAILS, why=why), failed_again=True)
            if failed == count == SURE_RUNS:
                return Verdict(found, failed_again=True)
        if (1 - failed / RUNS_MAX) ** RUNS_MAX < MISSED_MAX:
            return Verdict(found, failed_again=True)
        why = f"{found.why}; flaky: failed again in {failed} of {RUNS_MAX} runs"
        return Verdict(attrs.evolve(found, change=UNCLEAR, why=why), failed > 0)
    return Verdict(found, failed > 0)


def _fails(target: Target, found: Failure) -> bool:
    again = runs.run_again(target, found, found.configuration, found.actions)
    return isinstance(again, Failure) and again.kind == found.kind
