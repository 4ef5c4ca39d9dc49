"""The bump-pointer nursery and its one check.

Invariants, between any two allocations:

    nursery_start <= nursery_free <= nursery_limit <= nursery_top
    nursery_limit == min(sample_point, nursery_top)    while sampling is on
    nursery_limit == nursery_top                       while it is off
    nursery_limit == nursery_free                      while a collection is due

    nursery_start  nursery_free   nursery_limit       nursery_top
    |    objects    |     free     |   reached after   |
    |               |              |   the next sample |

Pinned objects stay where they are when the nursery is emptied, and divide what is free into rooms.
`nursery_top` is the end of the present room; the obstacles say where the others are:

    nursery_start   nursery_top    obstacle          nursery_end
    |    a room     |  pinned  |  a room  |  pinned  |  a room  |

Only `allocate` runs for an allocation that fits, and it compares with one limit only. Whoever
wants to hear of an allocation, the minor collection (nursery full) or the sampler (sample point
passed), lowers that limit; `reserve` then finds out which of them it was. (Jung and Bolz-Tereick,
Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine, sections 2.2 and 3.2.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gcmodel.memory.objects import Object


class Nursery:
    """Memory for new objects. Addresses are in bytes; a moving nursery has two places in turn.

    `nursery_end` is where it ends, whatever is pinned in it. `filling` counts how often it was
    emptied. `obstacles` are the pinned objects beyond the present room, as pairs of their start and
    their end, the nearest last. `thread` is the mutator's thread that allocates, which makes a
    difference where threads have contexts of their own.
    """

    def __init__(self, size_bytes: int, moving: bool, reserve: Callable[[int], int]) -> None:
        self.nursery_start = 0
        self.nursery_end = size_bytes
        self.nursery_free = 0
        self.nursery_top = size_bytes
        self.nursery_limit = size_bytes
        self.filling = 0
        self.memory: dict[int, Object] = {}
        self.obstacles: list[tuple[int, int]] = []
        self.is_collection_due = False
        self.thread = 0
        self._size_bytes = size_bytes
        self._moving = moving
        self._reserve = reserve

    def allocate(self, size_bytes: int) -> int:
        """Reserve `size_bytes` (whole words); returns the address. (The paper's listing 1.)"""
        result = self.nursery_free
        self.nursery_free = result + size_bytes
        if self.nursery_free > self.nursery_limit:
            result = self._reserve(size_bytes)
        return result

    def set_limit(self, sample_point: int | None) -> None:
        """The fast path must stop where the room ends, at the sample point, or at once."""
        if self.is_collection_due:
            self.nursery_limit = self.nursery_free
        elif sample_point is None:
            self.nursery_limit = self.nursery_top
        else:
            self.nursery_limit = min(sample_point, self.nursery_top)

    def make_collection_due(self) -> None:
        """The next allocation collects, whatever room it finds."""
        self.is_collection_due = True
        self.nursery_limit = self.nursery_free

    def enter_next_room(self) -> int:
        """Go on behind the pinned object where the present room ends; how far that jump was."""
        left_at = self.nursery_free
        self.nursery_free = self.obstacles.pop()[1]
        self._end_room()
        return self.nursery_free - left_at

    def empty(self, pinned: Mapping[int, Object]) -> None:
        """All but the pinned objects is gone: it has been moved out, or it is dead.

        A moving nursery moves, unless something is pinned in it.
        """
        self.filling += 1
        self.memory = {**pinned}
        self.obstacles = []
        if pinned:
            for address in sorted(pinned, reverse=True):
                pinned[address].place = self.filling
                self.obstacles.append((address, address + pinned[address].size_bytes))
        elif self._moving:
            self.nursery_start = self._size_bytes - self.nursery_start
            self.nursery_end = self.nursery_start + self._size_bytes
        self.nursery_free = self.nursery_start
        self._end_room()
        self.nursery_limit = self.nursery_top
        self.is_collection_due = False

    def _end_room(self) -> None:
        self.nursery_top = self.obstacles[-1][0] if self.obstacles else self.nursery_end
