"""Counting by retired buffers, which count as a whole when they are retired.

(OpenJDK, jfrObjectAllocationSample.cpp: send_event, normalize_as_tlab_and_send_allocation_samples.)
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import override

from fuzz.oracles.counting.bytes import FixedClock
from fuzz.oracles.counting.clock import generators_of
from fuzz.oracles.counting.distances.generator import Generator
from fuzz.oracles.counting.eden import Eden, ThreadBuffer
from fuzz.oracles.counting.expected import NONE, ExpectedSample, Place, Request, Sum
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import RetiredBuffers
from fuzz.protocol.observation import Observation

ENDLESS = 2**62
"""No trace fills the nursery."""


class RetiredBuffer(ThreadBuffer):
    """A thread's buffer, and the bytes of those that were retired and have not been counted yet."""

    retired_bytes = 0

    @override
    def retire(self) -> None:
        self.retired_bytes += self.top - self.start
        super().retire()


class RetiredClock(FixedClock[RetiredBuffers]):
    """Counts one thread's retired buffers, and its objects outside them."""

    def __init__(self, rule: SamplingRule, thread: int, generator: Generator, eden: Eden) -> None:
        super().__init__(rule, thread, generator)
        self._buffer = RetiredBuffer(self._counting, eden)
        self._distance_bytes = rule.period_bytes.minimum
        self._begin_count()
        self._counted = ""

    @property
    def free_bytes(self) -> int:
        return self._buffer.allocation_end - self._buffer.top

    @override
    def start(self, period_bytes: int, seed: int | None = None) -> None:
        self._settle()
        if self._counting.enabling_counts == "all":
            self.until_bytes = period_bytes - self._allocated_bytes

    @override
    def begin_thread(self, seed: int | None, period_bytes: int | None) -> None:
        self._begin_count()

    @override
    def collected(self, minors: int, period_bytes: int | None) -> None:
        self._buffer.eden.collect()
        self._settle()

    @override
    def allocated(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        size_bytes, period_bytes = request.size_bytes, request.period_bytes
        is_reported = self._counting.sizes == "reported" and not request.is_predicted
        reported = observation if is_reported else None
        (where, _, collected), _ = self._buffer.place(size_bytes, False, reported)
        retired_bytes = self._settle()
        self.place = Place(where, None, int(collected), None)
        self._counted = f"{retired_bytes} of the retired buffer" if retired_bytes else "nothing"
        if where == "buffer":
            return NONE
        if where == "outside":
            self._counted += f", and {size_bytes} outside"
            self._allocated_bytes += size_bytes
            if period_bytes is None:
                self.until_bytes -= size_bytes
                return NONE
            return self.count(size_bytes, period_bytes)
        if period_bytes is None or self.until_bytes == self._distance_bytes:
            return NONE
        return self._take(0, period_bytes)

    @override
    def explained(self, its: Sum) -> Sum:
        where = self.place.where if self.place else "buffer"
        reason = f"it lies in its {where}, and what counts is {self._counted}"
        return attrs.evolve(its, reason=reason)

    def _begin_count(self) -> None:
        """The thread is a new one. What another one of its number had left counts no more."""
        self._buffer.retire()
        self._buffer.retired_bytes = 0
        self._allocated_bytes = self._counting.birth_bytes
        self.until_bytes = self._distance_bytes - self._allocated_bytes

    def _settle(self) -> int:
        """Count the buffers that were retired; returns their bytes."""
        retired_bytes, self._buffer.retired_bytes = self._buffer.retired_bytes, 0
        self._allocated_bytes += retired_bytes
        self.until_bytes -= retired_bytes
        return retired_bytes


def clocks_of(contract: Contract) -> list[RetiredClock]:
    """One clock per thread, in one nursery."""
    rule, eden = contract.sampling, Eden(ENDLESS)
    return [RetiredClock(rule, *each, eden) for each in enumerate(generators_of(rule))]
