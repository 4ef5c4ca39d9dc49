"""The program behind the targets `gperftools` and `gperftools-as-documented`.

Both are a stock libtcmalloc under two contracts: what version 2.10 does as it is built, under which
each of its samples is foretold; and what its documentation and the comments in its source promise,
under which it is found wrong. At each header the blocks of the last trace are freed, and the
library itself begins each thread's sampler from the header's seed, so that traces can be replayed.
Invariant: whether a block was sampled is read from the library's list of live samples; nothing that
is observed comes from a sampler's counter.

`python -m fuzz.targets.gperftools_driver NAME` answers for the target of that name.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import count
from typing import TypeVar

import attrs

from fuzz.actions import (
    Action,
    Calloc,
    Free,
    Malloc,
    PauseSampling,
    Realloc,
    ResumeSampling,
    SetPeriod,
    requested_bytes,
)
from fuzz.contract import (
    Contract,
    KindLayout,
    Layout,
    Range,
    SamplingRule,
    Setting,
    problem_of_configuration,
)
from fuzz.observation import Observation
from fuzz.problems import BadInputError
from fuzz.serve import serve
from fuzz.targets.gperftools import AS_BUILT, AS_DOCUMENTED
from fuzz.targets.gperftools_library import (
    PAGE_BYTES,
    PLACEHOLDER_BYTES,
    SIZE_CLASSES,
    Library,
    Sampler,
)
from fuzz.targets.target import Target

T = TypeVar("T")

ASK = 0xFFFFFFFF
ADDR_NO_RANDOMIZE = 0x0040000
"""See personality(2)."""
PERIODS = Range(1, 2**40)
ACTIONS = (
    *("malloc", "calloc", "realloc", "free"),
    *("set_period", "pause_sampling", "resume_sampling"),
)
SETTINGS = (
    Setting("sampler_seed", 1, Range(1, 2**32 - 1)),
    Setting("initial_period_bytes", 4096, PERIODS),
    Setting("threads", 1, Range(1, 3), choices=(1, 2, 3)),
    Setting("fresh_threads", 0, Range(0, 1)),
)
"""Thread n is seeded with `sampler_seed` + n. A fresh thread is, but for its seed, as the library
makes it; one that is not has been through its first trigger."""
BLOCK_BYTES_MAX = 20 << 20
"""More than the first distance of a fresh main thread."""
STAMP_BYTES = 8
"""Every block has room for so many."""


class DamageError(Exception):
    """A block's bytes are not what was written, or what calloc promises."""


@attrs.define
class Block:
    """A block that is not freed yet. Its `stamp` stands at both ends of its room."""

    address: int
    room_bytes: int
    stamp: bytes
    is_sampled: bool

    def write(self) -> None:
        """Write the stamp."""
        for address in self._ends():
            ctypes.memmove(address, self.stamp, STAMP_BYTES)

    def check(self) -> None:
        """Raises DamageError if the stamp is not there any more."""
        for address in self._ends():
            _check(address, self.stamp, "a block is damaged")

    def _ends(self) -> tuple[int, int]:
        return self.address, self.address + self.room_bytes - STAMP_BYTES


class Threads:
    """Threads that take turns; the first is the one that makes the others."""

    def __init__(self) -> None:
        self._others: list[ThreadPoolExecutor] = []

    def run(self, thread: int, work: Callable[[], T]) -> T:
        """What comes of some work in a thread, which is begun if it is new."""
        if thread == 0:
            return work()
        while len(self._others) < thread:
            self._others.append(ThreadPoolExecutor(max_workers=1))
        return self._others[thread - 1].submit(work).result()


