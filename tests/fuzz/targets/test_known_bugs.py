"""The known bugs: both engines find each, reduce it and save it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.protocol import trace as traces
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH = 0, 1
SEEDS = {"zero-draw-stops-sampling": "4"}
"""Its shortest find needs a seed of the sampler that draws 0 at once, which few do."""
MORE_THAN_SHORTEST = {"reference-random": 26}
"""So many more actions may a find have.

Where only chance decides, allocations must agree until it is excluded: with the shortest period of
the story, 1024 bytes, 17 nodes of 32 bytes, each after its string, after sampling was enabled. No
reduction can do with fewer, which draws no period anew.
"""

ONE_AN_ORACLE = (
    *("one-sample-per-object", "stale-limit-after-large", "nonyoung-reported-dead"),
    *("forgotten-remembered-entry", "sampled-bytes-count-twice"),
)
"""Of those that the machine finds in a session; each of all is hunted by it in test_hunt."""


def test_each_bug_says_where_it_happened() -> None:
    assert [name for name, bug in KNOWN_BUGS.items() if not (bug.seen_in and bug.what)] == []


RUNS = [
    *[(bug, "random", "20000") for bug in KNOWN_BUGS],
    *[(bug, "stateful", "20000") for bug in ONE_AN_ORACLE],
]


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "engine", "actions"), RUNS)
def test_a_bug_is_found_reduced_saved_and_replayed(
    bug: str, engine: str, actions: str, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus"
    plan = ["--target", KNOWN_BUGS[bug].target, "--engine", engine, "--actions", actions]
    plan += ["--seed", SEEDS.get(bug, "1"), "--max-failures", "3"]

    assert run_command_line(["run", *plan, "--corpus", str(corpus)]) == MISMATCH

    finds = [traces.read(path) for path in corpus.glob("*.jsonl")]
    more = MORE_THAN_SHORTEST.get(KNOWN_BUGS[bug].host, 2)
    assert min(len(find.actions) for find in finds) <= KNOWN_BUGS[bug].shortest + more
    assert {find.header.kills for find in finds} == {(bug,)}
    assert run_command_line(["replay", str(corpus)]) == MISMATCH
    assert run_command_line(["replay", str(corpus), "--target", KNOWN_BUGS[bug].host]) == CLEAN
