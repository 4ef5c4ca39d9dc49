"""`gcfuzz report`: the page of a night, the files beside it, and what a real browser shows."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import attrs
import pytest
from command_line import Complaint, Gcfuzz
from made_records import failure, piece, record, timing, written
from scripts import shell_script

from fuzz.failure import Failure
from fuzz.failures.corpus import Origin, save_found, shipped_traces
from fuzz.nights.failure_history import Triaged, add, now
from fuzz.nights.night import COUNTED
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, AllocateString, CollectMinor, EnableSampling
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.sessions.record import Point, Timing
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.commands.cli import run_command_line
from fuzz.terminal.night_page import EXPLAINED_MAX
from fuzz.terminal.night_plots import PLOTTED, draw_plots, look_of, plots_of, ticks

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)
WRONG = Failure("heap", "graph", "collect_full", "different", "1", "2", "made up")
ACTIONS = (AllocateNode(7), CollectMinor())
TWO_HOURS = 7200.0
HISTORY = ((900.0, 4000, 30, 0), (TWO_HOURS, 90_000, 90, 2))


def report(folder: Path, *options: str) -> str:
    """The page of what is in a folder."""
    arguments = ["report", str(folder), "-o", str(folder / "night.html")]
    assert run_command_line([*arguments, *options]) == CLEAN
    return (folder / "night.html").read_text(encoding="utf-8")


LONG = (AllocateNode(0),) * 50
COMMAND = ["--command", "./my adapter", "--timeout", "2s"]
HOSTILE = "<script>alert(1)</script>{{ 7 * 7 }}\x1b[1m\u202e"
BUG = {
    "id": "some-bug",
    "seen_in": "somewhere",
    "oracle": "heap",
    "oracles": ["heap", "clock"],
    "found": False,
    "actions_median": 12.5,
    "actions_worst": None,
    "reduced": 3,
    "shortest": 3,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of sessions with all that a page may show, and its page."""
    probes = {"often": 2000, "never": 0, "once": 1}
    here = record(
        failure("heap", path="heap.jsonl"),
        failure("clock", path="clock.jsonl"),
        failure("places", reproduced=False, reduced_from=3),
        failure("survival", why=HOSTILE, field=HOSTILE),
        pieces=[piece(17, 1234, probes=probes)],
        timing=[timing(*HISTORY, seconds=TWO_HOURS, workers=n, canaries=n) for n in (0, 3)],
    )
    there = record(failure("major", path="major.jsonl"), target="process", options=COMMAND)
    folder = written(tmp_path_factory.mktemp("night") / "corpus", here, there)
    for name, target, actions in [
        ("heap", "reference", ACTIONS),
        ("clock", "reference", LONG + ACTIONS),
        ("major", "process", ACTIONS),
    ]:
        trace = Trace(Header(VERSION, target), actions)
        traces.write_to(trace, folder / f"{name}.jsonl")
    (folder / "bugs.json").write_text(
        json.dumps({"engine": "stateful", "seeds": 20, "bugs": [BUG]})
    )
    summaries = ["--markdown", str(folder / "night.md"), "--junit", str(folder / "night.xml")]
    report(folder, *summaries)
    return folder


@pytest.fixture
def page(folder: Path) -> str:
    return re.sub(r"\s+", " ", (folder / "night.html").read_text(encoding="utf-8"))


def article(page: str, oracle: str) -> str:
    """The part of the page about the failure of an oracle."""
    [found] = [each for each in page.split("<article")[1:] if f"</span>{oracle} / " in each]
    return found.partition("</article>")[0]


def test_a_night_that_is_made_again_fails_again_and_the_next_one_does_not(tmp_path: Path) -> None:
    corpora = []
    for number in (1, 2):
        started = timing(started=f"2026-11-2{number}T02:00:00+00:00")
        session = record(failure("heap", path="heap.jsonl"), timing=[started])
        corpora.append(written(tmp_path / str(number), session))
        traces.write_to(Trace(Header(VERSION, "reference"), ACTIONS), corpora[-1] / "heap.jsonl")
    options = ["--history", str(tmp_path / "failures.history"), "--fail-on", "new"]
    assert [
        run_command_line(["report", str(corpus), "-o", str(tmp_path / "night.html"), *options])
        for corpus in (corpora[0], corpora[0], corpora[1])
    ] == [MISMATCH, MISMATCH, CLEAN]


