"""Sampling adds no instruction to an allocation that fits; a counter of bytes does."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import LONG_SECONDS, completed

pytestmark = pytest.mark.slow  # It has to be compiled first.

COUNT = 100_000
NEVER = str(2**40)
"""A period that is never reached: every allocation fits."""

Cost = Callable[..., int]


@pytest.fixture(scope="module")
def cost(need: Callable[..., None], native: Path) -> Cost:
    """The instructions of one allocation, from two runs of different lengths."""
    need("valgrind")
    subprocess.run(["make", "benchmarks"], cwd=native, check=True, timeout=LONG_SECONDS)

    def of_program(name: str, *period: str) -> int:
        program = native / "build" / name
        twice = instructions(program, 2 * COUNT, *period)
        return round((twice - instructions(program, COUNT, *period)) / COUNT)

    return of_program


def instructions(program: Path, count: int, *period: str) -> int:
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    ran = completed([*callgrind, program, str(count), *period], timeout=LONG_SECONDS)
    collected = re.search(r"Collected : (\d+)", ran.stderr)
    assert collected
    return int(collected[1])


@pytest.mark.parametrize("period", [(), (NEVER,)], ids=["off", "on"])
def test_an_allocation_that_fits_costs_nothing_more(cost: Cost, period: tuple[str, ...]) -> None:
    assert cost("allocate", *period) == cost("allocate-without-sampling")


def test_a_counter_of_allocated_bytes_costs_more(cost: Cost) -> None:
    assert cost("allocate-listing-3", NEVER) > cost("allocate-without-sampling")
