"""The targets ddtrace and scalene: Python's profilers, whose samples are predicted.

Tests that need them are skipped where they are missing: `pip install ddtrace scalene`, or
GCFUZZ_PROFILERS names a Python that has them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripts import shell_script
from target_helpers import carried_out, installed
from waiting import PATIENCE_SECONDS, completed

from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.oracles import Bench, Mismatch
from fuzz.oracles.counting.distances.ddtrace import Ddtrace
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action, CheckContents, Free, Malloc, ReadProfile
from fuzz.protocol.written import contents_of
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.ddtrace import find
from fuzz.targets.ddtrace.driver import DdtraceDriver, samples_in
from fuzz.targets.python_profilers import HOW_TO_INSTALL, mutator
from fuzz.targets.python_profilers.profiler_driver import (
    BLOCK_BYTES_MAX,
    HEADER_BYTES,
    Mutator,
    ProfilerDriver,
)
from fuzz.targets.scalene import driver as scalene_driver
from fuzz.targets.scalene.contract import MARK_BYTES
from fuzz.targets.scalene.driver import SampledMutator, ScaleneDriver

PYTHON = os.environ.get("GCFUZZ_PROFILERS", sys.executable)
MARK = MARK_BYTES - HEADER_BYTES
NAMES = ("ddtrace", "scalene")


@pytest.fixture(scope="module")
def ddtrace() -> Iterator[DdtraceDriver]:
    installed("ddtrace")
    driver = DdtraceDriver("ddtrace", PYTHON)
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def make_scalene() -> Iterator[Callable[[], ScaleneDriver]]:
    installed("scalene")
    made: list[ScaleneDriver] = []

    def make() -> ScaleneDriver:
        made.append(ScaleneDriver("scalene", PYTHON))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def scalene(make_scalene: Callable[[], ScaleneDriver]) -> ScaleneDriver:
    return make_scalene()


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> ProfilerDriver:
    driver: ProfilerDriver = request.getfixturevalue(request.param)
    return driver


def weights_of(driver: ProfilerDriver, *actions: Action) -> list[list[int]]:
    observations = carried_out(driver, actions)
    assert [each.samples for each in observations] == [len(each.weights) for each in observations]
    return [each.weights for each in observations]


@pytest.mark.parametrize("driver", NAMES, indirect=True)
def test_after_the_header_the_driver_reads_only_samples(
    driver: ProfilerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the process's memory it reads only blocks, and Scalene's file of samples."""
    driver.start({})
    asked = set[int]()
    ask = Mutator.ask

    def recorded(process: Mutator, what: int, number: int = 0, slot: int = 0) -> None:
        asked.add(what)
        ask(process, what, number, slot)

    monkeypatch.setattr(Mutator, "ask", recorded)
    weights_of(driver, *[Malloc(3000)] * 8, *[Free(0)] * 8)
    assert asked - {mutator.REPORT} == {mutator.ALLOCATE, mutator.FREE}


@pytest.mark.parametrize("driver", NAMES, indirect=True)
def test_a_byte_that_changes_in_a_block_is_found(driver: ProfilerDriver) -> None:
    bench = Bench(driver.start({}))
    check = CheckContents()
    for action in (Malloc(20), Malloc(1), Malloc(0), Malloc(BLOCK_BYTES_MAX), Free(1), check):
        bench.judge(action, driver.perform(action))
    driver.mutator.set_contents(driver.blocks[0].slot, contents_of(1, 19) + b"\0")
    with pytest.raises(Mismatch, match=r"contents: contents: expected .. at offset 19, got 00"):
        bench.judge(check, driver.perform(check))


@pytest.mark.parametrize("driver", NAMES, indirect=True)
def test_a_block_that_is_not_promised_is_an_error(driver: ProfilerDriver) -> None:
    driver.start({})
    error = driver.perform(Malloc(BLOCK_BYTES_MAX + 1)).error
    assert f"the contract promises 0 to {BLOCK_BYTES_MAX}" in str(error)


# ddtrace.


def test_a_block_that_reaches_the_distance_is_sampled(ddtrace: DdtraceDriver) -> None:
    ddtrace.start({"period_bytes": 4096})
    distances = Ddtrace(4096)
    first, second = distances.draw(4096), distances.draw(4096)
    one_short, last = Malloc(first - 1 - 2 * HEADER_BYTES), Malloc(0)
    assert weights_of(ddtrace, one_short, last) == [[], []]
    assert weights_of(ddtrace, Malloc(0)) == [[first - 1 + HEADER_BYTES]]
    assert weights_of(ddtrace, Malloc(second - HEADER_BYTES)) == [[second]]


@pytest.mark.slow
def test_a_heap_profile_has_what_is_alive() -> None:
    target = installed("ddtrace-as-documented")
    target.start({"period_bytes": 512})
    assert [target.perform(Malloc(5000)).samples for _ in range(3)] == [1, 1, 1]
    assert target.perform(ReadProfile()).profile == [3, 3 * (5000 + HEADER_BYTES)]
    target.perform(Free(1))
    assert target.perform(ReadProfile()).profile == [2, 2 * (5000 + HEADER_BYTES)]


