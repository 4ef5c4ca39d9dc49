"""Chance in a comparison: whether the other target fails like one that was seen to fail.

A flaky defect that both targets have shows in one run and not in the next. One run of each target
would then be a difference. Invariant: `broke` and `fixed` are verdicts over enough runs that the
other target would miss the failure with a chance below MISSED_MAX, at the measured rate. A failure
that has passed in no run keeps its change if the time is over before that.

The other target may have a rarer defect of the same kind. So answers are compared as well: an
answer that one target repeats often enough, and the other one never gives, is a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import attrs

from fuzz import run as runs
from fuzz.cancellation import Cancelled, cancelled_when
from fuzz.failure import BROKE, STILL_FAILS, UNCLEAR, Failure
from fuzz.failures.compare import Pair
from fuzz.failures.wrong_answers import wrong_answers
from fuzz.oracles.excluded import excluded_for
from fuzz.protocol.target import Target

RUNS_MAX = 200
"""Runs on each target at most."""
MISSED_MAX = 0.001
SURE_RUNS = 10
"""A trace that fails in each of these runs fails in at least half of all runs: a rarer failure
does that with a chance below MISSED_MAX. So the other target needs no more runs either."""

Answer = tuple[int, str]
"""A wrong answer: how many actions the trace has up to it, and what the target answered."""


@attrs.frozen
class Verdict:
    """A difference with the change that its runs show, and whether one of the two failed again."""

    failure: Failure
    failed_again: bool


@attrs.define
class Tries:
    """The runs of a difference: the wrong answers of its target, and those of the other one."""

    found: Failure
    count: int = 0
    wrong: Counter[Answer] = attrs.Factory(Counter)
    others: Counter[Answer] = attrs.Factory(Counter)

    def run(self, pair: Target) -> None:
        """Run the difference on both targets."""
        assert isinstance(pair, Pair)
        wrong, other = pair.after, pair.before
        if self.found.change != BROKE:
            wrong, other = other, wrong
        answers = [_wrong_answer(each, self.found) for each in (wrong, other)]
        for counts, answer in zip((self.wrong, self.others), answers, strict=True):
            counts.update([answer] if answer is not None else [])
        self.count += 1

    @property
    def change(self) -> str | None:
        """What the runs show; None if that needs more runs."""
        given = {(len(self.found.actions), self.found.got), *self.wrong}
        if not given.isdisjoint(self.others):
            return STILL_FAILS
        failed = self.wrong.total()
        if not self.others and failed == self.count == SURE_RUNS:
            return self.found.change
        if self.count < RUNS_MAX:
            return None
        if _is_proved(max(self.wrong.values(), default=0)):
            return self.found.change
        if self.others:
            return STILL_FAILS
        return self.found.change if _is_proved(failed) else UNCLEAR

    def change_in_time(self, passed: int) -> str:
        """The same if there is no time for more. A failure that passed in no run is not flaky."""
        is_flaky = bool(passed or self.others) or self.wrong.total() < self.count
        return self.change or (UNCLEAR if is_flaky else self.found.change)


def judged(
    make_pair: Callable[[], Target], found: Failure, is_over: Callable[[], bool], passed: int = 0
) -> Verdict:
    """Run a difference that is `broke` or `fixed` on both targets, until its change is known.

    `passed` is in how many runs it did not fail before. If the time is over, a flaky difference is
    `unclear`, and the change of another one stays.
    """
    tries = Tries(found)
    with suppress(Cancelled), cancelled_when(is_over):
        while tries.change is None:
            tries.run(make_pair())
    change, failed = tries.change_in_time(passed), tries.wrong.total()
    why = ""
    if change == STILL_FAILS:
        why = f"; flaky: the other target failed, too, in run {tries.count}"
    elif change == UNCLEAR:
        why = f"; flaky: failed again in {failed} of {tries.count} runs"
        why += ", and the time was up" * (tries.change is None)
    elif tries.change is None:
        why = f"; the time was up after {tries.count} of {SURE_RUNS} runs on both targets"
    failed_again = failed > 0 or change == STILL_FAILS
    return Verdict(attrs.evolve(found, change=change, why=found.why + why), failed_again)


def _is_proved(times: int) -> bool:
    """Whether a target that shows something so often would have shown it in as many runs again."""
    return (1 - times / RUNS_MAX) ** RUNS_MAX < MISSED_MAX


def _wrong_answer(target: Target, found: Failure) -> Answer | None:
    """The answer of a target that is wrong in the same way, if it gives one."""
    if found.is_late:
        return _late_answer(target, found)
    again = runs.run_again(target, found, found.configuration, found.actions)
    if not isinstance(again, Failure) or again.kind != found.kind:
        return None
    return len(again.actions), again.got


def _late_answer(target: Target, found: Failure) -> Answer | None:
    """The same for the last action, whose field is wrong in earlier answers, too."""
    fields = excluded_for(found.field)
    if found.earlier:
        runs.run_earlier(target, found.earlier)
    excluded = fields | {*found.excluded}
    run, _ = runs.run_through(target, found.configuration, found.actions, excluded=excluded)
    last = len(found.actions) - 1
    for (number, _), wrong in wrong_answers(run, excluded).items():
        mismatch = wrong.mismatch
        is_alike = (mismatch.oracle, mismatch.field) == (found.oracle, found.field)
        if number == last and is_alike and mismatch.direction == found.direction:
            return len(found.actions), wrong.description.got
    return None
