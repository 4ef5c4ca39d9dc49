"""The program behind the target `tcmalloc`: Google's TCMalloc as it is, each sample foretold.

At each header the blocks of the last trace are freed, and the generator of each thread's sampler is
set to where TCMalloc would have it after a seed; the first distance TCMalloc draws itself. After
that no sampler is looked at.

`python -m fuzz.targets.allocators.tcmalloc_driver [PROGRAM]` answers, by default for what npm has
installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting, layout_of_blocks
from fuzz.protocol.observation import Observation
from fuzz.targets.allocators.stock_blocks import ACTIONS, OBSERVES, StockTarget
from fuzz.targets.allocators.stock_commands import TCMALLOC
from fuzz.targets.allocators.tcmalloc_program import TcmallocProgram
from fuzz.targets.process.serve import serve
from fuzz.targets.process.threads import Threads

Result = TypeVar("Result")

BLOCK_BYTES_MAX = 2**20
PAGE_BYTES = 8192
SIZE_CLASSES = (
    *(16, 32, 48, 64, 80, 96, 112, 128, 160, 176, 208, 256, 304, 368, 448, 512, 576, 704, 896),
    *(1024, 1152, 1408, 1792, 2048, 2304, 2688, 3456, 4096, 4736, 6144, 8192, 9472, 12288, 16384),
    *(20480, 28672, 32768, 40960, 49152, 65536, 73728, 81920, 98304, 131072, 155648),
    *(204800, 262144),
)
"""As `malloc_usable_size` tells them, for blocks as `malloc` aligns them."""
PERIODS = Range(1, 2**30)
SETTINGS = (
    Setting("period_bytes", 4096, PERIODS),
    Setting("threads", 2, Range(1, 4)),
    Setting("sampler_seed", 0, Range(0, 2**32)),
)
"""Those of `reference-tcmalloc`, so that a trace of one can be replayed on the other."""
STEPS_OF_A_SEED = 20
"""So often a generator steps before it is drawn from: `Sampler::Init` in tcmalloc/sampler.cc."""


def contract_under(period_bytes: int, seeds: tuple[int, ...]) -> Contract:
    """What TCMalloc promises, in figures, where the threads' generators begin at `seeds`."""
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, SIZE_CLASSES, PAGE_BYTES),
        actions=tuple(each for each in ACTIONS if not each.endswith("_sampling")),
        observes=(*OBSERVES, "weights"),
        sampling=SamplingRule(
            period_bytes=PERIODS,
            counts="requested_plus_one",
            surplus="dropped",
            samples_per_allocation="one",
            realloc="unless_alike",
            weights="passed",
            distances="tcmalloc",
            seeds=seeds,
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
    )


class ProgramThreads(Threads):
    """The program's threads, which take turns."""

    def __init__(self, program: Callable[[], TcmallocProgram]) -> None:
        super().__init__()
        self._program = program

    @override
    def run(self, thread: int, work: Callable[[], Result]) -> Result:
        self._program().thread = thread
        return work()


class StockTcmalloc(StockTarget[TcmallocProgram, int]):
    """See StockTarget."""

    settings = SETTINGS
    block_bytes_max = BLOCK_BYTES_MAX

    def __init__(self, library_name: str = "") -> None:
        super().__init__(TCMALLOC, library_name)
        self.threads = ProgramThreads(lambda: self.library)

    def load(self) -> TcmallocProgram:
        return TcmallocProgram(Path(self.library_name) if self.library_name else None)

    def find_sampler(self) -> int:
        return self.library.find_sampler()

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        first = chosen["sampler_seed"]
        seeds = tuple(range(first, first + chosen["threads"]))
        self.set_period(chosen["period_bytes"])
        for thread, seed in enumerate(seeds):
            self.library.thread = thread
            self.library.begin(self.samplers[thread], state_after(seed))
        return contract_under(chosen["period_bytes"], seeds)

    def allocated(self, thread: int, call: Callable[[], int]) -> tuple[int, Observation]:
        address = call()
        samples, weight_bytes = self.library.samples, self.library.weight_bytes
        return address, Observation(samples=samples, weights=[weight_bytes] * samples)

    def set_period(self, period_bytes: int) -> None:
        self.library.set_period(period_bytes)


def state_after(seed: int) -> int:
    """A generator's state when it has begun from a seed."""
    for _ in range(STEPS_OF_A_SEED):
        seed = (0x5DEECE66D * seed + 0xB) % 2**48
    return seed


if __name__ == "__main__":
    serve(StockTcmalloc(*sys.argv[1:]), sys.stdin, sys.stdout)
