"""The target jemalloc: the stock libjemalloc.so.2 of jemalloc 5.3.0, with each sample predicted.

Tests that need the library are skipped without it: `apt install libjemalloc2`.
"""

from __future__ import annotations

import ctypes.util
import json
import random
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import heap_v2_reading
import pytest
from command_line import Complaint, Gcfuzz
from target_helpers import CLEAN
from waiting import PATIENCE_SECONDS, completed

from fuzz.oracles.counting.distances.jemalloc import Jemalloc as Distances
from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol.target import Target
from fuzz.targets import NO_OPTIONS, make_target
from fuzz.targets.jemalloc import TARGETS
from fuzz.targets.jemalloc.contract import LARGE_BYTES, SIZE_CLASSES, contract
from fuzz.targets.jemalloc.jemalloc_library import HOW_TO_INSTALL, LIBRARY, JemallocLibrary
from gcmodel.estimation import heap_v2
from gcmodel.estimation.jemalloc import EIGHTHS, unbiased_bytes, unbiased_eighths
from gcmodel.estimation.unbiased import Totals

Ask = Callable[..., object]
LEAST_BYTES = SIZE_CLASSES[0]
SMALL_BYTES = max(size for size in SIZE_CLASSES if size < LARGE_BYTES)
"""The reference has no places, so it draws other distances after a larger block."""


def command(script: str) -> list[str]:
    """A script, with the driver's interpreter and environment."""
    *environment, interpreter, _, _, _ = TARGETS[0].command_line(NO_OPTIONS)
    return [*environment, interpreter, "-c", script]


@pytest.fixture(scope="module")
def _library() -> None:
    if ctypes.util.find_library("jemalloc") is None:
        pytest.skip(HOW_TO_INSTALL)


@pytest.fixture(scope="module")
def target(_library: None) -> Target:
    return make_target("jemalloc")


@pytest.fixture(scope="module")
def ask(_library: None) -> Ask:
    """Runs a script with the library and `data`, and returns its `answer`."""

    def run(script: str, data: object = None) -> object:
        arguments = command(PROLOGUE + script + EPILOGUE)
        text = json.dumps(data)
        done = completed(arguments, input=text)
        return json.loads(done.stdout)

    return run


PROLOGUE = """
import json, sys
from ctypes import addressof, c_char_p
from concurrent.futures import ThreadPoolExecutor
from fuzz.targets.jemalloc.jemalloc_library import JemallocLibrary, ThreadSampler
data = json.load(sys.stdin)
jemalloc = JemallocLibrary()
sampler = ThreadSampler(jemalloc)
"""
EPILOGUE = """
print(json.dumps(answer))
"""


# The library.


@pytest.mark.parametrize(
    ("library", "what"), [("libjemalloc-unknown.so", ""), ("libc.so.6", "mallctl.*")]
)
def test_another_library_is_bad_input_with_what_to_install(library: str, what: str) -> None:
    with pytest.raises(BadInputError, match=what + HOW_TO_INSTALL):
        JemallocLibrary(library)


WHERE_IT_IS = """
with open("/proc/self/maps") as maps:
    answer = next(line.split()[-1] for line in maps if "libjemalloc" in line)
"""


