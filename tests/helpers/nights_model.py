"""What is true of a defect over nights, and what a person can state who saw the same as the pages.

It shares no code with the pages. Each statement follows from the looks at a defect and from the
documentation of the states (docs/sessions.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import NamedTuple

import attrs

STATES = ["open", "flaky", "muted", "not looked for", "fixed"]
"""In the order in which a cause shows its failures."""
CHANCE_MAX = 0.001


class Defect(NamedTuple):
    program: str
    oracle: str
    action: str
    share: float
    """Of runs that fail on a build that has it."""
    cause: str
    """What its reduced trace shows."""

    @property
    def is_flaky(self) -> bool:
        return self.share < 1

    @property
    def identity(self) -> str:
        return f"{self.oracle} / graph / {self.action} / different"


class Look(NamedTuple):
    """What a night saw of a defect."""

    night: int
    version: str
    started: str
    """The session that found it, by its clock; empty if none did."""
    has_passed: bool
    """Whether it passed when that session ran it again."""
    failed: int
    runs: int
    is_looked_for: bool

    @property
    def is_seen(self) -> bool:
        return bool(self.started) or self.failed > 0


class Bounds(NamedTuple):
    last_good: str = ""
    first_bad: str = ""
    fixed_in: str = ""


@attrs.define
class Truth:
    """A defect: what is true, what was seen, and what was stated of it."""

    defect: Defect
    has: set[str] = attrs.Factory(set)
    """The builds that have it."""
    looks: list[tuple[Look, str]] = attrs.Factory(list)
    """Each with the state that it led to."""
    causes: list[str] = attrs.Factory(list)
    """Those that its traces show. The first one is the one that pages name."""
    is_kept: bool = False
    """Whether there is a trace for later nights."""
    id: str = ""
    """The one of its first page."""

    @property
    def is_known(self) -> bool:
        return bool(self.looks)

    @property
    def stated(self) -> str:
        return self.looks[-1][1] if self.looks else ""

    @property
    def since_fixed(self) -> list[Look]:
        looks: list[Look] = []
        for look, state in self.looks:
            looks = [] if state == "fixed" else [*looks, look]
        return looks

    @property
    def found(self) -> list[Look]:
        return [look for look, _ in self.looks if look.started]

    @property
    def versions(self) -> list[str]:
        """The builds on which it was seen, in the order of the nights."""
        return [*dict.fromkeys(look.version for look, _ in self.looks if look.is_seen)]

    @property
    def bounds(self) -> Bounds:
        bounds, passed, is_bad = Bounds(), "", False
        for look, state in self.looks:
            if state == "fixed":
                passed = look.version
                bounds = bounds._replace(fixed_in=passed) if is_bad else bounds
                is_bad = False
            elif look.is_seen and not is_bad:
                bounds, is_bad = Bounds(passed, look.version), True
        return bounds

    def state_with(self, look: Look) -> str:
        """The state after a night that saw this."""
        was_flaky = self.stated == "flaky"
        if look.is_seen:
            differs = look.has_passed or look.failed < look.runs
            return "flaky" if was_flaky or differs else "open"
        if look.runs:
            return "flaky" if was_flaky and not self.is_past(look) else "fixed"
        if self.stated == "fixed" or look.is_looked_for:
            return self.stated
        return "not looked for"

    def is_past(self, tonight: Look) -> bool:
        """Whether a flaky defect that passed tonight passed too often on builds after the last."""
        looks = [*self.since_fixed, tonight]
        bad = {each.version for each in looks if each.is_seen}
        seen = [number for number, each in enumerate(looks) if each.is_seen]
        later = [each for each in looks[seen[-1] + 1 :] if each.version not in bad]
        failed = sum(each.failed for each in looks)
        if failed:
            passed = sum(each.runs for each in later)
            share = failed / (sum(each.runs for each in looks) - passed)
        else:
            passed = sum(each.is_looked_for for each in later)
            before = sum(each.is_looked_for for each in looks) - passed
            share = (len([each for each in looks if each.started]) + 1) / (before + 2)
            if not tonight.is_looked_for:
                return False
        return (1 - share) ** passed < CHANCE_MAX


@attrs.frozen
class Expected:
    """What a page must state of a defect."""

    truth: Truth
    """With this night."""
    was: str
    """What the page before stated; empty if it did not know the defect."""
    tonight: Look
    state: str
    """Without a mute."""
    mute: tuple[str, str] | None

    @property
    def shown(self) -> str:
        return "muted" if self.mute and self.state != "fixed" else self.state

    @property
    def status(self) -> str:
        if self.shown == "muted" and self.mute is not None:
            until, because = self.mute
            return f"muted until {until}{f' because {because}' if because else ''}"
        if self.shown == "flaky":
            looks = self.truth.since_fixed
            failed, runs = sum(each.failed for each in looks), sum(each.runs for each in looks)
            return f"flaky ({failed} of {runs})"
        return self.shown

    @property
    def notes(self) -> Iterator[str]:
        """What the page writes below it, if it is the only failure of its cause."""
        truth, look = self.truth, self.tonight
        yield f"first seen {truth.found[0].started}, last seen {truth.found[-1].started}"
        count = len(truth.found)
        yield f"found by {count} session{'s' * (count != 1)}"
        yield f"failed on {', '.join(truth.versions)}"
        last_good, first_bad, fixed_in = truth.bounds
        if fixed_in:
            yield f"fixed in {fixed_in}"
        elif last_good:
            yield f"last good version {last_good}, first bad version {first_bad}"
        if look.runs:
            how = {0: "passes", look.runs: "fails"}
            some = f"fails {look.failed} times of {look.runs}"
            yield f"replayed when this page was made: it {how.get(look.failed, some)}"


def news_of(failures: Collection[Expected]) -> str:
    """What a person calls news of failures with one cause."""
    heard = [each for each in failures if each.shown != "muted"] or failures
    failing = [each for each in heard if each.state in {"open", "flaky"}]
    known = [each for each in failures if each.was]
    were_fixed = [each for each in known if each.was == "fixed"]
    if failing and (any(each.was == "fixed" for each in failing) or known == were_fixed != []):
        return "back"
    if failing and not known:
        return "" if all(each.shown == "muted" for each in failures) else "new"
    is_fixed = all(each.state == "fixed" for each in failures)
    return "fixed" if is_fixed and known != were_fixed else ""


def state_of(failures: Collection[Expected]) -> str:
    return min((each.shown for each in failures), key=STATES.index)


def statuses_of(failures: Collection[Expected]) -> set[str]:
    """The status of a cause, with each of the failures that may be the one to read first."""
    news, state = news_of(failures), state_of(failures)
    before = f"{news}, " if news in {"new", "back"} else ""
    return {f"{before}{each.status}" for each in failures if each.shown == state}


class Mutes:
    """What was muted, in order."""

    def __init__(self) -> None:
        self._set: list[tuple[str, date, str]] = []

    def add(self, what: str, until: date, because: str) -> None:
        """`what` is the id of a defect or a cause."""
        self._set.append((what, until, because))

    def of(self, truth: Truth, ids: Mapping[str, str], today: date) -> tuple[str, str] | None:
        """The mute that holds today. `ids` are those of causes, by what traces show."""
        names = {truth.id, *(ids[each] for each in truth.causes if each in ids)}
        mine = [(until, because) for what, until, because in self._set if what in names]
        if not mine or mine[-1][0] < today:
            return None
        reasons = [because for _, because in mine if because]
        return mine[-1][0].isoformat(), reasons[-1] if reasons else ""
