"""A heap whose arrays are two blocks each, as those of V8 are (`new Array(n)`).

    | items 24 + 8 n |    one check, and counted by itself
    | array 32 |          another one, maybe after a collection

Invariant: the items come first. The blocks lie side by side only by chance. What the mutator does
with an array it does with the second block. The first one only takes room here, and is dropped.
"""

from collections.abc import Iterator, Sequence

import attrs

from gcmodel.collector.heap import Heap, Parts
from gcmodel.memory.layout import WORD_BYTES, Kind
from gcmodel.sampling.tlab import CountingAllocated, TlabAllocation, TlabNursery

ITEMS_BYTES, ARRAY_BYTES = 24, 32


class DividedAllocation(TlabAllocation):
    """The slow paths, and what comes before them for an object of several blocks."""

    def reserve_blocks(self, sizes: Sequence[int]) -> Iterator[int]:
        """Reserve blocks of these sizes, each when the one before it is in its place."""
        return map(self._heap.nursery.allocate, sizes)


@attrs.frozen
class DividedParts(Parts):
    """The parts of such a heap, whose threads have buffers as in HotSpot 25."""

    nursery: type[TlabNursery] = TlabNursery
    allocation: type[DividedAllocation] = DividedAllocation
    sampling: type[CountingAllocated] = CountingAllocated


class DividedHeap(Heap):
    """The heap. Nothing lies outside its nursery."""

    allocation: DividedAllocation

    def allocate_array(self, length: int, nonmovable: bool = False) -> tuple[int, int | None]:
        """An array of `length` null references. A non-movable one is like any other."""
        sizes = ITEMS_BYTES + WORD_BYTES * length, ARRAY_BYTES
        addresses = self.allocation.reserve_blocks(sizes)
        self._put(next(addresses), Kind.STRING, sizes[0], 0, 0)
        address = next(addresses)
        self.roots.append(self._put(address, Kind.ARRAY, ARRAY_BYTES, length, length))
        return sum(sizes), address - self.nursery.nursery_start