def test_an_open_cause_fails_until_it_is_muted(tmp_path: Path) -> None:
    codes = []
    for number in (1, 2, 3):
        started = timing(started=f"2026-11-2{number}T02:00:00+00:00")
        corpus = written(tmp_path / str(number), record(failure(), timing=[started]))
        arguments = ["report", str(corpus), "-o", str(corpus / "night.html"), "--history"]
        arguments += [str(tmp_path / "failures.history"), "--fail-on"]
        codes.append([run_command_line([*arguments, on]) for on in ("new", "open")])
        if number == 2:
            [cause] = causes(corpus)
            mute = ["--mute-until", "2999-01-31"]
            assert run_command_line(["triage", str(tmp_path), cause["id"], *mute]) == CLEAN
    assert codes == [[MISMATCH, MISMATCH], [CLEAN, MISMATCH], [CLEAN, CLEAN]]


def test_summaries_have_equal_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [record(pieces=[piece(chunks=(part, 4, 2))]) for part in (0, 1)]
    found = record(failure("heap"), failure("clock"), seed=2)
    folder = written(tmp_path, *parts, found)
    page = report(folder, "--markdown", str(tmp_path / "night.md"))
    counts = "2 new, 0 back, 2 open, 0 flaky, 0 muted, 0 fixed"
    printed, markdown = capsys.readouterr().out, (tmp_path / "night.md").read_text()
    assert [counts in each for each in (page, markdown, printed)] == [True] * 3
    assert ["2 sessions" in each for each in (page, markdown)] == [True] * 2
    assert ["300" in each for each in (page, markdown)] == [True] * 2
    [night] = json.loads((tmp_path / "night.json").read_text())["nights"]
    assert ", ".join(f"{night[each]} {each}" for each in COUNTED) == counts


def test_figures_traces_and_explanations_are_beside_the_page(folder: Path) -> None:
    beside = sorted(path.name for path in (folder / "night").iterdir())
    explained = ["clock.html", "clock.jsonl", "heap.html", "heap.jsonl"]
    assert beside == [*explained, "major.jsonl"]
    assert len(json.loads((folder / "night.json").read_text())["causes"]) == 5


def test_the_markdown_has_a_row_for_each_cause(folder: Path) -> None:
    summary = (folder / "night.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `\w+` \| `([^`]*)` \| `(\w+) / ", summary, re.MULTILINE)
    assert sorted(oracle for _, oracle in rows) == ["clock", "heap", "major", "places", "survival"]
    assert {status for status, _ in rows} == {"new, flaky (0 of 5)", "new, open"}


def test_junit_skips_what_passes_on_the_same_version(folder: Path) -> None:
    suite = ET.parse(folder / "night.xml").getroot()
    results = {case.get("name", "").split()[0]: case[0].tag for case in suite}
    flaky = dict.fromkeys(("heap", "clock"), "skipped")
    assert results == flaky | dict.fromkeys(("major", "places", "survival"), "failure")


def test_a_failure_has_its_actions(page: str) -> None:
    assert re.findall(r'<li( class="first-wrong")?>([^<]*)</li>', article(page, "heap")) == [
        ("", "allocate_node number=7"),
        (' class="first-wrong"', "collect_minor"),
    ]


@pytest.mark.parametrize(
    ("oracle", "texts"),
    [
        ("heap", ["replayed when this page was made: it passes"]),
        ("clock", ["after 22 actions:", '<ol class="actions" start="23">']),
        (
            "major",
            [
                "<pre>gcfuzz replay night/major.jsonl --command &#39;./my adapter&#39; --timeout",
                "not explained: the target process needs a program",
                'href="night/major.jsonl"',
            ],
        ),
        ("places", ["reference, 3 actions<", "seen once; not tried again, because the session"]),
        (
            "survival",
            ["reference, 3 actions, reduced from 9<", "its trace is in none of the places"],
        ),
    ],
)
def test_a_failure_has_its_details(oracle: str, texts: list[str], page: str) -> None:
    assert [text for text in texts if text not in article(page, oracle)] == []