class StockGperftools:
    """The library as a target, in a process that uses it for nothing else."""

    def __init__(self, name: str = AS_BUILT) -> None:
        self.name = name
        self.samplers: list[Sampler] = []
        """Those of the threads that were needed until now."""
        self.blocks: list[Block] = []
        """A block for each root slot."""
        self._threads = Threads()
        self._stamps = count(1)
        self._live_samples = 0
        self._period_bytes = 0

    @cached_property
    def library(self) -> Library:
        """Loaded when it is needed. Raises BadInputError."""
        return Library()

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """See Target. Raises BadInputError also if there is no such library."""
        problem = problem_of_configuration(configuration, SETTINGS)
        if problem:
            raise BadInputError(problem)
        settings = {setting.name: setting.default for setting in SETTINGS} | dict(configuration)
        for block in self.blocks:
            self.library.free(block.address)
        self.blocks, self._stamps, self._live_samples = [], count(1), 0
        self._period_bytes = settings["initial_period_bytes"]
        for thread in range(settings["threads"]):
            if thread == len(self.samplers):
                find = self.library.sampler_of_this_thread
                self.samplers.append(self._threads.run(thread, find))
            self._begin(thread, settings["sampler_seed"] + thread, bool(settings["fresh_threads"]))
        addresses = [sampler.address for sampler in self.samplers[: settings["threads"]]]
        as_built = contract_as_built(settings, addresses)
        return contract_as_documented(as_built) if self.name == AS_DOCUMENTED else as_built

    def _begin(self, thread: int, seed: int, is_fresh: bool) -> None:
        """Begin a thread's sampler, as the library does when it makes one.

        The main thread's is made before the library has read its parameter.
        """
        is_early = is_fresh and thread == 0
        self.library.period_bytes = 0 if is_early else self._period_bytes
        self.library.begin(self.samplers[thread], seed)
        self.samplers[thread].initialized = not is_fresh
        self.library.period_bytes = self._period_bytes

    def perform(self, action: Action) -> Observation:
        """See Target."""
        try:
            return self._threads.run(action.thread, lambda: self._perform(action))
        except (DamageError, MemoryError) as problem:
            return Observation(error=f"{type(problem).__name__}: {problem}")

    def _perform(self, action: Action) -> Observation:
        match action:
            case Malloc() | Calloc():
                return self._allocate(action)
            case Realloc():
                return self._reallocate(action)
            case Free():
                block = self.blocks.pop(action.root)
                block.check()
                self._forget(block)
                self.library.free(block.address)
            case SetPeriod():
                self._period_bytes = action.period_bytes
                if self.library.period_bytes:
                    self.library.period_bytes = action.period_bytes
            case PauseSampling():
                self.library.period_bytes = 0
            case ResumeSampling():
                self.library.period_bytes = self._period_bytes
            case _:
                raise ValueError(f"{self.name} carries out no {type(action).__name__}")
        return Observation()

    def _allocate(self, action: Malloc | Calloc) -> Observation:
        if isinstance(action, Malloc):
            address = self.library.malloc(action.size_bytes)
        else:
            address = self.library.calloc(action.count, action.size_bytes)
            _check(address, bytes(requested_bytes(action)), "calloc's block is not all zero")
        samples = self._new_samples(action.thread, address)
        block = self._block(address, samples)
        self.blocks.append(block)
        return Observation(samples=samples, size=block.room_bytes)

    def _reallocate(self, action: Realloc) -> Observation:
        old = self.blocks[action.root]
        old.check()
        address = self.library.realloc(old.address, action.size_bytes)
        _check(address, old.stamp[: action.size_bytes], "realloc lost what was in the block")
        if address != old.address:
            self._forget(old)
        samples = self._new_samples(action.thread, address)
        stayed_sampled = address == old.address and old.is_sampled
        new = self.blocks[action.root] = self._block(address, samples or stayed_sampled)
        return Observation(samples=samples, size=new.room_bytes)

    def _block(self, address: int, is_sampled: bool | int) -> Block:
        """A block of which the library is asked how large it is, with a stamp of its own."""
        stamp = next(self._stamps).to_bytes(STAMP_BYTES, "big")
        block = Block(address, self.library.usable_bytes(address), stamp, bool(is_sampled))
        block.write()
        return block

    def _forget(self, block: Block) -> None:
        """The library must not list this block's sample any more."""
        self._live_samples -= block.is_sampled

    def _new_samples(self, thread: int, address: int) -> int:
        """How many more samples the library lists, now that there is a block at `address`.

        A sampled block has its pages to itself, so it is not asked for every block.
        """
        if address % PAGE_BYTES:
            return 0
        before = self._live_samples
        self._live_samples = len(self.library.live_samples(self.samplers[thread]))
        return self._live_samples - before


def contract_as_built(settings: Mapping[str, int], addresses: Sequence[int]) -> Contract:
    """What gperftools 2.10 does, when each thread's sampler has that address."""
    seeds = tuple(settings["sampler_seed"] + thread for thread in range(len(addresses)))
    is_fresh = settings["fresh_threads"] == 1
    return Contract(
        nursery_bytes=0,
        layout=Layout(
            kinds={"block": KindLayout(type_index=1, fixed_bytes=0, item_bytes=1)},
            large_object_bytes=1,
            word_bytes=1,
            object_bytes_max=BLOCK_BYTES_MAX,
            size_classes=SIZE_CLASSES,
            page_bytes=PAGE_BYTES,
        ),
        sampling=SamplingRule(
            period_bytes=PERIODS,
            counts="class_or_requested",
            crosses="beyond",
            surplus="dropped",
            samples_per_allocation="one",
            realloc="when_moved",
            distances="gperftools",
            seeds=seeds,
            paused="placeholders",
            initial_period_bytes=settings["initial_period_bytes"],
            first_bytes=(PLACEHOLDER_BYTES, *[None] * (len(seeds) - 1)) if is_fresh else (),
            reseeds=tuple(addresses) if is_fresh else (),
        ),
        settings=SETTINGS,
        actions=ACTIONS,
        observes=("samples", "size"),
    )


def contract_as_documented(as_built: Contract) -> Contract:
    """What the documentation and the source's comments promise instead.

    Each byte that is asked for is sampled with the same probability (the comment on `Sampler` in
    src/sampler.h), which is what pprof takes for granted; and that from the first byte on.
    """
    promised = attrs.evolve(as_built.sampling, counts="requested", first_bytes=(), reseeds=())
    return attrs.evolve(as_built, sampling=promised)


def _check(address: int, expected: bytes, problem: str) -> None:
    """Raises DamageError if something else is there in memory."""
    if ctypes.string_at(address, len(expected)) != expected:
        raise DamageError(problem)


def serve_in_fixed_memory(target: Target) -> None:
    """Answer on standard output what is asked on standard input, in this program begun anew.

    The library begins a generator from its sampler's address (`reseeds`), so that is to be the same
    each time. Where the kernel refuses it, each contract states the addresses that there are, and
    only what is found through them may differ from run to run.
    """
    personality = ctypes.CDLL(None).personality
    personality.argtypes = (ctypes.c_ulong,)
    present = personality(ASK)
    if present >= 0 and not present & ADDR_NO_RANDOMIZE:
        personality(present | ADDR_NO_RANDOMIZE)
        if personality(ASK) & ADDR_NO_RANDOMIZE:
            os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - this very program
    serve(target, sys.stdin, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1:] not in ([AS_BUILT], [AS_DOCUMENTED]):
        sys.exit(f"python -m fuzz.targets.gperftools_driver {AS_BUILT}|{AS_DOCUMENTED}")
    serve_in_fixed_memory(StockGperftools(sys.argv[1]))
