"""The tiers of hotspot: JNI, the interpreter and both compilers allocate the same trace."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import pytest
from hotspot_sessions import AHEAD, ALLOCATED, AS_USUAL, MISTAKEN, buffers_of
from night import fresh, part_of, rest_at_night
from target_helpers import Changed, changed, first_failure, java_folder

from fuzz.protocol import actions as do
from fuzz.protocol.target import FullTarget, Target, full
from fuzz.run import Run, run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.hotspot.find import LIBRARY

pytestmark = pytest.mark.slow
JNI, INTERPRETER, C1, C2 = range(4)


@cache
def target_of(version: str) -> FullTarget:
    """It keeps its processes from test to test."""
    return full(make_target("hotspot", TargetOptions(paths={"java": java_folder(version)})))


def mistaken(mistake: str) -> Target:
    command = (sys.executable, str(MISTAKEN), mistake, str(java_folder(AHEAD) / LIBRARY))
    return make_target("process", TargetOptions(command))


@pytest.fixture(scope="module", params=[AHEAD, ALLOCATED])
def target(request: pytest.FixtureRequest) -> FullTarget:
    return target_of(request.param)


SETTINGS: list[dict[str, int]] = [AS_USUAL, {}]
"""One process; a process for each combination."""


@pytest.mark.parametrize("tier", [INTERPRETER, C1, C2])
@pytest.mark.parametrize("settings", rest_at_night(SETTINGS), ids=["one process", "several"])
def test_a_session_in_each_tier_has_no_failure(
    settings: dict[str, int], tier: int, target: FullTarget
) -> None:
    in_tier = Changed(target, lambda right: right, **settings, tier=tier)
    assert first_failure(in_tier, part_of(3000), fresh("1")) is None


@pytest.mark.parametrize("left_bytes", [-8, 0, 8, 16, 24])
@pytest.mark.parametrize("header_bytes", [8, 12])
def test_a_buffer_has_room_for_a_header_behind_its_end(header_bytes: int, left_bytes: int) -> None:
    """Unless that is compact: then no hole is too small for one. C1 does not prefetch."""
    run = Run(target_of(ALLOCATED), {**AS_USUAL, "header_bytes": header_bytes, "tier": C1})
    first_bytes, buffer_bytes = 64, buffers_of(run.contract).desired_bytes
    for size_bytes in (first_bytes, buffer_bytes - left_bytes):
        run.step(do.AllocateString(size_bytes - 16))


def test_sessions_mix_the_tiers(target: FullTarget) -> None:
    contract = target.default_contract()
    [tier] = [each for each in contract.settings if each.name == contract.tier_setting]
    assert {*tier.choices} == {JNI, INTERPRETER, C1, C2}


# The tier is proved.


@pytest.mark.parametrize("tier", [C1, C2])
def test_a_trace_fails_if_a_method_is_not_compiled(tier: int) -> None:
    failure = run_actions(mistaken("uncompiled"), {"tier": tier}, [do.AllocateNode(1)])
    assert failure is not None
    assert "array runs at level 0" in failure.message


def test_a_method_that_loses_its_machine_code_is_an_error() -> None:
    target = mistaken("deoptimizing")
    trace = [do.AllocateNode(1), do.CollectFull(), do.AllocateNode(2)]
    failure = run_actions(target, {"tier": C2}, trace)
    assert failure is not None
    assert failure.message.endswith("JavaError: node0 did not run at level 4")
    assert failure.actions == tuple(trace)
    assert run_actions(target, {"tier": INTERPRETER}, trace) is None


# Where tiers differ.


def samples_of(target: FullTarget, tier: int, actions: list[Any], **settings: int) -> list[int]:
    """The samples of the actions, as the oracles predict them."""
    run = Run(target, AS_USUAL | settings | {"tier": tier})
    return [run.step(action).samples for action in actions]


@pytest.mark.parametrize(("tier", "samples"), [(JNI, 1), (INTERPRETER, 1), (C1, 0), (C2, 0)])
def test_inline_code_overlooks_a_sample_that_became_due_while_off(tier: int, samples: int) -> None:
    """So the allocation was inline. The interpreter calls the machine for arrays."""
    overdue = [do.AllocateString(100), do.EnableSampling(4096), do.AllocateString(100)]
    taken = samples_of(target_of(ALLOCATED), tier, overdue, first_bytes=8)
    assert taken == [0, 0, samples]


@pytest.mark.parametrize(("left_bytes", "samples"), [(0, 1), (8, 0)])
def test_c2_calls_the_machine_for_an_object_that_would_end_with_its_buffer(
    left_bytes: int, samples: int
) -> None:
    rest = [do.AllocateString(1856 - 16 - left_bytes)]
    overdue = [do.AllocateString(0), do.EnableSampling(4096), *rest]
    taken = samples_of(target_of(ALLOCATED), C2, overdue, first_bytes=8)
    assert taken == [0, 0, samples]


@pytest.mark.parametrize(
    ("tier", "samples"), [(JNI, [1, 1]), (INTERPRETER, [0, 1]), (C1, [0, 0]), (C2, [0, 0])]
)
def test_without_buffers_inline_code_of_17_is_not_sampled(tier: int, samples: list[int]) -> None:
    actions = [do.EnableSampling(0), do.AllocateNode(1), do.AllocateString(1)]
    taken = samples_of(target_of(AHEAD), tier, actions, buffer_bytes=0, first_bytes=1)
    assert taken[1:] == samples


MISTAKES: dict[str, tuple[str, dict[str, int], dict[str, Any]]] = {
    "as JNI": (ALLOCATED, {"tier": C1}, {"inline_kinds": ()}),
    "as compiled": (ALLOCATED, {"tier": INTERPRETER}, {"inline_kinds": ("node", "string")}),
    "no spare bytes": (ALLOCATED, {"tier": C2}, {"inline_spare_bytes": 0}),
    "outside": (AHEAD, {"tier": C1, "buffer_bytes": 0}, {"inline_outside": "looked at"}),
}
"""The version, settings, and keys of the contract."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_contract_of_a_tier_is_found(mistake: str) -> None:
    version, settings, keys = MISTAKES[mistake]
    settings = AS_USUAL | settings
    wrong = Changed(target_of(version), lambda right: changed(right, **keys), **settings)
    failure = first_failure(wrong, 20_000)
    assert failure is not None
    assert failure.oracle == "sampling"


def test_only_bytecode_is_inline(target: FullTarget) -> None:
    assert buffers_of(target.start({})).inline_kinds == ()