def test_one_failure_of_each_cause_is_shown_and_a_line_for_the_others(tmp_path: Path) -> None:
    kinds = {"allocate_node": AllocateNode(7), "allocate_string": AllocateString(9)}
    failures = (failure("sampling", action=kind, path=f"{kind}.jsonl") for kind in kinds)
    folder = written(tmp_path, record(*failures))
    for kind, action in kinds.items():
        trace = Trace(Header(VERSION, "reference"), (EnableSampling(8), action))
        traces.write_to(trace, folder / f"{kind}.jsonl")
    page = re.sub(r"\s+", " ", report(folder))
    assert page.count("<article") == 1
    [line] = re.findall(r'<p class="like".*?</p>', page)
    assert "sampling / graph / allocate_string / different" in line
    assert 'href="night/allocate_string.jsonl"' in line


def test_only_first_causes_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.terminal.night_page.EXPLAINED_MAX", 1)
    names = ["heap.jsonl", "clock.jsonl"]
    corpus = written(tmp_path, record(*(failure(name[:4], path=name) for name in names)))
    for name in names:
        traces.write_to(Trace(Header(VERSION, "reference"), ACTIONS), corpus / name)
    assert report(corpus).count("step by step") == 1
    assert len([*(corpus / "night").glob("*.html")]) == 1


@pytest.mark.slow
def test_a_thousand_failures_take_five_megabytes(tmp_path: Path) -> None:
    names = [f"{number}.jsonl" for number in range(EXPLAINED_MAX + 50)]
    failures = (failure(path=name, direction=name) for name in names)
    corpus = written(tmp_path / "corpus", record(*failures))
    for name in names:
        traces.write_to(Trace(Header(VERSION, "reference"), ACTIONS), corpus / name)
    made = tmp_path / "made"
    made.mkdir()
    assert run_command_line(["report", str(corpus), "-o", str(made / "night.html")]) == CLEAN
    sizes = {path: path.stat().st_size for path in made.rglob("*.*")}
    explained = sum(sizes[path] for path in made.glob("night/*.html"))
    each = (sum(sizes.values()) - explained) / len(names)
    assert explained + 1000 * each < 5e6


def test_the_last_actions_of_a_long_trace_are_shown(page: str) -> None:
    assert article(page, "clock").count("<li") == 30


def test_a_failure_that_is_not_explained_has_no_link_to_it(page: str) -> None:
    assert "step by step" not in article(page, "major")


ROW = '<tr><td>{}</td><td class="figure">{}</td></tr>'


@pytest.mark.parametrize(
    "text",
    [
        "<dt>flaky causes</dt><dd>2</dd>",
        "<dt>muted causes</dt><dd>0</dd>",
        "<p>reference, random engine, seed 1: 17, 1234</p>",
        "<h3>reference</h3> <p>2 of 3 reached; ",
        '<span class="wrong">not reached</span>: never</p>',
        f"{ROW.format('once', '1')} {ROW.format('often', '2,000')}",
        "0 of 1 bug found with every one of 20 seeds",
        '<tr class="wrong"><th>some-bug</th>',
        '<td class="spare">○</td><td class="spare">●</td>',
    ],
)
def test_the_page_sums_up_sessions_probes_and_known_bugs(text: str, page: str) -> None:
    assert text in page


def test_a_session_has_its_timing_and_versions(page: str) -> None:
    for workers, canaries in ((0, "no canary"), (3, "canaries found: 3")):
        how = f"120 min, {workers} workers, 0 actions/s, {canaries}, gcfuzz 0.1.0, commit 8255874"
        assert f"2026-11-22T02:00:00+00:00: {how}" in page


