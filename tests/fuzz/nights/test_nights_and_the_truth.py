"""Nights over builds whose defects are known: each statement of each page must be true.

The machine plays builds, sessions in parts, replays, mutes, merges, wrong clocks and lost files.
What pages must state comes from its own model (tests/helpers/nights_model.py). A statement is
unclear if it repeats an earlier one because nothing could be run.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from made_records import Data, failure, piece, record, timing, written
from night import fresh
from nights_model import Defect, Expected, Look, Mutes, Truth, news_of, state_of, statuses_of

from fuzz.nights import failure_history
from fuzz.nights.failure_history import FailureHistory, KnownFailure, Triaged
from fuzz.nights.material import read_material
from fuzz.nights.merge import merge
from fuzz.nights.night import Night, NightFailure, Replayed, sum_up
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, CheckHeap, CollectFull
from fuzz.protocol.trace import Header, Trace
from fuzz.terminal import night_summary
from fuzz.terminal.commands.nights import code_of_night
from fuzz.terminal.explain_page import Page
from fuzz.terminal.night_build import NightBuild
from fuzz.terminal.night_page import write_night

HISTORIES, HISTORIES_AT_NIGHT, PARTS_AT_NIGHT = 200, 10_000, 10
STEPS, STEPS_AT_NIGHT = 6, 25
UNCLEAR_MAX = 0.02
"""Of the statements of one part. In one of 20 parts of 500 histories, chance alone left 2.1 %
without a run, so a part has 1,000."""
RUNS = 5
START = datetime(2020, 1, 1, 4, tzinfo=UTC)
HEADER = Header(traces.VERSION, "reference")
TRACES = [
    Trace(HEADER, (AllocateNode(7), CollectFull())),
    Trace(HEADER, (AllocateNode(7), CheckHeap(), CollectFull())),
]
"""Reduced, and as it was found."""
KINDS = (
    ("heap", "read", 1.0, "heap"),  # This one and the next fail with one cause.
    ("heap", "write", 1.0, "heap"),
    ("survival", "read", 1.0, "survival"),
    ("clock", "read", 0.3, "clock"),
    ("weights", "read", 0.0, "weights"),  # Only sessions see it.
)
DEFECTS = [Defect(name, *kind) for name in ("", "mine") for kind in KINDS]
FOUND_SHARE = 0.6
"""How often a session finds a flaky defect, while builds do not change."""
some = st.frozensets(st.integers(0, len(DEFECTS) - 1))
sometimes = st.sampled_from([False] * 4 + [True])
ARTICLE = re.compile(
    r'<article class="failure (.*?)" id="(.*?)">\s*'
    r'<h3><span class="status">(.*?)</span>.*?</article>',
    re.DOTALL,
)
OTHER = re.compile(r'<p class="like"><span class="status">(.*?)</span>')
NOTES = re.compile(r'</p>\s*<p class="quiet">([^<]*)</p>')


class Build(NightBuild):
    """The programs of a night: defects that they have fail by chance."""

    def __init__(self, version: str, present: set[Defect], source: random.Random | None) -> None:
        """Without a source of chance it cannot run."""
        self._version, self._present, self._source = version, present, source
        self.can_run, self.results = source is not None, dict[Defect, int]()

    def replayed(self, known: KnownFailure, trace: Trace, path: Path) -> Replayed:
        if self._source is None:
            return Replayed(problem="there is no build")
        defect = defect_of(known)
        chances = [self._source.random() < defect.share for _ in range(RUNS)]
        self.results[defect] = sum(chances) if defect in self._present else 0
        return Replayed(self.results[defect], RUNS, self._version)

    def arguments_for(self, known: KnownFailure) -> list[str]:
        return []

    def explained(self, known: KnownFailure, trace: Trace, path: Path) -> Page:
        raise BadInputError("there is nothing to see")


class Nights(RuleBasedStateMachine):
    statements: ClassVar = Counter[str]()
    pages_every: ClassVar = 1

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.kept = self.folder / "kept"
        self.kept.mkdir()
        self.path = self.folder / failure_history.NAME
        self.truths = {each: Truth(each) for each in DEFECTS}
        self.mutes = Mutes()
        self.cause_ids: dict[str, str] = {}
        self.build, self.nights, self.moments = 0, 0, 0
        self.present: set[Defect] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def known(self) -> list[Truth]:
        return [each for each in self.truths.values() if each.is_known]

    @initialize(changed=some)
    def make_first_build(self, changed: frozenset[int]) -> None:
        self.make_build(changed)

    @rule(changed=some)
    def make_build(self, changed: frozenset[int]) -> None:
        """Defects appear, go and return."""
        self.build += 1
        self.present ^= {DEFECTS[each] for each in changed}
        for each in self.present:
            self.truths[each].has.add(f"v{self.build}")

    @precondition(lambda self: self.known)
    @rule(
        which=st.integers(0, 99),
        days=st.integers(-1, 5),
        because=st.sampled_from(["", "why"]),
        is_cause=st.booleans(),
    )
    def mute(self, which: int, days: int, because: str, is_cause: bool) -> None:
        truth = self.known[which % len(self.known)]
        id_ = self.cause_ids[truth.causes[0]] if is_cause else truth.id
        until = (START + timedelta(days=self.nights + days)).date()
        self.moments += 1
        at = START + timedelta(days=self.nights, microseconds=self.moments)
        line = Triaged(at.isoformat(), id_, muted_until=until.isoformat(), because=because)
        failure_history.add(self.path, [line])
        self.mutes.add(id_, until, because)

    @precondition(lambda self: self.path.exists())
    @rule(share=st.floats(0, 1))
    def merge_with_an_older_copy(self, share: float) -> None:
        history = failure_history.read(self.path)
        older = FailureHistory(history.lines[: int(share * len(history.lines))])
        lines = failure_history.merged([older, history])
        self.path.unlink()
        line = Triaged("9999-01-01T00:00:00+00:00", "", issue="https://example.com")
        failure_history.add(self.path, [line])
        with pytest.raises(BadInputError, match="in the future"):
            failure_history.read(self.path)
        self.path.unlink()
        failure_history.add(self.path, lines)

    @rule(
        finding=some,
        ran=st.sampled_from([("",), ("mine",), ("", "mine")]),
        is_clock_wrong=sometimes,
        seed=st.integers(0, 2**32),
    )
    def night(
        self, finding: frozenset[int], ran: tuple[str, ...], is_clock_wrong: bool, seed: int
    ) -> None:
        self.nights += 1
        source = random.Random(f"{seed}/{self.nights}")
        self.lose_a_trace(source)
        at = START + timedelta(days=self.nights - 10_000 * is_clock_wrong)
        found = {DEFECTS[each] for each in finding} & self.present
        sessions = {each: source.random() for each in found if each.program in ran}
        places = self.sessions(sessions, ran, at, parts=source.choice([1, 1, 2, 3]))
        if source.random() < 0.3:
            merge(places, self.folder / "merged")
            places = [self.folder / "merged", *places[: source.choice([0, 1])]]
        is_there = source.random() < 0.99
        for _ in range(source.choice([1, 1, 1, 2])):  # A night may be made again.
            at += timedelta(minutes=1)
            build = Build(f"v{self.build}", self.present, source if is_there else None)
            material = read_material(places)
            material.corpora.append(self.kept)
            earlier = failure_history.read(self.path)
            current = sum_up(material, earlier, build.replayed, "0.1.0", at.isoformat())
            current.keep_traces(material, self.kept, "", "")
            failure_history.add(self.path, current.lines(earlier))
        expected = self.expected(sessions, ran, at, build)
        self.check(current, expected, ran)
        if self.nights % self.pages_every == 0:
            check_outputs(current, grouped(expected))
            write_night(current, material, self.folder / "night.html", build)
            check_page((self.folder / "night.html").read_text(), current, grouped(expected))
        for place in {*places, self.folder / "merged", self.folder / "parts"}:
            shutil.rmtree(place, ignore_errors=True)

    @rule(count=st.integers(5, 9), is_quiet=sometimes, seed=st.integers(0, 2**32))
    def make_builds_without_changes(self, count: int, is_quiet: bool, seed: int) -> None:
        """Several nights that find only what is flaky, by chance, until it is fixed."""
        source = random.Random(f"{seed}/{self.nights}")
        for _ in range(count * is_quiet):
            self.make_build(frozenset())
            found = {
                DEFECTS.index(each)
                for each in sorted(self.present)
                if each.is_flaky and source.random() < FOUND_SHARE
            }
            self.night(frozenset(found), ("", "mine"), False, source.getrandbits(32))

    def lose_a_trace(self, source: random.Random) -> None:
        which = source.randrange(len(DEFECTS))
        if source.random() < 0.01:
            self.truths[DEFECTS[which]].is_kept = False
            for path in self.kept.rglob(f"{which}-*.jsonl"):
                path.unlink()

    def sessions(
        self, found: dict[Defect, float], ran: Sequence[str], at: datetime, parts: int
    ) -> list[Path]:
        """The corpora of a session of each program, in parts. `found` has chances, by defect."""
        records: list[list[Data]] = [[] for _ in range(parts)]
        for name in ran:
            for part in range(parts):
                failures = [
                    self.failure(each, chance)
                    for each, chance in found.items()
                    if each.program == name and int(chance * 1000) % parts == part
                ]
                when = timing(
                    started=started(at), seconds=60.0 + part, versions={"target": f"v{self.build}"}
                )
                pieces = [piece(chunks=(part, 6, parts), actions=100)]
                made = record(*failures, seed=self.nights, timing=[when], pieces=pieces)
                made["plan"]["name"] = name
                records[part].append(made)
        places = [
            written(self.folder / "parts" / str(part), *each) for part, each in enumerate(records)
        ]
        for each, chance in found.items():
            if not is_lost(chance):
                self.truths[each].is_kept = True
                place = places[int(chance * 1000) % parts] / self.name(each, chance)
                traces.write_to(TRACES[is_raw(each, chance)], place)
        return places

    def failure(self, defect: Defect, chance: float) -> Data:
        raw = is_raw(defect, chance)
        tries = {"tries": 1} if raw and defect.is_flaky else {}
        name, action = self.name(defect, chance), defect.action
        return failure(defect.oracle, name, action=action, reproduced=not raw, **tries)

    def name(self, defect: Defect, chance: float) -> str:
        return f"{DEFECTS.index(defect)}-{is_raw(defect, chance):d}.jsonl"

    def expected(
        self, found: dict[Defect, float], ran: Sequence[str], at: datetime, build: Build
    ) -> dict[Defect, Expected]:
        expected = {}
        for defect, truth in self.truths.items():
            if not truth.is_known and defect not in found:
                continue
            look = Look(
                self.nights,
                f"v{self.build}",
                started(at) if defect in found else "",
                defect in found and defect.is_flaky and is_raw(defect, found[defect]),
                build.results.get(defect, 0),
                RUNS if truth.is_kept and build.can_run else 0,
                defect.program in ran,
            )
            if defect in found:
                shows_cause = not is_raw(defect, found[defect]) and truth.is_kept
                cause = defect.cause if shows_cause else defect.identity
                truth.causes.append(f"{defect.program} {cause}")
            state, was = truth.state_with(look), truth.stated
            if look.started or look.runs:
                truth.looks.append((look, state))
            mute = self.mutes.of(truth, self.cause_ids, at.date())
            expected[defect] = Expected(truth, was, look, state, mute)
        return expected

    # What the pages state.

    def check(self, current: Night, expected: dict[Defect, Expected], ran: Sequence[str]) -> None:
        shown = {defect_of(each.known): each for each in current.failures}
        assert len(shown) == len(current.failures)
        assert shown.keys() == expected.keys()
        for defect, each in shown.items():
            self.check_failure(each, expected[defect])
        groups = grouped(expected)
        assert len(groups) == len(current.causes)
        for cause in current.causes:
            defects = {defect_of(each.known) for each in cause.failures}
            name = expected[min(defects)].truth.causes[0]
            group = groups[name]
            assert defects == {each.truth.defect for each in group}
            assert self.cause_ids.setdefault(name, cause.id) == cause.id
            assert (cause.news, cause.state) == (news_of(group), state_of(group))
            assert night_summary.status_of(cause) in statuses_of(group)
            check_cause(cause.to_data(), group)
        assert current.actions == sum(session.totals.actions for session in current.sessions)
        assert len(current.sessions) == len(ran)

    def check_failure(self, each: NightFailure, expected: Expected) -> None:
        truth, look, data = expected.truth, expected.tonight, each.to_data()
        defect = truth.defect
        truth.id = truth.id or data["id"]
        assert data["id"] == truth.id
        assert (each.tonight.state, data["state"]) == (expected.state, expected.shown)
        assert data["found_tonight"] == bool(look.started)
        assert each.mute == expected.mute
        assert (data["muted_until"], data["because"]) == (expected.mute or ("", ""))
        runs = truth.since_fixed
        assert (data["failed"], data["runs"]) == (
            sum(each.failed for each in runs),
            sum(each.runs for each in runs),
        )
        assert bool(data["not_replayed"]) == (look.runs == 0)
        assert data["sessions"] == len(truth.found)
        assert data["first_seen"] == truth.found[0].started
        assert data["last_seen"] == truth.found[-1].started
        assert data["versions"] == truth.versions
        assert (data["last_good"], data["first_bad"], data["fixed_in"]) == truth.bounds
        # Until here it is what was seen. From here on it is what is true.
        self.count(expected, is_present=defect in self.present)
        assert {*data["versions"]} <= truth.has
        if not defect.is_flaky:
            assert data["first_bad"] in truth.has
            assert data["last_good"] not in truth.has
            assert data["fixed_in"] not in truth.has
            assert expected.state != "flaky"
            if look.is_seen or look.runs:
                assert (expected.state == "open") == (defect in self.present)

    def count(self, expected: Expected, *, is_present: bool) -> None:
        look = expected.tonight
        self.statements["all"] += 1
        self.statements["unclear"] += not (look.is_seen or look.runs or expected.state == "fixed")
        if expected.state == "fixed" and look.runs:
            self.statements["fixed"] += 1
            self.statements["fixed, by chance"] += is_present


def is_lost(chance: float) -> bool:
    """Whether a session's trace is gone."""
    return chance < 0.01