@pytest.mark.slow
def test_two_copies_of_a_library_are_named_and_do_not_differ(
    ask: Ask, tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    stock, mine = str(ask(WHERE_IT_IS)), str(tmp_path / "mine.so")
    shutil.copy(stock, mine)
    plan = ["--actions", "500", "--seed", "1", "--corpus", str(tmp_path)]
    compared = ["--target", "jemalloc", "--before", stock, "--after", mine]
    printed = gcfuzz(CLEAN, "run", *compared, *plan).out
    assert f"target jemalloc --library {mine}, " in printed
    assert f"before: jemalloc --library {stock}; " in printed
    assert "contract" not in printed


def test_a_missing_file_is_bad_input(empty_folder: Path, complaint: Complaint) -> None:
    printed = complaint("run", "--target", "jemalloc", "--library", "no.so")
    assert f"{empty_folder / 'no.so'}: cannot open" in printed


WITHOUT_PROFILING = """
#include <string.h>
int mallctl(const char *name, const char **old, size_t *length, void *new, size_t new_length)
{
    static const char *const version = "5.3.0-0-g0";
    if (strcmp(name, "version") != 0)
        return 2; /* ENOENT */
    *old = version;
    return 0;
}
size_t xallocx(void *block, size_t size, size_t extra, int flags) { return size; }
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="apt install gcc")
def test_a_build_without_profiling_ends_a_run_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    gcc = ["gcc", "-shared", "-fPIC", "-o", str(tmp_path / LIBRARY), "-xc", "-"]
    subprocess.run(gcc, input=WITHOUT_PROFILING, text=True, check=True, timeout=PATIENCE_SECONDS)
    line = complaint("run", "--target", "jemalloc")
    assert "opt.prof" in line
    assert line.endswith(f"{HOW_TO_INSTALL}\n")


@pytest.mark.slow
def test_the_seed_of_a_new_thread_is_the_address_of_its_state(ask: Ask) -> None:
    script = """
thread = ThreadPoolExecutor(max_workers=1)
state = thread.submit(ThreadSampler, jemalloc).result().state
# The first distance is drawn already.
jemalloc_step = lambda s: (s * 6364136223846793005 + 1442695040888963407) % 2**64
answer = state.prng_state == jemalloc_step(addressof(state))
"""
    assert ask(script) is True


@pytest.mark.slow
def test_the_oracle_draws_the_distance_of_a_seed(ask: Ask) -> None:
    source = random.Random(1)
    cases = [(source.getrandbits(64), lg_period) for lg_period in range(41) for _ in range(20)]
    script = """
answer = []
for seed, lg_period in data:
    jemalloc.reset(lg_period)
    sampler.begin(seed)
    answer.append(sampler.state.prof_sample_event_wait)
"""
    expected = [Distances(seed).draw(2**lg_period) for seed, lg_period in cases]
    assert ask(script, cases) == expected


@pytest.mark.slow
def test_the_hook_is_called_for_each_sample_of_the_state(ask: Ask) -> None:
    script = """
jemalloc.reset(9)
answer = [0, 0]
for index in range(20000):
    before = jemalloc.backtraces
    jemalloc.malloc(index % 300)
    was_sampled = sampler.state.prof_sample_last_event == sampler.allocated_bytes
    answer[jemalloc.backtraces - before == was_sampled] += 1
"""
    assert ask(script) == [0, 20000]


@pytest.mark.slow
def test_a_block_has_the_size_of_its_class(ask: Ask) -> None:
    edges = [each + step for each in SIZE_CLASSES for step in (-1, 0, 1)][:-1]
    sizes = [*range(5000), *edges]
    script = """
answer = []
for size in data:
    block = jemalloc.malloc(size)
    answer.append(jemalloc.usable_bytes(block))
    jemalloc.free(block)
"""
    layout = contract((), 1, (1,)).layout
    assert ask(script, sizes) == [layout.capacity_bytes(size) for size in sizes]


def test_the_size_classes_are_those_of_the_library(ask: Ask) -> None:
    script = """
import ctypes
nallocx = ctypes.PyDLL("libjemalloc.so.2").nallocx
nallocx.argtypes, nallocx.restype = (ctypes.c_size_t, ctypes.c_int), ctypes.c_size_t
answer, size = [], 1
while size <= data:
    answer.append(nallocx(size, 0))
    size = answer[-1] + 1
"""
    assert ask(script, SIZE_CLASSES[-1]) == list(SIZE_CLASSES)


AFTER_THE_HEADER = """
from fuzz.protocol.actions import Calloc, Free, Malloc, PauseSampling, Realloc, ResumeSampling
from fuzz.targets.jemalloc.driver import JemallocDriver
target = JemallocDriver("jemalloc")
target.start({"period_bytes": 4096})
target.samplers.clear()
actions = [Malloc(2**20), PauseSampling(), Calloc(9, 2**16), Realloc(0, 2**21), ResumeSampling()]
answer = [target.perform(action).error for action in (*actions, Malloc(1), Free(0))]
"""


@pytest.mark.slow
def test_after_the_header_the_driver_needs_no_sampler(ask: Ask) -> None:
    assert ask(AFTER_THE_HEADER) == [None] * 7


FILES = """
import os, resource
def files():
    return os.listdir("/proc/self/fd"), resource.getrlimit(resource.RLIMIT_NOFILE)
hole = os.dup(0)
os.dup(0)
os.close(hole)
before = files()
answer = [jemalloc.dump_head(), files() == before]
"""


def test_a_dump_has_no_list_of_mappings_and_changes_no_files(ask: Ask) -> None:
    answer = ask(FILES)
    assert isinstance(answer, list)
    assert re.fullmatch(r"heap_v2/\d+(\n  t[*0]: 0: 0 \[0: 0\]){2}\n", answer[0])
    assert answer[1]


# The rules, with the distances of the seed.

SEED = 12345


def until_sampled(target: Target, size_bytes: int, thread: int = 0) -> int:
    """The number of blocks of this size up to the first sampled one."""
    for count in range(1, 100_000):
        if target.perform(do.Malloc(size_bytes, thread=thread)).samples:
            return count
    raise AssertionError("no block was sampled")


def blocks_in(distance: int, size_bytes: int = LEAST_BYTES) -> int:
    return -(-distance // size_bytes)


def started(target: Target, **settings: int) -> Distances:
    """Start a trace; returns the distances of its first thread."""
    configuration = {"sampler_seed": SEED, **settings}
    return Distances(target.start(configuration).sampling.seeds[0])


@pytest.mark.parametrize("size_bytes", [0, 1])
def test_each_distance_is_the_next_of_the_seed(target: Target, size_bytes: int) -> None:
    distances = started(target, period_bytes=256)
    for _ in range(20):
        assert until_sampled(target, size_bytes) == blocks_in(distances.draw(256))


def test_while_paused_distances_end_and_are_drawn(target: Target) -> None:
    distances = started(target, period_bytes=256)
    target.perform(do.PauseSampling())
    for _ in range(blocks_in(distances.draw(256))):
        assert target.perform(do.Malloc(1)).samples == 0
    target.perform(do.ResumeSampling())
    assert until_sampled(target, 1) == blocks_in(distances.draw(256))


def place_of(distances: Distances) -> int:
    """Where the next large block begins in its page: six bits of the next number."""
    return 64 * (distances.number() >> 47)


def test_a_large_block_takes_a_number_for_its_place(target: Target) -> None:
    distances = started(target, period_bytes=2**20)
    until_bytes = distances.draw(2**20)
    blocks = range((until_bytes - 1) // LARGE_BYTES)
    assert len(blocks) > 1
    places = [target.perform(do.Malloc(LARGE_BYTES)).at for _ in blocks]
    assert places == [place_of(distances) for _ in blocks]
    sampled = target.perform(do.Malloc(LARGE_BYTES))
    assert (sampled.samples, sampled.at) == (1, 0)
    assert until_sampled(target, LARGE_BYTES) == blocks_in(distances.draw(2**20), LARGE_BYTES)


def test_a_large_block_draws_its_place_and_a_distance_while_paused(target: Target) -> None:
    distances = started(target, period_bytes=256)
    distances.draw(256)
    target.perform(do.PauseSampling())
    block = target.perform(do.Malloc(2**20))
    assert (block.samples, block.at) == (0, place_of(distances))
    target.perform(do.ResumeSampling())
    assert until_sampled(target, 1) == blocks_in(distances.draw(256))


def test_a_new_period_does_not_change_the_present_distance(target: Target) -> None:
    distances = started(target, period_bytes=256)
    target.perform(do.SetPeriod(2**18))
    assert until_sampled(target, 1) == blocks_in(distances.draw(256))
    assert until_sampled(target, 4096) == blocks_in(distances.draw(2**18), 4096)


def test_a_profile_has_the_living_samples_and_all_since_the_reset(target: Target) -> None:
    started(target, period_bytes=1)
    for size_bytes in (100, 1000, 2**20):
        target.perform(do.Malloc(size_bytes))
    all_of_them = [3, 112 + 1024 + 2**20]
    assert target.perform(do.ReadProfile()).profile == all_of_them * 2
    target.perform(do.Free(2))
    assert target.perform(do.ReadProfile()).profile == [2, 112 + 1024, *all_of_them]
    target.perform(do.SetPeriod(4096))
    assert target.perform(do.ReadProfile()).profile == [0] * 4


def seed_with_distance(least: int, most: int, period_bytes: int) -> int:
    return next(
        seed for seed in range(10_000) if least <= Distances(seed).draw(period_bytes) <= most
    )


@pytest.mark.parametrize("first", [1000, 100_000])
def test_a_block_that_grows_counts_in_full(target: Target, first: int) -> None:
    room = contract((), 1, (1,)).layout.capacity_bytes(first)
    seed = seed_with_distance(room + 1, 2 * room, 2**16)
    started(target, sampler_seed=seed, period_bytes=2**16)
    assert target.perform(do.Malloc(first)).samples == 0
    assert target.perform(do.Realloc(0, first + 1)).samples == 1


def test_a_block_that_grows_in_place_counts_in_full(ask: Ask) -> None:
    script = """
jemalloc.reset(40)
sampler.begin(1)
block = jemalloc.malloc(1000)
before = sampler.allocated_bytes
answer = [jemalloc.realloc(block, 1001) == block, sampler.allocated_bytes - before]
"""
    assert ask(script) == [True, 1024]


def test_each_thread_counts_its_own_bytes(target: Target) -> None:
    seeds = target.start({"threads": 2, "period_bytes": 256}).sampling.seeds
    first, second = (Distances(seed).draw(256) for seed in seeds)
    assert until_sampled(target, 1, thread=1) == blocks_in(second)
    assert until_sampled(target, 1, thread=0) == blocks_in(first)


def test_a_block_may_be_freed_by_another_thread(target: Target) -> None:
    target.start({"threads": 2})
    target.perform(do.Malloc(10, thread=0))
    assert target.perform(do.Free(0, thread=1)).error is None


DAMAGING = """
import ctypes, json, sys
from fuzz.protocol.actions import Free, Malloc
from fuzz.targets.jemalloc.driver import JemallocDriver
target = JemallocDriver("jemalloc")
target.start({})
target.perform(Malloc(8))
target.perform(Malloc(100))
ctypes.memset(target.blocks[1].address + 111, 7, 1)
print(json.dumps([target.perform(Free(1)).error, target.perform(Free(0)).error]))
"""


@pytest.mark.usefixtures("_library")
def test_a_damaged_block_is_an_error() -> None:
    done = subprocess.run(
        command(DAMAGING), stdout=subprocess.PIPE, check=True, timeout=PATIENCE_SECONDS
    )
    assert json.loads(done.stdout) == [
        "DamageError: block 2 is damaged: at offset 111 it has 07",
        None,
    ]


@pytest.mark.parametrize(
    ("settings", "what"),
    [({"threads": 0}, "threads is 0"), ({"period_bytes": 3}, "period_bytes is 3")],
)
def test_an_illegal_configuration_is_bad_input(
    target: Target, settings: Mapping[str, int], what: str
) -> None:
    with pytest.raises(BadInputError, match=what):
        target.start(settings)


@pytest.mark.slow
def test_the_reference_samples_the_same_blocks(target: Target) -> None:
    threads = target.start({}).threads
    source = random.Random(1)
    reference = make_target("reference-jemalloc")
    reference.start({})
    for _ in range(2000):
        action = do.Malloc(source.randrange(SMALL_BYTES), thread=source.randrange(threads))
        real, model = target.perform(action), reference.perform(action)
        assert (real.samples, real.size) == (model.samples, model.size)


# The dump.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lg_period", "reset_after"), [(0, 0), (4, 0), (9, 0), (12, 0), (19, 0), (4, 9000), (12, 9000)]
)
def test_every_stack_of_a_dump_is_predicted(
    ask: Ask, lg_period: int, reset_after: int, tmp_path: Path
) -> None:
    """The living and all blocks of each, after frees, since the last reset."""
    source = random.Random(lg_period)
    sites = [(0x1000 + site, 0x2000 + 16 * site, 0x3000) for site in range(7)]
    calls = list(drawn_calls(source, len(sites), 20_000))
    script = """
calls, sites, lg_period, path, reset_after = data
jemalloc.reset(lg_period)
sampler.begin(1)
blocks = []
for number, (size, site, freed) in enumerate(calls):
    if number == reset_after:
        jemalloc.reset(lg_period)
    jemalloc.stack = sites[site]
    generator, last = sampler.state.prng_state, sampler.state.prof_sample_last_event
    blocks.append(jemalloc.malloc(size))
    if sampler.state.prof_sample_last_event == last:
        sampler.state.prng_state = generator  # A large block took a number for its place.
    if freed is not None:
        jemalloc.free(blocks.pop(freed))
jemalloc._set("prof.dump", c_char_p(path.encode()))
answer = None
"""
    path = tmp_path / "dump"
    ask(script, [calls, sites, lg_period, str(path), reset_after])
    dump = heap_v2_reading.read(path.read_text(encoding="utf-8"))
    expected = dump_of(calls, sites, 2**lg_period, reset_after)
    assert dump == heap_v2_reading.read(heap_v2.write(expected, 2**lg_period, ""))
    assert len(dump.stacks) == len(sites)


Call = tuple[int, int, int | None]
"""The size of a block, its site, and the live block that is freed after it, if any."""


def drawn_calls(source: random.Random, sites: int, count: int) -> Iterator[Call]:
    live = 0
    for _ in range(count):
        live += 1
        freed = source.randrange(live) if source.random() < live / 200 else None
        live -= freed is not None
        yield int(2 ** source.uniform(0, 18)), source.randrange(sites), freed


def dump_of(
    calls: Sequence[Call], sites: Sequence[tuple[int, ...]], period_bytes: int, reset_after: int
) -> dict[tuple[str | int, ...], heap_v2.DumpedStack]:
    """The estimates of each stack, according to the distances of the seed.

    A reset drops all samples, and the present distance goes on.
    """
    layout = contract((), 1, (1,)).layout
    distances = Distances(1)
    until_bytes = distances.draw(period_bytes)
    blocks: list[tuple[int, int, bool]] = []
    live: dict[int, list[int]] = defaultdict(list)
    allocated: dict[int, list[int]] = defaultdict(list)
    for number, (size, site, freed) in enumerate(calls):
        if number == reset_after:
            blocks = [(room, site, False) for room, site, _ in blocks]
            live.clear()
            allocated.clear()
        room = layout.capacity_bytes(size)
        is_sampled = room >= until_bytes
        until_bytes = distances.draw(period_bytes) if is_sampled else until_bytes - room
        blocks.append((room, site, is_sampled))
        if is_sampled:
            live[site].append(room)
            allocated[site].append(room)
        if freed is not None:
            freed_room, freed_site, was_sampled = blocks.pop(freed)
            if was_sampled:
                live[freed_site].remove(freed_room)
    return {
        stack: heap_v2.DumpedStack(
            live=totals(live[site], period_bytes), allocated=totals(allocated[site], period_bytes)
        )
        for site, stack in enumerate(sites)
    }


def totals(rooms: Sequence[int], period_bytes: int) -> Totals:
    """The estimates from samples of these usable sizes."""
    return Totals(
        sum(unbiased_eighths(room, period_bytes) for room in rooms) / EIGHTHS,
        sum(unbiased_bytes(room, period_bytes) for room in rooms),
    )
