"""Where buffers lie in the nursery, and where objects lie in buffers.

    start      top       end      allocation_end
      |##########|.........|..............|      the thread's buffer; `end` is its sample point

The contract, the requests and full collections determine everything. The exception are buffers that
are taken anywhere: the target reports their size, and which of them collect.
(OpenJDK, memAllocator.cpp, threadLocalAllocBuffer.cpp.)
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from fuzz.protocol.counting import ThreadBuffers
from fuzz.protocol.observation import Observation

Placed: TypeAlias = tuple[Literal["buffer", "new buffer", "outside"], int | None, bool]
"""The first three fields of a Place."""
WORD_BYTES = 8


@attrs.define
class Eden:
    """The part of the nursery from which all threads take their buffers."""

    size_bytes: int
    taken_bytes: int = 0
    buffers: list[ThreadBuffer] = attrs.Factory(list)
    """Those of all threads."""

    @property
    def free_bytes(self) -> int:
        """What is left."""
        return self.size_bytes - self.taken_bytes

    def take(self, size_bytes: int) -> int:
        """Take bytes; returns their offset."""
        at = self.taken_bytes
        self.taken_bytes += size_bytes
        return at

    def collect(self) -> None:
        """A collection empties it. Then no thread has a buffer."""
        self.taken_bytes = 0
        for buffer in self.buffers:
            buffer.retire()


class ThreadBuffer:
    """A thread's buffer. Offsets are from the start of eden, or of a buffer taken anywhere."""

    def __init__(self, rule: ThreadBuffers, eden: Eden) -> None:
        self._rule = rule
        self.eden = eden
        eden.buffers.append(self)
        self.start = self.top = self.end = self.allocation_end = 0
        self._waste_limit_bytes = 0

    @property
    def left_bytes(self) -> int:
        """What is left before its end."""
        return self.end - self.top

    @property
    def pointers(self) -> list[int] | None:
        """The expected `tlab` of an observation; None if the thread has no buffer."""
        pointers = [self.start, self.top, self.end, self.allocation_end]
        return pointers if self.allocation_end else None

    def end_at_sample(self, until_bytes: int) -> bool:
        """End it where the next sample is due, in whole words. Returns False if it ends sooner."""
        until_bytes = max(until_bytes, 0) // WORD_BYTES * WORD_BYTES
        if until_bytes >= self.left_bytes:
            return False
        self.end = self.top + until_bytes
        return True

    def retire(self) -> None:
        """The thread has no buffer any more."""
        self.start = self.top = self.end = self.allocation_end = 0

    def place(
        self, size_bytes: int, is_on: bool, reported: Observation | None
    ) -> tuple[Placed, bool]:
        """Place an object; returns where, and whether it did not fit before the end.

        `reported` is what the target reported, if buffers are taken anywhere.
        """
        if size_bytes <= self.left_bytes:
            return ("buffer", self._push(size_bytes), False), False
        if is_on:
            self.end = self.allocation_end
            if size_bytes <= self.left_bytes:
                return ("buffer", self._push(size_bytes), False), True
        if self._begin_another(size_bytes, reported):
            collected = reported is not None and reported.minors > 0
            return ("new buffer", self._push(size_bytes), collected), True
        return self._place_outside(size_bytes, reported), True

    def _push(self, size_bytes: int) -> int:
        at = self.top
        self.top += size_bytes
        return at

    def _place_outside(self, size_bytes: int, reported: Observation | None) -> Placed:
        eden = self.eden
        collected = eden.free_bytes < size_bytes if reported is None else reported.minors > 0
        if collected:
            eden.collect()
        at = eden.take(size_bytes)
        return "outside", at if reported is None else None, collected

    def _begin_another(self, size_bytes: int, reported: Observation | None) -> bool:
        """Whether a new buffer begins for an object that does not fit in this one."""
        rule, eden = self._rule, self.eden
        if self.left_bytes > self._waste_limit_bytes:
            self._waste_limit_bytes += rule.waste_increment_bytes
            return False
        self.retire()
        if reported is not None:
            return self._take_reported(reported)
        wanted_bytes = min(eden.free_bytes, rule.desired_bytes + size_bytes)
        if wanted_bytes < max(rule.least_bytes, size_bytes + rule.reserve_bytes):
            return False
        start = eden.take(wanted_bytes)
        self._begin(start, start + wanted_bytes - rule.reserve_bytes)
        return True

    def _take_reported(self, reported: Observation) -> bool:
        if reported.buffer is None:
            return False
        if reported.minors:
            self.eden.collect()
        self._begin(0, reported.buffer)
        self.eden.take(reported.buffer)
        return True

    def _begin(self, start: int, end: int) -> None:
        self._waste_limit_bytes = self._rule.waste_bytes
        self.start, self.top, self.end, self.allocation_end = start, start, end, end
