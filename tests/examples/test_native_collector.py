"""The collector in C is clean, and each of its bugs is found through the pipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Gcfuzz
from night import fresh, part_of, rest_at_night
from waiting import completed

pytestmark = pytest.mark.slow  # It has to be compiled first.

CLEAN, MISMATCH = 0, 1
FOUND_BY = {
    "one-sample-per-object": "sampling",
    "disable-before-enable": "pointers",
    "stale-limit-after-large": "pointers",
    "nonyoung-reported-dead": "survival",
    "fork-keeps-young-samples": "survival",
    "restart-loses-period": "pointers",
    "forgotten-remembered-entry": "heap",
    "arraycopy-skips-barrier": "heap",
    "move-cuts-string": "contents",
}
ONLY_SANITIZED = "looks-past-the-end"

Build = Callable[..., Path]
Session = Callable[..., tuple[int, list[dict[str, Any]]]]


def test_a_session_on_the_collector_is_clean(build: Build, session: Session) -> None:
    plan = ["--actions", str(part_of(20_000)), "--seed", fresh("1")]
    assert session(build(), *plan) == (CLEAN, [])


def test_the_schema_takes_each_line(build: Build, refused: Callable[[str], list[str]]) -> None:
    assert refused(str(build())) == []


@pytest.mark.parametrize(("engine", "seed"), rest_at_night([("random", "2"), ("stateful", "3")]))
def test_sanitized_sessions_pass(build: Build, session: Session, engine: str, seed: str) -> None:
    plan = ["--actions", str(part_of(20_000)), "--seed", fresh(seed), "--engine", engine]
    assert session(build(sanitized=True), *plan) == (CLEAN, [])


@pytest.mark.parametrize("bug", rest_at_night(FOUND_BY))
def test_an_oracle_finds_a_bug_in_the_collector(build: Build, session: Session, bug: str) -> None:
    code, failures = session(build(bug), "--actions", "5000")
    assert code == MISMATCH
    assert FOUND_BY[bug] in {failure["failure"]["oracle"] for failure in failures}


def test_a_change_broke_or_fixed_the_collector(
    build: Build, tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    right, wrong = str(build()), str(build("one-sample-per-object"))
    plan = ["run", "--target", "process", "--actions", "300", "--seed", "1"]
    plan += ["--corpus", str(tmp_path)]
    printed = gcfuzz(MISMATCH, *plan, "--before", right, "--after", wrong, "-x").out
    assert "BROKE 1: sampling / samples / " in printed
    printed = gcfuzz(CLEAN, *plan, "--before", wrong, "--after", right).out
    assert "FIXED 1: sampling / samples / " in printed


def test_a_read_past_the_end_changes_no_answer(build: Build, session: Session) -> None:
    assert session(build(ONLY_SANITIZED)) == (CLEAN, [])


def test_a_read_past_the_end_is_found_by_a_sanitizer(build: Build, session: Session) -> None:
    code, failures = session(build(ONLY_SANITIZED, sanitized=True))
    assert code == MISMATCH
    assert {failure["failure"]["oracle"] for failure in failures} == {"heap"}


def test_every_bug_of_the_makefile_is_hunted_here(native: Path) -> None:
    listed = completed(["make", "-s", "bugs"], cwd=native)
    assert listed.stdout.split() == [*FOUND_BY, ONLY_SANITIZED]


def test_every_bug_of_the_makefile_has_a_switch_in_the_code(native: Path) -> None:
    code = "".join((native / name).read_text() for name in ("collector.c", "sampling.c"))
    for bug in (*FOUND_BY, ONLY_SANITIZED):
        assert f"BUG_{bug.upper().replace('-', '_')}" in code


def test_make_refuses_an_unknown_bug(native: Path) -> None:
    refused = completed(["make", "BUG=no-such-bug"], cwd=native, check=False)
    assert refused.returncode
    assert "there is no bug no-such-bug" in refused.stderr
