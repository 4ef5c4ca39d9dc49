"""A program under pytest: `command` in place of a function that makes a target."""

from __future__ import annotations

import shlex
import sys
import unittest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from fuzz import BadInputError, state_machine_for
from fuzz.testing.suites import SavedTrace

COUNTER = Path(__file__).parents[3] / "examples" / "python" / "counter.py"
RIGHT = shlex.join([sys.executable, str(COUNTER)])
WRONG = f"{RIGHT} --off-by-one"
AT_THE_PERIOD = (
    '{"gcfuzz": 2, "target": "process"}\n'
    '{"do": "enable_sampling", "period_bytes": 20}\n'
    '{"do": "allocate_string", "length": 4}\n'
)
"""A string of 20 bytes, which reaches the period and does not exceed it."""


def problem_of(command: str, folder: Path) -> str:
    """The message of the state machine's test; empty if it passes."""
    case: Any = state_machine_for(command=command).TestCase
    case.corpus_folder = folder
    case.settings = settings(
        case.settings, derandomize=True, database=None, max_examples=10, stateful_step_count=20
    )
    result = unittest.TestResult()
    case().run(result)
    return "".join(text for _, text in result.failures + result.errors)


@pytest.fixture
def saved(tmp_path: Path) -> SavedTrace:
    path = tmp_path / "sampling.jsonl"
    path.write_text(AT_THE_PERIOD)
    return SavedTrace(path)


@pytest.mark.slow
def test_a_program_that_keeps_to_its_contract_passes(tmp_path: Path) -> None:
    assert problem_of(RIGHT, tmp_path) == ""


@pytest.mark.slow
def test_the_failure_of_a_program_is_saved_with_its_command(tmp_path: Path) -> None:
    problem = problem_of(WRONG, tmp_path / "failures")
    (path,) = (tmp_path / "failures").glob("*.jsonl")
    assert "FAILURE 1: sampling / samples / allocate_string / more" in problem
    assert f"gcfuzz replay {path} --command {shlex.quote(WRONG)}" in problem


@pytest.mark.slow
def test_a_saved_trace_fails_first(saved: SavedTrace) -> None:
    assert f"FAILED {saved.path.name}" in problem_of(WRONG, saved.path.parent)


def test_a_saved_trace_is_replayed_on_a_program(saved: SavedTrace) -> None:
    saved.replay(command=RIGHT)
    with pytest.raises(AssertionError, match=r"FAILED sampling\.jsonl") as failed:
        saved.replay(command=WRONG)
    assert f"--command {shlex.quote(WRONG)}" in str(failed.value)


def test_a_command_may_be_a_list(saved: SavedTrace) -> None:
    saved.replay(command=[sys.executable, str(COUNTER)])


@pytest.mark.parametrize("given", [{}, {"target_factory": object, "command": "./adapter"}])
def test_either_a_target_or_a_command_is_given(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="give a target_factory, or a command, and not both"):
        state_machine_for(**given)


def test_an_empty_command_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="command is empty; name a program"):
        state_machine_for(command="")


def test_a_program_that_is_missing_is_one_line(tmp_path: Path) -> None:
    *_, last = problem_of("./missing", tmp_path).strip().splitlines()
    assert last.startswith("AssertionError: ./missing: ")
