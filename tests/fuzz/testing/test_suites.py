"""`state_machine_for` as unittest runs it, in this process."""

from __future__ import annotations

import functools
import json
import shutil
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import Phase, settings
from hypothesis.database import InMemoryExampleDatabase

from fuzz import state_machine_for
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import CollectMinor
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.targets import make_target
from fuzz.testing.suites import place_of

STEPS_MAX = 6
PLANTED = "reference+disable-before-enable"
README_S = "reference+stale-limit-after-large"


def planted(name: str = PLANTED) -> Target:
    target = make_target(name)
    target.name = "mine+of+mine"
    return target


class Broken:
    """A target with a bug of its own."""

    name = "broken"

    def __init__(self) -> None:
        self.start = make_target("reference").start

    def perform(self, action: object) -> Observation:
        if isinstance(action, CollectMinor):
            raise KeyError("no such slot")
        return Observation()


@attrs.frozen
class Suite:
    """Runs a machine's test case; its finds go to `folder`."""

    folder: Path

    def problem(self, factory: Callable[[], Any], **own: Any) -> str:
        """What it fails with, as unittest tells it; empty if it passes. The same each time."""
        case: Any = state_machine_for(factory).TestCase
        case.corpus_folder = self.folder
        case.settings = settings(case.settings, **{"derandomize": True, "database": None} | own)
        result = unittest.TestResult()
        case().run(result)
        assert result.testsRun == 1
        return "".join(text for _, text in result.failures + result.errors)

    def save(self, name: str, action: dict[str, object]) -> None:
        """A trace of one action is there already."""
        self.folder.mkdir()
        lines = {"gcfuzz": 2, "target": "process"}, action
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.folder / f"{name}.jsonl").write_text(text)

    @property
    def finds(self) -> list[traces.Trace]:
        return [traces.read(path) for path in sorted(self.folder.glob("*.jsonl"))]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path / "corpus")


def test_it_passes_for_the_reference(suite: Suite) -> None:
    assert suite.problem(lambda: make_target("reference"), max_examples=5) == ""
    assert not suite.folder.exists()


def test_the_user_s_settings_are_respected(suite: Suite) -> None:
    made = []

    def target() -> Target:
        made.append(make_target("reference"))
        return made[-1]

    suite.problem(target, max_examples=15, stateful_step_count=5)
    # Hypothesis may try some more, which it does not count; left alone it tries a hundred.
    assert 15 <= len(made) <= 30


def test_a_failure_is_a_session_s_report(suite: Suite) -> None:
    problem = suite.problem(planted)
    assert "AssertionError: FAILURE 1: " in problem
    assert "← first wrong answer" in problem
    assert "Draw " not in problem


def test_what_is_found_is_reduced_and_saved(suite: Suite) -> None:
    assert suite.problem(planted)
    [find] = suite.finds
    assert 1 <= len(find.actions) <= STEPS_MAX
    assert find.header.target == "mine+of+mine"


@pytest.mark.slow
def test_what_cannot_be_saved_is_shown(suite: Suite) -> None:
    suite.folder.write_text("no folder")
    problem = suite.problem(planted)
    assert "save these lines to replay it" in problem
    assert '\n{"gcfuzz": 2, "target": "mine+of+mine"' in problem


@pytest.mark.slow
def test_default_settings_find_the_readme_s_bug(suite: Suite) -> None:
    assert "FAILURE 1: pointers / limit / " in suite.problem(lambda: planted(README_S))


@pytest.mark.slow
def test_a_failure_comes_again_from_the_user_s_database(suite: Suite) -> None:
    own = {"derandomize": False, "database": InMemoryExampleDatabase()}
    assert suite.problem(planted, **own)
    found = suite.finds
    shutil.rmtree(suite.folder)
    assert suite.problem(planted, phases=[Phase.reuse], **own)
    assert suite.finds == found


def test_what_a_session_saved_is_tried_first(suite: Suite) -> None:
    suite.save("find", {"do": "disable_sampling"})
    assert "AssertionError: FAILED find.jsonl" in suite.problem(planted)
    assert suite.problem(lambda: make_target("reference"), max_examples=1) == ""


def test_a_saved_trace_that_the_contract_does_not_allow_is_left_out(suite: Suite) -> None:
    suite.save("other", {"do": "malloc", "size_bytes": 8})
    assert suite.problem(lambda: make_target("reference"), max_examples=1) == ""


@pytest.mark.slow
def test_where_hypothesis_shrinks_each_of_several_failures_is_shown(suite: Suite) -> None:
    shrinking = [Phase.generate, Phase.shrink]
    bug = "reference+large-objects-uncounted"
    problem = suite.problem(
        lambda: planted(bug), phases=shrinking, max_examples=200, stateful_step_count=20
    )
    assert "FAILURE 2: " in problem
    assert len(suite.finds) == problem.count("← first wrong answer") > 1


def test_an_exception_of_the_target_is_told_with_its_place_and_the_trace(suite: Suite) -> None:
    problem = suite.problem(Broken)
    assert 'raise KeyError("no such slot")' in problem
    [find] = suite.finds
    assert isinstance(find.actions[-1], CollectMinor)


def test_a_subclass_of_the_machine_has_a_test_case_of_its_own() -> None:
    class Mine(state_machine_for(planted)):  # type: ignore[misc]
        make_target = staticmethod(lambda: make_target("reference"))

    assert Mine.TestCase.machine is Mine


@pytest.mark.parametrize(
    "factory", [lambda: make_target(PLANTED), functools.partial(make_target, PLANTED)]
)
def test_what_no_program_can_import_is_left_to_be_filled_in(factory: Callable[[], Target]) -> None:
    assert place_of(factory) == ("MODULE:TARGET",)


def test_what_a_program_can_import_has_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(str(traces.__file__)).parents[2]
    assert place_of(traces.Trace)[0] == "fuzz.protocol.trace:Trace"  # type: ignore[arg-type]
    monkeypatch.chdir(root.parent)
    assert place_of(make_target) == ("fuzz.targets:make_target", root.name)  # type: ignore[arg-type]
    monkeypatch.chdir(root)
    assert place_of(make_target) == ("fuzz.targets:make_target",)  # type: ignore[arg-type]
