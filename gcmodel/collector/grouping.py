"""A heap that allocates several objects at once, as compilers fold neighbouring allocations.

    nursery_free                     one check for all
    | node 32    | array 24 | string 40     |
                      ^ the sampled byte: the array is sampled

Invariants: the members lie side by side, a collection comes before the first of them or not at all,
and a sample is of the member with the sampled byte. (Jung and Bolz-Tereick, Low Overhead Allocation
Sampling in a Garbage Collected Virtual Machine, section 3.5, promise the type and the survival of
the sampled object.)
"""

from collections.abc import Sequence

import attrs

from gcmodel.collector.heap import Heap, Parts
from gcmodel.memory.layout import (
    NODE_BYTES,
    NODE_REFERENCES,
    Kind,
    array_bytes,
    rounded,
    string_bytes,
)
from gcmodel.sampling.slow_path import Allocation


class GroupAllocation(Allocation):
    """The slow paths, which know the members of the group that is being allocated."""

    _sizes: Sequence[int] = ()

    def reserve_group(self, sizes: Sequence[int]) -> int:
        """Return an address for several objects of these sizes, after one check for all of them."""
        self._sizes = sizes
        address = self._heap.nursery.allocate(sum(sizes))
        self._sizes = ()
        return address

    def _collect(self, collections: int) -> int:
        """Make room. What a callback allocates meanwhile is not of the group."""
        sizes, self._sizes = self._sizes, ()
        collections = super()._collect(collections)
        self._sizes = sizes
        return collections

    def record(self, address: int, size_bytes: int, passed: Sequence[int]) -> None:
        """Record the samples of each member, or of a single object."""
        end = address + size_bytes
        for member_bytes in reversed(self._sizes or (size_bytes,)):
            behind_bytes = address + size_bytes - end
            end -= member_bytes
            count = sum(behind_bytes < each <= behind_bytes + member_bytes for each in passed)
            self._heap.sampling.record(end, count, member_bytes)


@attrs.frozen
class GroupingParts(Parts):
    """The parts of a heap that allocates groups."""

    allocation: type[GroupAllocation] = GroupAllocation


class GroupingHeap(Heap):
    """The heap. No group is as large as a large object."""

    allocation: GroupAllocation

    def allocate_group(self, members: Sequence[tuple[Kind, int]]) -> tuple[int, int]:
        """Several objects, each of a kind and with a node's integer, or a length.

        Each is appended to the roots. Returns their bytes, and the first one's offset.
        """
        sizes = [rounded(_raw_bytes(kind, number)) for kind, number in members]
        first = address = self.allocation.reserve_group(sizes)
        for (kind, number), size_bytes in zip(members, sizes, strict=True):
            references = NODE_REFERENCES if kind is Kind.NODE else number * (kind is Kind.ARRAY)
            self.roots.append(self._put(address, kind, size_bytes, number, references))
            address += size_bytes
        return sum(sizes), first - self.nursery.nursery_start


def _raw_bytes(kind: Kind, number: int) -> int:
    if kind is Kind.NODE:
        return NODE_BYTES
    return array_bytes(number) if kind is Kind.ARRAY else string_bytes(number)
