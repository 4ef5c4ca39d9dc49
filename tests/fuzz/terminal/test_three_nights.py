"""Three nights of real sessions, and what a browser shows of the third one."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest
from made_night import causes

from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH = range(2)
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


@pytest.fixture(params=["nights", "night_folder"])
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
