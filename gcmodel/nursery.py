"""The bump-pointer nursery and its one check.

Invariants, between any two allocations:

    0 <= nursery_free <= nursery_limit <= nursery_top
    nursery_limit == min(sample_point, nursery_top)    while sampling is on
    nursery_limit == nursery_top                       while it is off

    0          nursery_free   nursery_limit       nursery_top
    |  objects  |     free     |   reached after   |
    |           |              |   the next sample |

Only `allocate` runs for an allocation that fits, and it compares with one limit only. Whoever
wants to hear of an allocation, the minor collection (nursery full) or the sampler (sample point
passed), lowers that limit; `reserve` then finds out which of them it was. (Jung and Bolz-Tereick,
Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine, sections 2.2 and 3.2.)
"""

from __future__ import annotations

from collections.abc import Callable

from gcmodel.objects import Object


class Nursery:
    """Memory for new objects. Addresses are offsets in bytes from its start."""

    def __init__(self, size_bytes: int, reserve: Callable[[int], int]) -> None:
        self.nursery_free = 0
        self.nursery_top = size_bytes
        self.nursery_limit = size_bytes
        self.filling = 0
        self.memory: dict[int, Object] = {}
        self._reserve = reserve

    def allocate(self, size_bytes: int) -> int:
        """Reserve `size_bytes` (whole words); returns the address. (The paper's listing 1.)"""
        result = self.nursery_free
        self.nursery_free = result + size_bytes
        if self.nursery_free > self.nursery_limit:
            result = self._reserve(size_bytes)
        return result

    def empty(self) -> None:
        """Everything that was in the nursery is gone: it has been moved out, or it is dead."""
        self.filling += 1
        self.memory.clear()
        self.nursery_free = 0
        self.nursery_limit = self.nursery_top
