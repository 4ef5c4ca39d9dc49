"""When a flaky failure is fixed: what counts, and on which builds."""

from __future__ import annotations

import attrs
import pytest

from fuzz.failure import Failure
from fuzz.failures.corpus import SavedFailure
from fuzz.nights.failure_history import KnownFailure, Life, Shown, Triaged
from fuzz.nights.failure_states import state_after

WRONG = Failure("heap", "graph", "collect_full", "different", "1", "2", "made up")
KNOWN = KnownFailure("process", "mine", (), SavedFailure(WRONG, None, 3, 9, 0, reproduced=True))
AT = "2026-11-21T04:00:00+00:00"


def shown(version: str, failed: int) -> Shown:
    """A night with 5 replays. The version has `*` if a session found it, and `-` if none could."""
    what = version.strip("*-")
    seen = Shown(AT, KNOWN.id, "flaky", failed=failed, runs=5, version=what)
    if "*" in version:
        seen = attrs.evolve(seen, sessions=(AT,), versions=(what,) if what else ())
    return attrs.evolve(seen, is_looked_for="-" not in version)


def fixed_after(*nights: tuple[str, int], limit: int = 60) -> int | None:
    """The number of the last nights, which are all alike, until it is fixed."""
    *told, last = [shown(*each) for each in nights]
    for number in range(limit):
        if state_after(Life(KNOWN, tuple(told)), last) == "fixed":
            return number + 1
        told.append(last)
    return None


@pytest.mark.parametrize(
    ("nights", "count"),
    [
        ([("v1*", 2), ("v2", 0)], 3),  # 0.6 to the power of 15 is below 0.1 %, and of 10 is not.
        ([("v1*", 4), ("v2", 0)], 1),
        ([("v1*", 2), ("v1", 0)], None),  # It is the build that failed.
        ([("v1*", 2), ("v1", 0), ("v2", 0)], 7),  # The share is 2 of 10.
        ([("v1*", 2), ("v2*", 0), ("v3", 0)], 7),  # A session found it on v2 as well.
        ([("v1", 0), ("v2*", 2), ("v1", 0)], 7),  # Without a failure v1 may be the build before.
        ([("*", 2), ("", 0)], 3),  # Builds without a version.
    ],
)
def test_later_replays_fix_flaky_failures(nights: list[tuple[str, int]], count: int | None) -> None:
    assert fixed_after(*nights) == count


@pytest.mark.parametrize(
    ("nights", "count"),
    [
        ([("v1*", 0), ("v2", 0)], 7),  # 1/3 to the power of 7 is below 0.1 %, and of 6 is not.
        ([("v1*", 0), ("v1", 0)], None),
        ([("v1*", 0), ("v1", 0), ("v2", 0)], 10),
        ([("v1*", 0), ("v2-", 0)], None),  # No session could find it there.
        ([("v1*", 0), ("v1-", 0), ("v2", 0)], 7),
        ([("*", 0), ("", 0)], 7),
    ],
)
def test_nights_fix_what_no_replay_shows(nights: list[tuple[str, int]], count: int | None) -> None:
    assert fixed_after(*nights) == count


def test_runs_that_a_person_made_count_for_the_share() -> None:
    told = shown("v1*", 0), Triaged(AT, KNOWN.id, failed=3, runs=5)
    assert state_after(Life(KNOWN, told), shown("v2", 0)) == "flaky"
    assert state_after(Life(KNOWN, (*told, *[shown("v2", 0)] * 3)), shown("v2", 0)) == "fixed"


def test_a_failure_whose_runs_passed_in_its_session_is_flaky_and_not_fixed() -> None:
    found = Shown(AT, KNOWN.id, "flaky", (AT,), ("v1",))
    assert state_after(Life(KNOWN), found) == "flaky"
    assert state_after(Life(KNOWN, (found,)), shown("v2", 0)) == "flaky"
