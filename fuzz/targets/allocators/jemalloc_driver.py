"""The program that is the target `jemalloc`, on its side of the pipe.

`python -m fuzz.targets.allocators.jemalloc_driver [LIBRARY]`, in the environment that the library
needs, carries out actions with it, by default with the stock libjemalloc.so.2. Invariant: at a
header every thread's generator is set, so a trace says the same wherever it stands in a session.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting, layout_of_blocks
from fuzz.protocol.observation import Observation
from fuzz.targets.allocators.jemalloc_library import LIBRARY, JemallocLibrary, ThreadSampler
from fuzz.targets.allocators.stock_blocks import ACTIONS, OBSERVES, StockTarget
from fuzz.targets.process.serve import serve

BLOCK_BYTES_MAX = 2**22
SIZE_CLASSES = (
    *(8, 16, 32, 48, 64),
    *(quarters << shift for shift in range(4, 20) for quarters in (5, 6, 7, 8)),
)
"""From 64 bytes up, four between one power of two and the next; as far as blocks go.
(jemalloc 5.3.0, src/sc.c)"""
PERIODS = tuple(1 << lg_period for lg_period in range(21))
SETTINGS = (
    Setting("period_bytes", 4096, Range(1, PERIODS[-1]), choices=PERIODS),
    Setting("threads", 2, Range(1, 4)),
    Setting("sampler_seed", 0, Range(0, 2**32)),
)
"""Those of `reference-jemalloc`, so that a trace of one can be replayed on the other."""


def contract_under(period_bytes: int, seeds: tuple[int, ...]) -> Contract:
    """What jemalloc 5.3.0 promises, in figures, where the threads' generators begin at `seeds`."""
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, SIZE_CLASSES),
        actions=ACTIONS,
        observes=OBSERVES,
        sampling=SamplingRule(
            period_bytes=Range(1, PERIODS[-1]),
            periods=PERIODS,
            counts="size",
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            realloc="always",
            paused="counting",
            setting_period="drops",
            distances="jemalloc",
            seeds=seeds,
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
    )


class StockJemalloc(StockTarget[JemallocLibrary, ThreadSampler]):
    """See StockTarget."""

    settings = SETTINGS
    block_bytes_max = BLOCK_BYTES_MAX

    def __init__(self, library_name: str = LIBRARY) -> None:
        super().__init__("jemalloc", library_name)

    def load(self) -> JemallocLibrary:
        return JemallocLibrary(self.library_name)

    def find_sampler(self) -> ThreadSampler:
        return ThreadSampler(self.library)

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        first = chosen["sampler_seed"]
        seeds = tuple(range(first, first + chosen["threads"]))
        self.set_period(chosen["period_bytes"])
        self.resume()
        for thread, seed in enumerate(seeds):
            self.threads.run(thread, partial(self.samplers[thread].begin, seed))
        return contract_under(chosen["period_bytes"], seeds)

    def allocated(self, thread: int, call: Callable[[], int]) -> tuple[int, Observation]:
        address, samples = self.samplers[thread].allocate(call)
        return address, Observation(samples=samples)

    def pause(self) -> None:
        self.library.is_active = False

    def resume(self) -> None:
        self.library.is_active = True

    def set_period(self, period_bytes: int) -> None:
        self.library.reset(lg_of(period_bytes))


def lg_of(period_bytes: int) -> int:
    """The logarithm of a period, which is a power of two."""
    return period_bytes.bit_length() - 1


if __name__ == "__main__":
    serve(StockJemalloc(*sys.argv[1:]), sys.stdin, sys.stdout)
