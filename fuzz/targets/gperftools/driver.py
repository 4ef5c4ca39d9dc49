"""The driver of `gperftools`: `python -m fuzz.targets.gperftools.driver NAME [LIBRARY]`.

A header frees the blocks of the last trace, and the library itself starts each thread's sampler
from the header's seed. Invariant: whether a block was sampled is read from the library's list of
live samples; no observation comes from a sampler's counter.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from typing import ClassVar, TextIO

from fuzz.protocol import actions
from fuzz.protocol.contract import Contract
from fuzz.protocol.target import Target
from fuzz.targets.allocators.block_driver import BlockDriver
from fuzz.targets.gperftools.contract import (
    BLOCK_BYTES_MAX,
    PAGE_BYTES,
    SETTINGS,
    as_documented,
    contract,
)
from fuzz.targets.gperftools.gperftools_library import Library, LibrarySampler
from fuzz.targets.process.driver import CarryOut
from fuzz.targets.process.serve import serve

ASK = 0xFFFFFFFF
ADDR_NO_RANDOMIZE = 0x0040000
"""See personality(2)."""


class GperftoolsDriver(BlockDriver[Library, LibrarySampler]):
    """gperftools."""

    settings = SETTINGS
    block_bytes_max = BLOCK_BYTES_MAX
    load = Library
    CARRY_OUT: ClassVar[CarryOut] = {
        **BlockDriver.CARRY_OUT,
        actions.ReadProfile: lambda driver, each: driver.read_profile(each.thread),
    }

    def __init__(self, name: str, *library_name: str) -> None:
        super().__init__(name, *library_name)
        self._sampled: set[int] = set()
        """The addresses of the blocks that were sampled."""
        self._live_samples = 0
        self._period_bytes = 0

    def find_sampler(self) -> LibrarySampler:
        return self.library.sampler_of_this_thread()

    def begin_samplers(self, chosen: Mapping[str, int]) -> Contract:
        self._sampled, self._live_samples = set(), 0
        self._period_bytes = chosen["period_bytes"]
        samplers = self.samplers[: chosen["threads"]]
        is_fresh = bool(chosen["fresh_threads"])
        for thread, sampler in enumerate(samplers):
            # The library creates the main thread's sampler before it has read its parameter.
            is_early = is_fresh and thread == 0
            self.library.period_bytes = 0 if is_early else self._period_bytes
            self.library.begin(sampler, chosen["sampler_seed"] + thread)
            sampler.initialized = not is_fresh
        self.library.period_bytes = self._period_bytes
        stated = contract(self.actions, chosen, [sampler.address for sampler in samplers])
        return as_documented(stated) if self.is_as_documented else stated

    def allocated(self, thread: int, call: Callable[[], int]) -> int:
        """Count how many more samples the library lists.

        A sampled block has pages of its own, so blocks that share a page are not looked up.
        """
        address = call()
        if address % PAGE_BYTES == 0:
            before = self._live_samples
            self._live_samples = len(self.library.live_samples(self.samplers[thread]))
            self.observation.samples = self._live_samples - before
            if self.observation.samples:
                self._sampled.add(address)
        return address

    def forget(self, address: int) -> None:
        self._live_samples -= address in self._sampled
        self._sampled.discard(address)

    def read_profile(self, thread: int) -> list[int]:
        sizes = self.library.live_samples(self.samplers[thread])
        return [len(sizes), sum(map(self.library.counted_bytes, sizes))]

    def switch(self, *, is_on: bool) -> None:
        self.library.period_bytes = self._period_bytes if is_on else 0

    def set_period(self, period_bytes: int) -> None:
        self._period_bytes = period_bytes
        if self.library.period_bytes:
            self.library.period_bytes = period_bytes


def serve_in_fixed_memory(target: Target, lines: TextIO, answers: TextIO) -> None:
    """Serve the target in this program, restarted without address randomisation.

    The library seeds a generator with its sampler's address (`reseeds`), which must be the same in
    each process. If the kernel refuses, each contract states the addresses that there are, and only
    what depends on them may differ from run to run.
    """
    personality = ctypes.CDLL(None).personality
    personality.argtypes = (ctypes.c_ulong,)
    present = personality(ASK)
    if present >= 0 and not present & ADDR_NO_RANDOMIZE:
        personality(present | ADDR_NO_RANDOMIZE)
        if personality(ASK) & ADDR_NO_RANDOMIZE:
            os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - this very program
    serve(target, lines, answers)


if __name__ == "__main__":
    GperftoolsDriver.main(serve_in_fixed_memory)
