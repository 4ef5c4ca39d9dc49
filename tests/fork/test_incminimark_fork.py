"""PyPy's sampling fork: its findings fail on it as their traces say. Run by hand, `tox -e fork`.

GCFUZZ_RPYTHON_FORK names a checkout of it, GCFUZZ_PYTHON27 the interpreter if it is not the first
that is there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuzz.protocol import trace as traces
from fuzz.protocol.target import Target
from fuzz.replay import replay
from fuzz.targets import TargetOptions, make_target

CORPUS = Path(__file__).parents[2] / "corpus" / "incminimark"
FINDS = (
    *("arraycopy-clean-cards-while-marking", "weakref-to-pinned-cleared", "marking-without-end"),
    *("stale-limit-after-large", "second-minor-reads-null", "pressure-taken-for-sample"),
    *("fork-keeps-young-samples", "rotating-nursery-old-limit", "enable-beside-old-obstacle"),
    *("nonyoung-reported-dead", "old-objects-count-rounded"),
)
FILES = [path for path in sorted(CORPUS.glob("*.jsonl")) if path.name.startswith(FINDS)]


@pytest.fixture(scope="module")
def fork() -> Target:
    source, python = os.environ.get("GCFUZZ_RPYTHON_FORK"), os.environ.get("GCFUZZ_PYTHON27")
    if source is None:
        pytest.skip("clone Cskorpion/pypy, branch gc_allocation_sampling_obj_info_u_2.7")
    paths = {"source": Path(source), **({"python": Path(python)} if python else {})}
    return make_target("incminimark", TargetOptions(timeout_seconds=60.0, paths=paths))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_fork_fails_as_told(path: Path, fork: Target) -> None:
    trace = traces.read(path)
    failure = replay(fork, trace, path.name)
    assert failure is not None
    assert trace.header.found is not None
    assert failure.message == trace.header.found.message
    assert len(failure.actions) == len(trace.actions)


def test_sampling_is_promised(fork: Target) -> None:
    contract = fork.start({})
    assert {"enable_sampling", "disable_sampling"} <= set(contract.actions)