def is_raw(defect: Defect, chance: float) -> bool:
    """Whether a failure was not reduced: it did not reproduce, or was not tried again."""
    return chance < (0.7 if defect.is_flaky else 0.1)


def started(at: datetime) -> str:
    return at.replace(hour=2, minute=0).isoformat()


def grouped(expected: dict[Defect, Expected]) -> dict[str, list[Expected]]:
    """By cause."""
    groups: dict[str, list[Expected]] = {}
    for each in expected.values():
        groups.setdefault(each.truth.causes[0], []).append(each)
    return groups


def check_cause(data: Data, group: Sequence[Expected]) -> None:
    """What was seen of a cause is what was seen of any of its failures."""
    found = sorted({look for each in group for look in each.truth.found}, key=lambda it: it.night)
    assert data["first_seen"] == found[0].started
    assert data["last_seen"] == found[-1].started
    assert data["sessions"] == len({look.night for look in found})
    assert {*data["versions"]} == {each for it in group for each in it.truth.versions}


def check_outputs(current: Night, groups: dict[str, list[Expected]]) -> None:
    """Exit codes, JSON, XML and Markdown."""
    news, states = [*map(news_of, groups.values())], [*map(state_of, groups.values())]
    is_heard = any(
        each in {"new", "back"} and state != "muted"
        for each, state in zip(news, states, strict=True)
    )
    assert code_of_night(current, None) == 0
    assert code_of_night(current, "new") == int(is_heard)
    assert code_of_night(current, "open") == int(is_heard or "open" in states)
    counts = Counter(each for each in states if each != "fixed") + Counter(filter(None, news))
    data = json.loads(current.dumps())
    causes = {each["id"]: each for each in data["causes"]}
    for name in ("new", "back", "open", "flaky", "muted", "fixed"):
        assert data["nights"][-1][name] == counts[name]
    cases = ET.fromstring(night_summary.junit(current)).findall("testcase")
    assert len(cases) == len(groups)
    text = night_summary.markdown(current)
    for cause, case in zip(current.causes, cases, strict=True):
        status = night_summary.status_of(cause)
        data = causes[cause.id]
        assert (data["state"], data["news"]) == (cause.state, cause.news)
        kind = {"open": "failure", "fixed": None}.get(cause.state, "skipped")
        assert [(each.tag, each.get("message")) for each in case] == [(kind, status)] * bool(kind)
        assert cause.id in case.attrib["name"]
        is_told = cause.state != "fixed" or bool(cause.news)
        assert (f"| `{cause.id}` | `{status}`" in text) == is_told


