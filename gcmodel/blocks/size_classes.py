"""What a block occupies, and what of it counts, in each allocator.

Invariant: a block has room for at least what was asked for, and one for 0 bytes has room too.
Nothing here remembers anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


def rounded_up(size_bytes: int, multiple_bytes: int) -> int:
    """The least multiple that is not below `size_bytes`."""
    return -(-size_bytes // multiple_bytes) * multiple_bytes


class Sizes(ABC):
    """An allocator's size classes, and what they mean for its sampler."""

    SMALL_BYTES_MAX: int
    """The largest class that a thread's cache holds."""

    @abstractmethod
    def usable_bytes(self, requested_bytes: int) -> int:
        """What a block has room for, whether it is sampled or not."""

    def counted_bytes(self, requested_bytes: int) -> int:
        """What the sampler counts for it: as it is here, all of its class."""
        return self.usable_bytes(requested_bytes)

    def resizing_bytes(self, usable_bytes: int, requested_bytes: int) -> int | None:
        """What is asked for when a block with room for `usable_bytes` is resized.

        None if it stays as it is, and nothing counts. As it is here, every resized block counts
        like a new one, also one that stays in its place.
        """
        return requested_bytes


class JemallocSizes(Sizes):
    """Four classes for each doubling, and the usable size counts. (jemalloc 5.3.0, sz.h.)"""

    SMALL_BYTES_MAX = 14336
    TINY_BYTES = 8
    QUANTUM_LG = 4

    def usable_bytes(self, requested_bytes: int) -> int:
        """8, or a multiple of 16 with at most three significant bits."""
        if requested_bytes <= self.TINY_BYTES:
            return self.TINY_BYTES
        ceiling_lg = (2 * requested_bytes - 1).bit_length() - 1
        step_lg = max(self.QUANTUM_LG, ceiling_lg - 3)
        return rounded_up(requested_bytes, 1 << step_lg)


class GperftoolsSizes(Sizes):
    """Eight classes for each doubling, whole pages above them. (gperftools 2.10, SizeMap.)

    The classes are those of AlignmentForSize: 8, multiples of 16 up to 128, then of an eighth of
    the power of two below, or of a page if that is less, up to 256 KiB. Where two of these waste
    equally little of their pages, gperftools merges them, which is not done here.
    """

    SMALL_BYTES_MAX = 256 * 1024
    PAGE_BYTES = 8192
    TINY_BYTES = 8
    QUANTUM_BYTES = 16

    def usable_bytes(self, requested_bytes: int) -> int:
        if requested_bytes <= self.TINY_BYTES:
            return self.TINY_BYTES
        if requested_bytes > self.SMALL_BYTES_MAX:
            return rounded_up(requested_bytes, self.PAGE_BYTES)
        eighth_bytes = (1 << (requested_bytes - 1).bit_length() - 1) // 8
        step_bytes = min(max(eighth_bytes, self.QUANTUM_BYTES), self.PAGE_BYTES)
        return rounded_up(requested_bytes, step_bytes)

    def counted_bytes(self, requested_bytes: int) -> int:
        """The class; a block that is larger than all classes counts as it was asked for."""
        if requested_bytes > self.SMALL_BYTES_MAX:
            return requested_bytes
        return self.usable_bytes(requested_bytes)

    def resizing_bytes(self, usable_bytes: int, requested_bytes: int) -> int | None:
        """A block stays if it would not grow, nor lose more than half. (do_realloc_with_callback.)

        One that grows grows by a quarter at least, so that growing step by step is not slow.
        """
        if usable_bytes // 2 <= requested_bytes <= usable_bytes:
            return None
        if requested_bytes > usable_bytes:
            return max(requested_bytes, usable_bytes + usable_bytes // 4)
        return requested_bytes


class TcmallocSizes(GperftoolsSizes):
    """What was asked for counts, and one byte more. (google/tcmalloc, docs/sampling.md.)

    So a block of 0 bytes may be sampled too. Its own classes are generated, and change from version
    to version; what samples stand for holds for any, and those of gperftools stand in for them.
    """

    def counted_bytes(self, requested_bytes: int) -> int:
        return requested_bytes + 1
