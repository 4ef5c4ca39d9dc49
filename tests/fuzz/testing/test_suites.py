"""`state_machine_for` as unittest runs it, in this process."""

from __future__ import annotations

import functools
import json
import re
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
from fuzz.protocol.actions import CollectFull, CollectMinor
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import GuardedTarget, Target
from fuzz.targets import make_target
from fuzz.testing.suites import place_of

STEPS_MAX = 6
PLANTED = "reference+disable-before-enable"
README_S = "reference+stale-limit-after-large"


def planted(name: str = PLANTED) -> Target:
    return GuardedTarget(make_target(name), "mine+of+mine")


class Broken:
    """A target with a bug of its own."""

    name = "broken"

    def __init__(self) -> None:
        self.start = make_target("reference").start

    def perform(self, action: object) -> Observation:
        if isinstance(action, CollectMinor):
            raise KeyError("no such slot")
        return Observation()


class BrokenTwice(Broken):
    """A target with two bugs."""

    def perform(self, action: object) -> Observation:
        if isinstance(action, CollectFull):
            raise IndexError("no such object")
        return super().perform(action)


@attrs.frozen
class Suite:
    """Runs the test case of a state machine, which saves failures in `folder`."""

    folder: Path

    def problem(self, factory: Callable[[], Any], **own: Any) -> str:
        """The message of unittest, the same each time; empty if it passes."""
        case: Any = state_machine_for(factory).TestCase
        case.corpus_folder = self.folder
        case.settings = settings(case.settings, **{"derandomize": True, "database": None} | own)
        result = unittest.TestResult()
        case().run(result)
        assert result.testsRun == 1
        return "".join(text for _, text in result.failures + result.errors)

    def save(self, name: str, action: dict[str, object]) -> None:
        """Save a trace of one action in the folder."""
        self.folder.mkdir()
        lines = {"gcfuzz": 2, "target": "process"}, action
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.folder / f"{name}.jsonl").write_text(text)

    @property
    def failures(self) -> list[traces.Trace]:
        return [traces.read(path) for path in sorted(self.folder.glob("*.jsonl"))]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path / "corpus")


@pytest.mark.slow
def test_it_passes_for_the_reference(suite: Suite) -> None:
    assert suite.problem(lambda: make_target("reference"), max_examples=5) == ""
    assert not suite.folder.exists()


def test_the_user_s_settings_are_respected(suite: Suite) -> None:
    made = []

    def target() -> Target:
        made.append(make_target("reference"))
        return made[-1]

    suite.problem(target, max_examples=15, stateful_step_count=5)
    # Hypothesis may try some more without counting them. Its default is a hundred.
    assert 15 <= len(made) <= 30


def test_a_failure_is_reduced_saved_and_reported_like_a_session_s(suite: Suite) -> None:
    problem = suite.problem(planted)
    assert "AssertionError: FAILURE 1: " in problem
    assert "← first wrong answer" in problem
    assert "Draw " not in problem
    [failure] = suite.failures
    assert 1 <= len(failure.actions) <= STEPS_MAX
    assert failure.header.target == "mine+of+mine"


@pytest.mark.slow
def test_failures_that_cannot_be_saved_are_printed(suite: Suite) -> None:
    suite.folder.write_text("no folder")
    problem = suite.problem(planted)
    assert "save these lines to replay it" in problem
    assert '\n{"gcfuzz": 2, "target": "mine+of+mine"' in problem


@pytest.mark.slow
def test_default_settings_find_the_readme_s_bug(suite: Suite) -> None:
    assert "FAILURE 1: pointers / limit / " in suite.problem(lambda: planted(README_S))


@pytest.mark.slow
def test_a_failure_is_repeated_from_the_user_s_database(suite: Suite) -> None:
    own = {"derandomize": False, "database": InMemoryExampleDatabase()}
    assert suite.problem(planted, **own)
    found = suite.failures
    shutil.rmtree(suite.folder)
    assert suite.problem(planted, phases=[Phase.reuse], **own)
    assert suite.failures == found


def test_saved_traces_are_tried_first(suite: Suite) -> None:
    suite.save("failure", {"do": "disable_sampling"})
    assert "AssertionError: FAILED failure.jsonl" in suite.problem(planted)
    assert suite.problem(lambda: make_target("reference"), max_examples=1) == ""


def test_a_saved_trace_that_the_contract_does_not_allow_is_left_out(suite: Suite) -> None:
    suite.save("other", {"do": "malloc", "size_bytes": 8})
    assert suite.problem(lambda: make_target("reference"), max_examples=1) == ""


@pytest.mark.slow
def test_with_shrinking_each_of_several_failures_is_shown(suite: Suite) -> None:
    # Two that show soon: after the first one Hypothesis looks for others for ten seconds only.
    shrinking = [Phase.generate, Phase.shrink]
    problem = suite.problem(BrokenTwice, phases=shrinking, max_examples=200, stateful_step_count=20)
    # One that is like another is listed without its trace.
    assert len(suite.failures) == len(re.findall(r"FAILURE \d+: ", problem)) > 1


def test_an_exception_of_the_target_has_its_line_and_its_trace(suite: Suite) -> None:
    problem = suite.problem(Broken)
    assert 'raise KeyError("no such slot")' in problem
    [failure] = suite.failures
    assert isinstance(failure.actions[-1], CollectMinor)


def test_a_subclass_of_the_state_machine_has_its_own_test_case() -> None:
    class Mine(state_machine_for(planted)):  # type: ignore[misc]  # A base made at run time.
        make_target = staticmethod(lambda: make_target("reference"))

    assert Mine.TestCase.machine is Mine


@pytest.mark.parametrize(
    "factory", [lambda: make_target(PLANTED), functools.partial(make_target, PLANTED)]
)
def test_an_unimportable_target_is_left_to_the_user(factory: Callable[[], Target]) -> None:
    assert place_of(factory) == ("MODULE:TARGET",)


def test_a_target_that_a_program_can_import_has_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(str(traces.__file__)).parents[2]
    assert place_of(traces.Trace)[0] == "fuzz.protocol.trace:Trace"
    monkeypatch.chdir(root.parent)
    assert place_of(make_target) == ("fuzz.targets:make_target", root.name)
    monkeypatch.chdir(root)
    assert place_of(make_target) == ("fuzz.targets:make_target",)
