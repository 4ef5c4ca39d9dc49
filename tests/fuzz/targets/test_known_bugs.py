"""Known bugs of each kind: a session finds one, reduces it and saves it.

test_hunt has all of them, with both engines.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from night import marks_of, rest_at_night

from fuzz.protocol import trace as traces
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH = 0, 1
MORE_THAN_SHORTEST = {"reference-random": 26}
"""How many more actions a reduced failure may have.

Here allocations must differ until chance is excluded: with the shortest period of the scenario,
1024 bytes, that takes 17 nodes of 32 bytes, each after its string. Fewer would need another period,
which a reduction does not draw.
"""

BY_THE_STATEFUL_ENGINE = (
    "one-sample-per-object",
    "stale-limit-after-large",
    "forgotten-remembered-entry",
    "age-overflows",
)
ONE_PER_HOST_AND_ORACLES = {
    (bug.host, bug.oracles): name for name, bug in reversed(KNOWN_BUGS.items())
}.values()


def test_each_bug_has_a_description_and_a_source() -> None:
    assert [name for name, bug in KNOWN_BUGS.items() if not (bug.seen_in and bug.what)] == []


RUNS = [
    *[pytest.param(bug, "random", marks=marks_of(bug)) for bug in ONE_PER_HOST_AND_ORACLES],
    *rest_at_night((bug, "stateful") for bug in BY_THE_STATEFUL_ENGINE),
]


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "engine"), RUNS)
def test_a_bug_is_found_reduced_saved_and_replayed(bug: str, engine: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    plan = ["--target", KNOWN_BUGS[bug].target, "--engine", engine, "--actions", "20000"]
    plan += ["--seed", "1", "--max-failures", "2"]

    assert run_command_line(["run", *plan, "--corpus", str(corpus)]) == MISMATCH

    failures = [traces.read(path) for path in corpus.glob("*.jsonl")]
    more = MORE_THAN_SHORTEST.get(KNOWN_BUGS[bug].host, 2)
    assert min(len(each.actions) for each in failures) <= KNOWN_BUGS[bug].shortest + more
    assert {each.header.kills for each in failures} == {(bug,)}
    assert run_command_line(["replay", str(corpus)]) == MISMATCH
    assert run_command_line(["replay", str(corpus), "--target", KNOWN_BUGS[bug].host]) == CLEAN
