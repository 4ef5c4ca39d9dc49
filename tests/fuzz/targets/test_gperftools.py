"""The targets gperftools and gperftools-as-documented: the stock libtcmalloc.so.4.

Without `apt install libgoogle-perftools4`, what needs the library is skipped.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest
from target_helpers import MISMATCH, ROOT, first_failure

import fuzz
from fuzz.oracles.counting.distances import Gperftools
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import (
    Action,
    Calloc,
    Free,
    Malloc,
    PauseSampling,
    Realloc,
    ResumeSampling,
    SetPeriod,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import LazySeeds
from fuzz.protocol.observation import Observation
from fuzz.run import replay
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.gperftools import gperftools_library
from fuzz.targets.gperftools.contract import PAGE_BYTES, PLACEHOLDER_BYTES, SIZE_CLASSES
from fuzz.targets.gperftools.driver import GperftoolsDriver
from fuzz.targets.gperftools.gperftools_library import (
    HOW_TO_INSTALL,
    LIBRARY,
    Library,
    LibrarySampler,
)
from fuzz.terminal.cli import run_command_line

CORPUS = ROOT / "corpus" / "gperftools"
FILES = sorted(CORPUS.glob("*.jsonl"))
AS_BUILT, AS_DOCUMENTED = "gperftools", "gperftools-as-documented"
FEW = ("--actions", "1000", "--without", "pause_sampling", "--without", "calloc")
"""Large blocks cost time, which a reduction multiplies."""
IMPORTABLE = str(Path(fuzz.__file__).parents[1])
"""Where programs that tests start find what the tests test."""
Run = Callable[..., int]
FAR = 2**40
"""A period for which hardly any distance drawn is short."""


def named(path: Path) -> str:
    return path.name


@pytest.fixture(scope="module")
def library() -> Library:
    """In this process: what is loaded behind it frees by it, so what others need comes first."""
    import_module("scipy.stats")
    try:
        return Library()
    except BadInputError:
        pytest.skip(HOW_TO_INSTALL)


@pytest.fixture
def sampler(library: Library) -> Iterator[LibrarySampler]:
    """The calling thread's, which samples nothing unless a test says so."""
    library.period_bytes = FAR
    sampler = library.sampler_of_this_thread()
    sampler.initialized = True
    sampler.bytes_until = FAR
    yield sampler
    library.period_bytes = 0


# The library.


def class_bytes(size_bytes: int) -> int:
    return int(ctypes.CDLL(LIBRARY).tc_nallocx(ctypes.c_size_t(size_bytes), 0))


@pytest.mark.usefixtures("library")
def test_the_size_classes_are_the_librarys() -> None:
    sizes = range(SIZE_CLASSES[-1] + 1)
    expected = [SIZE_CLASSES[bisect_left(SIZE_CLASSES, size)] for size in sizes]
    assert [*map(class_bytes, sizes)] == expected


@pytest.mark.usefixtures("library")
def test_a_block_above_all_classes_takes_whole_pages() -> None:
    assert class_bytes(SIZE_CLASSES[-1] + 1) == SIZE_CLASSES[-1] + PAGE_BYTES


@pytest.mark.parametrize("period_bytes", [1, 64, 4096, 524288, 10**9 + 7, 2**40, 2**58])
def test_the_oracles_distances_are_the_librarys(library: Library, period_bytes: int) -> None:
    drawn, expected = [], []
    scratch = LibrarySampler()
    for seed in (*range(1, 100), 0x555555685040, 2**32 - 1, 2**47 + 8):
        distances = Gperftools(seed)
        library.period_bytes = period_bytes
        library.begin(scratch, seed)
        drawn += [scratch.bytes_until, *(library.pick(scratch) for _ in range(99))]
        expected += [distances.draw(period_bytes) for _ in range(100)]
    library.period_bytes = 0
    assert drawn == expected


