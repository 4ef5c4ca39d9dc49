"""A night: what many sessions did and found, and the state of each failure that is known.

It is made from the records of sessions, the history of earlier nights, replays on tonight's build,
and the output of `gcfuzz bugs --json`. Invariants: what is given twice, or also as part of a merged
record, counts once; the order of the inputs does not matter. A failure is `fixed` only if its trace
passes. A file that is broken costs a line, and not the night.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from fuzz.failure import BROKE
from fuzz.failures.causes import Cause, cause_of
from fuzz.failures.corpus import SavedFailure, findings_like, stem_of, unpublished_in
from fuzz.files import write_text, writing
from fuzz.nights.corpora import command_of, folder_of_other, unnamed_in
from fuzz.nights.failure_history import (
    FIXED,
    FLAKY,
    MUTED,
    OPEN,
    STATES,
    FailureHistory,
    KnownFailure,
    Life,
    Line,
    Mute,
    NightDone,
    SessionRun,
    Shown,
    State,
    VersionBounds,
    text_of,
)
from fuzz.nights.failure_states import state_after
from fuzz.nights.material import Material
from fuzz.nights.merge import merged_records
from fuzz.nights.night_reach import combinations_of, facts_reached, probes_of, reached_in
from fuzz.protocol import lines as wire
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import NAMES
from fuzz.protocol.trace import Trace
from fuzz.sessions import record as records
from fuzz.sessions.hunt import HuntedBugs
from fuzz.sessions.plan import PlanKey
from fuzz.sessions.reach import ReachedCombinations
from fuzz.sessions.record import SessionRecord, Timing

VERSION = 3
"""The version of a night's JSON."""
News: TypeAlias = Literal["", "new", "back", "fixed"]
"""What changed since the night before."""
NEW: Literal["new"] = "new"
BACK: Literal["back"] = "back"
COUNTED = (NEW, BACK, OPEN, FLAKY, MUTED, FIXED)
"""The numbers of causes that each summary has."""
RUNS = 5
"""How often a trace is replayed. One that stopped when it fails would seem to fail more often."""
NIGHTS_MAX = 30
"""How many nights a page compares."""


@attrs.frozen
class Replayed:
    """Runs of a trace on tonight's build."""

    failed: int = 0
    runs: int = 0
    version: str = ""
    problem: str = ""
    """Why there was none."""


Replay = Callable[[KnownFailure, Trace, Path], Replayed]
"""Runs the trace of a failure, from that file, RUNS times on tonight's build."""


@attrs.frozen
class NightFailure:
    """A failure of this night or of an earlier one."""

    life: Life
    """With this night."""
    state: State
    before: State | None
    """Its state in the night before; None if it was not known."""
    tonight: Shown
    problem: str = ""
    """Why its trace was not replayed."""
    mute: Mute | None = None
    pages: tuple[str, ...] = ()
    """The findings in docs/findings that it resembles."""
    is_documented: bool = False
    """Whether it was not known, and tonight's build has one of these findings: its trace fails."""

    @property
    def known(self) -> KnownFailure:
        return self.life.known

    @property
    def saved(self) -> SavedFailure:
        return self.known.saved

    @property
    def identity(self) -> tuple[str, ...]:
        return self.known.identity

    @property
    def is_sure(self) -> bool:
        """Whether it failed again, and always."""
        return self.tonight.state == OPEN and (self.saved.reproduced or self.tonight.failed > 0)

    @property
    def is_bad(self) -> bool:
        """Whether it fails tonight, muted or not."""
        return self.tonight.state in {OPEN, FLAKY} and self.state != FIXED

    @property
    def is_back(self) -> bool:
        """Whether it was fixed, and fails again."""
        return self.is_bad and self.before == FIXED

    @property
    def is_to_tell(self) -> bool:
        """Whether the history needs this night. A failure that stays fixed has a line a version."""
        version = self.life.shown[-2].version if len(self.life.shown) > 1 else None
        stays_fixed = self.before == self.tonight.state == FIXED
        is_same = stays_fixed and self.tonight.version == version
        return bool(self.tonight.sessions or self.tonight.runs) and not is_same

    @property
    def why_not_replayed(self) -> str:
        """Empty if its trace was replayed, or if a change did it, which no replay shows."""
        return self.problem if self.saved.failure.change == BROKE else ""

    @property
    def order(self) -> tuple[object, ...]:
        """The order in which failures are read: those that are back, sure and short come first."""
        rank = STATES.index(self.state), not self.is_back, not self.is_sure
        return *rank, self.saved.length, self.identity

    def to_data(self) -> dict[str, Any]:
        saved = self.saved
        muted_until, because = self.mute or ("", "")
        return {
            "id": self.life.id,
            "identity": [*self.identity],
            "message": saved.failure.message,
            "state": self.state,
            **_data_of(self.life, self.life.bounds),
            "found_tonight": bool(self.tonight.sessions),
            "failed": sum(failed for failed, _ in self.life.runs),
            "runs": sum(runs for _, runs in self.life.runs),
            "not_replayed": self.why_not_replayed,
            "muted_until": muted_until,
            "because": because,
            "issue": self.life.issue,
            "findings": [*self.pages],
            "trace": None if saved.path is None else saved.path.name,
            "length": saved.length,
            "reproduced": saved.reproduced,
        }


