"""Comparisons of flaky targets: chance is not a difference."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH = 0, 1
FLAKY = """
import random
from fuzz.targets import make_target

class Flaky:
    name = "flaky"
    def __init__(self):
        self.target = make_target("reference")
    def start(self, configuration):
        return self.target.start(configuration)
    def perform(self, action):
        answer = self.target.perform(action)
        if type(action).__name__ == "AllocateArray" and random.random() < {chance}:
            answer.size += 1
        return answer
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def compare(before: float, after: float, seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    for name, chance in (("flaky_before", before), ("flaky_after", after)):
        Path(f"{name}.py").write_text(FLAKY.format(chance=chance), encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    versions = ["--before", "flaky_before:Flaky", "--after", "flaky_after:Flaky"]
    plan = ["--actions", "1000", "--seed", str(seed), "--corpus", f"traces-{seed}"]
    return run_command_line(["run", *versions, *plan, "--workers", "1"])


COMPARED = [(chance, seed) for chance in (0.05, 0.1, 0.2, 0.35, 0.5) for seed in range(8)]
IN_CI = [COMPARED[0], COMPARED[16], COMPARED[-1]]


@pytest.mark.parametrize(
    ("chance", "seed"),
    [
        pytest.param(*each, marks=pytest.mark.slow if each in IN_CI else pytest.mark.night)
        for each in COMPARED
    ],
)
def test_two_equal_flaky_targets_do_not_differ(
    chance: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compare(chance, chance, seed, monkeypatch) == CLEAN
    assert {*Path(f"traces-{seed}").rglob("*.jsonl")} == {
        *Path(f"traces-{seed}").glob("still-fails/*.jsonl")
    }


@pytest.mark.slow
def test_a_new_flaky_defect_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(0, 0.2, 1, monkeypatch) == MISMATCH