def test_every_thread_has_a_sampler_of_its_own(library: Library) -> None:
    barrier = threading.Barrier(3)

    def address() -> int:
        found = library.sampler_of_this_thread().address
        barrier.wait()
        return found

    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(address) for _ in range(3)]
    assert len({each.result() for each in found}) == 3


def test_the_sampler_counts_what_its_thread_allocates(
    library: Library, sampler: LibrarySampler
) -> None:
    library.free(library.malloc(100))
    assert sampler.bytes_until == FAR - 112


def test_a_sample_is_listed_until_it_is_freed(library: Library, sampler: LibrarySampler) -> None:
    sampler.bytes_until = 0
    block = library.malloc(100)
    listed = library.live_samples(sampler)
    library.free(block)
    assert (listed, library.live_samples(sampler)) == ([100], [])


def test_asking_for_the_samples_is_not_counted(library: Library, sampler: LibrarySampler) -> None:
    sampler.bytes_until = 0
    library.live_samples(sampler)
    assert sampler.bytes_until == 0


def test_a_request_that_fails_uses_up_its_sample(library: Library, sampler: LibrarySampler) -> None:
    sampler.bytes_until = 0
    with pytest.raises(MemoryError):
        library.malloc(2**62)
    assert (sampler.bytes_until > 0, library.live_samples(sampler)) == (True, [])


def test_another_library_is_bad_input_with_what_to_install() -> None:
    with pytest.raises(BadInputError, match=rf"is not gperftools 2\.10's.*{HOW_TO_INSTALL}"):
        Library("libc.so.6")


def test_a_cache_that_is_not_found_is_bad_input(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gperftools_library, "SIZE_CLASSES", (8, 24))
    with pytest.raises(BadInputError, match=f"0 places look like its cache; {HOW_TO_INSTALL}"):
        library.sampler_of_this_thread()


def test_storage_is_read_as_far_as_there_is_any() -> None:
    first = Path("/proc/self/maps").read_text("utf-8").partition("-")[0]
    with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - a device
        at_first = gperftools_library.bytes_before(memory.fileno(), int(first, 16) + 64)
        nowhere = gperftools_library.bytes_before(memory.fileno(), 4096)
    assert (len(at_first), nowhere) == (64, b"")


# What it does, rule by rule.


@pytest.fixture
def target(library: Library) -> Iterator[GperftoolsDriver]:
    """With a period for which nothing is sampled unless a test says so."""
    target = GperftoolsDriver(AS_BUILT)
    target.start({"period_bytes": FAR, "threads": 3})
    yield target
    target.start({})
    library.period_bytes = 0


def after(target: GperftoolsDriver, bytes_until: int, *actions: Action) -> Observation:
    """What the last action observes; before it, so many bytes are left until the next sample."""
    *earlier, last = actions
    for action in earlier:
        target.perform(action)
    target.samplers[last.thread].bytes_until = bytes_until
    return target.perform(last)


@pytest.mark.parametrize(("bytes_until", "samples"), [(112, 0), (111, 1)])
def test_a_block_is_sampled_beyond_the_distance(
    target: GperftoolsDriver, bytes_until: int, samples: int
) -> None:
    assert after(target, bytes_until, Malloc(112)).samples == samples


@pytest.mark.parametrize("action", [Malloc(1), Malloc(0), Calloc(1, 1)])
def test_its_size_class_counts(target: GperftoolsDriver, action: Action) -> None:
    assert [after(target, left, action).samples for left in (8, 7)] == [0, 1]


def test_above_all_classes_the_request_counts(target: GperftoolsDriver) -> None:
    sampled = [after(target, left, Malloc(262_145)).samples for left in (262_145, 262_144)]
    assert sampled == [0, 1]


def test_a_sampled_block_has_the_room_of_its_class(target: GperftoolsDriver) -> None:
    assert after(target, 0, Malloc(9)) == Observation(samples=1, size=16)


def test_the_surplus_is_dropped(target: GperftoolsDriver) -> None:
    after(target, 0, SetPeriod(1), Malloc(1 << 20))
    assert target.samplers[0].bytes_until <= 18  # The longest distance for a period of 1.