def test_foreign_text_is_only_text(page: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{ 7 * 7 }}\\x1b[1m\\u202e" in page
    assert "<script" not in page


def test_the_page_loads_nothing(page: str) -> None:
    assert re.findall(r"\bsrc\s*=|\burl\((?!#)|@import|<script|<link", page) == []
    assert re.findall(r"https?://[^\"' ]*", page) == []


def test_all_names_in_the_page_are_different(page: str) -> None:
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len({*names})


def test_the_command_names_the_page_and_replays_on_the_given_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, trace = next(
        (name, each)
        for name, each in shipped_traces().items()
        if each.header.target == "reference" and each.header.kills
    )
    corpus = written(tmp_path, record(failure(path=name)))
    traces.write_to(trace, corpus / name)
    page = report(corpus, "--target", KNOWN_BUGS[trace.header.kills[0]].target)
    assert "replayed when this page was made: it fails" in page
    counts = "1 new, 0 back, 1 open, 0 flaky, 0 muted, 0 fixed"
    assert capsys.readouterr().out == f"{corpus / 'night.html'}: {counts}; open it in a browser\n"


@pytest.mark.slow
def test_all_explanations_share_a_process(tmp_path: Path) -> None:
    mine = "from fuzz.targets import make_target\ndef make(): return make_target('reference')\n"
    (tmp_path / "mine.py").write_text(mine)
    starts, serve = tmp_path / "starts", f"exec {sys.executable} -m fuzz.targets mine:make"
    adapter = shell_script(tmp_path / "adapter", f"cd {tmp_path}\necho >> starts\n{serve}")
    counts = set()
    for number in (1, 5):
        names = [f"{name}.jsonl" for name in range(number)]
        failures = (failure(f"oracle {name}", path=name) for name in names)
        corpus = written(tmp_path / str(number), record(*failures, target="process"))
        for name in names:
            traces.write_to(Trace(Header(VERSION, "process"), ACTIONS), corpus / name)
        assert report(corpus, "--command", str(adapter)).count("it passes") == number
        counts.add(starts.read_text())
        starts.unlink()
    assert len(counts) == 1


@pytest.mark.parametrize(
    ("issue", "on_page", "in_markdown"),
    [
        ("https://example.com/7?a=1", 'href="https://example.com/7?a=1"', "<https://{}/7?a=1>"),
        ("javascript:alert(1)", "issue: javascript:alert(1)", "`javascript:alert(1)`"),
    ],
)
def test_an_issue_may_be_a_link(issue: str, on_page: str, in_markdown: str, tmp_path: Path) -> None:
    corpus = written(tmp_path / "corpus", record(failure()))
    summaries = ["--markdown", str(corpus / "night.md"), "--junit", str(corpus / "night.xml")]
    report(corpus)
    [cause] = causes(corpus)
    add(corpus / "failures.history", [Triaged(now(), cause["id"], issue=issue)])
    assert on_page in report(corpus, *summaries)
    assert in_markdown.format("example.com") in (corpus / "night.md").read_text()
    assert f"issue: {issue}" in (corpus / "night.xml").read_text()


def test_what_a_killed_session_found_and_no_other_is_named_and_inconclusive(
    tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    corpus = written(tmp_path / "corpus", record(failure("heap")))
    for oracle in ("heap", "clock"):
        origin = Origin(corpus, "reference", "random", 1, token="5eed-3")
        save_found(origin, attrs.evolve(WRONG, oracle=oracle, actions=ACTIONS))
    page, markdown = corpus / "night.html", corpus / "night.md"
    printed = gcfuzz(INCONCLUSIVE, "report", corpus, "-o", page, "--markdown", markdown).out
    [unreduced] = json.loads((corpus / "night.json").read_text())["unreduced"]
    assert "/clock-graph-different-collect_full-raw-" in unreduced
    said = "1 failure found but not reduced, since a session was killed"
    summaries = printed, page.read_text(), markdown.read_text()
    assert [said in each.replace("\n", " ") for each in summaries] == [True] * 3


# Bad input.


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--command", "./wrong-name"], "./wrong-name: cannot be started"),
        ([], "the target process needs a program"),
    ],
)
def test_a_target_that_cannot_start_is_bad_input_if_nothing_else_was_replayed(
    options: list[str], why: str, tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    failures = (failure(oracle, path="a.jsonl") for oracle in ("heap", "clock"))
    corpus = written(tmp_path / "corpus", record(*failures, target="process"))
    traces.write_to(Trace(Header(VERSION, "process"), ACTIONS), corpus / "a.jsonl")
    made = [tmp_path / "made" / kind / f"night.{kind}" for kind in ("html", "md", "history")]
    where = ["-o", str(made[0]), "--markdown", str(made[1]), "--history", str(made[2])]
    where += ["--fail-on", "new"]
    printed = gcfuzz(BAD_INPUT, "report", corpus, *where, *options)
    assert printed.err.startswith(f"gcfuzz: no failure could be replayed: {why}")
    assert printed.err.count("\n") == 1
    summaries = printed.out, *(each.read_text() for each in made[:2])
    assert ["; 2 failures not replayed" in each for each in summaries] == [True] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["empty", "-o", "night.html"], "has no record of a session"),
        (["missing", "-o", "night.html"], "No such file"),
        (["corpus", "-o", "night.txt"], "must end in .html"),
        (["corpus", "-o", "broken.json/night.html"], "broken.json/night.html: cannot be written"),
        (
            ["corpus", "-o", "night.html", "--history", "broken.json"],
            "broken.json:1: is not a line",
        ),
        (["broken.json", "-o", "night.html"], "broken.json: not a line of JSON"),
        (["old.json", "-o", "night.html"], "not a session's record of version 1"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, empty_folder: Path, complaint: Complaint
) -> None:
    written(empty_folder / "corpus", record())
    Path("empty").mkdir()
    Path("broken.json").write_text("{")
    Path("old.json").write_text(json.dumps(record(gcfuzz_session=0)))
    assert message in complaint("report", *arguments)
    assert not Path("night.html").exists()


