"""What a sampler estimates, counted: every byte that is allocated, by its type.

The count stands in the way of each allocation, which is what sampling avoids; so this heap is to
compare profiles with, and not for making them.
"""

from __future__ import annotations

from collections import Counter

from gcmodel.collector.heap import Heap
from gcmodel.memory.configuration import Configuration
from gcmodel.memory.layout import Kind


class ExactHeap(Heap):
    """A heap that counts. `bytes_by_type` has the bytes that a sampler counts, by type's name."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.bytes_by_type: Counter[str] = Counter()

    def allocate_old_string(self, length: int) -> tuple[int, int | None]:
        placed = super().allocate_old_string(length)
        self._count(Kind.STRING, placed[0])
        return placed

    def _allocate(
        self, kind: Kind, raw_bytes: int, number: int, length: int, nonmovable: bool
    ) -> tuple[int, int | None]:
        placed = super()._allocate(kind, raw_bytes, number, length, nonmovable)
        self._count(kind, placed[0])
        return placed

    def _count(self, kind: Kind, counted_bytes: int) -> None:
        self.bytes_by_type[kind.name.lower()] += counted_bytes
