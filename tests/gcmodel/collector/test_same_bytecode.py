"""Sampling costs nothing for an allocation that fits: it executes the same opcodes without it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE_SECONDS

import gcmodel

SCRIPT = Path(__file__).with_name("count_opcodes.py")
PROJECT = Path(gcmodel.__file__).parent.parent


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """For each way of sampling, the events and the opcodes of one allocation that fits."""
    # A small environment of its own: coverage or a debugger would install another tracer.
    environment = {"PYTHONPATH": str(PROJECT)}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(
        command, env=environment, capture_output=True, check=True, timeout=PATIENCE_SECONDS
    )
    variants: dict[str, Any] = json.loads(done.stdout)
    for name, each in variants.items():
        assert not each["events"], f"{name}: the allocation was sampled or collected"
    return variants


def test_the_measured_opcodes_are_those_of_an_allocation(measured: dict[str, Any]) -> None:
    functions = {function for function, _, _ in measured["never"]["opcodes"]}
    heap_functions = {"allocate_node", "_allocate", "_place_young", "_put", "rounded"}
    assert functions == {*heap_functions, "allocate", "__init__"}


@pytest.mark.parametrize(
    ("variant", "never"),
    [
        *[(variant, "never") for variant in ("recorded", "enabled", "random", "disabled")],
        ("sampled contexts", "contexts"),
    ],
)
def test_an_allocation_that_fits_executes_the_same_opcodes_as_if_sampling_did_not_exist(
    measured: dict[str, Any], variant: str, never: str
) -> None:
    assert measured[variant]["opcodes"] == measured[never]["opcodes"]


def test_a_counter_beside_the_limit_costs_more_opcodes(measured: dict[str, Any]) -> None:
    assert len(measured["counting"]["opcodes"]) > len(measured["enabled"]["opcodes"])


def test_the_counter_s_opcodes_are_in_the_nursery(measured: dict[str, Any]) -> None:
    outside_nursery = {
        name: [opcode for opcode in each["opcodes"] if opcode[0] != "allocate"]
        for name, each in measured.items()
    }
    assert outside_nursery["counting"] == outside_nursery["never"]
