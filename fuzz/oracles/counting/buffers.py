"""Counting by thread-local allocation buffers, whose end is where the next sample is due.

Bytes that are charged ahead (HotSpot 11 to 24) are charged when `end` is set. They count even if a
collection discards the buffer before they are allocated. (OpenJDK, threadHeapSampler.cpp.)
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fuzz.oracles.counting.bytes import DrawnOnceClock
from fuzz.oracles.counting.clock import generators_of
from fuzz.oracles.counting.distances.generator import Generator
from fuzz.oracles.counting.eden import Eden, Placed, ThreadBuffer
from fuzz.oracles.counting.expected import NONE, ExpectedSample, Place, Request, Sum
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import Buffers
from fuzz.protocol.observation import Observation


class BufferClock(DrawnOnceClock[Buffers]):
    """Counts what one thread allocates in its buffers and outside them."""

    def __init__(self, rule: SamplingRule, thread: int, generator: Generator, eden: Eden) -> None:
        super().__init__(rule, thread, generator)
        self._buffer = ThreadBuffer(self._counting, eden)
        self._charged_bytes = 0
        self._is_in_callback = False
        self._collections_in_callback = 0
        # What the last allocation counted; 0 if its buffer had room for it.
        self._counted_bytes = 0

    @property
    def free_bytes(self) -> int:
        return self._buffer.allocation_end - self._buffer.top

    def collected(self, minors: int, period_bytes: int | None) -> None:
        if minors:
            self._buffer.eden.collect()

    def begin_thread(self, seed: int | None, period_bytes: int | None) -> None:
        if seed is not None and self._counting.births_reseed:
            self._generator.reseed(seed)
        resting_bytes = self._counting.resting_period_bytes or None
        super().begin_thread(seed, resting_bytes if period_bytes is None else period_bytes)
        self._charged_bytes = 0
        if self._counting.charges == "allocated":
            self.until_bytes -= self._counting.birth_bytes

    def allocated(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        buffer = self._buffer
        self._collections_in_callback = self._counted_bytes = 0
        is_reported = self._counting.taken == "anywhere" and not request.is_predicted
        reported = observation if is_reported else None
        is_inline = request.kind in self._counting.inline_kinds
        (where, at, collected), hits = self._allocate(
            request.size_bytes, request.period_bytes, reported, is_inline
        )
        collections = collected + self._collections_in_callback
        self.place = Place(where, at, collections, buffer.eden.taken_bytes, buffer.pointers)
        return hits

    def _allocate(
        self,
        size_bytes: int,
        period_bytes: int | None,
        reported: Observation | None,
        is_inline: bool = False,
    ) -> tuple[Placed, Sequence[ExpectedSample]]:
        spare_bytes = self._counting.inline_spare_bytes
        fits_inline = is_inline and size_bytes + spare_bytes <= self._buffer.left_bytes
        placed, was_slow = self._buffer.place(size_bytes, period_bytes is not None, reported)
        if is_inline and self._is_unseen(placed, reported):
            return placed, NONE
        if self._counting.charges == "allocated":
            return placed, self._charge_allocated(size_bytes, None if fits_inline else period_bytes)
        if period_bytes is None or not was_slow:
            return placed, NONE
        return placed, self._charge_ahead(size_bytes, period_bytes, placed[0] == "outside")

    def _is_unseen(self, placed: Placed, reported: Observation | None) -> bool:
        """Whether the runtime does not see an object outside that is allocated inline."""
        where, _, collected = placed
        if self._counting.inline_outside != "unseen" or where != "outside" or collected:
            return False
        # If buffers are taken anywhere, the rest of the nursery is not known. It is rarely 0.
        free_bytes = self._buffer.eden.free_bytes
        return reported is not None or free_bytes >= self._counting.inline_spare_bytes

    def _sample(self, counted_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """Count. The callback allocates, unsampled, before the sample point is set."""
        hits = self.count(counted_bytes, period_bytes)
        if self._is_in_callback:
            return hits
        self._counted_bytes = counted_bytes
        if hits and self._counting.callback_bytes:
            self._is_in_callback = True
            placed, _ = self._allocate(self._counting.callback_bytes, period_bytes, None)
            self._is_in_callback = False
            self._collections_in_callback = int(placed[-1])
        return hits

    def _charge_ahead(
        self, size_bytes: int, period_bytes: int, is_outside: bool
    ) -> Sequence[ExpectedSample]:
        charged_bytes = 0 if is_outside else self._charged_bytes
        hits = self._sample(charged_bytes + size_bytes, period_bytes)
        if charged_bytes:
            self._charged_bytes = 0
        left_bytes = self._buffer.left_bytes
        is_sooner = self._buffer.end_at_sample(self.until_bytes)
        self._charged_bytes += self.until_bytes if is_sooner else left_bytes
        return hits

    def _charge_allocated(
        self, size_bytes: int, period_bytes: int | None
    ) -> Sequence[ExpectedSample]:
        if period_bytes is None:
            self.until_bytes -= size_bytes
            return NONE
        hits = self._sample(size_bytes, period_bytes)
        self._buffer.end_at_sample(self.until_bytes)
        return hits

    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        surplus_bytes = size_bytes - self.until_bytes
        hits = super()._take(size_bytes, period_bytes)
        if self._rule.surplus == "carried" and self.until_bytes > surplus_bytes:
            self.until_bytes -= surplus_bytes
        return hits

    def explained(self, its: Sum) -> Sum:
        counted_bytes = self._counted_bytes
        if counted_bytes == its.counted_bytes:
            return its
        text = f"{counted_bytes} count with its buffer's"
        counted = f"{its.counted}, {text if counted_bytes else 'which its buffer has room for'}"
        return attrs.evolve(its, counted=counted, counted_bytes=counted_bytes, has_more=True)


def clocks_of(contract: Contract) -> list[BufferClock]:
    """One clock per thread, in one nursery."""
    rule, eden = contract.sampling, Eden(contract.nursery_bytes)
    assert isinstance(rule.counting, Buffers)
    generators = generators_of(rule)
    if rule.counting.generators == "shared":
        generators = generators[:1] * len(generators)
    return [BufferClock(rule, *each, eden) for each in enumerate(generators)]
