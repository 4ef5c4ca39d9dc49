"""The sampler that keeps the contract of otel_memory is right, and each of its bugs is found."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from night import fresh, part_of
from waiting import LONG_SECONDS, completed

from fuzz.protocol import trace as traces

pytestmark = pytest.mark.slow  # It has to be compiled first.

FOLDER = Path(__file__).parents[2] / "examples" / "otel_memory"
CLEAN, MISMATCH = 0, 1
REDUCED = {
    "charges-bytes-while-off": ["Malloc", "EnableSampling", "Malloc"],
    "refused-samples-vanish": ["EnableSampling", "Malloc"],
    "absorbing-state": ["EnableSampling", "Malloc"],
    "children-alike": ["EnableSampling", "Malloc"],
}
"""The actions of each bug's reduced trace."""

Build = Callable[..., Path]
Session = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def build(need: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Build the sampler in a copy of its folder, with a bug in it; returns the program."""
    need("gcc", "make")
    folder = tmp_path_factory.mktemp("examples") / "otel_memory"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("build"))

    def make(bug: str = "", *options: str) -> Path:
        planted = [f"BUG={bug}"] if bug else []
        subprocess.run(["make", *planted, *options], cwd=folder, check=True, timeout=LONG_SECONDS)
        return folder / "build" / "-".join(["sampler", *[bug] * bool(bug)])

    return make


def test_a_session_on_the_sanitized_sampler_is_clean(build: Build, session: Session) -> None:
    program = build("", "CFLAGS=-O1 -fsanitize=address,undefined -fno-sanitize-recover=all")
    plan = ["--actions", str(part_of(5000)), "--seed", fresh("1")]
    assert session(program, *plan) == (CLEAN, [])


@pytest.mark.parametrize("bug", REDUCED)
def test_a_bug_in_the_sampler_is_found_and_reduced(
    build: Build, session: Session, tmp_path: Path, bug: str
) -> None:
    code, [failure] = session(build(bug), "-x")
    assert (code, failure["failure"]["oracle"]) == (MISMATCH, "sampling")
    trace = traces.read(tmp_path / "corpus" / failure["path"])
    assert [type(action).__name__ for action in trace.actions] == REDUCED[bug]


@pytest.mark.parametrize("size_bytes", [1, 100, 5000])
def test_the_sum_of_all_weights_is_about_the_allocated_bytes(build: Build, size_bytes: int) -> None:
    period_bytes, blocks = 512, 10_000
    lines = ['{"gcfuzz": 2}', f'{{"do": "enable_sampling", "period_bytes": {period_bytes}}}']
    lines += [f'{{"do": "malloc", "size_bytes": {size_bytes}}}'] * blocks
    ran = completed([build()], input="\n".join(lines), timeout=LONG_SECONDS)
    weights = [json.loads(line).get("weights", [0])[0] for line in ran.stdout.splitlines()[2:]]
    assert len(weights) == blocks
    # Each byte stands for the period, with the probability of one over the period, or for less.
    deviation_bytes = math.sqrt(blocks * size_bytes * period_bytes)
    assert abs(sum(weights) - blocks * size_bytes) < 4 * deviation_bytes


def test_every_bug_of_the_makefile_is_hunted_here() -> None:
    listed = completed(["make", "-s", "bugs"], cwd=FOLDER, timeout=LONG_SECONDS)
    assert listed.stdout.split() == [*REDUCED]
