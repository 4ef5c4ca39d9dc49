"""Failures on disk: no session removes another's file, and a full disk hides no failure."""

from __future__ import annotations

import errno
import os
import re
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from fuzz.failure import FIXED, Failure
from fuzz.failures.compare import Before
from fuzz.failures.corpus import (
    Origin,
    SavedFailure,
    findings_like,
    publish,
    reduce_saved,
    remove,
    save_found,
    trace_of,
)
from fuzz.failures.reduce import OUT_OF_TIME
from fuzz.failures.trace_files import shipped_traces
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import NAMES, AllocateNode, CheckHeap, EnableSampling, Malloc
from fuzz.protocol.trace import Trace
from fuzz.run import run_actions
from fuzz.targets import NO_OPTIONS, make_target

BUG = "one-sample-per-object"
TARGET = f"reference+{BUG}"
REPORTED = "heap", "value", "check_heap", "differs", "1", "2", "why"
NEVER = Failure(*REPORTED, actions=(CheckHeap(),))
"""A failure that does not reproduce."""


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path, TARGET, "random", 1)


@pytest.fixture
def failure() -> Failure:
    actions = (*[AllocateNode(9)] * 9, EnableSampling(8), AllocateNode(9))
    failure = run_actions(make_target(TARGET), {}, actions)
    assert failure is not None
    return failure


