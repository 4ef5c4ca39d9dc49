"""The targets gperftools and gperftools-as-documented: the stock libtcmalloc.so.4.

Tests that need the library are skipped without it: `apt install libgoogle-perftools4`.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest
from target_helpers import ROOT, carried_out, first_failure
from waiting import PATIENCE_SECONDS

from fuzz.oracles.counting.distances.gperftools import Gperftools
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import (
    Action,
    Calloc,
    Free,
    Malloc,
    PauseSampling,
    ReadProfile,
    Realloc,
    ResumeSampling,
    SetPeriod,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import LazySeeds
from fuzz.protocol.observation import Observation
from fuzz.replay import replay
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

CORPUS = ROOT / "corpus" / "gperftools"
FILES = sorted(CORPUS.glob("*.jsonl"))
GPERFTOOLS, AS_DOCUMENTED = "gperftools", "gperftools-as-documented"
FAR = 2**40
"""A period whose distances are rarely short."""


@pytest.fixture(scope="module")
def library() -> Library:
    """The library in this process. Modules loaded later free with it, so that scipy comes first."""
    import_module("scipy.stats")
    try:
        return Library()
    except BadInputError:
        pytest.skip(HOW_TO_INSTALL)


@pytest.fixture
def sampler(library: Library) -> Iterator[LibrarySampler]:
    """The calling thread's sampler, which is far from its next sample."""
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
@pytest.mark.night
def test_the_size_classes_are_those_of_the_library() -> None:
    sizes = range(SIZE_CLASSES[-1] + 1)
    expected = [SIZE_CLASSES[bisect_left(SIZE_CLASSES, size)] for size in sizes]
    assert [*map(class_bytes, sizes)] == expected


@pytest.mark.usefixtures("library")
def test_a_block_above_all_classes_takes_whole_pages() -> None:
    assert class_bytes(SIZE_CLASSES[-1] + 1) == SIZE_CLASSES[-1] + PAGE_BYTES


@pytest.mark.parametrize("period_bytes", [1, 64, 4096, 524288, 10**9 + 7, 2**40, 2**58])
def test_the_oracle_draws_the_distances_of_the_library(library: Library, period_bytes: int) -> None:
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


def test_every_thread_has_its_own_sampler(library: Library) -> None:
    barrier = threading.Barrier(3)

    def address() -> int:
        found = library.sampler_of_this_thread().address
        barrier.wait(PATIENCE_SECONDS)
        return found

    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(address) for _ in range(3)]
    assert len({each.result(PATIENCE_SECONDS) for each in found}) == 3


def test_the_sampler_counts_allocations(library: Library, sampler: LibrarySampler) -> None:
    library.free(library.malloc(100))
    assert sampler.bytes_until == FAR - 112


def test_a_sample_is_listed_until_it_is_freed(library: Library, sampler: LibrarySampler) -> None:
    sampler.bytes_until = 0
    block = library.malloc(100)
    listed = library.live_samples(sampler)
    library.free(block)
    assert (listed, library.live_samples(sampler)) == ([100], [])


def test_listing_the_samples_is_not_counted(library: Library, sampler: LibrarySampler) -> None:
    sampler.bytes_until = 0
    library.live_samples(sampler)
    assert sampler.bytes_until == 0


def test_a_failed_request_uses_up_its_sample(library: Library, sampler: LibrarySampler) -> None:
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


def test_only_mapped_storage_is_read() -> None:
    first = Path("/proc/self/maps").read_text("utf-8").partition("-")[0]
    with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - a device
        at_first = gperftools_library.bytes_before(memory.fileno(), int(first, 16) + 64)
        nowhere = gperftools_library.bytes_before(memory.fileno(), 4096)
    assert (len(at_first), nowhere) == (64, b"")


# The rules.


@pytest.fixture
def target(library: Library) -> Iterator[GperftoolsDriver]:
    """A driver that is far from its next sample."""
    target = GperftoolsDriver(GPERFTOOLS)
    target.start({"period_bytes": FAR, "threads": 3})
    yield target
    target.start({})
    library.period_bytes = 0


