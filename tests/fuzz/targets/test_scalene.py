"""The target scalene: Python's own profiler, each of its samples foretold.

Without it everything is skipped that needs it: `pip install scalene`, or GCFUZZ_PROFILERS names a
Python that has it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action, Free, Malloc, SetPeriod
from fuzz.protocol.contract import Contract
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.counting import Bytes, NetBytes
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.python_profilers import mutator, scalene_driver
from fuzz.targets.python_profilers.profiler_target import BLOCK_BYTES_MAX, HEADER_BYTES, Mutator
from fuzz.targets.python_profilers.profilers import HOW_TO_INSTALL, SCALENE, SCALENE_AS_DOCUMENTED
from fuzz.targets.python_profilers.scalene_driver import (
    MARK_BYTES,
    SampledMutator,
    ScaleneTarget,
    contract_as_built,
    contract_as_documented,
    find_package,
)
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH = range(2)
MISTAKES: tuple[Mapping[str, Any], ...] = (
    {"counting": Bytes()},
    {"counts": "requested"},
    {"crosses": "beyond", "counting": Bytes()},
    {"counting": NetBytes(unsampled_bytes=BLOCK_BYTES_MAX + HEADER_BYTES)},
    {"counting": NetBytes(unsampled_bytes=MARK_BYTES - 1)},
)
CORPUS = Path(__file__).parents[3] / "corpus" / "scalene"
MARK = MARK_BYTES - HEADER_BYTES


@pytest.fixture(scope="module")
def python() -> str:
    python = os.environ.get("GCFUZZ_PROFILERS", sys.executable)
    try:
        find_package(python)
    except BadInputError as problem:
        pytest.skip(str(problem))
    return python


@pytest.fixture(scope="module")
def target(python: str) -> Iterator[ScaleneTarget]:
    target = ScaleneTarget(SCALENE, python)
    yield target
    target.close()


def weights_of(target: ScaleneTarget, *actions: Action) -> list[list[int]]:
    said = [target.perform(action) for action in actions]
    assert [each.error for each in said] == [None] * len(said)
    assert [each.samples for each in said] == [len(each.weights) for each in said]
    return [each.weights for each in said]


# Sessions.


@pytest.mark.slow
def test_ten_thousand_actions_are_foretold(
    python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = ["--actions", "11000", "--seed", "1", "--corpus", str(tmp_path)]
    assert run_command_line(["run", "--target", "scalene", "--python", python, *plan]) == CLEAN
    printed = capsys.readouterr().out
    samples = printed.partition("actions (")[2].partition(" samples")[0].split()[-1]
    assert int(samples.replace(",", "")) >= 2000


class MistakenTarget(ScaleneTarget):
    """Scalene as it is, under a contract with one mistake in it."""

    def __init__(self, python: str, mistake: Mapping[str, Any]) -> None:
        super().__init__(SCALENE, python)
        self._mistake = mistake

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start({**configuration, "period_bytes": 4096})
        return attrs.evolve(contract, sampling=attrs.evolve(contract.sampling, **self._mistake))


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_contract_with_one_mistake_is_found(mistake: Mapping[str, Any], python: str) -> None:
    target = MistakenTarget(python, mistake)
    done = slices_of(RandomEngine(target, "1"), 2000, ProbeCounter())
    assert any(each.failures for each in done)
    target.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_session_finds_both_documented_findings(seed: str, python: str) -> None:
    """A block of a mark's size is never sampled; of two sizes in step one always is."""
    target = ScaleneTarget(SCALENE_AS_DOCUMENTED, python)
    done = [*slices_of(RandomEngine(target, seed), 5000, ProbeCounter())]
    target.close()
    failures = [failure for each in done for failure in each.failures]
    assert {failure.identity[-1] for failure in failures} == {"less", "more"}
    assert any(
        failure.actions[-1] == Malloc(MARK) for failure in failures if "less" in failure.identity
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_was_found_fails_as_it_is_documented_only(path: Path, python: str) -> None:
    words = ["replay", str(path), "--python", python]
    assert run_command_line(words) == MISMATCH
    assert run_command_line([*words, "--target", "scalene"]) == CLEAN


# One trace.


def test_what_is_allocated_and_not_freed_is_a_sample_from_the_window_on(
    target: ScaleneTarget,
) -> None:
    target.start({"period_bytes": 4096})
    fits, one_more = Malloc(4095 - HEADER_BYTES), Malloc(0)
    assert weights_of(target, fits, one_more) == [[], [4095 + 40]]
    assert weights_of(target, fits, Free(2), one_more, fits) == [[], [], [], [40 + 4095]]


def test_what_is_freed_and_was_allocated_before_is_a_sample_too(target: ScaleneTarget) -> None:
    target.start({"period_bytes": 4096})
    assert weights_of(target, Malloc(5000), Free(0)) == [[5034], [5034]]


def test_up_to_512_bytes_are_rounded_up_to_words(target: ScaleneTarget) -> None:
    target.start({"period_bytes": 512})
    small, smallest = Malloc(512 - 7 - HEADER_BYTES), Malloc(511 - HEADER_BYTES - 7)
    assert weights_of(target, small, smallest, smallest) == [[512], [], [1008]]


def test_a_block_of_the_size_of_a_mark_is_no_sample_and_ends_a_distance(
    target: ScaleneTarget,
) -> None:
    target.start({"period_bytes": 32_768})
    before, after = Malloc(20_000), Malloc(32_767 - HEADER_BYTES)
    assert weights_of(target, before, Malloc(MARK), after, Malloc(0)) == [[], [], [], [32_807]]
    assert run_actions(target, {"period_bytes": 512}, [Malloc(MARK), Malloc(500), Free(0)]) is None


def test_a_trace_says_the_same_wherever_it_stands(target: ScaleneTarget) -> None:
    actions = [*[Malloc(1500)] * 9, *[Free(0)] * 7]

    def play() -> list[list[int]]:
        target.start({})
        return weights_of(target, *actions)

    first = play()
    target.start({"period_bytes": 512})
    weights_of(target, Malloc(BLOCK_BYTES_MAX), Malloc(7))
    target.start({})
    weights_of(target, Malloc(3000))
    assert play() == first
    assert [each for each in first if each]


def test_after_the_header_nothing_is_read_but_what_it_says_of_samples(
    target: ScaleneTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no other way to the process: it has no memory that is shared but the samples."""
    target.start({})
    asked = set[int]()
    ask = Mutator.ask

    def recorded(mutator: Mutator, what: int, number: int = 0, slot: int = 0) -> None:
        asked.add(what)
        ask(mutator, what, number, slot)

    monkeypatch.setattr(Mutator, "ask", recorded)
    weights_of(target, *[Malloc(3000)] * 8, *[Free(0)] * 8)
    assert asked == {mutator.ALLOCATE, mutator.FREE}


def test_whatever_is_asked_is_answered(target: ScaleneTarget) -> None:
    target.start({})
    actions = [Malloc(BLOCK_BYTES_MAX + 1), SetPeriod(4096), Malloc(1, thread=1), Free(7)]
    errors = [str(target.perform(action).error) for action in actions]
    assert f"0 to {BLOCK_BYTES_MAX} are promised" in errors[0]
    assert "scalene carries out no such set_period" in errors[1]
    assert "carries out no such malloc" in errors[2]
    assert "IndexError" in errors[3]


@pytest.mark.slow
def test_a_process_whose_file_is_half_full_is_replaced(
    python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalene_driver, "FILE_BYTES", 100)
    target = ScaleneTarget(SCALENE, python)
    target.start({"period_bytes": 512})
    first = target.mutator
    weights_of(target, Malloc(600))
    target.start({"period_bytes": 512})
    assert target.mutator is not first
    assert first.process.returncode == 0
    target.close()


def test_one_that_takes_no_samples_is_bad_input(
    python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = ScaleneTarget(SCALENE, python)
    with monkeypatch.context() as mute:
        mute.setattr(target, "new_samples", list)
        with pytest.raises(BadInputError, match="takes no samples"):
            target.start({})
    target.start({})
    assert weights_of(target, Malloc(5000)) == [[5034]]
    target.close()


def test_a_process_that_ends_ends_the_program(python: str) -> None:
    target = ScaleneTarget(SCALENE, python)
    target.start({})
    target.mutator.process.kill()
    with pytest.raises(EOFError, match="has ended with exit code -9"):
        target.perform(Malloc(1))
    target.mutator.process.communicate()


def test_nothing_is_left_behind(python: str) -> None:
    made = SampledMutator(python, 4096)
    assert [*Path("/tmp").glob(f"scalene-*{made.process.pid}")] == []
    made.close()


# What is promised, and what is not there.


def test_contracts_have_no_problem() -> None:
    built = contract_as_built(4096, "2.4.0")
    documented = contract_as_documented(built)
    assert [*problems_of(built), *problems_of(documented)] == []
    assert documented.observes == ("samples",)


def test_both_targets_are_told_apart_by_their_python() -> None:
    for name in (SCALENE, SCALENE_AS_DOCUMENTED):
        target = make_target(name, TargetOptions(python=Path("/no/such/python")))
        with pytest.raises(BadInputError, match="/no/such/python: No such file"):
            target.start({})


def test_without_scalene_it_is_said_what_to_install(tmp_path: Path) -> None:
    without = tmp_path / "python"
    without.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    without.chmod(0o755)
    with pytest.raises(BadInputError, match=re.escape(f"there is no Scalene: {HOW_TO_INSTALL}")):
        find_package(str(without))


def test_an_interpreter_that_cannot_run_the_profiler_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="nobody cannot be run: no nobody"):
        Mutator(sys.executable, "nobody", (), {})


def test_the_mutator_needs_nothing_of_this_project() -> None:
    words = [sys.executable, "-S", "-I", str(mutator.__file__), "nobody"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.stderr == "no nobody\n"
