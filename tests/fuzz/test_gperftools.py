"""The targets gperftools and gperftools-as-documented: the stock libtcmalloc.so.4.

Without `apt install libgoogle-perftools4`, what needs the library is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from fuzz import trace as traces
from fuzz.actions import (
    Action,
    Calloc,
    Free,
    Malloc,
    Realloc,
    SetPeriod,
)
from fuzz.cli import run_command_line
from fuzz.observation import Observation
from fuzz.oracles.distances import Gperftools
from fuzz.problems import BadInputError
from fuzz.run import replay
from fuzz.targets import gperftools_library, make_target
from fuzz.targets.gperftools import (
    AS_BUILT,
    AS_DOCUMENTED,
    BLOCK_BYTES_MAX,
    GperftoolsTarget,
)
from fuzz.targets.gperftools_library import (
    HOW_TO_INSTALL,
    PAGE_BYTES,
    PLACEHOLDER_BYTES,
    SIZE_CLASSES,
    Library,
    Sampler,
)

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "corpus" / "gperftools"
FILES = sorted(CORPUS.glob("*.jsonl"))
FINDINGS = ROOT / "docs" / "findings"
WRONG_ADAPTER = Path(__file__).with_name("wrong_gperftools_adapter.py")
CLEAN, MISMATCH, BAD_INPUT = range(3)
FAR = 2**40
"""A period for which hardly any distance drawn is short."""


@pytest.fixture(scope="module")
def library() -> Library:
    try:
        return Library()
    except BadInputError:
        pytest.skip(HOW_TO_INSTALL)


@pytest.fixture
def sampler(library: Library) -> Iterator[Sampler]:
    """This thread's, which samples nothing unless a test says so."""
    library.period_bytes = FAR
    sampler = library.sampler_of_this_thread()
    sampler.initialized = True
    sampler.bytes_until = FAR
    yield sampler
    library.period_bytes = 0


# The library.


def test_the_size_classes_are_the_librarys(library: Library) -> None:
    sizes = range(SIZE_CLASSES[-1] + 1)
    expected = [SIZE_CLASSES[bisect_left(SIZE_CLASSES, size)] for size in sizes]
    assert [library.class_bytes(size) for size in sizes] == expected


def test_a_block_above_all_classes_takes_whole_pages(library: Library) -> None:
    assert library.class_bytes(SIZE_CLASSES[-1] + 1) == SIZE_CLASSES[-1] + PAGE_BYTES


@pytest.mark.parametrize("period_bytes", [1, 64, 4096, 524288, 10**9 + 7, 2**40, 2**58])
def test_the_oracles_distances_are_the_librarys(library: Library, period_bytes: int) -> None:
    drawn, expected = [], []
    scratch = Sampler()
    for seed in (*range(1, 100), 0x555555685040, 2**32 - 1, 2**47 + 8):
        distances = Gperftools(seed)
        library.period_bytes = period_bytes
        library.begin(scratch, seed)
        drawn += [scratch.bytes_until, *(library.pick(scratch) for _ in range(99))]
        expected += [distances.draw(period_bytes) for _ in range(100)]
    library.period_bytes = 0
    assert drawn == expected


def test_every_thread_has_a_sampler_of_its_own(library: Library) -> None:
    barrier = threading.Barrier(3, timeout=10)

    def address() -> int:
        found = library.sampler_of_this_thread().address
        barrier.wait()
        return found

    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(address) for _ in range(3)]
    assert len({each.result() for each in found}) == 3


def test_the_sampler_counts_what_its_thread_allocates(library: Library, sampler: Sampler) -> None:
    library.free(library.malloc(100))
    assert sampler.bytes_until == FAR - 112


def test_a_sample_is_listed_until_it_is_freed(library: Library, sampler: Sampler) -> None:
    sampler.bytes_until = 0
    block = library.malloc(100)
    listed = library.live_samples(sampler)
    library.free(block)
    assert (listed, library.live_samples(sampler)) == ([100], [])


def test_asking_for_the_samples_is_not_counted(library: Library, sampler: Sampler) -> None:
    sampler.bytes_until = 0
    library.live_samples(sampler)
    assert sampler.bytes_until == 0


def test_a_request_that_fails_uses_up_its_sample(library: Library, sampler: Sampler) -> None:
    sampler.bytes_until = 0
    with pytest.raises(MemoryError):
        library.malloc(2**62)
    assert (sampler.bytes_until > 0, library.live_samples(sampler)) == (True, [])


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gperftools_library, "LIBRARY", "libtcmalloc-of-nobody.so.4")
    with pytest.raises(BadInputError, match="apt install libgoogle-perftools4"):
        GperftoolsTarget().start({})


def test_another_library_of_that_name_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gperftools_library, "LIBRARY", "libc.so.6")
    with pytest.raises(BadInputError, match=r"is not gperftools 2\.10's"):
        Library()