def _data_of(life: Life, bounds: VersionBounds) -> dict[str, Any]:
    """When and where it was seen."""
    return {
        "first_seen": life.first_seen,
        "last_seen": life.last_seen,
        "sessions": len(life.sessions),
        "versions": [*life.versions],
        **bounds._asdict(),
    }


@attrs.frozen
class NightCause:
    """Failures of one target with one likely cause, the one to read first at the beginning."""

    failures: tuple[NightFailure, ...]
    life: Life
    """What all its failures showed."""

    @property
    def first(self) -> NightFailure:
        return self.failures[0]

    @property
    def id(self) -> str:
        return self.first.life.cause_id

    @property
    def target(self) -> str:
        return " ".join(filter(None, (self.first.known.target, self.first.known.name)))

    @property
    def state(self) -> State:
        return self.first.state

    @property
    def is_broken(self) -> bool:
        """Whether it is open, and not only a change between two targets."""
        return self.state == OPEN and self.first.saved.failure.change == BROKE

    @property
    def bounds(self) -> VersionBounds:
        """Those of its first failure: another one may fail on a version on which it passed."""
        return self.first.life.bounds

    @property
    def issue(self) -> str:
        return next((each.life.issue for each in self.failures if each.life.issue), "")

    @property
    def news(self) -> News:
        """What changed.

        A cause is back if any of its failures is: a new mistake may fail like an older one that is
        still open. A muted failure counts only if all are muted. A cause is not new if all
        its failures are documented.
        """
        if self.first.saved.failure.change != BROKE:
            return ""
        heard = [each for each in self.failures if each.state != MUTED] or self.failures
        bad = [each for each in heard if each.is_bad]
        earlier = {each.before for each in self.failures if each.before is not None}
        if any(each.is_back for each in bad) or (bad and earlier == {FIXED}):
            return BACK
        if self.state in {OPEN, FLAKY} and not earlier:
            return "" if all(each.is_documented for each in bad) else NEW
        return "fixed" if self.state == FIXED and earlier != {FIXED} else ""

    @property
    def order(self) -> tuple[object, ...]:
        return self.news not in {NEW, BACK}, *self.first.order, self.id

    def to_data(self) -> dict[str, Any]:
        known = self.first.known
        return {
            "id": self.id,
            "target": known.target,
            "name": known.name,
            "cause": [*known.cause],
            "state": self.state,
            "news": self.news,
            **_data_of(self.life, self.bounds),
            "failures": [each.to_data() for each in self.failures],
        }