@pytest.mark.parametrize("size_bytes", [512, 600, 1024])
def test_a_block_that_may_stay_is_not_counted(target: GperftoolsDriver, size_bytes: int) -> None:
    observation = after(target, 0, Malloc(1024), Realloc(0, size_bytes))
    assert observation == Observation(samples=0, size=1024)


def test_a_block_that_shrinks_by_more_than_half_is_counted(target: GperftoolsDriver) -> None:
    observation = after(target, 0, Malloc(1024), Realloc(0, 511))
    assert observation == Observation(samples=1, size=512)


def test_a_block_that_grows_is_counted_as_grown_by_a_quarter(target: GperftoolsDriver) -> None:
    grown = [after(target, left, Malloc(1024), Realloc(0, 1025)) for left in (1279, 1280)]
    assert [(each.samples, each.size) for each in grown] == [(1, 1280), (0, 1280)]


def test_a_sampled_block_that_stays_is_still_a_sample(target: GperftoolsDriver) -> None:
    after(target, 0, Malloc(1024))
    target.perform(Realloc(0, 1000))
    listed = target.library.live_samples(target.samplers[0])
    target.perform(Free(0))
    assert (listed, target.library.live_samples(target.samplers[0])) == ([1024], [])


def test_a_new_period_is_for_the_distances_after_the_present_one(target: GperftoolsDriver) -> None:
    target.samplers[0].bytes_until = 1000
    target.perform(SetPeriod(1))
    assert target.samplers[0].bytes_until == 1000


def test_each_thread_counts_alone(target: GperftoolsDriver) -> None:
    target.samplers[1].bytes_until = 0
    assert [target.perform(Malloc(8, thread=thread)).samples for thread in (0, 1, 2)] == [0, 1, 0]


def test_a_block_may_be_freed_by_another_thread(target: GperftoolsDriver) -> None:
    after(target, 0, Malloc(8, thread=1))
    target.perform(Free(0, thread=2))
    assert target.library.live_samples(target.samplers[0]) == []


def test_a_damaged_block_is_an_error(target: GperftoolsDriver) -> None:
    target.perform(Malloc(8))
    target.perform(Malloc(8))
    ctypes.memset(target.blocks[0].address, 7, 1)
    errors = [target.perform(Free(1)).error, target.perform(Free(0)).error]
    assert errors == [None, "DamageError: a block is damaged"]


def test_what_is_not_promised_is_an_error(target: GperftoolsDriver) -> None:
    target.perform(Malloc(8))
    asked: list[Action] = [Malloc(2**62), Malloc(-1), Calloc(2**32, 2**32), Realloc(0, 0)]
    errors = [target.perform(action).error for action in (*asked, Realloc(0, 2**64), Free(7))]
    assert None not in errors
    assert target.perform(Free(0)) == Observation()


def test_what_is_paused_goes_on_counting_and_takes_no_sample(target: GperftoolsDriver) -> None:
    observation = after(target, 100, PauseSampling(), Malloc(64))
    assert (observation.samples, target.samplers[0].bytes_until) == (0, 36)


def test_a_distance_that_ends_while_paused_is_followed_by_a_long_one(
    target: GperftoolsDriver,
) -> None:
    observation = after(target, 63, PauseSampling(), Malloc(64))
    assert (observation.samples, target.samplers[0].bytes_until) == (0, PLACEHOLDER_BYTES)


def test_resuming_has_the_period_that_was_set_meanwhile(target: GperftoolsDriver) -> None:
    for action in (PauseSampling(), SetPeriod(64), ResumeSampling()):
        target.perform(action)
    assert target.library.period_bytes == 64


def test_a_header_frees_the_last_traces_blocks(target: GperftoolsDriver) -> None:
    after(target, 0, Malloc(8))
    target.start({})
    assert target.library.live_samples(target.samplers[0]) == []


def test_an_illegal_setting_is_bad_input(target: GperftoolsDriver) -> None:
    with pytest.raises(BadInputError, match="threads is 4; it must be one of 1, 2, 3"):
        target.start({"threads": 4})


