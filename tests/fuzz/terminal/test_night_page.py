"""`gcfuzz report`: the page of a night, and the files beside it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import attrs
import pytest
from command_line import Complaint, Gcfuzz
from made_night import ACTIONS, causes, report
from made_records import failure, piece, record, timing, written
from scripts import shell_script

from fuzz.failure import Failure
from fuzz.failures.corpus import Origin, save_found
from fuzz.failures.trace_files import shipped_traces
from fuzz.nights.failure_history import Triaged, add, now
from fuzz.nights.night import COUNTED
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, AllocateString, EnableSampling
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.commands.cli import run_command_line
from fuzz.terminal.night_page import EXPLAINED_MAX

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)
WRONG = Failure("heap", "graph", "collect_full", "different", "1", "2", "made up")


@pytest.fixture
def page(night_folder: Path) -> str:
    return re.sub(r"\s+", " ", (night_folder / "night.html").read_text(encoding="utf-8"))


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


def test_figures_traces_and_explanations_are_beside_the_page(night_folder: Path) -> None:
    beside = sorted(path.name for path in (night_folder / "night").iterdir())
    explained = ["clock.html", "clock.jsonl", "heap.html", "heap.jsonl"]
    assert beside == [*explained, "major.jsonl"]
    assert len(json.loads((night_folder / "night.json").read_text())["causes"]) == 5


def test_the_markdown_has_a_row_for_each_cause(night_folder: Path) -> None:
    summary = (night_folder / "night.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `\w+` \| `([^`]*)` \| `(\w+) / ", summary, re.MULTILINE)
    assert sorted(oracle for _, oracle in rows) == ["clock", "heap", "major", "places", "survival"]
    assert {status for status, _ in rows} == {"new, flaky (0 of 5)", "new, open"}


def test_junit_skips_what_passes_on_the_same_version(night_folder: Path) -> None:
    suite = ET.parse(night_folder / "night.xml").getroot()
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


def test_a_night_has_its_combinations_in_all_summaries_and_a_plot_from_the_second_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = {"facts": ["string", "old", "identity", "parent"], "bits": ["f", "3b", "9"]}
    history = ["--history", str(tmp_path / "failures.history")]
    plots = []
    for number in (1, 2):
        started = timing(started=f"2026-11-2{number}T02:00:00+00:00")
        session = record(pieces=[piece(held=held)], timing=[started])
        folder = written(tmp_path / str(number), session)
        page = report(folder, *history, "--markdown", str(folder / "night.md"))
        plots.append(page.count("nights since "))
    figures = "5 of 5 pairs of facts (100 %)", "2 of 2 triples of facts (100 %)"
    summaries = page, (folder / "night.md").read_text(), capsys.readouterr().out
    assert [[figure in each for figure in figures] for each in summaries] == [[True, True]] * 3
    assert plots == [0, 2]


def test_a_page_names_the_combinations_that_were_missed(tmp_path: Path) -> None:
    held = {"facts": ["string", "old", "identity"], "bits": ["7", "3", "0"]}
    page = re.sub(r"\s+", " ", report(written(tmp_path, record(pieces=[piece(held=held)]))))
    assert '2 of 3 pairs of facts (66 %); <span class="wrong">missed</span>: old, identity' in page


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