def check_page(page: str, current: Night, groups: dict[str, list[Expected]]) -> None:
    """The page in a browser."""
    verdict = night_summary.verdict_of(current)
    assert f">{verdict}</p>" in unescape(page)
    articles = [*ARTICLE.finditer(page)]
    assert [each[2] for each in articles] == [cause.id for cause in current.causes]
    for article, cause in zip(articles, current.causes, strict=True):
        group = next(
            each for each in groups.values() if each[0].truth.id.startswith(f"{cause.id}-")
        )
        assert article[1] == state_of(group).replace(" ", "-")
        assert unescape(article[3]) in statuses_of(group)
        shown = [article[1].replace("-", " "), *OTHER.findall(article[0])]
        assert Counter(shown) == Counter(each.shown for each in group)
        [notes] = NOTES.findall(article[0])
        told = unescape(notes).split(" · ")
        if len(group) == 1:
            assert [each for each in group[0].notes if each not in told] == []
        assert any(each.startswith("not replayed: ") for each in told) == (
            "replayed when" not in notes
        )


def defect_of(known: KnownFailure) -> Defect:
    failure = known.saved.failure
    [defect] = [
        each
        for each in DEFECTS
        if (each.program, each.oracle, each.action) == (known.name, failure.oracle, failure.action)
    ]
    return defect


def play(
    nights: type[Nights], histories: int, steps: int, pages_every: int, **changed: Any
) -> None:
    nights.statements, nights.pages_every = Counter(), pages_every
    run_state_machine_as_test(
        nights,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
            **changed,
        ),
    )
    assert nights.statements["unclear"] <= UNCLEAR_MAX * nights.statements["all"]


@pytest.mark.slow
def test_pages_of_nights_state_nothing_that_is_false() -> None:
    play(Nights, HISTORIES, STEPS, pages_every=8, derandomize=True)


@pytest.mark.night
@pytest.mark.parametrize("part", range(PARTS_AT_NIGHT))
def test_pages_of_many_nights_state_nothing_that_is_false(part: int) -> None:
    nights = seed(int(fresh(str(part))))(Nights)
    play(nights, HISTORIES_AT_NIGHT // PARTS_AT_NIGHT, STEPS_AT_NIGHT, pages_every=3)
