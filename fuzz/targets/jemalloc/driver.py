"""The driver of `jemalloc`: `python -m fuzz.targets.jemalloc.driver NAME [LIBRARY]`.

It runs in the environment that `find` sets. Invariant: a header sets every thread's generator, so
the answers to a trace do not depend on the traces before it. After that the driver reads and sets
no sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from fuzz.protocol import actions
from fuzz.protocol.contract import Contract
from fuzz.targets.allocators.block_driver import BlockDriver
from fuzz.targets.jemalloc.contract import (
    BLOCK_BYTES_MAX,
    LARGE_BYTES,
    PAGE_BYTES,
    SETTINGS,
    THREADS,
    contract,
)
from fuzz.targets.jemalloc.jemalloc_library import JemallocLibrary, ThreadSampler
from fuzz.targets.process.driver import CarryOut


class JemallocDriver(BlockDriver[JemallocLibrary, ThreadSampler]):
    """jemalloc."""

    settings = SETTINGS
    block_bytes_max = BLOCK_BYTES_MAX
    load = JemallocLibrary
    CARRY_OUT: ClassVar[CarryOut] = {
        **BlockDriver.CARRY_OUT,
        actions.ReadProfile: lambda driver, _: driver.read_profile(),
    }

    def find_sampler(self) -> ThreadSampler:
        return ThreadSampler(self.library)

    def begin_samplers(self, chosen: Mapping[str, int]) -> Contract:
        first = chosen["sampler_seed"]
        seeds = tuple(range(first, first + chosen["threads"]))
        self.set_period(chosen["period_bytes"])
        self.switch(is_on=False)  # Each sampler would do that, and undo it.
        for thread, seed in enumerate(seeds):
            self.threads.run(thread, partial(self.samplers[thread].begin, seed))
        self.switch(is_on=True)
        return contract(self.actions, chosen["period_bytes"], seeds)

    def read_profile(self) -> list[int]:
        # A thread of its own, so that no generator of the mutator's threads places its buffer.
        return self.threads.run(THREADS.maximum, self.library.dumped)

    def allocated(self, thread: int, call: Callable[[], int]) -> int:
        before = self.library.backtraces
        address = call()
        self.observation.samples = self.library.backtraces - before
        return address

    def keep(self, address: int, root: int, size_bytes: int, number: int) -> int:
        """Observe where a large block was placed, too."""
        is_moved = [block.address for block in self.blocks[root : root + 1]] != [address]
        capacity_bytes = super().keep(address, root, size_bytes, number)
        if is_moved and capacity_bytes >= LARGE_BYTES:
            self.observation.at = address % PAGE_BYTES
        return capacity_bytes

    def switch(self, *, is_on: bool) -> None:
        self.library.is_active = is_on

    def set_period(self, period_bytes: int) -> None:
        self.library.reset(period_bytes.bit_length() - 1)  # The period is a power of two.


if __name__ == "__main__":
    JemallocDriver.main()