def after(target: GperftoolsDriver, bytes_until: int, *actions: Action) -> Observation:
    """The observation of the last action, which has this distance to the next sample."""
    *earlier, last = actions
    for action in earlier:
        target.perform(action)
    target.samplers[last.thread].bytes_until = bytes_until
    return target.perform(last)


@pytest.mark.parametrize(
    ("bytes_until", "actions", "samples", "size_bytes"),
    [
        # A block is sampled if its size class is more than the distance.
        *((112, [Malloc(112)], 0, 112), (111, [Malloc(112)], 1, 112)),
        *((8, [Malloc(1)], 0, 8), (7, [Malloc(1)], 1, 8)),
        *((8, [Malloc(0)], 0, 8), (7, [Malloc(0)], 1, 8)),
        *((8, [Calloc(1, 1)], 0, 8), (7, [Calloc(1, 1)], 1, 8)),
        (0, [Malloc(9)], 1, 16),
        # Above all classes the request counts.
        *((262_145, [Malloc(262_145)], 0, 270_336), (262_144, [Malloc(262_145)], 1, 270_336)),
        # A block that may stay in place is not counted.
        *((0, [Malloc(1024), Realloc(0, size)], 0, 1024) for size in (512, 600, 1024)),
        # A block that shrinks by more than half is counted.
        (0, [Malloc(1024), Realloc(0, 511)], 1, 512),
        # A block that grows is counted as grown by a quarter.
        (1279, [Malloc(1024), Realloc(0, 1025)], 1, 1280),
        (1280, [Malloc(1024), Realloc(0, 1025)], 0, 1280),
    ],
)
def test_a_block_is_sampled_by_what_counts(
    bytes_until: int,
    actions: Sequence[Action],
    samples: int,
    size_bytes: int,
    target: GperftoolsDriver,
) -> None:
    observation = after(target, bytes_until, *actions)
    assert observation == Observation(samples=samples, size=size_bytes)


def test_the_surplus_is_dropped(target: GperftoolsDriver) -> None:
    after(target, 0, SetPeriod(1), Malloc(1 << 20))
    assert target.samplers[0].bytes_until <= 18  # The longest distance for a period of 1.


def test_a_sampled_block_that_stays_is_still_a_sample(target: GperftoolsDriver) -> None:
    after(target, 0, Malloc(1024))
    target.perform(Realloc(0, 1000))
    listed = target.library.live_samples(target.samplers[0])
    target.perform(Free(0))
    assert (listed, target.library.live_samples(target.samplers[0])) == ([1024], [])


def test_the_profile_has_the_living_samples(target: GperftoolsDriver) -> None:
    """It lists what was requested, and the driver adds up what counts."""
    target.start({"period_bytes": 1})
    sizes = (1, 3000, 300_000)
    actions = [*map(Malloc, sizes), Free(1), ReadProfile()]
    *sampled, _, read = carried_out(target, actions)
    assert [each.samples for each in sampled] == [1, 1, 1]
    assert read.profile == [2, 8 + 300_000]


def test_a_new_period_does_not_change_the_present_distance(target: GperftoolsDriver) -> None:
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
    damage = "at offset 0 it has 07 00 00 00 00 00 00 00"
    assert errors == [None, f"DamageError: block 1 is damaged: {damage}"]


def test_an_impossible_request_is_an_error(target: GperftoolsDriver) -> None:
    target.perform(Malloc(8))
    impossible: list[Action] = [Malloc(2**62), Malloc(-1), Calloc(2**32, 2**32), Realloc(0, 0)]
    errors = [target.perform(action).error for action in (*impossible, Realloc(0, 2**64), Free(7))]
    assert None not in errors
    assert target.perform(Free(0)) == Observation()


@pytest.mark.parametrize(
    ("bytes_until", "left_bytes"),
    [(100, 36), pytest.param(63, PLACEHOLDER_BYTES, id="a long distance after an end")],
)
def test_while_paused_it_counts_and_takes_no_sample(
    bytes_until: int, left_bytes: int, target: GperftoolsDriver
) -> None:
    observation = after(target, bytes_until, PauseSampling(), Malloc(64))
    assert (observation.samples, target.samplers[0].bytes_until) == (0, left_bytes)


