"""HotSpot's buffers: where each object lies, when eden is collected, and which bytes are charged.

    start      top       end      allocation_end
      |##########|.........|..............|      the thread's buffer; `end` is its sample point
                 |<-------->|  until_bytes, in whole words

All follows from the contract, the actions and full collections, but for new buffers that are taken
anywhere: then it is told how large they are, and when that collects. What is charged ahead (11 to
24) is charged when `end` is put, for bytes that may never be allocated, so that a collection, which
throws the buffer away, has them counted all the same.
(OpenJDK, memAllocator.cpp, threadLocalAllocBuffer.cpp, threadHeapSampler.cpp.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs
from typing_extensions import override

from fuzz.oracles.clock import NONE, Clock, DrawnOnceClock, ExpectedSample, Place, new_distances
from fuzz.oracles.distances import Distances
from fuzz.protocol.contract import Buffers, Contract, SamplingRule
from fuzz.protocol.observation import Observation

WORD_BYTES = 8
Placed: TypeAlias = tuple[Literal["buffer", "new buffer", "outside"], int | None, bool]
"""How a Place begins."""


@attrs.define
class Eden:
    """Where all threads take their buffers: the bytes that are taken, and who takes them."""

    size_bytes: int
    taken_bytes: int = 0
    clocks: list[BufferClock] = attrs.Factory(list)
    """Of all threads."""

    @property
    def free_bytes(self) -> int:
        """What is left."""
        return self.size_bytes - self.taken_bytes

    def take(self, size_bytes: int) -> int:
        """Take so many bytes; returns where they begin."""
        at = self.taken_bytes
        self.taken_bytes += size_bytes
        return at

    def collect(self) -> None:
        """Nothing is left in it, and nobody has a buffer."""
        self.taken_bytes = 0
        for clock in self.clocks:
            clock.retire()


class BufferClock(DrawnOnceClock):
    """A thread's, which allocates in buffers.

    Offsets are from the start of eden, or of a buffer that lies anywhere.
    """

    def __init__(
        self, rule: SamplingRule, thread: int, distances: Distances, buffers: Buffers, eden: Eden
    ) -> None:
        super().__init__(rule, thread, distances)
        self._buffers = buffers
        self._eden = eden
        eden.clocks.append(self)
        self._start = self._top = self._end = self._allocation_end = 0
        self._waste_limit_bytes = 0
        self._charged_bytes = 0
        self._was_slow = self._is_outside = self._is_new = self._is_in_callback = False
        self._collections_in_callback = 0
        self._heard: Observation | None = None
        # What the last allocation was counted as; 0 if its buffer had room for it.
        self.counted_bytes = 0

    @override
    def end_context(self) -> None:
        """A collection ends that of all threads, and leaves eden empty."""
        self._eden.collect()

    def retire(self) -> None:
        """The thread has no buffer."""
        self._start = self._top = self._end = self._allocation_end = self.room_bytes = 0

    @override
    def begin_thread(self, seed: int | None, period_bytes: int | None) -> None:
        super().begin_thread(seed, period_bytes)
        self._charged_bytes = 0
        if self._buffers.charges == "allocated":
            self.until_bytes -= self._buffers.birth_bytes

    @override
    def hear(self, observation: Observation) -> None:
        if self._buffers.taken == "anywhere":
            self._heard = observation

    @override
    def allocate(
        self, size_bytes: int, outside: bool, period_bytes: int | None
    ) -> Sequence[ExpectedSample]:
        self._collections_in_callback = self.counted_bytes = 0
        (where, at, collected), hits = self._allocate(size_bytes, period_bytes)
        self.room_bytes = self._allocation_end - self._top
        pointers = [self._start, self._top, self._end, self._allocation_end]
        self.place = Place(
            *(where, at, collected + self._collections_in_callback, self._eden.taken_bytes),
            pointers if pointers[-1] else None,
        )
        return hits

    def _allocate(
        self, size_bytes: int, period_bytes: int | None
    ) -> tuple[Placed, Sequence[ExpectedSample]]:
        self._is_new = False
        self._was_slow = not self._fits(size_bytes)
        is_on = period_bytes is not None
        self._is_outside = self._was_slow and not self._makes_room(size_bytes, is_on)
        place = self._place_outside if self._is_outside else self._place
        where = place(size_bytes)
        self._heard = None
        is_ahead = self._buffers.charges == "ahead"
        charge = self._charge_ahead if is_ahead else self._charge_allocated
        return where, charge(size_bytes, period_bytes)

    def _sample(self, counted_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """Count, and do what the callback does once a distance is drawn: it is not told of its own.

        The sample point is put only then.
        """
        if not self._is_in_callback:
            self.counted_bytes = counted_bytes
        hits = self.count(counted_bytes, period_bytes)
        if hits and self._buffers.callback_bytes and not self._is_in_callback:
            self._is_in_callback = True
            (_, _, collected), _ = self._allocate(self._buffers.callback_bytes, period_bytes)
            self._is_in_callback = False
            self._collections_in_callback = int(collected)
        return hits

    # Where it lies.

    def _place(self, size_bytes: int) -> Placed:
        at = self._top
        self._top += size_bytes
        collected = self._is_new and self._heard is not None and self._heard.minors > 0
        return "new buffer" if self._is_new else "buffer", at, collected

    def _place_outside(self, size_bytes: int) -> Placed:
        eden, heard = self._eden, self._heard
        collected = eden.free_bytes < size_bytes if heard is None else heard.minors > 0
        if collected:
            eden.collect()
        at = eden.take(size_bytes)
        return "outside", at if heard is None else None, collected

    def _fits(self, size_bytes: int) -> bool:
        return size_bytes <= self._end - self._top

    def _makes_room(self, size_bytes: int, is_on: bool) -> bool:
        """Whether an object has room in the thread's buffer after all, or in a new one."""
        buffers, eden = self._buffers, self._eden
        if is_on:
            self._end = self._allocation_end
            if self._fits(size_bytes):
                return True
        if self._end - self._top > self._waste_limit_bytes:
            self._waste_limit_bytes += buffers.waste_increment_bytes
            return False
        self.retire()
        if self._heard is not None:
            return self._hears_of_buffer(self._heard)
        wanted_bytes = min(eden.free_bytes, buffers.desired_bytes + size_bytes)
        if wanted_bytes < max(buffers.least_bytes, size_bytes + buffers.reserve_bytes):
            return False
        start = eden.take(wanted_bytes)
        self._begin_buffer(start, start + wanted_bytes - buffers.reserve_bytes)
        return True

    def _hears_of_buffer(self, observation: Observation) -> bool:
        if observation.buffer is None:
            return False
        if observation.minors:
            self._eden.collect()
        self._begin_buffer(0, observation.buffer)
        self._eden.take(observation.buffer)
        return True

    def _begin_buffer(self, start: int, end: int) -> None:
        self._is_new = True
        self._waste_limit_bytes = self._buffers.waste_bytes
        self._start, self._top, self._end, self._allocation_end = start, start, end, end

    # What counts.

    def _charge_ahead(self, size_bytes: int, period_bytes: int | None) -> Sequence[ExpectedSample]:
        if period_bytes is None or not self._was_slow:
            return NONE
        charged_bytes = 0 if self._is_outside else self._charged_bytes
        hits = self._sample(charged_bytes + size_bytes, period_bytes)
        if charged_bytes:
            self._charged_bytes = 0
        left_bytes = self._end - self._top
        if left_bytes > self._whole_until_bytes:
            self._end = self._top + self._whole_until_bytes
            self._charged_bytes += self.until_bytes
        else:
            self._charged_bytes += left_bytes
        return hits

    def _charge_allocated(
        self, size_bytes: int, period_bytes: int | None
    ) -> Sequence[ExpectedSample]:
        if period_bytes is None:
            self.until_bytes -= size_bytes
            return NONE
        hits = self._sample(size_bytes, period_bytes)
        if self._whole_until_bytes <= self._end - self._top:
            self._end = self._top + self._whole_until_bytes
        return hits

    @property
    def _whole_until_bytes(self) -> int:
        """The words until the next sample."""
        return max(self.until_bytes, 0) // WORD_BYTES * WORD_BYTES

    @override
    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        surplus_bytes = size_bytes - self.until_bytes
        hits = super()._take(size_bytes, period_bytes)
        if self._rule.surplus == "carried" and self.until_bytes > surplus_bytes:
            self.until_bytes -= surplus_bytes
        return hits


def buffer_clocks(contract: Contract, buffers: Buffers) -> Sequence[Clock]:
    """A clock for each thread."""
    eden = Eden(contract.nursery_bytes)
    return [
        BufferClock(contract.sampling, thread, distances, buffers, eden)
        for thread, distances in enumerate(new_distances(contract.sampling))
    ]
