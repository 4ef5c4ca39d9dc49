"""Finds on disk: nobody takes back what another reported, and what no disk takes is told."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, CheckHeap, EnableSampling
from fuzz.protocol.trace import Found, Trace
from fuzz.run import Failure, run_actions
from fuzz.sessions.corpus import (
    Find,
    Finder,
    Raw,
    pages_like,
    publish,
    save_raw,
    save_reduced,
    shipped_traces,
    take_back,
)
from fuzz.targets import make_target

BUG = "one-sample-per-object"
STEM = "heap-value"


@pytest.fixture
def finder(tmp_path: Path) -> Finder:
    return Finder(tmp_path, f"reference+{BUG}", "random", 1)


@pytest.fixture
def trace() -> Trace:
    return next(each for name, each in shipped_traces().items() if BUG in name)


@pytest.fixture
def failure() -> Failure:
    actions = (*[AllocateNode(9)] * 9, EnableSampling(8), AllocateNode(9))
    failure = run_actions(make_target(f"reference+{BUG}"), {}, actions)
    assert failure is not None
    return failure


@contextmanager
def files_limited_to(size_bytes: int) -> Iterator[None]:
    """While this lasts no file may become larger, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Names.


def test_a_published_file_has_the_stem_and_the_digest(finder: Finder, trace: Trace) -> None:
    final = publish(finder.save(trace, STEM))
    assert final.name == f"{STEM}-{traces.digest_of(trace)}.jsonl"
    assert traces.read(final) == trace


def test_nothing_else_is_left_of_a_published_file(finder: Finder, trace: Trace) -> None:
    final = publish(finder.save(trace, STEM))
    assert list(finder.folder.iterdir()) == [final]


def test_a_stem_with_a_dot_keeps_it(finder: Finder, trace: Trace) -> None:
    assert publish(finder.save(trace, "0.5")).name.startswith("0.5-")


def test_a_published_trace_that_is_there_stays_as_it_is(finder: Finder, trace: Trace) -> None:
    final = publish(finder.save(trace, STEM))
    before = final.read_bytes()
    header = attrs.evolve(trace.header, found=Found("heap", "some message", "stateful", 99))
    assert publish(finder.save(attrs.evolve(trace, header=header), STEM)) == final
    assert final.read_bytes() == before


def test_what_one_finder_takes_back_another_has_still(finder: Finder, trace: Trace) -> None:
    other = attrs.evolve(finder, token="other")
    ours, theirs = finder.save(trace, STEM), other.save(trace, STEM)
    reported = publish(theirs)
    take_back(ours)
    assert traces.read(reported) == trace


def test_without_hard_links_a_file_is_renamed(
    finder: Finder, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = finder.save(trace, STEM)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    assert list(finder.folder.iterdir()) == [working]
    assert traces.read(publish(working)) == trace
    assert not working.exists()


# A disk that is full.


def test_a_full_disk_hides_no_failure(finder: Finder, failure: Failure) -> None:
    with files_limited_to(0):
        find = save_reduced(finder, save_raw(finder, failure))
    assert find.reproduced
    assert find.path is None
    assert find.unsaved == os.strerror(errno.EFBIG)
    assert find.failure.actions == (EnableSampling(8), AllocateNode(0))


def test_a_full_disk_leaves_no_partial_file(finder: Finder, failure: Failure) -> None:
    with files_limited_to(0):
        save_reduced(finder, save_raw(finder, failure))
    assert names_in(finder.folder) == []


def test_where_only_the_raw_trace_fits_it_stays(finder: Finder, failure: Failure) -> None:
    raw = save_raw(finder, failure)
    with files_limited_to(0):
        find = save_reduced(finder, raw)
    assert find.path == raw.path
    assert find.unsaved == os.strerror(errno.EFBIG)
    assert raw.path is not None
    assert traces.read(raw.path).actions == failure.actions


# What is kept.


def find_of(failure: Failure, trace: Trace) -> Find:
    return Find(failure, trace, Path("a"), actions_found=9, reproduced=True)


def test_the_shortest_of_several_finds_is_kept(failure: Failure, trace: Trace) -> None:
    short = find_of(attrs.evolve(failure, actions=failure.actions[-2:]), trace)
    assert min(find_of(failure, trace), short, key=lambda find: find.sort_key) == short


def test_a_find_that_was_saved_is_kept_before_a_shorter_one(failure: Failure, trace: Trace) -> None:
    short = attrs.evolve(failure, actions=failure.actions[-2:])
    unsaved = attrs.evolve(find_of(short, trace), unsaved="No space left on device")
    saved = find_of(failure, trace)
    assert min(unsaved, saved, key=lambda find: find.sort_key) == saved


def test_a_failure_that_does_not_come_back_keeps_its_raw_trace(finder: Finder) -> None:
    never = Failure({}, (CheckHeap(),), "heap", "value", "differs", "1", "2", "why")
    raw = save_raw(finder, never)
    find = save_reduced(finder, raw)
    assert not find.reproduced
    assert find.path == raw.path
    assert names_in(finder.folder) == [raw.path.name if raw.path else ""]


def test_a_reduction_that_is_over_at_once_still_fails_again(
    finder: Finder, failure: Failure
) -> None:
    find = save_reduced(finder, Raw(failure, None), is_over=lambda: True)
    assert find.reproduced
    assert find.failure.actions == failure.actions


# What is known already.

CORPUS = Path(__file__).parents[3] / "corpus"
FINDINGS = {path.name: traces.read(path) for path in CORPUS.glob("*/*.jsonl")}


def find_like(trace: Trace, oracle: str) -> Find:
    failure = Failure({}, trace.actions, oracle, "error", "different", "1", "2", "made up")
    return find_of(failure, trace)


def test_a_find_like_a_known_one_names_its_page() -> None:
    trace = shipped_traces("incminimark")["weakref-to-pinned-cleared-heap-ca04307c.jsonl"]
    assert pages_like(find_like(trace, "heap")) == ["weakref-to-pinned"]


def test_nearly_every_known_find_is_like_its_page() -> None:
    missed = []
    for name, trace in FINDINGS.items():
        assert trace.header.found is not None
        pages = pages_like(find_like(trace, trace.header.found.oracle))
        missed += [name] * (not any(name.startswith(Path(page).name) for page in pages))
    assert missed == ["arraycopy-between-cards-while-marking-heap-b31ff952.jsonl"]


def test_another_oracle_another_action_and_another_target_are_another_find() -> None:
    trace = shipped_traces("incminimark")["weakref-to-pinned-cleared-heap-ca04307c.jsonl"]
    assert pages_like(find_like(trace, "survival")) == []
    assert pages_like(find_like(attrs.evolve(trace, actions=trace.actions[1:]), "heap")) == []
    other = attrs.evolve(trace, header=attrs.evolve(trace.header, target="reference"))
    assert pages_like(find_like(other, "heap")) == []