def test_each_sample_of_a_profile_is_read() -> None:
    """Two types, `a` and `b`, and two samples, one with a number of two bytes."""
    types = b"\x0a\x02\x08\x01\x0a\x02\x08\x02"
    samples = b"\x12\x04\x12\x02\x05\x06"
    more = b"\x12\x05\x12\x03\x80\x01\x00" + b"\x48\x07"
    strings = b"\x32\x00\x32\x01a\x32\x01b"
    found = [*samples_in(types + samples + more + strings)]
    assert found == [{"a": 5, "b": 6}, {"a": 128, "b": 0}]


# Scalene.


def test_bytes_allocated_beyond_the_window_are_a_sample(scalene: ScaleneDriver) -> None:
    scalene.start({"period_bytes": 4096})
    fits, one_more = Malloc(4095 - HEADER_BYTES), Malloc(0)
    assert weights_of(scalene, fits, one_more) == [[], [4095 + 40]]
    assert weights_of(scalene, fits, Free(2), one_more, fits) == [[], [], [], [40 + 4095]]


def test_freed_bytes_beyond_the_window_are_a_sample_too(scalene: ScaleneDriver) -> None:
    scalene.start({"period_bytes": 4096})
    assert weights_of(scalene, Malloc(5000), Free(0)) == [[5034], [5034]]


def test_up_to_512_bytes_are_rounded_up_to_words(scalene: ScaleneDriver) -> None:
    scalene.start({"period_bytes": 512})
    small, smallest = Malloc(512 - 7 - HEADER_BYTES), Malloc(511 - HEADER_BYTES - 7)
    assert weights_of(scalene, small, smallest, smallest) == [[512], [], [1008]]


def test_a_block_of_the_size_of_a_mark_is_not_a_sample_and_ends_a_distance(
    scalene: ScaleneDriver,
) -> None:
    scalene.start({"period_bytes": 32_768})
    before, after = Malloc(20_000), Malloc(32_767 - HEADER_BYTES)
    assert weights_of(scalene, before, Malloc(MARK), after, Malloc(0)) == [[], [], [], [32_807]]
    assert run_actions(scalene, {"period_bytes": 512}, [Malloc(MARK), Malloc(500), Free(0)]) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_session_finds_both_findings(seed: str) -> None:
    """A block of a mark's size is never sampled, and one of two sizes in step always is."""
    target = installed("scalene-as-documented")
    done = slices_of(RandomEngine(target, seed), 5000, ProbeCounter())
    failures = [failure for each in done for failure in each.failures]
    assert {failure.identity[-1] for failure in failures} == {"less", "more"}
    less = [failure for failure in failures if "less" in failure.identity]
    assert Malloc(MARK) in [failure.actions[-1] for failure in less]


@pytest.mark.slow
def test_a_process_whose_file_is_half_full_is_replaced(
    make_scalene: Callable[[], ScaleneDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalene_driver, "FILE_BYTES", 100)
    driver = make_scalene()
    driver.start({"period_bytes": 512})
    first = driver.mutator
    weights_of(driver, Malloc(600))
    driver.start({"period_bytes": 512})
    assert driver.mutator is not first
    assert first.process.returncode == 0


def test_a_library_that_takes_no_samples_is_bad_input(
    make_scalene: Callable[[], ScaleneDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = make_scalene()
    with monkeypatch.context() as patch:
        patch.setattr(driver, "new_samples", list)
        with pytest.raises(BadInputError, match="takes no samples"):
            driver.start({})
    driver.start({})
    assert weights_of(driver, Malloc(5000)) == [[5034]]


def test_the_end_of_the_process_ends_the_program(make_scalene: Callable[[], ScaleneDriver]) -> None:
    driver = make_scalene()
    driver.start({})
    driver.mutator.process.kill()
    with pytest.raises(EOFError, match="has ended with exit code -9"):
        driver.perform(Malloc(1))
    driver.mutators.popitem()[1].process.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.usefixtures("scalene")
def test_no_file_is_left_behind() -> None:
    made = SampledMutator(PYTHON, 4096)
    assert [*Path("/tmp").glob(f"scalene-*{made.process.pid}")] == []
    made.close()


# A missing profiler.


@pytest.fixture
def without_packages(tmp_path: Path) -> Path:
    return shell_script(tmp_path / "python", f'exec "{sys.executable}" -S "$@"')


@pytest.mark.parametrize(
    ("name", "what"), [("ddtrace", "no ddtrace"), ("scalene", "there is no Scalene")]
)
def test_without_the_profiler_the_error_says_what_to_install(
    name: str, what: str, without_packages: Path
) -> None:
    target = make_target(name, TargetOptions(paths={"python": without_packages}))
    with pytest.raises(BadInputError, match=re.escape(f"{what}: {HOW_TO_INSTALL}")):
        target.start({})


def test_without_a_decompressor_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(find, "find_spec", lambda _: None)
    with pytest.raises(BadInputError, match=r"pip install 'gcfuzz\[python-profilers\]'"):
        make_target("ddtrace")


@pytest.mark.slow
def test_an_interpreter_that_cannot_run_the_profiler_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="unknown cannot be run: no unknown"):
        Mutator(sys.executable, "unknown", (), {})


@pytest.mark.slow
def test_the_mutator_needs_nothing_of_this_project() -> None:
    command = [sys.executable, "-S", "-I", str(mutator.__file__), "unknown"]
    done = completed(command, check=False)
    assert done.stderr == "no unknown\n"