@attrs.frozen
class Night:
    """The sum."""

    gcfuzz: str
    """The version of gcfuzz."""
    at: str
    sessions: tuple[SessionRecord, ...]
    """One for each plan and build."""
    causes: tuple[NightCause, ...]
    nights: tuple[NightDone, ...]
    """This night and those before, the oldest first."""
    hunts: tuple[HuntedBugs, ...] = ()
    left_out: tuple[str, ...] = ()
    """What is wrong with files that could not be read."""
    unreduced: tuple[str, ...] = ()
    """Traces of failures that no session reported, because it was killed or still runs."""
    unnamed: tuple[str, ...] = ()
    """Other traces of failures that neither a record nor the history names."""
    found: tuple[KnownFailure, ...] = ()
    """What the records have, with each of several traces of one failure."""

    @property
    def failures(self) -> list[NightFailure]:
        return [each for cause in self.causes for each in cause.failures]

    @property
    def timing(self) -> list[Timing]:
        return [timing for session in self.sessions for timing in session.timing]

    @property
    def quiet_seconds(self) -> float:
        """The time from the last new probe or failure to the end of the last session."""
        if not self.timing:
            return 0.0
        end = max(each.ended for each in self.timing)
        return max(0.0, (end - max(each.last_new for each in self.timing)).total_seconds())

    @property
    def has_new(self) -> bool:
        """Whether a cause is new, or came back, and is not muted."""
        return any(cause.news in {NEW, BACK} and cause.state != MUTED for cause in self.causes)

    def counts(self) -> Counter[str]:
        """The number of causes by state and by news; `fixed` since the night before only."""
        return _counts(self.causes)

    @property
    def not_replayed(self) -> int:
        """How many failures were not replayed."""
        return sum(bool(each.why_not_replayed) for each in self.failures)

    @property
    def is_partial(self) -> bool:
        """Whether something could not be read or replayed."""
        return bool(self.left_out or self.not_replayed or self.unreduced or self.unnamed)

    @property
    def commands(self) -> dict[tuple[str, str], list[str]]:
        """The commands of the sessions' programs, by target and `--name`."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for session in self.sessions:
            plan = session.plan
            found[plan.target, plan.name] |= {*filter(None, [command_of(plan.options)])}
        return {key: sorted(found[key]) for key in sorted(found)}

    @property
    def actions(self) -> int:
        """The actions of all sessions."""
        return sum(session.totals.actions for session in self.sessions)

    def probes(self) -> dict[str, Counter[str]]:
        """How often each probe of a target was reached, by target."""
        return probes_of(self.sessions)

    def combinations(self) -> dict[str, list[ReachedCombinations]]:
        """Which pairs and triples of facts were reached, by target."""
        return combinations_of(self.sessions)

    def wrong_actions(self) -> dict[str, Counter[str]]:
        """The number of failures by oracle, and by the action with the first wrong answer."""
        sums: dict[str, Counter[str]] = {}
        for each in self.failures:
            failure = each.saved.failure
            if each.tonight.sessions and failure.change == BROKE:
                sums.setdefault(failure.oracle, Counter())[failure.action] += 1
        return sums

    def lines(self, history: FailureHistory) -> Iterator[Line]:
        """What this night adds to a history."""
        told = {text_of(line) for line in history.lines}
        yield self.nights[-1]
        known = {text_of(each): each for each in (*self.found, *(it.known for it in self.failures))}
        for text, failure in known.items():
            if failure.saved.failure.change == BROKE and text not in told:
                yield failure
        for each in self.failures:
            if each.saved.failure.change == BROKE and each.is_to_tell:
                yield each.tonight

    def keep_traces(self, material: Material, folder: Path, name: str, command: str) -> None:
        """Copy the traces of failures to that folder, for later nights. Raises BadInputError.

        Those of another program than the one with that `--name` and command have a folder of their
        own in it: a replay of the folder judges one program.
        """
        for each in self.failures:
            known, found = each.known, material.trace_of(each.saved)
            if found is None or folder in found[0].parents:
                continue
            ran = command_of(known.options)
            is_mixed = len(self.commands.get((known.target, known.name), ())) > 1
            place = folder
            if known.name != name or (is_mixed and ran != command):
                place = folder_of_other(folder, known.name or f"{known.target} {ran}")
                with writing(place):
                    place.mkdir(exist_ok=True)
            write_text(place / found[0].name, traces.dumps(found[1]))

    def dumps(self) -> str:
        data = {
            "gcfuzz_night": VERSION,
            "gcfuzz": self.gcfuzz,
            "made": self.at,
            "causes": [each.to_data() for each in self.causes],
            "nights": [attrs.asdict(each) for each in self.nights],
            "sessions": [each.to_data() for each in self.sessions],
            "hunts": wire.unstructured(self.hunts),
            "left_out": [*self.left_out],
            "unreduced": [*self.unreduced],
            "unnamed": [*self.unnamed],
        }
        return json.dumps(data, indent=1) + "\n"


def sum_up(
    material: Material, history: FailureHistory, replay: Replay, gcfuzz: str, at: str
) -> Night:
    """The night at that moment. Raises BadInputError if records of one plan do not add up."""
    by_plan: dict[PlanKey, list[SessionRecord]] = {}
    for session in material.records.values():
        by_plan.setdefault(session.plan, []).append(session)
    merged = (merged_records(by_plan[plan], material.rank) for plan in sorted(by_plan, key=str))
    sessions = tuple(chain.from_iterable(merged))
    runs = [_run_of(session) for session in sessions]
    history = history.before({run.id for run in runs})
    earlier = {run.id for night in history.nights for run in night.sessions}
    found = _found(sessions, runs, material)
    lives = history.lives(known for known, _ in found)
    tonight = [each for each, run in zip(sessions, runs, strict=True) if run.id not in earlier]
    found_as: dict[str, list[Found]] = defaultdict(list)
    for known, run in found:
        if run.id not in earlier:
            found_as[known.id].append((known, run))
    failures = []
    for id_ in sorted(lives):
        life = _with_best_trace(lives[id_], material)
        here = [each for own_id in {it.id for it in life.traces} for each in found_as[own_id]]
        if here or life.known.saved.failure.change == BROKE:
            failures.append(_judged(life, _shown(at, id_, here), tonight, material, replay))
    causes = _by_cause(failures, [*(night.at for night in history.nights), at])
    counts = _counts(causes)
    done = NightDone(
        at=at,
        sessions=tuple(runs),
        actions=sum(session.totals.actions for session in tonight),
        probes=reached_in(probes_of(tonight)),
        combinations=facts_reached(tonight),
        **{each: counts[each] for each in COUNTED},
    )
    hunts = tuple(hunted for _, hunted in sorted(material.hunts.items()))
    nights = (*history.nights, done)[-NIGHTS_MAX:]
    return Night(
        gcfuzz,
        at,
        sessions,
        causes,
        nights,
        hunts,
        left_out=tuple(material.left_out),
        unreduced=_unreduced(material, failures),
        unnamed=_unnamed(material, history, failures),
        found=tuple(known for known, _ in found),
    )


def _unreduced(material: Material, failures: Iterable[NightFailure]) -> tuple[str, ...]:
    """The unpublished traces, except those of failures that the page shows as failing or muted."""
    shown = [each for each in failures if each.state in {OPEN, FLAKY, MUTED}]
    stems = {stem_of(each.saved.failure) for each in shown}
    found = {path: stem for each in material.corpora for path, stem in unpublished_in(each).items()}
    return tuple(str(path) for path in sorted(found) if found[path] not in stems)


def _unnamed(
    material: Material, history: FailureHistory, failures: Iterable[NightFailure]
) -> tuple[str, ...]:
    """The saved failures that no record names, except other traces of those that the page shows."""
    named = [each.saved.path for each in history.lines if isinstance(each, KnownFailure)]
    for session in material.records.values():
        named += [each.path for each in (*session.failures, *session.beyond)]
    stems = {stem_of(each.saved.failure) for each in failures if each.state != FIXED}
    return unnamed_in(material.folders, named, stems)


def _run_of(session: SessionRecord) -> SessionRun:
    started = max((timing.started for timing in session.timing), default="")
    versions = (each.versions.get("target", each.versions.get("commit")) for each in session.timing)
    return SessionRun(
        f"{started} {records.name_of(session.plan)}",
        session.plan.target,
        session.plan.name,
        tuple(sorted({version for version in versions if version})),
    )


Found: TypeAlias = tuple[KnownFailure, SessionRun]


def _found(
    sessions: Sequence[SessionRecord], runs: Sequence[SessionRun], material: Material
) -> list[Found]:
    """The failures of sessions, and the session of each."""
    found = []
    for session, run in zip(sessions, runs, strict=True):
        plan = session.plan
        for saved in (*session.failures, *session.beyond):
            traced = material.trace_of(saved)
            cause: Cause = () if traced is None else cause_of(saved.with_trace(traced[1]).failure)
            found.append((KnownFailure(plan.target, plan.name, cause, saved, plan.options), run))
    return found


def _with_best_trace(life: Life, material: Material) -> Life:
    """The life of a failure before this night, with the best trace that is there."""
    traces = sorted(life.traces, key=lambda each: each.order)
    there = (each for each in traces if material.trace_of(each.saved) is not None)
    return attrs.evolve(life, known=next(there, life.known))


def _shown(at: str, id_: str, found: Sequence[Found]) -> Shown:
    """What this night's sessions showed of a failure; `_judged` completes it."""
    versions = {version for _, run in found for version in run.versions}
    runs = {run.id for _, run in found}
    # `tries` are runs that passed after it failed.
    state = FLAKY if any(known.saved.tries for known, _ in found) else OPEN
    return Shown(at, id_, state, tuple(sorted(runs)), tuple(sorted(versions)))


