"""Known bugs of an allocation of several objects, and of an object of several blocks.

Each subclass overrides the method with the mistake, and a comment states the correct behaviour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from fuzz.targets.bugs.known_bug import Host
from gcmodel.collector.divided import DividedAllocation, DividedParts
from gcmodel.collector.grouping import GroupAllocation, GroupingParts
from gcmodel.memory.layout import WORD_BYTES

GROUPS = Host("reference-groups", GroupingParts())
UNFOLDED = Host("reference-unfolded", DividedParts())
OURS = "our own"


@GROUPS.bug("group-named-first", "PyPy's sampling fork, rewrite.py", ("members", "survival"), 2)
class GroupNamedFirst(GroupAllocation):
    """A sample names the first member of a group, whichever member has the sampled byte."""

    def record(self, address: int, size_bytes: int, passed: Sequence[int]) -> None:
        # Correct: for each sampled byte, the address of the member that has it.
        self._heap.sampling.record(address, len(passed), size_bytes)


@GROUPS.bug("group-member-sampled-once", OURS, ("members", "survival"), 2)
class GroupMemberSampledOnce(GroupAllocation):
    """The second sample of a group is counted, and never reported."""

    def record(self, address: int, size_bytes: int, passed: Sequence[int]) -> None:
        if len(self._sizes) > 1:
            passed = passed[:1]  # Correct: all of them.
        super().record(address, size_bytes, passed)


@GROUPS.bug("group-one-word-short", OURS, ("pointers", "sampling"), 1)
class GroupOneWordShort(GroupAllocation):
    """A group of several members reserves one word less than they take."""

    def reserve_group(self, sizes: Sequence[int]) -> int:
        if len(sizes) > 1:
            sizes = [*sizes[:-1], sizes[-1] - WORD_BYTES]  # Correct: the sizes as they are.
        return super().reserve_group(sizes)


@GROUPS.bug("group-reserved-in-parts", OURS, ("pointers", "placement", "heap", "members"), 1)
class GroupReservedInParts(GroupAllocation):
    """Each member has its own check, so a collection may come in the middle of a group."""

    def reserve_group(self, sizes: Sequence[int]) -> int:
        # Correct: one check for all. An address from before a collection has no meaning after it.
        address, *_ = [super(GroupReservedInParts, self).reserve_group([each]) for each in sizes]
        return address


@GROUPS.bug("group-checked-by-first", OURS, ("pointers", "sampling"), 2)
class GroupCheckedByFirst(GroupAllocation):
    """The check against the limit is for the first member, and the others are added behind it."""

    def reserve_group(self, sizes: Sequence[int]) -> int:
        address = super().reserve_group(sizes[:1])
        self._heap.nursery.nursery_free += sum(sizes[1:])  # Correct: before the check.
        return address


@UNFOLDED.bug("array-reserved-at-once", OURS, ("places", "sampling"), 1)
class ArrayReservedAtOnce(DividedAllocation):
    """Both blocks of an array have one check, and count as one allocation."""

    def reserve_blocks(self, sizes: Sequence[int]) -> Iterator[int]:
        # Correct: a check for each.
        address = self._heap.nursery.allocate(sum(sizes))
        return accumulate(sizes[:-1], initial=address)


@UNFOLDED.bug("array-before-its-items", OURS, ("places", "sampling", "heap"), 1)
class ArrayBeforeItsItems(DividedAllocation):
    """The block of an array is reserved before that of its items."""

    def reserve_blocks(self, sizes: Sequence[int]) -> Iterator[int]:
        # Correct: in this order.
        return reversed([*super().reserve_blocks(sizes[::-1])])