@contextmanager
def files_limited_to(size_bytes: int) -> Iterator[None]:
    """No file may become larger, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Files and their names.


@pytest.mark.parametrize("direction", ["a/b", "../x", "x" * 1000, "\0", "\ud800", "[/red]\n", ""])
def test_the_target_s_words_in_a_file_s_name_are_harmless(origin: Origin, direction: str) -> None:
    failure = attrs.evolve(NEVER, field="error", direction=direction, got=direction)
    assert [save_found(origin, failure).path] == list(origin.folder.iterdir())


def test_a_published_file_ends_in_the_digest_of_its_trace(origin: Origin, failure: Failure) -> None:
    published = publish(save_found(origin, attrs.evolve(failure, complaint="oops")))
    trace = trace_of(origin, published, kills=(BUG,))
    stem = f"sampling-samples-less-allocate_node-raw-{traces.digest_of(trace)}"
    assert names_in(origin.folder) == [f"{stem}.jsonl", f"{stem}.log"]
    assert published.path is not None
    assert traces.read(published.path) == trace
    assert published.path.with_suffix(".log").read_text() == "oops"


def test_only_saving_a_trace_runs_the_planted_bugs(origin: Origin, failure: Failure) -> None:
    saved = save_found(origin, failure)
    assert saved.path is not None
    assert traces.read(saved.path).header.kills == (BUG,)
    assert trace_of(origin, saved).header.kills == ()


def test_what_a_change_fixed_has_a_folder_of_its_own(origin: Origin) -> None:
    published = publish(save_found(origin, attrs.evolve(NEVER, change=FIXED)))
    assert published.path is not None
    assert published.path.parent == origin.folder / FIXED


def test_a_published_trace_is_not_replaced(origin: Origin, failure: Failure) -> None:
    path = publish(save_found(origin, failure)).path
    assert path is not None
    before = path.read_bytes()
    again = publish(save_found(attrs.evolve(origin, engine="stateful", token="other"), failure))
    assert (again.path, path.read_bytes()) == (path, before)
    assert len(names_in(origin.folder)) == 1


def test_a_session_removes_its_own_files_only(origin: Origin, failure: Failure) -> None:
    ours = save_found(origin, failure)
    reported = publish(save_found(attrs.evolve(origin, token="other"), failure))
    remove(ours.path)
    assert reported.path is not None
    assert [reported.path] == [*origin.folder.iterdir()]


@pytest.mark.slow
def test_several_sessions_may_save_a_trace_at_once(origin: Origin, failure: Failure) -> None:
    def save(number: int) -> SavedFailure:
        return publish(save_found(attrs.evolve(origin, token=str(number)), failure))

    with ThreadPoolExecutor(8) as threads:
        assert {each.unsaved for each in threads.map(save, range(500))} == {None}
    assert len(names_in(origin.folder)) == 1


def test_without_hard_links_a_file_is_renamed(
    origin: Origin, failure: Failure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    found = save_found(origin, failure)
    monkeypatch.setattr(os, "link", refuse)
    published = publish(found)
    assert published.path != found.path
    assert [published.path] == [*origin.folder.iterdir()]


# A disk that is full.


def test_a_full_disk_hides_no_failure(origin: Origin, failure: Failure) -> None:
    with files_limited_to(0):
        saved = reduce_saved(origin, save_found(origin, failure))
    assert (saved.reproduced, saved.path) == (True, None)
    assert saved.unsaved == os.strerror(errno.EFBIG)
    assert saved.failure.actions == (EnableSampling(8), AllocateNode(0))
    assert names_in(origin.folder) == []


def test_the_trace_as_found_stays_if_no_other_fits(origin: Origin, failure: Failure) -> None:
    found = save_found(origin, failure)
    with files_limited_to(0):
        saved = reduce_saved(origin, found)
    assert saved.path == found.path
    assert saved.unsaved == os.strerror(errno.EFBIG)
    assert found.path is not None
    assert traces.read(found.path).actions == failure.actions


# Which failure is kept.


@pytest.mark.parametrize(
    ("kept", "other"),
    [
        ({"length": 2}, {"length": 9}),
        ({"reproduced": True, "length": 9}, {"reproduced": False}),
        ({"length": 9}, {"unsaved": "No space left on device"}),
        ({"length": 9}, {"needs_earlier": True}),
        ({"length": 9}, {"chunk": 1}),
    ],
)
def test_an_identity_keeps_its_best_failure(kept: dict[str, Any], other: dict[str, Any]) -> None:
    saved = SavedFailure(NEVER, Path("a"), 5, 5, chunk=0, reproduced=True)
    best, worse = attrs.evolve(saved, **kept), attrs.evolve(saved, **other)
    assert best.sort_key < worse.sort_key


def test_a_failure_that_does_not_reproduce_stays_as_it_was_found(origin: Origin) -> None:
    found = save_found(origin, NEVER)
    assert reduce_saved(origin, found) == attrs.evolve(found, tries=1)
    assert found.path is not None
    assert names_in(origin.folder) == [found.path.name]


def test_a_reproduced_failure_replaces_its_first_trace(origin: Origin, failure: Failure) -> None:
    saved = reduce_saved(origin, save_found(origin, failure), is_over=lambda: True)
    assert saved.reproduced
    assert saved.failure.actions == failure.actions
    assert saved.reduction_ended == OUT_OF_TIME
    assert saved.path is not None
    assert names_in(origin.folder) == [saved.path.name]


# Processes of their own.


def test_programs_that_are_compared_both_get_a_process_for_each_trace(tmp_path: Path) -> None:
    origin = Origin(tmp_path, "process", "random", 1, before=Before("process", NO_OPTIONS))
    assert origin.shares_processes
    fresh = origin.with_fresh_processes()
    assert fresh.before is not None
    assert (fresh.options.fresh_process, fresh.before.options.fresh_process) == (True, True)
    assert not fresh.shares_processes


@pytest.mark.parametrize("before", ["reference", "process"])
def test_a_target_in_this_process_gets_none(before: str, tmp_path: Path) -> None:
    target = "process" if before == "reference" else "reference"
    compared = Before(before, NO_OPTIONS)
    assert not Origin(tmp_path, target, "random", 1, before=compared).shares_processes


# Known findings.

CORPUS = Path(__file__).parents[3] / "corpus"
FINDINGS = {path.name: traces.read(path) for path in CORPUS.glob("*/*.jsonl")}


REPORT = re.compile(r"(\w+): (.*): expected (.*), got (.*) \((.*)\)")
ERROR = re.compile(r"(\w+): the target reported an error while executing this action: (.*)")
CRASH = re.compile(r"(\w+): the target crashed with (\w+) while executing this action: (.*)")


def failure_of(trace: Trace) -> Failure:
    """The failure that a trace had when it was found."""
    assert trace.header.found is not None
    message, action = trace.header.found.message, NAMES[type(trace.actions[-1])]
    crash = CRASH.fullmatch(message)
    error = f"crash {crash[2]}: {crash[3]}" if crash else ""
    if reported := ERROR.fullmatch(message):
        error = reported[2]
    if error:
        why = "while executing this action"
        return Failure("heap", "error", action, "error", "null", error, why, actions=trace.actions)
    report = REPORT.fullmatch(message)
    assert report is not None
    oracle, field, expected, got, why = report.groups()
    return Failure(oracle, field, action, "", expected, got, why, actions=trace.actions)


def pages_of(trace: Trace, target: str | None = None, **changed: Any) -> list[str]:
    failure = attrs.evolve(failure_of(trace), **changed)
    return [*findings_like(target or trace.header.target, failure)]


def test_a_failure_like_a_finding_names_its_page() -> None:
    trace = shipped_traces("incminimark")["weakref-to-pinned-cleared-heap-ca04307c.jsonl"]
    assert pages_of(trace) == ["weakref-to-pinned"]
    assert pages_of(trace, where="weakref #12", field="x") == ["weakref-to-pinned"]
    assert pages_of(trace, oracle="survival") == []
    assert pages_of(trace, target="reference") == []
    assert pages_of(attrs.evolve(trace, actions=trace.actions[1:])) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"field": "weight"},
        {"expected": "0", "got": "1"},
        {"why": "the sum of the weights"},
        {"actions": (Malloc(16), EnableSampling(512), Malloc(16))},
    ],
)
def test_a_failure_of_the_same_kinds_of_actions_is_not_the_finding(changed: dict[str, Any]) -> None:
    name = "reseed-drops-sample-sampling-7ce21aae.jsonl"
    trace = shipped_traces("gperftools")[name]
    assert pages_of(trace)
    assert name.partition("-sampling")[0] not in {
        Path(page).name for page in pages_of(trace, **changed)
    }


def test_nearly_every_finding_is_like_its_page() -> None:
    missed = []
    for name, trace in FINDINGS.items():
        pages = pages_of(trace)
        missed += [name] * (not any(name.startswith(Path(page).name) for page in pages))
    assert missed == ["arraycopy-between-cards-while-marking-heap-b31ff952.jsonl"]