def test_a_cache_that_is_not_found_is_bad_input(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gperftools_library, "SIZE_CLASSES", (8, 24))
    with pytest.raises(BadInputError, match="0 places look like its cache"):
        library.sampler_of_this_thread()


# What it does, rule by rule.


@pytest.fixture
def target(library: Library) -> Iterator[GperftoolsTarget]:
    """With a period for which nothing is sampled unless a test says so."""
    target = GperftoolsTarget()
    target.start({"initial_period_bytes": FAR, "threads": 3})
    yield target
    target.start({})
    library.period_bytes = 0


def after(target: GperftoolsTarget, bytes_until: int, *actions: Action) -> Observation:
    """What the last action observes; before it, so many bytes are left until the next sample."""
    *earlier, last = actions
    for action in earlier:
        target.perform(action)
    target.samplers[last.thread].bytes_until = bytes_until
    return target.perform(last)


@pytest.mark.parametrize(("bytes_until", "samples"), [(112, 0), (111, 1)])
def test_a_block_is_sampled_beyond_the_distance(
    target: GperftoolsTarget, bytes_until: int, samples: int
) -> None:
    assert after(target, bytes_until, Malloc(112)).samples == samples


@pytest.mark.parametrize("action", [Malloc(1), Malloc(0), Calloc(1, 1)])
def test_its_size_class_counts(target: GperftoolsTarget, action: Action) -> None:
    assert [after(target, left, action).samples for left in (8, 7)] == [0, 1]


def test_above_all_classes_the_request_counts(target: GperftoolsTarget) -> None:
    sampled = [after(target, left, Malloc(262_145)).samples for left in (262_145, 262_144)]
    assert sampled == [0, 1]


def test_a_sampled_block_has_the_room_of_its_class(target: GperftoolsTarget) -> None:
    assert after(target, 0, Malloc(9)) == Observation(samples=1, size=16)


def test_the_surplus_is_dropped(target: GperftoolsTarget) -> None:
    after(target, 0, SetPeriod(1), Malloc(1 << 20))
    assert target.samplers[0].bytes_until <= 18  # The longest distance for a period of 1.


@pytest.mark.parametrize("size_bytes", [512, 600, 1024])
def test_a_block_that_may_stay_is_not_counted(target: GperftoolsTarget, size_bytes: int) -> None:
    observation = after(target, 0, Malloc(1024), Realloc(0, size_bytes))
    assert observation == Observation(samples=0, size=1024)


def test_a_block_that_shrinks_by_more_than_half_is_counted(target: GperftoolsTarget) -> None:
    observation = after(target, 0, Malloc(1024), Realloc(0, 511))
    assert observation == Observation(samples=1, size=512)


def test_a_block_that_grows_is_counted_as_grown_by_a_quarter(target: GperftoolsTarget) -> None:
    grown = [after(target, left, Malloc(1024), Realloc(0, 1025)) for left in (1279, 1280)]
    assert [(each.samples, each.size) for each in grown] == [(1, 1280), (0, 1280)]


def test_a_sampled_block_that_stays_is_still_a_sample(target: GperftoolsTarget) -> None:
    after(target, 0, Malloc(1024))
    target.perform(Realloc(0, 1000))
    listed = target.library.live_samples(target.samplers[0])
    target.perform(Free(0))
    assert (listed, target.library.live_samples(target.samplers[0])) == ([1024], [])


def test_a_new_period_is_for_the_distances_after_the_present_one(target: GperftoolsTarget) -> None:
    target.samplers[0].bytes_until = 1000
    target.perform(SetPeriod(1))
    assert target.samplers[0].bytes_until == 1000


def test_each_thread_counts_alone(target: GperftoolsTarget) -> None:
    target.samplers[1].bytes_until = 0
    assert [target.perform(Malloc(8, thread=thread)).samples for thread in (0, 1, 2)] == [0, 1, 0]


def test_a_block_may_be_freed_by_another_thread(target: GperftoolsTarget) -> None:
    after(target, 0, Malloc(8, thread=1))
    target.perform(Free(0, thread=2))
    assert target.library.live_samples(target.samplers[0]) == []


def test_a_damaged_block_is_an_error(target: GperftoolsTarget) -> None:
    target.perform(Malloc(8))
    target.perform(Malloc(8))
    [first, second] = target.blocks
    gperftools_library.ctypes.memset(first.address, 7, 1)
    errors = [target.perform(Free(1)).error, target.perform(Free(0)).error]
    assert errors == [None, "DamageError: a block is damaged"]


# The defects, one by one.


def test_a_fresh_main_thread_begins_with_the_placeholder(target: GperftoolsTarget) -> None:
    target.start({"fresh_threads": 1, "threads": 2})
    assert [sampler.bytes_until == PLACEHOLDER_BYTES for sampler in target.samplers[:2]] == [
        True,
        False,
    ]
