"""A driver of the C library's allocator, which damages a block. The argument says when:

- never
- allocation: an allocation clears a byte of the block before
- beyond: an allocation clears the last usable byte of the block before, which was not requested
- overlap: a small allocation takes the last bytes of the block before
- calloc: a block of calloc has another byte than zero
- calloc-page: the last page of a block of calloc is not zero
- resize: a resized block keeps its first 8 bytes only
- head: a resized block loses its first byte
- tail: a resized block loses the last byte that it keeps
- run: a resized block loses HOLE_BYTES in its middle
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
from fuzz.targets.allocators.pieces import LINE_DISTANCE_BYTES
from fuzz.targets.allocators.stock_library import Allocator

KEPT_BYTES = 8
PAGE_BYTES = 4096
SHARED_BYTES = 16
HOLE_BYTES = LINE_DISTANCE_BYTES


class DamagingAllocator(Allocator):
    def __init__(self, when: str) -> None:
        super().__init__(ctypes.PyDLL(None), "", "malloc_usable_size")
        self.version = when
        self._when = when
        self.before = 0
        self._requested: dict[int, int] = {}
        """The requested bytes of each block."""
        self._shared = 0
        """The address of the block that overlaps another one."""
        self._usable, self.usable_bytes = self.usable_bytes, self._usable_of

    def _usable_of(self, address: int) -> int:
        return SHARED_BYTES if address == self._shared else self._usable(address)

    def malloc(self, size_bytes: int) -> int:
        end = self.before + self.usable_bytes(self.before) if self.before else 0
        if end and self._when == "overlap" and size_bytes <= SHARED_BYTES:
            self._shared = end - SHARED_BYTES
            return self._shared
        if end and self._when in ("allocation", "beyond"):
            place = self.before + KEPT_BYTES + 1 if self._when == "allocation" else end - 1
            ctypes.memset(place, 0, 1)
        self.before = super().malloc(size_bytes)
        self._requested[self.before] = size_bytes
        return self.before

    def calloc(self, count: int, size_bytes: int) -> int:
        address = super().calloc(count, size_bytes)
        length = count * size_bytes
        if self._when == "calloc" and length > KEPT_BYTES:
            ctypes.memset(address + KEPT_BYTES, 1, 1)
        if self._when == "calloc-page" and length >= PAGE_BYTES:
            ctypes.memset(address + length - PAGE_BYTES, 1, PAGE_BYTES)
        self._requested[address] = length
        return address

    def realloc(self, address: int, size_bytes: int) -> int:
        self.before = 0
        kept_bytes = min(self._requested.pop(address), size_bytes)
        address = super().realloc(address, size_bytes)
        self._requested[address] = size_bytes
        if self._when == "resize" and size_bytes > KEPT_BYTES:
            ctypes.memset(address + KEPT_BYTES, 0, size_bytes - KEPT_BYTES)
        if self._when == "head" and kept_bytes:
            self._change(address)
        if self._when == "tail" and kept_bytes:
            self._change(address + kept_bytes - 1)
        if self._when == "run" and kept_bytes >= HOLE_BYTES:
            ctypes.memset(address + (kept_bytes - HOLE_BYTES) // 2, 0, HOLE_BYTES)
        return address

    def _change(self, address: int) -> None:
        (byte,) = self.read(address, 1)
        self.write(address, bytes([byte ^ 1]))


class DamagingDriver(BlockDriver[DamagingAllocator, None]):
    settings = ()
    block_bytes_max = 2**22
    load = DamagingAllocator

    def find_sampler(self) -> None:
        return None

    def begin_samplers(self, chosen: Mapping[str, int]) -> Contract:
        self.library.before = 0  # The header has freed it.
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
