"""The committed corpus: each file is a trace that finds its known bugs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.oracles import RERUN_ORACLES
from fuzz.protocol import trace as traces
from fuzz.replay import replay
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

CORPUS = Path(__file__).parents[3] / "corpus"
FILES = sorted(CORPUS.glob("*.jsonl"))
ORACLES = (
    "sampling",
    "heap",
    "survival",
    "pointers",
    "estimate",
    "contents",
    "major",
    "minors",
    "memory",
    "finalization",
    "exhaustion",
    *RERUN_ORACLES,
)
"""A trace that is named after an oracle showed a mistake of that oracle."""
BEGINNINGS = (*KNOWN_BUGS, *ORACLES)

each_file = pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])


@each_file
def test_it_passes_on_the_reference(path: Path) -> None:
    trace = traces.read(path)
    assert replay(make_target(trace.header.target), trace, path.name) is None


def test_read_and_written_again_each_is_the_same() -> None:
    for path in FILES:
        assert traces.dumps(traces.read(path)).encode() == path.read_bytes(), path.name


def test_each_name_begins_with_a_known_bug_or_an_oracle() -> None:
    beginnings = tuple(f"{each}-" for each in BEGINNINGS)
    assert [path.name for path in FILES if not path.name.startswith(beginnings)] == []


def test_each_name_ends_in_the_digest_of_its_content() -> None:
    for path in FILES:
        assert path.name.endswith(f"-{traces.digest_of(traces.read(path))}.jsonl")


def test_each_header_has_how_it_was_found() -> None:
    for path in FILES:
        found = traces.read(path).header.found
        assert found is not None, path.name
        assert found.message.startswith(f"{found.oracle}: "), path.name


@each_file
def test_it_kills_the_known_bugs_that_it_names(path: Path) -> None:
    trace = traces.read(path)
    assert trace.header.kills or path.name.startswith(ORACLES)
    for bug in trace.header.kills:
        failure = replay(make_target(KNOWN_BUGS[bug].target), trace, path.name)
        assert failure is not None
        assert failure.oracle in KNOWN_BUGS[bug].oracles


def test_every_known_bug_is_killed() -> None:
    killed = {bug for path in FILES for bug in traces.read(path).header.kills}
    assert killed == set(KNOWN_BUGS)