def test_resuming_uses_the_period_set_during_the_pause(target: GperftoolsDriver) -> None:
    for action in (PauseSampling(), SetPeriod(64), ResumeSampling()):
        target.perform(action)
    assert target.library.period_bytes == 64


def test_a_header_frees_the_blocks_of_the_last_trace(target: GperftoolsDriver) -> None:
    after(target, 0, Malloc(8))
    target.start({})
    assert target.library.live_samples(target.samplers[0]) == []


def test_an_illegal_setting_is_bad_input(target: GperftoolsDriver) -> None:
    with pytest.raises(BadInputError, match="threads is 4; it must be one of 1, 2, 3"):
        target.start({"threads": 4})


# The defects.


@pytest.mark.usefixtures("library")
def test_the_main_thread_takes_its_first_sample_after_16_mib() -> None:
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
    command = ("env", "TCMALLOC_SAMPLE_PARAMETER=4096", sys.executable, "-c", program)
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    assert int(done.stdout) >= PLACEHOLDER_BYTES // 4096


def test_a_fresh_main_thread_starts_with_the_placeholder(target: GperftoolsDriver) -> None:
    target.start({"fresh_threads": 1, "threads": 2})
    starts_late = [each.bytes_until == PLACEHOLDER_BYTES for each in target.samplers[:2]]
    assert starts_late == [True, False]


def test_the_end_of_the_first_distance_drops_its_sample(target: GperftoolsDriver) -> None:
    target.start({"fresh_threads": 1, "threads": 2, "period_bytes": FAR})
    dropped, taken = (after(target, 0, Malloc(8, thread=1)) for _ in range(2))
    assert (dropped.samples, taken.samples) == (0, 1)


def first_seeds(contract: Contract) -> tuple[int, ...]:
    assert isinstance(contract.sampling.counting, LazySeeds)
    return contract.sampling.counting.seeds


def test_the_first_end_seeds_with_the_samplers_address(target: GperftoolsDriver) -> None:
    contract = target.start({"fresh_threads": 1, "period_bytes": FAR})
    after(target, 0, Malloc(8))
    drawn = Gperftools(first_seeds(contract)[0]).draw(FAR)
    assert target.samplers[0].bytes_until == drawn - 8


# The findings.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_finding_needs_no_fixed_memory_layout(path: Path, target: GperftoolsDriver) -> None:
    target.is_as_documented = True
    assert replay(target, traces.read(path), path.name) is not None


# Sessions.


@pytest.mark.slow
@pytest.mark.usefixtures("library")
def test_a_session_fails_under_the_documented_contract() -> None:
    few = TargetOptions(without=("pause_sampling", "calloc"))
    assert first_failure(make_target(AS_DOCUMENTED, few), 1000) is not None


SHORT = """
import attrs
from fuzz.protocol.contract import Range, Setting
from fuzz.targets.gperftools.driver import GperftoolsDriver, serve_in_fixed_memory
class Short(GperftoolsDriver):
    settings = (
        Setting("sampler_seed", 1, Range(1, 2**32 - 1)),
        Setting("period_bytes", 4096, Range(1024, 2**40)),
    )
    def begin_samplers(self, chosen):
        contract = super().begin_samplers({**chosen, "threads": 1, "fresh_threads": 0})
        self.samplers[0].bytes_until -= 1
        contract = attrs.evolve(contract, settings=self.settings)
        return contract.without(("calloc", "pause_sampling"))
Short.main(serve_in_fixed_memory)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("library")
def test_a_first_distance_that_is_one_byte_short_is_found(tmp_path: Path) -> None:
    script = tmp_path / "short.py"
    script.write_text(SHORT)
    options = TargetOptions((sys.executable, str(script), GPERFTOOLS))
    failure = first_failure(make_target("process", options), 4000)
    assert failure is not None
    assert failure.oracle == "sampling"


@pytest.mark.slow
@pytest.mark.usefixtures("library")
def test_samplers_have_the_same_address_in_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"fresh_threads": 1, "threads": 3}
    first = make_target(GPERFTOOLS).start(settings)
    monkeypatch.setenv("PYTHONTRACEMALLOC", "1")
    second = make_target(GPERFTOOLS).start(settings)
    assert first_seeds(first) == first_seeds(second)
