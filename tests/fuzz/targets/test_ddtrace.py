"""The target ddtrace: Python's own memory profiler of that name, each of its samples foretold.

Without it everything is skipped that needs it: `pip install ddtrace`, or GCFUZZ_PROFILERS names a
Python that has it.
"""

from __future__ import annotations

import os
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
from fuzz.oracles.counting.distances import Ddtrace
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action, Free, Malloc, ReadProfile
from fuzz.protocol.contract import Contract
from fuzz.protocol.contract_problems import problems_of
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.python_profilers import mutator, profilers
from fuzz.targets.python_profilers.ddtrace_driver import (
    DdtraceTarget,
    contract_as_built,
    contract_as_documented,
    samples_in,
)
from fuzz.targets.python_profilers.profiler_target import HEADER_BYTES, Mutator
from fuzz.targets.python_profilers.profilers import DDTRACE, DDTRACE_AS_DOCUMENTED, HOW_TO_INSTALL
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH = range(2)
CORPUS = Path(__file__).parents[3] / "corpus" / "ddtrace"
MISTAKES: tuple[Mapping[str, Any], ...] = (
    {"crosses": "beyond"},
    {"counts": "requested_plus_one"},
    {"distances": "gperftools"},
)


@pytest.fixture(scope="module")
def python() -> str:
    python = os.environ.get("GCFUZZ_PROFILERS", sys.executable)
    look = "import importlib.util as u, sys; sys.exit(u.find_spec('ddtrace') is None)"
    try:
        profilers.driver_command(DDTRACE)
    except BadInputError as problem:
        pytest.skip(str(problem))
    if subprocess.run([python, "-c", look], check=False).returncode:
        pytest.skip(HOW_TO_INSTALL)
    return python


@pytest.fixture(scope="module")
def target(python: str) -> Iterator[DdtraceTarget]:
    target = DdtraceTarget(DDTRACE, python)
    yield target
    target.close()


def weights_of(target: DdtraceTarget, *actions: Action) -> list[list[int]]:
    said = [target.perform(action) for action in actions]
    assert [each.error for each in said] == [None] * len(said)
    assert [each.samples for each in said] == [len(each.weights) for each in said]
    return [each.weights for each in said]


# Sessions.


@pytest.mark.slow
def test_ten_thousand_actions_are_foretold(
    python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = ["--actions", "10000", "--seed", "1", "--corpus", str(tmp_path)]
    assert run_command_line(["run", "--target", "ddtrace", "--python", python, *plan]) == CLEAN
    printed = capsys.readouterr().out
    assert "10,000 actions (" in printed
    samples = printed.rpartition(" actions (")[2].partition(" samples")[0].split()[-1]
    assert int(samples.replace(",", "")) >= 2000


class MistakenTarget(DdtraceTarget):
    """ddtrace as it is, under a contract with one mistake in it."""

    def __init__(self, python: str, mistake: Mapping[str, Any]) -> None:
        super().__init__(DDTRACE, python)
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
@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_was_found_fails_as_it_is_documented(path: Path, python: str) -> None:
    assert run_command_line(["replay", str(path), "--python", python]) == MISMATCH


# One trace.


def test_a_block_that_reaches_the_distance_is_sampled(target: DdtraceTarget) -> None:
    target.start({"period_bytes": 4096})
    distances = Ddtrace(4096)
    first, second = distances.draw(4096), distances.draw(4096)
    one_short, last = Malloc(first - 1 - 2 * HEADER_BYTES), Malloc(0)
    assert weights_of(target, one_short, last) == [[], []]
    assert weights_of(target, Malloc(0)) == [[first - 1 + HEADER_BYTES]]
    assert weights_of(target, Malloc(second - HEADER_BYTES)) == [[second]]


def test_a_trace_says_the_same_wherever_it_stands(target: DdtraceTarget) -> None:
    actions = [*[Malloc(1500)] * 9, *[Free(0)] * 7]

    def play() -> list[list[int]]:
        target.start({})
        return weights_of(target, *actions)

    first = play()
    target.start({"period_bytes": 512})
    weights_of(target, Malloc(9000), Malloc(7))
    assert play() == first
    assert [each for each in first if each]


def test_after_the_header_nothing_is_read_but_what_it_says_of_samples(
    target: DdtraceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no other way to the process: it shares no memory with this one."""
    target.start({})
    asked = set[int]()
    ask = Mutator.ask

    def recorded(mutator: Mutator, what: int, number: int = 0, slot: int = 0) -> None:
        asked.add(what)
        ask(mutator, what, number, slot)

    monkeypatch.setattr(Mutator, "ask", recorded)
    weights_of(target, *[Malloc(3000)] * 8, *[Free(0)] * 8)
    assert asked == {mutator.ALLOCATE, mutator.FREE, mutator.REPORT}


@pytest.mark.slow
def test_a_heap_profile_has_what_is_alive(python: str) -> None:
    target = DdtraceTarget(DDTRACE_AS_DOCUMENTED, python)
    target.start({"period_bytes": 512})
    assert [target.perform(Malloc(5000)).samples for _ in range(3)] == [1, 1, 1]
    assert target.perform(ReadProfile()).profile == [3, 3 * (5000 + HEADER_BYTES)]
    target.perform(Free(1))
    assert target.perform(ReadProfile()).profile == [2, 2 * (5000 + HEADER_BYTES)]
    target.close()


# What is promised, and what is not there.


def test_contracts_have_no_problem() -> None:
    built = contract_as_built(4096, "4.16.0")
    documented = contract_as_documented(built)
    assert [*problems_of(built), *problems_of(documented)] == []


def test_each_sample_of_a_profile_is_read() -> None:
    """Two types, `a` and `b`, and two samples, one with a number of two bytes."""
    types = b"\x0a\x02\x08\x01\x0a\x02\x08\x02"
    samples = b"\x12\x04\x12\x02\x05\x06"
    more = b"\x12\x05\x12\x03\x80\x01\x00" + b"\x48\x07"
    strings = b"\x32\x00\x32\x01a\x32\x01b"
    found = [*samples_in(types + samples + more + strings)]
    assert found == [{"a": 5, "b": 6}, {"a": 128, "b": 0}]


def test_without_ddtrace_it_is_said_what_to_install(tmp_path: Path) -> None:
    without = tmp_path / "python"
    without.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    without.chmod(0o755)
    with pytest.raises(
        BadInputError, match=r"no ddtrace: pip install 'gcfuzz\[python-profilers\]'"
    ):
        make_target(DDTRACE, TargetOptions(python=without)).start({})


def test_without_a_decompressor_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profilers, "find_spec", lambda _: None)
    with pytest.raises(BadInputError, match=r"pip install 'gcfuzz\[python-profilers\]'"):
        make_target(DDTRACE)
