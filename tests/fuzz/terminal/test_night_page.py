"""`gcfuzz report`: the page of a night, what lies beside it, and what a real browser shows."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from made_records import failure, piece, record, timing, written
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, AllocateString, CollectMinor, EnableSampling
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.sessions.corpus import shipped_traces
from fuzz.sessions.record import Point, Timing
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.cli import run_command_line
from fuzz.terminal.night_plots import COLOURS, PLOTTED, draw_plots, figures_of, look_of

CLEAN, MISMATCH, BAD_INPUT = 0, 1, 2
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
    """A corpus of sessions that have all that a page may tell, and the page of them."""
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
    report(folder)
    return folder


@pytest.fixture
def page(folder: Path) -> str:
    return re.sub(r"\s+", " ", (folder / "night.html").read_text(encoding="utf-8"))


def article(page: str, oracle: str) -> str:
    """What the page says of the find of an oracle."""
    [found] = [each for each in page.split("<article")[1:] if f"</span>{oracle} / " in each]
    return found.partition("</article>")[0]


def test_beside_the_page_lie_its_figures_and_its_finds(folder: Path) -> None:
    beside = sorted(path.name for path in (folder / "night").iterdir())
    explained = ["clock.html", "clock.jsonl", "heap.html", "heap.jsonl"]
    assert beside == [*explained, "major.jsonl"]
    assert len(json.loads((folder / "night.json").read_text())["failures"]) == 5


def test_a_find_says_its_actions_and_its_command(page: str) -> None:
    assert re.findall(r'<li( class="first-wrong")?>([^<]*)</li>', article(page, "heap")) == [
        ("", "allocate_node number=7"),
        (' class="first-wrong"', "collect_minor"),
    ]
    words = "gcfuzz replay night/major.jsonl --command &#39;./my adapter&#39; --timeout 2s"
    assert f"<pre>{words}</pre>" in article(page, "major")


def test_only_what_became_shorter_was_reduced(page: str) -> None:
    assert "reference, 3 actions, reduced from 9<" in article(page, "survival")
    assert "reference, 3 actions<" in article(page, "places")


def test_of_one_likely_cause_one_is_shown_and_the_others_are_a_line(tmp_path: Path) -> None:
    kinds = {"allocate_node": AllocateNode(7), "allocate_string": AllocateString(9)}
    failures = (failure("sampling", action=kind, path=f"{kind}.jsonl") for kind in kinds)
    folder = written(tmp_path, record(*failures))
    for kind, action in kinds.items():
        trace = Trace(Header(VERSION, "reference"), (EnableSampling(8), action))
        traces.write_to(trace, folder / f"{kind}.jsonl")
    page = re.sub(r"\s+", " ", report(folder))
    assert page.count("<article") == 1
    [line] = re.findall(r'<p class="like".*?</p>', page)
    assert "sampling / graph / allocate_string / different, like sampling / graph / " in line
    assert 'href="night/allocate_string.jsonl"' in line


def test_a_find_that_passes_says_so(page: str) -> None:
    assert "replayed when this page was made: it passes" in article(page, "heap")


def test_of_a_long_trace_the_last_actions_are_shown(page: str) -> None:
    long = article(page, "clock")
    assert "after 22 actions:" in long
    assert '<ol class="actions" start="23">' in long
    assert long.count("<li") == 30


def test_what_cannot_be_replayed_here_says_why(page: str) -> None:
    find = article(page, "major")
    assert "not explained: the target process needs a program" in find
    assert "step by step" not in find
    assert 'href="night/major.jsonl"' in find


def test_a_find_without_a_trace_says_so(page: str) -> None:
    assert "its trace is in none of the places" in article(page, "survival")


def test_what_did_not_replay_is_counted(page: str) -> None:
    assert "<dt>did not replay</dt><dd>1</dd>" in page
    assert page.count("seen once; not tried again, because the session ended") == 1
    assert "not tried again" in article(page, "places")


def test_lost_chunks_are_named(page: str) -> None:
    assert "<dt>chunks lost</dt><dd>2</dd>" in page
    assert "<p>reference, random engine, seed 1: 17, 1234</p>" in page


def test_probes_are_told_by_target_the_rarest_first(page: str) -> None:
    assert "<h3>reference</h3> <p>2 of 3 reached; " in page
    assert '<span class="wrong">not reached</span>: never</p>' in page
    rows = '<tr><td>{}</td><td class="figure">{}</td></tr>'
    assert f"{rows.format('once', '1')} {rows.format('often', '2,000')}" in page


def test_the_known_bugs_are_a_matrix(page: str) -> None:
    assert "0 of 1 bug found with every one of 20 seeds" in page
    assert '<tr class="wrong"><th>some-bug</th>' in page
    assert '<td class="spare">○</td><td class="spare">●</td>' in page


def test_a_session_says_how_it_went_and_what_ran(page: str) -> None:
    for workers, canaries in ((0, "no canary"), (3, "canaries found: 3")):
        how = f"120 min, {workers} workers, 0 actions/s, {canaries}, gcfuzz 0.1.0, commit 8255874"
        assert f"2026-11-22T02:00:00+00:00: {how}" in page


def test_what_others_wrote_is_text_and_nothing_else(page: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{ 7 * 7 }}\\x1b[1m\\u202e" in page
    assert "<script" not in page


def test_the_page_loads_nothing(page: str) -> None:
    assert re.findall(r"\bsrc\s*=|\burl\((?!#)|@import|<script|<link", page) == []
    assert {*re.findall(r"https?://[^\"' ]*", page)} == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_nothing_in_the_page_shares_a_name(page: str) -> None:
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len({*names})


def test_the_command_says_what_it_made_and_replays_on_the_target_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, trace = next((name, each) for name, each in shipped_traces().items() if each.header.kills)
    corpus = written(tmp_path, record(failure(path=name)))
    traces.write_to(trace, corpus / name)
    page = report(corpus, "--target", KNOWN_BUGS[trace.header.kills[0]].target)
    assert "replayed when this page was made: it fails" in page
    path = corpus / "night.html"
    assert capsys.readouterr().out == f"{path}: 1 new, 0 known, 0 vanished; open it in a browser\n"


@pytest.mark.slow
def test_the_processes_that_explain_are_no_more_than_one_find_takes(tmp_path: Path) -> None:
    mine = "from fuzz.targets import make_target\ndef make(): return make_target('reference')\n"
    (tmp_path / "mine.py").write_text(mine)
    adapter, starts = tmp_path / "adapter", tmp_path / "starts"
    serve = f"exec {sys.executable} -m fuzz.targets mine:make"
    adapter.write_text(f"#!/bin/sh\ncd {tmp_path}\necho >> starts\n{serve}\n")
    adapter.chmod(0o755)
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


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["empty", "-o", "night.html"], "has no record of a session"),
        (["missing", "-o", "night.html"], "No such file"),
        (["corpus", "-o", "night.txt"], "must end in .html"),
        (["corpus", "-o", "missing/night.html"], "missing/night"),
        (["corpus", "-o", "night.html", "--before", "broken.json"], "broken.json"),
        (["broken.json", "-o", "night.html"], "broken.json: not a line of JSON"),
        (["old.json", "-o", "night.html"], "not a session's record of version 1"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "corpus", record())
    Path("empty").mkdir()
    Path("broken.json").write_text("{")
    Path("old.json").write_text(json.dumps(record(gcfuzz_session=0)))
    assert run_command_line(["report", *arguments]) == BAD_INPUT
    complaint = capsys.readouterr().err
    assert words in complaint
    assert complaint.count("\n") == 1
    assert not Path("night.html").exists()


def test_without_its_extra_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "fuzz.terminal.night_page", raising=False)
    assert run_command_line(["report", str(tmp_path), "-o", "night.html"]) == BAD_INPUT
    assert "needs jinja2, which `pip install 'gcfuzz[report]'` installs" in capsys.readouterr().err


# The plots.


def timing_of(*history: tuple[float, int, int, int]) -> Timing:
    points = tuple(Point(*each) for each in history)
    return Timing("2026-11-22T02:00:00+00:00", TWO_HOURS, 1, 90_000, 12, 1, 0, points, {})


def test_a_plot_has_a_line_of_each_session_s_history() -> None:
    short = (600.0, 50, 3, 1)
    figures = dict(figures_of([timing_of(*HISTORY), timing_of(short)]))
    assert [*figures] == [*PLOTTED]
    lines = {name: figure.axes[0].lines for name, figure in figures.items()}
    assert {
        name: [np.asarray(line.get_xydata()).tolist() for line in each]
        for name, each in lines.items()
    } == {
        "actions": [[[0, 0], [15, 4000], [120, 90_000]], [[0, 0], [10, 50]]],
        "probes reached": [[[0, 0], [15, 30], [120, 90]], [[0, 0], [10, 3]]],
        "failures": [[[0, 0], [15, 0], [120, 2]], [[0, 0], [10, 1]]],
    }


def test_the_axes_say_what_they_count_and_hold_all_of_it() -> None:
    figures = dict(figures_of([timing_of(*HISTORY)]))
    axes = figures["actions"].axes[0]
    assert axes.get_xlabel() == "min since a session's start"
    assert axes.get_xlim() == (0, 120)
    assert axes.get_ylim()[1] > 90_000


def test_a_night_without_a_history_has_plots_too() -> None:
    assert [name for name, _ in draw_plots([timing_of()])] == [*PLOTTED]


def test_two_sessions_look_different_as_far_as_that_goes() -> None:
    looks = [look_of(number) for number in range(16)]
    assert len({*looks[:15]}) == 15
    assert looks[15] == looks[0]


def test_a_plot_s_colours_are_the_page_s_and_its_text_is_text() -> None:
    svg = dict(draw_plots([timing_of(*HISTORY)] * 5))["actions"]
    assert {*re.findall(r"(?:fill|stroke): (#\w+)", svg)} == set()
    assert {*re.findall(r"var\((--[\w-]+)\)", svg)} == {*COLOURS.values()}
    assert ">80k<" in svg
    assert ">min since a session's start<" in svg


# Two nights of real sessions, and what a browser shows of the second.

TWO_BUGS = "reference+stale-limit-after-large+disable-before-enable"
ANOTHER = "reference+shadow-keeps-number"


def fuzz(folder: Path, target: str, *options: str) -> None:
    arguments = ["run", "--target", target, "--corpus", str(folder), "--seed", "1"]
    assert run_command_line([*arguments, "--actions", "4000", *options]) == MISMATCH


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bugs are found; then one of them, which needs no sampling, and another."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    fuzz(first, TWO_BUGS)
    report(first)
    fuzz(second, TWO_BUGS, "--without", "enable_sampling")
    fuzz(second, ANOTHER)
    report(second, "--before", str(first / "night.json"))
    return second


class Reader:
    """A browser that looks at the page, moved to where nothing else is."""

    def __init__(self, chrome: Chrome, night: Path, folder: Path) -> None:
        self._chrome = chrome
        self.page = folder / "night.html"
        for name in ("night.html", "night.json"):
            shutil.copy(night / name, folder)
        shutil.copytree(night / "night", folder / "night")

    def open(self, path: Path) -> None:
        self._chrome.get(path.as_uri())

    def look_through(self, width: int, scheme: str, media: str = "") -> None:
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 800}
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        medium = {"media": media, "features": features}
        self._chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", medium)
        self.open(self.page)

    def texts(self, selector: str) -> list[str]:
        return [each.text for each in self._chrome.find_elements(By.CSS_SELECTOR, selector)]

    def brightness(self, selector: str, of: str) -> list[int]:
        """How bright a colour of these elements is, from 0 to 255."""
        elements = self._chrome.find_elements(By.CSS_SELECTOR, selector)
        colours = [each.value_of_css_property(of) for each in elements]
        return [max(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours]

    def too_wide(self) -> list[str]:
        script = """
        return [...document.querySelectorAll("html, body, body *:not(svg *)")]
          .filter((each) => each.clientWidth && each.scrollWidth > each.clientWidth)
          .map((each) => each.outerHTML.slice(0, 200));
        """
        found: list[str] = self._chrome.execute_script(script)
        return found

    def links(self) -> list[str]:
        script = "return [...document.links].map((each) => each.href)"
        found: list[str] = self._chrome.execute_script(script)
        return found

    def names(self) -> set[str]:
        script = "return [...document.querySelectorAll('[id]')].map((each) => each.id)"
        return {*self._chrome.execute_script(script)}

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self._chrome.get_log("browser")]  # type: ignore[no-untyped-call]


@pytest.fixture(params=["nights", "folder"])
def reader(request: pytest.FixtureRequest, chrome: Chrome, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(chrome, request.getfixturevalue(request.param), tmp_path)
    yield reader
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert reader.complaints() == []


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["nights"], indirect=True)
def test_real_finds_are_new_known_or_vanished(reader: Reader) -> None:
    reader.look_through(1280, "light")
    planted = {
        (status, text.split("planted: ")[1].split(" · ")[0])
        for status in ("new", "known", "vanished")
        for text in reader.texts(f".failure.{status}")
    }
    assert planted == {
        ("new", "shadow-keeps-number"),
        ("known", "disable-before-enable"),
        ("vanished", "stale-limit-after-large"),
    }
    assert [text for text in reader.texts(".failure") if "it fails" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(("scheme", "ink", "paper"), [("light", 0, 255), ("dark", 255, 0)])
def test_the_page_is_read_by_day_and_by_night_on_a_desk_and_on_a_phone(
    width: int, scheme: str, ink: int, paper: int, reader: Reader
) -> None:
    reader.look_through(width, scheme)
    assert reader.too_wide() == []
    papers = reader.brightness("body, section", "background-color")
    inks = reader.brightness("body", "color") + reader.brightness("svg text", "fill")
    assert [each for each in papers if abs(each - paper) > 60] == []
    assert len(inks) > 10
    assert [each for each in inks if abs(each - ink) > 60] == []


@pytest.mark.slow
def test_paper_is_white_whatever_the_reader_prefers(reader: Reader) -> None:
    reader.look_through(700, "dark", media="print")
    assert reader.brightness("body, svg text", "color")[0] < 60
    assert max(reader.brightness("svg text", "fill")) < 60
    assert min(reader.brightness("section", "background-color")) > 200
    assert reader.texts("nav") == [""]


@pytest.mark.slow
def test_every_link_leads_somewhere(reader: Reader) -> None:
    reader.look_through(1280, "light")
    names, links = reader.names(), reader.links()
    assert len(links) > 5
    for link in links:
        place = urlsplit(link)
        path = Path(unquote(place.path))
        assert path.is_relative_to(reader.page.parent)
        assert path.is_file()
        assert not place.fragment or place.fragment in names
        if path.suffix == ".html" and path != reader.page:
            reader.open(path)
            assert reader.texts("#title") != [""]
    assert {urlsplit(link).fragment for link in links} >= {"failures", "time", "probes", "sessions"}
