"""Nights over builds whose defects are known: each statement of each page must be true.

The machine plays builds, sessions, replays, mutes, merges, wrong clocks and lost files. Its model
is the list of defects and what a person could know of each. It shares no code with the pages.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from xml.etree import ElementTree as ET

import attrs
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from made_records import failure, record, timing, written

from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, CollectFull
from fuzz.protocol.trace import Header, Trace
from fuzz.sessions import failure_history
from fuzz.sessions.failure_history import FailureHistory, KnownFailure, Triaged
from fuzz.sessions.material import read_material
from fuzz.sessions.night import Night, NightFailure, Replayed, sum_up
from fuzz.terminal import night_summary
from fuzz.terminal.cli import _code_of_night

HISTORIES, HISTORIES_AT_NIGHT = 200, 10_000
UNCLEAR_MAX = 0.02
START = datetime(2026, 1, 1, 4, tzinfo=UTC)
TRACE = Trace(Header(traces.VERSION, "reference"), (AllocateNode(7), CollectFull()))


class Defect(NamedTuple):
    program: str
    oracle: str
    action: str
    share: float
    """Of runs that fail on a build that has it."""

    @property
    def is_flaky(self) -> bool:
        return self.share < 1


KINDS = ("heap", "read", 1.0), ("heap", "write", 1.0), ("survival", "read", 1.0)
FLAKY_KINDS = ("clock", "read", 0.3), ("weights", "read", 0.0)
"""Two of the first fail with one cause. The last one is seen by sessions only."""
DEFECTS = [Defect(name, *kind) for name in ("", "mine") for kind in (*KINDS, *FLAKY_KINDS)]


class Tonight(NamedTuple):
    """What a night saw."""

    found: set[Defect]
    ran: tuple[str, ...]
    """The programs that had a session."""
    replays: dict[Defect, Replayed]
    today: date

    def has_seen(self, defect: Defect) -> bool:
        replayed = self.replays.get(defect)
        return defect in self.found or (replayed is not None and replayed.failed > 0)


some = st.frozensets(st.integers(0, len(DEFECTS) - 1))


@attrs.define
class Truth:
    """What is true of a defect, and what the nights could know."""

    versions: set[str] = attrs.Factory(set)
    """The builds that have it."""
    is_known: bool = False
    stated: str = ""
    """Its state on the last page, without mutes."""
    mutes: list[tuple[date, str]] = attrs.Factory(list)
    passed_since: int = 0
    """The nights that did not see it, since one did."""
    replays: list[tuple[int, int]] = attrs.Factory(list)
    """How many of how many failed on each night, since it was stated to be fixed."""


class Nights(RuleBasedStateMachine):
    statements: ClassVar = Counter[str]()

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.kept = self.folder / "kept"
        self.kept.mkdir()
        self.path = self.folder / failure_history.NAME
        self.truths = {each: Truth() for each in DEFECTS}
        self.build, self.nights, self.mutes = 0, 0, 0
        self.present: set[Defect] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def version(self) -> str:
        return f"v{self.build}"

    @rule(changed=some)
    def make_build(self, changed: frozenset[int]) -> None:
        """Defects appear, go and return."""
        self.build += 1
        self.present ^= {DEFECTS[each] for each in changed}
        for each in self.present:
            self.truths[each].versions.add(self.version)

    @precondition(lambda self: any(each.is_known for each in self.truths.values()))
    @rule(which=st.integers(0, 99), days=st.integers(-1, 5), because=st.sampled_from(["", "why"]))
    def mute(self, which: int, days: int, because: str) -> None:
        known = [each for each in DEFECTS if self.truths[each].is_known]
        defect = known[which % len(known)]
        until = (START + timedelta(days=self.nights + days)).date()
        lives = failure_history.read(self.path).lives().values()
        [id_] = {each.known.id for each in lives if defect_of(each.known) == defect}
        self.mutes += 1
        moment = timedelta(days=self.nights, microseconds=self.mutes)
        at = (START + moment).isoformat()
        failure_history.add(
            self.path, [Triaged(at, id_, muted_until=until.isoformat(), because=because)]
        )
        self.truths[defect].mutes.append((until, because))

    @precondition(lambda self: self.path.exists())
    @rule(share=st.floats(0, 1))
    def merge_with_an_older_copy(self, share: float) -> None:
        history = failure_history.read(self.path)
        older = FailureHistory(history.lines[: int(share * len(history.lines))])
        lines = failure_history.merged([older, history])
        self.path.unlink()
        failure_history.add(self.path, lines)

    @precondition(lambda self: self.nights)
    @rule(which=st.integers(0, len(DEFECTS) - 1), is_lost=st.sampled_from([False] * 19 + [True]))
    def lose_a_trace(self, which: int, is_lost: bool) -> None:
        if is_lost:
            (self.kept / f"{which}.jsonl").unlink(missing_ok=True)

    @precondition(lambda self: self.build)
    @rule(
        finding=some,
        ran=st.sampled_from([("",), ("mine",), ("", "mine")]),
        is_clock_wrong=st.sampled_from([False] * 4 + [True]),
        seed=st.integers(0, 2**32),
    )
    def night(
        self, finding: frozenset[int], ran: tuple[str, ...], is_clock_wrong: bool, seed: int
    ) -> None:
        self.nights += 1
        at = START + timedelta(days=self.nights - 20_000 * is_clock_wrong)
        found = {DEFECTS[each] for each in finding} & self.present
        found = {each for each in found if each.program in ran}
        corpus = self.sessions(found, ran, at)
        replays: dict[Defect, Replayed] = {}
        material = read_material([corpus])
        material.corpora.append(self.kept)
        earlier = failure_history.read(self.path)
        replay = self.replaying(replays, random.Random(seed))
        current = sum_up(material, earlier, replay, "0.1.0", at.isoformat())
        self.check(current, Tonight(found, ran, replays, at.date()))
        current.keep_traces(material, self.kept, "", "")
        failure_history.add(self.path, current.lines(earlier))
        shutil.rmtree(corpus)

    def sessions(self, found: set[Defect], ran: tuple[str, ...], at: datetime) -> Path:
        records = []
        for name in ran:
            failures = [
                failure(
                    each.oracle,
                    f"{DEFECTS.index(each)}.jsonl",
                    action=each.action,
                    reproduced=not each.is_flaky,
                )
                for each in DEFECTS
                if each in found and each.program == name
            ]
            started = (at - timedelta(hours=2)).isoformat()
            when = timing(started=started, versions={"target": self.version})
            records.append(record(*failures, seed=self.nights, timing=[when]))
            records[-1]["plan"]["name"] = name
        corpus = written(self.folder / f"night{self.nights}", *records)
        for each in found:
            traces.write_to(TRACE, corpus / f"{DEFECTS.index(each)}.jsonl")
        return corpus

    def replaying(
        self, replays: dict[Defect, Replayed], source: random.Random
    ) -> Callable[..., Replayed]:
        def replay(known: KnownFailure, trace: Trace, path: Path, *, is_always: bool) -> Replayed:
            defect, failed, runs = defect_of(known), 0, 0
            while runs < 5 and (is_always or not failed):
                failed += defect in self.present and source.random() < defect.share
                runs += 1
            replays[defect] = Replayed(failed, runs, self.version)
            return replays[defect]

        return replay

    # What a page states.

    def check(self, current: Night, tonight: Tonight) -> None:
        shown = {defect_of(each.known): each for each in current.failures}
        assert {*shown} == {each for each, it in self.truths.items() if it.is_known} | tonight.found
        news: dict[str, str] = {}
        for cause in current.causes:
            news[cause.id] = self.expected_news(
                {defect_of(each.known): each for each in cause.failures}, tonight
            )
            assert cause.news == news[cause.id], (cause.id, cause.failures)
        heard = {
            cause.id
            for cause in current.causes
            if news[cause.id] in {"new", "back"} and cause.state != "muted"
        }
        self.check_outputs(current, heard, shown)
        for defect, each in shown.items():
            self.check_failure(defect, each, tonight)

    def expected_news(self, failures: dict[Defect, NightFailure], tonight: Tonight) -> str:
        """What a person would call news, from what was seen tonight and stated before."""
        known = [each for each in failures if self.truths[each].is_known]
        heard = [each for each in failures if not self.mute_of(each, tonight.today)] or [*failures]
        seen = {each for each in failures if tonight.has_seen(each)}
        still = {
            each
            for each in heard
            if each in seen or (each in known and failures[each].tonight.state in {"open", "flaky"})
        }
        were_fixed = {each for each in known if self.truths[each].stated == "fixed"}
        if still & were_fixed or (still and known and were_fixed == {*known}):
            return "back"
        if still and not known:
            return "" if all(self.mute_of(each, tonight.today) for each in failures) else "new"
        is_fixed = all(each.tonight.state == "fixed" for each in failures.values())
        return "fixed" if is_fixed and were_fixed != {*known} else ""

    def mute_of(self, defect: Defect, today: date) -> tuple[str, str] | None:
        mutes = self.truths[defect].mutes
        if not mutes or mutes[-1][0] < today:
            return None
        because = [reason for _, reason in mutes if reason]
        return mutes[-1][0].isoformat(), because[-1] if because else ""

    def check_failure(self, defect: Defect, each: NightFailure, tonight: Tonight) -> None:
        truth, replayed = self.truths[defect], tonight.replays.get(defect)
        state = each.tonight.state
        is_seen = tonight.has_seen(defect)
        self.statements["all"] += 1
        if not is_seen and replayed is None and state in {"open", "flaky"}:
            self.statements["unclear"] += 1
            assert each.why_not_replayed
        elif state == "open":
            assert is_seen
            assert defect in self.present
        elif state == "fixed" and (replayed is not None or truth.stated != "fixed"):
            assert not is_seen
            assert defect not in self.present or self.is_unlikely(defect, replayed)
        elif state == "flaky":
            assert defect.is_flaky
        elif state == "not looked for":
            assert replayed is None
            assert defect.program not in tonight.ran
        if is_seen:
            assert state in {"open", "flaky"}
        mute = self.mute_of(defect, tonight.today)
        assert each.mute == mute
        assert (each.state == "muted") == (mute is not None and state != "fixed")
        self.check_bounds(defect, each)
        self.learn(defect, state, is_seen, replayed)

    def is_unlikely(self, defect: Defect, replayed: Replayed | None) -> bool:
        """Whether a flaky defect passed so often that the page may state that it is fixed."""
        if not defect.is_flaky or replayed is None:
            return False
        if self.truths[defect].stated == "fixed":
            return True  # It returned, and no run has shown it yet: nothing could know.
        replays = self.truths[defect].replays
        failing = [number for number, (failed, _) in enumerate(replays) if failed]
        if not failing:
            return self.truths[defect].passed_since + 1 >= 3
        before, after = replays[: failing[-1] + 1], replays[failing[-1] + 1 :]
        share = sum(failed for failed, _ in before) / sum(runs for _, runs in before)
        return (1 - share) ** (replayed.runs + sum(runs for _, runs in after)) < 0.01

    def check_bounds(self, defect: Defect, each: NightFailure) -> None:
        versions, data = self.truths[defect].versions, each.to_data()
        assert {*data["versions"]} <= versions
        assert data["first_bad"] in {"", *versions}
        if not defect.is_flaky:
            assert data["last_good"] not in versions
            assert data["fixed_in"] not in versions

    def learn(self, defect: Defect, state: str, is_seen: bool, replayed: Replayed | None) -> None:
        truth = self.truths[defect]
        truth.is_known = True
        if is_seen or replayed is not None or truth.stated == "":
            truth.stated = state
        if state == "fixed":
            truth.replays = []
        elif replayed is not None:
            truth.replays.append((replayed.failed, replayed.runs))
        truth.passed_since = 0 if is_seen else truth.passed_since + (replayed is not None)

    def check_outputs(
        self, current: Night, heard: set[str], shown: dict[Defect, NightFailure]
    ) -> None:
        is_open = any(each.state == "open" for each in shown.values())
        assert _code_of_night(current, None) == 0
        assert _code_of_night(current, "new") == int(bool(heard))
        assert _code_of_night(current, "open") == int(bool(heard) or is_open)
        data = json.loads(current.dumps())
        assert {each["id"]: each["news"] for each in data["causes"]} == {
            each.id: each.news for each in current.causes
        }
        cases = ET.fromstring(night_summary.junit(current)).findall("testcase")
        broken = [case for case in cases if case.find("failure") is not None]
        assert len(cases) == len(current.causes)
        assert len(broken) == sum(each.state == "open" for each in current.causes)
        text = night_summary.markdown(current)
        for cause in current.causes:
            is_told = cause.state != "fixed" or bool(cause.news)
            assert (f"| `{cause.id}` | `{night_summary.status_of(cause)}`" in text) == is_told


def defect_of(known: KnownFailure) -> Defect:
    failure = known.saved.failure
    [defect] = [
        each
        for each in DEFECTS
        if (each.program, each.oracle, each.action) == (known.name, failure.oracle, failure.action)
    ]
    return defect


def play(histories: int, **changed: Any) -> None:
    Nights.statements = Counter()
    run_state_machine_as_test(
        Nights,
        settings=settings(
            max_examples=histories,
            stateful_step_count=25,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
            **changed,
        ),
    )
    assert Nights.statements["unclear"] <= UNCLEAR_MAX * Nights.statements["all"]


@pytest.mark.slow
def test_pages_of_nights_state_nothing_that_is_false() -> None:
    play(HISTORIES, derandomize=True)


@pytest.mark.night
def test_pages_of_many_nights_state_nothing_that_is_false() -> None:
    play(HISTORIES_AT_NIGHT)
