"""The bytes that a block occupies, and the bytes that the sampler counts, in each allocator.

Invariant: a block has room for the requested bytes, and a block of 0 bytes has room too.
"""

from abc import ABC, abstractmethod


def rounded_up(size_bytes: int, multiple_bytes: int) -> int:
    """The least multiple that is not below `size_bytes`."""
    return -(-size_bytes // multiple_bytes) * multiple_bytes


class Sizes(ABC):
    """An allocator's size classes, and how its sampler counts them."""

    SMALL_BYTES_MAX: int
    """The largest class that a thread's cache holds."""

    @abstractmethod
    def usable_bytes(self, requested_bytes: int) -> int:
        """The room of a block, sampled or not."""

    def counted_bytes(self, requested_bytes: int) -> int:
        """The bytes that the sampler counts. By default, the whole class."""
        return self.usable_bytes(requested_bytes)

    def resizing_bytes(self, usable_bytes: int, requested_bytes: int) -> int | None:
        """The bytes to request when a block is resized, or None to keep it without counting it.

        By default every resized block counts like a new one, even if it stays in place.
        """
        return requested_bytes


class JemallocSizes(Sizes):
    """Four classes for each doubling; the usable size counts. (jemalloc 5.3.0, sz.h.)"""

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
    the power of two below, or of a page if that is less, up to 256 KiB. gperftools also merges two
    classes if both waste equally little of their pages, which is not modelled.
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
        """The class, or the requested bytes of a block larger than all classes."""
        if requested_bytes > self.SMALL_BYTES_MAX:
            return requested_bytes
        return self.usable_bytes(requested_bytes)

    def resizing_bytes(self, usable_bytes: int, requested_bytes: int) -> int | None:
        """Keep a block that does not grow or lose more than half. (do_realloc_with_callback.)

        A block that grows, grows by a quarter at least, so that growing step by step is not slow.
        """
        if usable_bytes // 2 <= requested_bytes <= usable_bytes:
            return None
        if requested_bytes > usable_bytes:
            return max(requested_bytes, usable_bytes + usable_bytes // 4)
        return requested_bytes


class TcmallocSizes(GperftoolsSizes):
    """The requested bytes count, and one more. (google/tcmalloc, docs/sampling.md.)

    So a block of 0 bytes may be sampled too. TCMalloc generates its classes, and they change from
    version to version. Those of gperftools replace them here, since any classes would do.
    """

    def counted_bytes(self, requested_bytes: int) -> int:
        return requested_bytes + 1
