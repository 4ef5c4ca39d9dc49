"""The program behind the targets `gperftools` and `gperftools-as-documented`.

Both are a stock libtcmalloc under two contracts: what version 2.10 does as it is built, under which
each of its samples is foretold; and what its documentation and the comments in its source promise,
under which it is found wrong. At each header the blocks of the last trace are freed, and the
library itself begins each thread's sampler from the header's seed, so that traces can be replayed.
Invariant: whether a block was sampled is read from the library's list of live samples; nothing that
is observed comes from a sampler's counter.

`python -m fuzz.targets.allocators.gperftools_driver NAME [LIBRARY]` answers for the target of that
name, by default with the stock library.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence

import attrs

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting, layout_of_blocks
from fuzz.protocol.counting import Bytes, LazySeeds
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.targets.allocators.gperftools_library import (
    LIBRARY,
    PAGE_BYTES,
    PLACEHOLDER_BYTES,
    SIZE_CLASSES,
    Library,
    LibrarySampler,
)
from fuzz.targets.allocators.stock_blocks import ACTIONS, OBSERVES, StockTarget
from fuzz.targets.allocators.stock_commands import AS_BUILT, AS_DOCUMENTED
from fuzz.targets.process.serve import serve

ASK = 0xFFFFFFFF
ADDR_NO_RANDOMIZE = 0x0040000
"""See personality(2)."""
PERIODS = Range(1, 2**40)
SETTINGS = (
    Setting("sampler_seed", 1, Range(1, 2**32 - 1)),
    Setting("period_bytes", 4096, PERIODS),
    Setting("threads", 1, Range(1, 3), choices=(1, 2, 3)),
    Setting("fresh_threads", 0, Range(0, 1)),
)
"""Thread n is seeded with `sampler_seed` + n. A fresh thread is, but for its seed, as the library
makes it; one that is not has been through its first trigger."""
BLOCK_BYTES_MAX = 20 << 20
"""More than the first distance of a fresh main thread."""


class StockGperftools(StockTarget[Library, LibrarySampler]):
    """See StockTarget."""

    settings = SETTINGS
    block_bytes_max = BLOCK_BYTES_MAX

    def __init__(self, name: str = AS_BUILT, library_name: str = LIBRARY) -> None:
        super().__init__(name, library_name)
        self._sampled: set[int] = set()
        """The addresses of the blocks that were sampled."""
        self._live_samples = 0
        self._period_bytes = 0

    def load(self) -> Library:
        return Library(self.library_name)

    def find_sampler(self) -> LibrarySampler:
        return self.library.sampler_of_this_thread()

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        self._sampled, self._live_samples = set(), 0
        self._period_bytes = chosen["period_bytes"]
        samplers = self.samplers[: chosen["threads"]]
        for thread in range(len(samplers)):
            self._begin(thread, chosen["sampler_seed"] + thread, bool(chosen["fresh_threads"]))
        as_built = contract_as_built(chosen, [sampler.address for sampler in samplers])
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

    def allocated(self, thread: int, call: Callable[[], int]) -> tuple[int, Observation]:
        """How many more samples the library lists.

        A sampled block has its pages to itself, so it is not asked for every block.
        """
        address = call()
        if address % PAGE_BYTES:
            return address, Observation(samples=0)
        before = self._live_samples
        self._live_samples = len(self.library.live_samples(self.samplers[thread]))
        samples = self._live_samples - before
        if samples:
            self._sampled.add(address)
        return address, Observation(samples=samples)

    def forget(self, address: int) -> None:
        """The library must not list this block's sample any more."""
        self._live_samples -= address in self._sampled
        self._sampled.discard(address)

    def pause(self) -> None:
        self.library.period_bytes = 0

    def resume(self) -> None:
        self.library.period_bytes = self._period_bytes

    def set_period(self, period_bytes: int) -> None:
        self._period_bytes = period_bytes
        if self.library.period_bytes:
            self.library.period_bytes = period_bytes


def contract_as_built(settings: Mapping[str, int], addresses: Sequence[int]) -> Contract:
    """What gperftools 2.10 does, when each thread's sampler has that address."""
    seeds = tuple(settings["sampler_seed"] + thread for thread in range(len(addresses)))
    is_fresh = settings["fresh_threads"] == 1
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, SIZE_CLASSES, PAGE_BYTES),
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
            initial_period_bytes=settings["period_bytes"],
            first_bytes=(PLACEHOLDER_BYTES, *[None] * (len(seeds) - 1)) if is_fresh else (),
            counting=LazySeeds(tuple(addresses)) if is_fresh else Bytes(),
        ),
        settings=SETTINGS,
        actions=ACTIONS,
        observes=OBSERVES,
    )


def contract_as_documented(as_built: Contract) -> Contract:
    """What the documentation and the source's comments promise instead.

    Each byte that is asked for is sampled with the same probability (the comment on `Sampler` in
    src/sampler.h), which is what pprof takes for granted; and that from the first byte on.
    """
    promised = attrs.evolve(as_built.sampling, counts="requested", first_bytes=(), counting=Bytes())
    return attrs.evolve(as_built, sampling=promised)


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
    if sys.argv[1:2] not in ([AS_BUILT], [AS_DOCUMENTED]):
        names = f"{AS_BUILT}|{AS_DOCUMENTED}"
        sys.exit(f"python -m fuzz.targets.allocators.gperftools_driver {names} [LIBRARY]")
    serve_in_fixed_memory(StockGperftools(*sys.argv[1:]))