def _judged(
    life: Life, shown: Shown, tonight: Sequence[SessionRecord], material: Material, replay: Replay
) -> NightFailure:
    """A failure with its state. Its trace is replayed."""
    known, traced = life.known, material.trace_of(life.known.saved)
    findings: dict[str, Trace] = {}
    replayed = Replayed(problem="its trace is in none of the places that were read")
    if traced is not None:
        path, trace = traced
        findings = findings_like(known.target, known.saved.with_trace(trace).failure)
        if known.saved.failure.change != BROKE:
            replayed = Replayed(problem="it is what a change did, and not a failure")
        else:
            replayed = replay(known, trace, path)
    needed = {NAMES[type(action)] for action in traced[1].actions} if traced is not None else set()
    is_looked_for = any(
        (session.plan.target, session.plan.name) == (known.target, known.name)
        and needed.isdisjoint(session.plan.without)
        for session in tonight
    )
    shown = attrs.evolve(
        shown,
        failed=replayed.failed,
        runs=replayed.runs,
        version=replayed.version,
        is_looked_for=is_looked_for,
    )
    state = state_after(life, shown)
    shown = attrs.evolve(shown, state=state)
    mute = life.mute(datetime.fromisoformat(shown.at).date())
    return NightFailure(
        attrs.evolve(life, told=(*life.told, shown)),
        MUTED if mute and state != FIXED else state,
        life.state,
        shown,
        replayed.problem,
        mute,
        tuple(findings),
        life.state is None  # Later nights are no news.
        and any(replay(known, each, Path(page)).failed for page, each in findings.items()),
    )


def _counts(causes: Iterable[NightCause]) -> Counter[str]:
    states = Counter[str](each.state for each in causes if each.state != FIXED)
    return states + Counter(each.news for each in causes if each.news)


def _by_cause(failures: Iterable[NightFailure], nights: Sequence[str]) -> tuple[NightCause, ...]:
    """The failures by cause. `nights` are the times of all nights, in their order."""
    places = {at: place for place, at in enumerate(nights)}
    groups: dict[str, list[NightFailure]] = defaultdict(list)
    for each in sorted(failures, key=lambda each: each.order):
        groups[each.life.cause_id].append(each)
    causes = []
    for group in groups.values():
        shown = [shown for each in group for shown in each.life.shown]
        told = sorted(shown, key=lambda each: places[each.at])
        causes.append(NightCause(tuple(group), Life(group[0].known, tuple(told))))
    return tuple(sorted(causes, key=lambda each: each.order))
