"""A driver of the C library's allocator, which damages a block. The argument says when:

- never
- allocation: an allocation clears a byte of the block before
- resize: a resized block keeps its first 8 bytes only
- beyond: an allocation clears the last usable byte of the block before, which was not requested
- calloc: a block of calloc has another byte than zero
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping

from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import layout_of_blocks
from fuzz.protocol.observation import Observation
from fuzz.targets.allocators.block_driver import BlockDriver
from fuzz.targets.allocators.stock_library import Allocator

KEPT_BYTES = 8


class DamagingAllocator(Allocator):
    def __init__(self, when: str) -> None:
        super().__init__(ctypes.PyDLL(None), "", "malloc_usable_size")
        self.version = when
        self._when = when
        self.before = 0

    def malloc(self, size_bytes: int) -> int:
        if self.before and self._when in ("allocation", "beyond"):
            last = self.usable_bytes(self.before) - 1
            place = KEPT_BYTES + 1 if self._when == "allocation" else last
            ctypes.memset(self.before + place, 0, 1)
        self.before = super().malloc(size_bytes)
        return self.before

    def calloc(self, count: int, size_bytes: int) -> int:
        address = super().calloc(count, size_bytes)
        if self._when == "calloc" and count * size_bytes > KEPT_BYTES:
            ctypes.memset(address + KEPT_BYTES, 1, 1)
        return address

    def realloc(self, address: int, size_bytes: int) -> int:
        self.before = 0
        address = super().realloc(address, size_bytes)
        if self._when == "resize" and size_bytes > KEPT_BYTES:
            ctypes.memset(address + KEPT_BYTES, 0, size_bytes - KEPT_BYTES)
        return address


class DamagingDriver(BlockDriver[DamagingAllocator, None]):
    settings = ()
    block_bytes_max = 2**16
    load = DamagingAllocator

    def find_sampler(self) -> None:
        return None

    def begin_samplers(self, chosen: Mapping[str, int]) -> Contract:
        return Contract(
            nursery_bytes=0,
            layout=layout_of_blocks(self.block_bytes_max),
            actions=("malloc", "calloc", "realloc", "free", "check_contents"),
            observes=("contents",),
            contents="bytes",
        )

    def perform(self, action: Action) -> Observation:
        """Sizes are not observed: those of the C library depend on the blocks beside."""
        observation = super().perform(action)
        observation.size = None
        return observation

    def allocated(self, thread: int, call: Callable[[], int]) -> int:
        return call()

    def forget(self, address: int) -> None:
        if address == self.library.before:
            self.library.before = 0

    def set_period(self, period_bytes: int) -> None:
        raise NotImplementedError


if __name__ == "__main__":
    sys.argv.insert(1, "damaging")
    DamagingDriver.main()
