"""The bump-pointer nursery and its one check.

Invariants, between any two allocations:

    nursery_start <= nursery_free <= nursery_limit <= nursery_top
    nursery_limit == min(sample_point, nursery_top)    while sampling is on
    nursery_limit == nursery_top                       while it is off
    nursery_limit == nursery_free                      while a collection is due

    nursery_start  nursery_free   nursery_limit       nursery_top
    |    objects    |     free     |   reached after   |
    |               |              |   the next sample |

Pinned objects stay in place when the nursery is emptied, and divide the free memory into rooms.
`nursery_top` is the end of the current room. The obstacles are the pinned objects after it:

    nursery_start   nursery_top    obstacle          nursery_end
    |    a room     |  pinned  |  a room  |  pinned  |  a room  |

An allocation that fits runs `allocate` alone, which compares with one limit. The sampler and the
minor collection both lower that limit to be called. `reserve` then finds out which one it was.
(Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine,
sections 2.2 and 3.2.)
"""

from collections.abc import Callable, Mapping

from gcmodel.memory.objects import Object


class Nursery:
    """Memory for new objects. Addresses are in bytes. A moving nursery alternates two places.

    `filling` counts how often it was emptied. `obstacles` has the start and end of each pinned
    object after the current room, the nearest last. `thread` is the thread that allocates; only
    subclasses with a buffer for each thread use it.
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
        """Reserve `size_bytes` (whole words); return the address. (Listing 1.)"""
        result = self.nursery_free
        self.nursery_free = result + size_bytes
        if self.nursery_free > self.nursery_limit:
            result = self._reserve(size_bytes)
        return result

    def set_limit(self, sample_point: int | None) -> None:
        """Set where the fast path stops: at the room's end, the sample point, or at once."""
        if self.is_collection_due:
            self.nursery_limit = self.nursery_free
        elif sample_point is None:
            self.nursery_limit = self.nursery_top
        else:
            self.nursery_limit = min(sample_point, self.nursery_top)

    def make_collection_due(self) -> None:
        """Make the next allocation collect, even if it would fit."""
        self.is_collection_due = True
        self.nursery_limit = self.nursery_free

    def enter_next_room(self) -> int:
        """Continue behind the pinned object at the room's end; return the length of the jump."""
        left_at = self.nursery_free
        self.nursery_free = self.obstacles.pop()[1]
        self._end_room()
        return self.nursery_free - left_at

    def empty(self, pinned: Mapping[int, Object]) -> None:
        """Drop all objects but the pinned ones. A moving nursery moves if nothing is pinned."""
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
