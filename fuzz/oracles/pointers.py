"""The pointers oracle: the allocator's pointers, where the target shows them.

    sample_point - free == bytes until the next sample
    limit == min(sample_point, top), or top while sampling is off
    free == bytes allocated in the nursery since the last minor collection <= limit
    at + size == free, for an object just allocated in the nursery
    top is the end of the nursery

If an object may be pinned, the nursery has several parts: `top` is the end of one of them, and
`free` lies in it. If memory pressure may have made a collection due, `limit` may be `free`, so that
the next allocation collects. The bytes until the next sample come from the sampling oracle.

(Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine,
section 3.2.)
"""

from __future__ import annotations

from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation


class PointersOracle(Oracle):
    """Compares pointers with each other and with the sampling oracle's count."""

    name = "pointers"
    judges = ("free", "limit", "top", "at", "sample_point")
    relies_on = (SamplingOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._end = contract.nursery_bytes
        self._states_distances = contract.sampling.is_stated

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return "limit" in contract.observes

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        free, limit, top = observation.free, observation.limit, observation.top
        if free is None or limit is None or top is None:
            pointers = ("free", "limit", "top")
            missing = next(name for name in pointers if getattr(observation, name) is None)
            raise self.mismatch(missing, "an offset", None, "the contract promises it")
        if limit != free or not self._shadow.collection_may_be_due:
            if self._shadow.has_obstacles:
                self._check_part(free, top)
            else:
                self._check_nursery(free, top, sampling.nursery_used_bytes)
            self._check_limit(observation.sample_point, free, limit, top, sampling)
        if free > limit:
            raise self.mismatch("free", f"at most {limit}", free, "within the limit")
        if action.allocates and observation.size is not None:
            self._check_place(self._shadow.placed, observation.at, free)

    def _check_nursery(self, free: int, top: int, used: int) -> None:
        if top != self._end:
            raise self.mismatch("top", self._end, top, "the end of the nursery")
        if free != used:
            why = "bytes allocated in the nursery since the last minor collection"
            raise self.mismatch("free", used, free, why)

    def _check_part(self, free: int, top: int) -> None:
        if top > self._end:
            raise self.mismatch("top", f"at most {self._end}", top, "within the nursery")
        if not 0 <= free <= top:
            raise self.mismatch("free", f"from 0 to {top}", free, "within a part of the nursery")

    def _check_place(self, obj: ShadowObject, at: int | None, free: int) -> None:
        expected = None if obj.outside else free - obj.size_bytes
        if at != expected:
            raise self.mismatch("at", expected, at, "an object ends where the free space begins")

    def _check_limit(
        self, sample_point: int | None, free: int, limit: int, top: int, sampling: SamplingState
    ) -> None:
        expected = top
        if sampling.period_bytes is not None:
            until_bytes = sampling.until_bytes[0]
            due = free + until_bytes
            if self._states_distances and sample_point != due:
                why = f"free {free} + {until_bytes} bytes until the sample"
                raise self.mismatch("sample_point", due, sample_point, why)
            if sample_point is None:
                raise self.mismatch("sample_point", "an offset", None, "sampling is on")
            if sample_point < top:
                expected = sample_point
        elif sample_point is not None:
            raise self.mismatch("sample_point", None, sample_point, "sampling is off")
        if limit != expected:
            why = f"the limit is the lower of sample_point {sample_point} and top {top}"
            raise self.mismatch("limit", expected, limit, why)