# The defects, one by one.


def test_the_main_thread_takes_its_first_sample_after_16_mib(
    library: Library, tmp_path: Path
) -> None:
    program = """
from fuzz.targets.gperftools.gperftools_library import Library
library = Library()
sampler = library.sampler_of_this_thread()
requests = 0
while not library.live_samples(sampler):
    library.malloc(4096)
    requests += 1
print(requests)
"""
    environment = {**os.environ, "TCMALLOC_SAMPLE_PARAMETER": "4096", "PYTHONPATH": IMPORTABLE}
    done = subprocess.run(
        (sys.executable, "-c", program),
        capture_output=True,
        check=True,
        env=environment,
        cwd=tmp_path,
    )
    assert int(done.stdout) >= PLACEHOLDER_BYTES // 4096


def test_a_fresh_main_thread_is_as_the_library_makes_it(target: GperftoolsDriver) -> None:
    target.start({"fresh_threads": 1, "threads": 2})
    begins_late = [each.bytes_until == PLACEHOLDER_BYTES for each in target.samplers[:2]]
    assert begins_late == [True, False]


def test_the_first_trigger_drops_its_sample(target: GperftoolsDriver) -> None:
    target.start({"fresh_threads": 1, "threads": 2, "period_bytes": FAR})
    dropped, taken = (after(target, 0, Malloc(8, thread=1)) for _ in range(2))
    assert (dropped.samples, taken.samples) == (0, 1)


def first_seeds(contract: Contract) -> tuple[int, ...]:
    assert isinstance(contract.sampling.counting, LazySeeds)
    return contract.sampling.counting.seeds


def test_the_first_trigger_begins_anew_from_the_samplers_address(target: GperftoolsDriver) -> None:
    contract = target.start({"fresh_threads": 1, "period_bytes": FAR})
    after(target, 0, Malloc(8))
    drawn = Gperftools(first_seeds(contract)[0]).draw(FAR)
    assert target.samplers[0].bytes_until == drawn - 8


# The finds.


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_find_needs_no_fixed_memory_layout(path: Path, target: GperftoolsDriver) -> None:
    target.is_as_documented = True
    assert replay(target, traces.read(path), path.name) is not None


# Sessions.


@pytest.fixture
def run(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a session, and returns its exit code."""
    monkeypatch.setenv("PYTHONPATH", IMPORTABLE)

    def run_session(*words: str) -> int:
        return run_command_line(["run", "--corpus", str(tmp_path), "--seed", "1", *words])

    return run_session


@pytest.mark.slow
def test_what_is_documented_is_found_wrong(run: Run) -> None:
    assert run("--target", AS_DOCUMENTED, *FEW) == MISMATCH


SHORT = """
from fuzz.targets.gperftools.driver import GperftoolsDriver, serve_in_fixed_memory
class Short(GperftoolsDriver):
    def begin_samplers(self, chosen):
        contract = super().begin_samplers({**chosen, "period_bytes": 4096, "fresh_threads": 0})
        self.samplers[0].bytes_until -= 1
        return contract.without(("calloc", "pause_sampling"))
Short.main(serve_in_fixed_memory)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("library")
def test_a_first_distance_that_is_one_byte_short_is_found(tmp_path: Path) -> None:
    script = tmp_path / "short.py"
    script.write_text(SHORT)
    options = TargetOptions((sys.executable, str(script), AS_BUILT))
    failure = first_failure(make_target("process", options), 2000)
    assert failure is not None
    assert failure.oracle == "sampling"


@pytest.mark.slow
def test_samplers_have_the_same_address_whatever_else_their_process_allocates(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"fresh_threads": 1, "threads": 3}
    first = make_target(AS_BUILT).start(settings)
    monkeypatch.setenv("PYTHONTRACEMALLOC", "1")
    second = make_target(AS_BUILT).start(settings)
    assert first_seeds(first) == first_seeds(second)
