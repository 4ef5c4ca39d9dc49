"""Where buffers lie in the nursery, and objects in buffers.

    start      top       end      allocation_end
      |##########|.........|..............|      the thread's buffer; `end` is its sample point

All follows from the contract, the requests and full collections, except for new buffers that are
taken anywhere: the target reports how large they are, and when that collects.
(OpenJDK, memAllocator.cpp, threadLocalAllocBuffer.cpp.)
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from fuzz.protocol.counting import Buffers
from fuzz.protocol.observation import Observation

Placed: TypeAlias = tuple[Literal["buffer", "new buffer", "outside"], int | None, bool]
"""How a Place begins."""
WORD_BYTES = 8


@attrs.define
class Eden:
    """The part of the nursery from which all threads take their buffers."""

    size_bytes: int
    taken_bytes: int = 0
    buffers: list[ThreadBuffer] = attrs.Factory(list)
    """Of all threads."""

    @property
    def free_bytes(self) -> int:
        """What is left."""
        return self.size_bytes - self.taken_bytes

    def take(self, size_bytes: int) -> int:
        """Take bytes; returns where they begin."""
        at = self.taken_bytes
        self.taken_bytes += size_bytes
        return at

    def collect(self) -> None:
        """A collection leaves nothing in it, and no thread has a buffer."""
        self.taken_bytes = 0
        for buffer in self.buffers:
            buffer.retire()


class ThreadBuffer:
    """A thread's buffer. Offsets are from the start of eden, or of a buffer that lies anywhere."""

    def __init__(self, rule: Buffers, eden: Eden) -> None:
        self._rule = rule
        self.eden = eden
        eden.buffers.append(self)
        self.start = self.top = self.end = self.allocation_end = 0
        self._waste_limit_bytes = 0

    @property
    def left_bytes(self) -> int:
        """What it has left before its end."""
        return self.end - self.top

    @property
    def pointers(self) -> list[int] | None:
        """What an observation's `tlab` must say; None if the thread has no buffer."""
        pointers = [self.start, self.top, self.end, self.allocation_end]
        return pointers if self.allocation_end else None

    def end_at_sample(self, until_bytes: int) -> bool:
        """End it where the next sample is due, in whole words. False if it ends sooner."""
        until_bytes = max(until_bytes, 0) // WORD_BYTES * WORD_BYTES
        if until_bytes >= self.left_bytes:
            return False
        self.end = self.top + until_bytes
        return True

    def retire(self) -> None:
        """The thread has no buffer."""
        self.start = self.top = self.end = self.allocation_end = 0

    def place(self, size_bytes: int, is_on: bool, heard: Observation | None) -> tuple[Placed, bool]:
        """Place an object; returns where, and whether it did not fit before the end.

        `heard` is what the target reported, where buffers are taken anywhere.
        """
        if size_bytes <= self.left_bytes:
            return ("buffer", self._push(size_bytes), False), False
        if is_on:
            self.end = self.allocation_end
            if size_bytes <= self.left_bytes:
                return ("buffer", self._push(size_bytes), False), True
        if self._begin_another(size_bytes, heard):
            collected = heard is not None and heard.minors > 0
            return ("new buffer", self._push(size_bytes), collected), True
        return self._place_outside(size_bytes, heard), True

    def _push(self, size_bytes: int) -> int:
        at = self.top
        self.top += size_bytes
        return at

    def _place_outside(self, size_bytes: int, heard: Observation | None) -> Placed:
        eden = self.eden
        collected = eden.free_bytes < size_bytes if heard is None else heard.minors > 0
        if collected:
            eden.collect()
        at = eden.take(size_bytes)
        return "outside", at if heard is None else None, collected

    def _begin_another(self, size_bytes: int, heard: Observation | None) -> bool:
        """Whether a new buffer begins for an object that does not fit in this one."""
        rule, eden = self._rule, self.eden
        if self.left_bytes > self._waste_limit_bytes:
            self._waste_limit_bytes += rule.waste_increment_bytes
            return False
        self.retire()
        if heard is not None:
            return self._take_reported(heard)
        wanted_bytes = min(eden.free_bytes, rule.desired_bytes + size_bytes)
        if wanted_bytes < max(rule.least_bytes, size_bytes + rule.reserve_bytes):
            return False
        start = eden.take(wanted_bytes)
        self._begin(start, start + wanted_bytes - rule.reserve_bytes)
        return True

    def _take_reported(self, heard: Observation) -> bool:
        if heard.buffer is None:
            return False
        if heard.minors:
            self.eden.collect()
        self._begin(0, heard.buffer)
        self.eden.take(heard.buffer)
        return True

    def _begin(self, start: int, end: int) -> None:
        self._waste_limit_bytes = self._rule.waste_bytes
        self.start, self.top, self.end, self.allocation_end = start, start, end, end