def test_without_its_extra_the_command_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "fuzz.terminal.night_page", raising=False)
    needs = "needs jinja2, which `pip install 'gcfuzz[report]'` installs"
    assert needs in complaint("report", "corpus", "-o", "night.html")


# The plots.


def timing_of(*history: tuple[float, int, int, int]) -> Timing:
    points = tuple(Point(*each) for each in history)
    return Timing("2026-11-22T02:00:00+00:00", TWO_HOURS, 1, 90_000, 12, 1, 0, points, {})


def test_a_plot_has_a_line_for_each_session() -> None:
    short = (600.0, 50, 3, 1)
    plots = plots_of([timing_of(*HISTORY), timing_of(short)])
    assert {plot.name: plot.lines for plot in plots} == {
        "actions": (((0, 0), (15, 4000), (120, 90_000)), ((0, 0), (10, 50))),
        "probes reached": (((0, 0), (15, 30), (120, 90)), ((0, 0), (10, 3))),
        "failures": (((0, 0), (15, 0), (120, 2)), ((0, 0), (10, 1))),
    }


def test_the_axes_are_labelled_and_large_enough() -> None:
    plot, *_ = plots_of([timing_of(*HISTORY)])
    assert (plot.unit, plot.end) == ("min", 120)
    assert plot.top > 90_000


@pytest.mark.parametrize(
    ("end", "least", "expected"),
    [
        (97_200, 1.0, [0, 20_000, 40_000, 60_000, 80_000]),
        (120, 0.0, [0, 50, 100]),
        (1.08, 1.0, [0, 1]),
        (0.1, 0.0, [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
    ],
)
def test_ticks_are_round_numbers(end: float, least: float, expected: list[float]) -> None:
    assert ticks(end, least) == pytest.approx(expected)


def test_a_line_is_drawn_from_the_corner_of_the_axes_into_them() -> None:
    svg = dict(draw_plots([timing_of(*HISTORY)]))["failures"]
    assert '<polyline points="40,148 75,148 320,18.4"' in svg


def test_a_night_without_a_history_has_plots_too() -> None:
    assert [name for name, _ in draw_plots([timing_of()])] == [*PLOTTED]


def test_fifteen_sessions_look_different() -> None:
    looks = [look_of(number) for number in range(16)]
    assert len({*looks[:15]}) == 15
    assert looks[15] == looks[0]


def test_a_plot_has_the_colours_of_the_page_and_its_text_is_text() -> None:
    svg = dict(draw_plots([timing_of(*HISTORY)] * 5))["actions"]
    assert {*re.findall(r"(?:fill|stroke): (#\w+)", svg)} == set()
    lines = {f"--line-{number}" for number in range(5)}
    assert {*re.findall(r"var\((--[\w-]+)\)", svg)} == {"--text", "--line", *lines}
    assert ">80k<" in svg
    assert ">min since a session's start<" in svg


# Three nights of real sessions, and what a browser shows of the third one.

BACK, GONE = "reference+disable-before-enable", "reference+sample-on-equality"
ADAPTER = """#!/bin/sh
exec {python} -m fuzz.targets {target}
"""
FLAKY = """
import itertools
from fuzz.targets import make_target
from fuzz.protocol.target import FullTarget

class Flaky(FullTarget):
    number = 0

    def start(self, configuration):
        Flaky.number += 1
        self._target = make_target("{buggy}" if Flaky.number % 3 else "reference")
        return self._target.start(configuration)

    def perform(self, action):
        return self._target.perform(action)
"""


def adapter(folder: Path, target: str) -> list[str]:
    """The options of a program in a folder of its own, as each night's build is."""
    folder.mkdir(exist_ok=True)
    (folder / "adapter").write_text(ADAPTER.format(python=sys.executable, target=target))
    (folder / "adapter").chmod(0o755)
    return ["--command", str(folder / "adapter"), "--name", "mine"]


def fuzz(folder: Path, *options: str, code: int = MISMATCH) -> None:
    arguments = ["run", "--corpus", str(folder), "--actions", "600", *options]
    assert run_command_line(arguments) == code


@pytest.fixture(scope="module")
def three_nights(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A bug appears, is fixed, and comes back; each night has a build and a corpus of its own."""
    folder = tmp_path_factory.mktemp("nights")
    made = []
    for number, target in enumerate((BACK, "reference", BACK), 1):
        options = adapter(folder / f"build-{number}", target)
        corpus = folder / str(number)
        code = CLEAN if target == "reference" else MISMATCH
        fuzz(corpus, *options, "--seed", str(number), code=code)
        history = ["--history", str(folder / "kept" / "failures.history")]
        (folder / "kept").mkdir(exist_ok=True)
        extra = ["--markdown", str(corpus / "night.md"), "--junit", str(corpus / "night.xml")]
        arguments = ["report", str(corpus), "-o", str(corpus / "night.html"), *extra, *history]
        assert run_command_line([*arguments, *options, "--fail-on", "new"]) == code
        made.append(corpus)
    return made


@pytest.fixture(scope="module")
def nights(three_nights: list[Path]) -> Path:
    return three_nights[-1]


def causes(corpus: Path) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads((corpus / "night.json").read_text())["causes"]
    return data


@pytest.mark.slow
def test_a_bug_appears_and_is_fixed_and_comes_back(three_nights: list[Path]) -> None:
    told = [{(each["state"], each["news"]) for each in causes(night)} for night in three_nights]
    assert told[:2] == [{("open", "new")}, {("fixed", "fixed")}]
    assert ("open", "back") in told[2]
    assert {state for state, _ in told[2]} == {"open"}


@pytest.mark.slow
def test_a_muted_cause_that_returns_does_not_fail(three_nights: list[Path], tmp_path: Path) -> None:
    kept, corpus = three_nights[0].parent / "kept", three_nights[2]
    history = tmp_path / "failures.history"
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    for each in causes(corpus):
        mute = ["--mute-until", "2999-01-31", "--because", "the fix is in review"]
        assert run_command_line(["triage", str(tmp_path), each["id"], *mute]) == CLEAN
    options = adapter(tmp_path / "build", BACK)
    page = ["-o", str(tmp_path / "night.html"), "--history", str(history), "--fail-on", "new"]
    assert run_command_line(["report", str(corpus), *page, *options]) == CLEAN
    assert (
        "muted until 2999-01-31 because the fix is in review"
        in (tmp_path / "night.html").read_text()
    )


@pytest.mark.slow
def test_a_failure_that_only_some_runs_show_is_flaky(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    fuzz(corpus, *adapter(tmp_path / "bad", BACK), "--seed", "1", "-x")
    (tmp_path / "flaky.py").write_text(FLAKY.format(buggy=BACK))
    options = adapter(tmp_path / "flaky", "flaky:Flaky")
    script = tmp_path / "flaky" / "adapter"
    script.write_text(script.read_text().replace("exec", f"cd {tmp_path}; exec"))
    [triaged] = made(corpus, tmp_path, options)
    assert run_command_line(["triage", str(corpus), triaged, "--flaky", "3/20"]) == CLEAN
    made(corpus, tmp_path, options)
    assert [each["state"] for each in causes(tmp_path)] == ["flaky"]


def made(corpus: Path, folder: Path, options: list[str]) -> list[str]:
    """Make a page; returns the causes."""
    report = ["report", str(corpus), "-o", str(folder / "night.html"), *options]
    assert run_command_line(report) == CLEAN
    return [each["id"] for each in causes(folder)]


@pytest.mark.slow
def test_the_summaries_of_a_night_have_its_causes(three_nights: list[Path]) -> None:
    ids = {each["id"] for each in causes(three_nights[0])}
    markdown = (three_nights[0] / "night.md").read_text()
    assert {*re.findall(r"^\| `(\w+)` \| `new, open`", markdown, re.MULTILINE)} == ids
    tests = ET.parse(three_nights[0] / "night.xml").getroot()
    assert tests.get("failures") == str(len(ids))
    assert {str(each.get("name"))[-13:-1] for each in tests.iter("testcase")} == ids


@pytest.fixture(params=["nights", "folder"])
def page_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A page and what is beside it, moved to a folder of their own."""
    night: Path = request.getfixturevalue(request.param)
    for name in ("night.html", "night.json"):
        shutil.copy(night / name, tmp_path)
    shutil.copytree(night / "night", tmp_path / "night")
    return tmp_path / "night.html"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(("scheme", "paper"), [("light", 255), ("dark", 0)])
def test_the_page_is_legible_in_light_and_dark_on_a_desk_and_on_a_phone(
    width: int, scheme: str, paper: int, viewer: Any, page_path: Path
) -> None:
    viewer.look_through(width, 800, scheme)
    viewer.open(page_path)
    assert viewer.too_wide() == []
    papers = [*map(max, viewer.colours("body, section", "background-color"))]
    inks = [*map(max, viewer.colours("body", "color") + viewer.colours("svg text", "fill"))]
    assert [each for each in papers if abs(each - paper) > 60] == []
    assert len(inks) > 10
    assert [each for each in inks if abs(each - (255 - paper)) > 60] == []


@pytest.mark.slow
def test_paper_is_white_in_any_scheme(viewer: Any, page_path: Path) -> None:
    viewer.look_through(700, 800, "dark", media="print")
    viewer.open(page_path)
    assert max(viewer.colours("body, svg text", "color")[0]) < 60
    assert max(map(max, viewer.colours("svg text", "fill"))) < 60
    assert min(map(max, viewer.colours("section", "background-color"))) > 200
    assert viewer.texts("nav") == [""]


@pytest.mark.slow
def test_every_link_leads_somewhere(viewer: Any, page_path: Path) -> None:
    viewer.open(page_path)
    links = viewer.run("return [...document.links].map((each) => each.href)")
    names = viewer.run("return [...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(links) > 5
    for link in links:
        place = urlsplit(link)
        path = Path(unquote(place.path))
        assert path.is_relative_to(page_path.parent)
        assert path.is_file()
        assert not place.fragment or place.fragment in names
        if path.suffix == ".html" and path != page_path:
            viewer.open(path)
            assert viewer.texts("#title") != [""]
    fragments = {urlsplit(link).fragment for link in links}
    assert fragments >= {"failures", "nights", "time", "probes", "sessions"}
