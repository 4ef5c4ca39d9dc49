"""The sampling oracle: how many samples each allocation takes, by arithmetic alone.

It asks each thread's clock what an allocation takes; the clocks know how the contract counts. They
get sizes, and never addresses or limits, which may make no difference. Nothing here is special to
one system, or to one way to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from typing_extensions import override

from fuzz.mutator.shadow import Shadow, ShadowObject
from fuzz.oracles.blocks import SharedBlock, bytes_counted, bytes_to_move
from fuzz.oracles.counting import clocks_of
from fuzz.oracles.counting.clock import Clock
from fuzz.oracles.counting.expected import NONE, ExpectedSample, Place, Request, Sum, all_of
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.oracle import Mismatch, Oracle
from fuzz.oracles.sampling_descriptions import describe_sum
from fuzz.oracles.sampling_facts import SamplingFacts
from fuzz.protocol.actions import Action, BeginThread, Free, Realloc, RunAtOnce
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

SETTING = ("starts", "sets period")
PAUSING = ("pauses", "resumes")
COUNTED = frozenset({BeginThread, Free, Realloc})
"""Actions that may change a count, although they neither allocate nor switch sampling."""
_UNTIL_BYTES, _ROOM_BYTES = attrgetter("until_bytes"), attrgetter("room_bytes")


WEIGHTS = {
    "passed": "the period of the distance, and the bytes beyond the one that was drawn",
    "since": "all bytes that count since the last sample",
    "whole_objects": "the bytes of as many whole objects as make one sample",
}
"""What a sample stands for, in words."""


class SamplingMismatch(Mismatch):
    """An allocation was sampled too often, or not often enough, or cost the wrong bytes."""

    oracle = "sampling"


class SamplingOracle(Oracle):
    """Tells the clocks what is allocated, and the other oracles what they say."""

    judges = ("samples", "size", "outside", "offsets", "weights", "seed", "ended")
    relies_on = (HeapOracle,)
    facts: SamplingFacts

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._rule = contract.sampling
        self._layout = contract.layout
        self._observes = frozenset(contract.observes)
        self._observes_samples = "samples" in self._observes
        self._checks_hits = self._rule.is_stated and not self._observes.isdisjoint(
            ("offsets", "weights")
        )
        self._nursery_bytes = contract.nursery_bytes
        self._is_stated = self._rule.is_stated
        self._has_local_buffers = self._rule.counting.has_local_buffers
        self._counts_frees = self._rule.counting.counts_frees
        self._births_reseed = self._rule.counting.births_reseed
        self._clocks = clocks_of(contract)
        self._no_rooms = (0,) * contract.threads
        self._period_bytes: int | None = None
        self._last_period_bytes: int | None = None
        self._nursery_used_bytes = 0
        self._was_enabled = False
        self._sampled_blocks: set[ShadowObject] = set()
        self._shared = [SharedBlock(self._layout.shared_bytes) for _ in range(contract.threads)]
        self._forget_last_action()
        if shadow.sampling_bytes is not None:
            self._start(shadow.sampling_bytes)
        self.facts = self._facts()

    def _forget_last_action(self) -> None:
        self._hits: Sequence[ExpectedSample] = NONE
        self._unrecorded = 0
        self._counted_bytes: int | None = None
        self._beside: ShadowObject | None = None
        self._callback_samples: int | None = 0
        self._callback_was_reported = False
        self._place: Place | None = None

    def _facts(self) -> SamplingFacts:
        clocks = self._clocks
        # Most contracts have one thread.
        one = (clocks[0].until_bytes,) if len(clocks) == 1 else None
        facts = (
            self._period_bytes,
            one or tuple(map(_UNTIL_BYTES, clocks)),
            tuple(map(_ROOM_BYTES, clocks)) if self._has_local_buffers else self._no_rooms,
            self._nursery_used_bytes,
            self._was_enabled,
            self._hits,
            self._unrecorded,
            self._counted_bytes,
            self._beside,
            self._callback_samples,
            self._callback_was_reported,
            self._place,
        )
        return tuple.__new__(SamplingFacts, facts)  # The class itself takes thrice as long.

    @override
    def check(
        self, action: Action, observation: Observation, sampling: SamplingFacts | None = None
    ) -> None:
        """Compare with what the target said. Raises SamplingMismatch."""
        before, allocates = self.facts, action.allocates
        happened = observation.minors or observation.samples
        said = observation.offsets or observation.weights
        if not (allocates or happened or said or action.sampling or type(action) in COUNTED):
            return
        if observation.ended and allocates and not self._clocks[action.thread].room_bytes:
            raise SamplingMismatch("ended", None, True, "its thread had nothing left of one")
        if self._births_reseed and isinstance(action, BeginThread):
            self._check_seed(observation, "of a thread that begins")
        if self._rule.enabling == "reseeds" and action.sampling == "starts":
            self._check_seed(observation, "of enabling")
        expected = self.follow(action, observation)
        if allocates or isinstance(action, Realloc):
            self._check_cost(action, observation)
        if self._observes_samples and observation.samples != expected:
            why = self._why(action, observation, before)
            raise SamplingMismatch("samples", expected, observation.samples, why)
        if self._checks_hits:
            self._check_hits(observation)

    def follow(self, action: Action, observation: Observation) -> int:
        """Count what the action allocated; returns the samples that it must have taken.

        Of the observation it regards only what collected, and what no rule predicts.
        """
        return self._follow(action, observation, observation)

    def predict(self, action: Action, minors: int) -> int:
        """The same for an action that no target performed."""
        return self._follow(action, Observation(minors=minors), None)

    def _follow(self, action: Action, observation: Observation, answer: Observation | None) -> int:
        self._forget_last_action()
        if observation.minors:
            self._empty_nursery()
        samples = 0
        if action.allocates:
            samples = self._allocated(action, observation, answer)
        elif isinstance(action, Realloc):
            samples = self._reallocated(action, observation, answer)
        elif isinstance(action, Free):
            samples = self._freed(action)
        elif isinstance(action, BeginThread):
            self._clocks[action.thread].begin_thread(observation.seed, self._last_period_bytes)
        elif isinstance(action, RunAtOnce):
            samples = 0 if self._period_bytes is None else observation.samples
        elif action.sampling in SETTING or self._shadow.sampling_bytes != self._period_bytes:
            self._toggled(action, observation.seed)
        if observation.minors and not action.allocates:
            for clock in self._clocks:
                clock.collected(observation.minors, self._period_bytes)
        self.facts = self._facts()
        return samples

    def _empty_nursery(self) -> None:
        """A collection has, and nothing is put beside what it has seen."""
        self._nursery_used_bytes = 0
        for shared in self._shared:
            shared.forget()

    # What is compared.

    def _check_seed(self, observation: Observation, why: str) -> None:
        if observation.seed is None:
            raise SamplingMismatch("seed", "a number", None, why)

    def _check_cost(self, action: Action, observation: Observation) -> None:
        """What the new object cost is what the layout says."""
        obj = self._shadow.placed_by(action)
        if observation.size != obj.size_bytes and "size" in self._observes:
            why = f"by the layout, a {obj.kind} of {obj.number}"
            raise SamplingMismatch("size", obj.size_bytes, observation.size, why)
        if observation.outside is not obj.outside and "outside" in self._observes:
            why = f"by the layout, {obj.size_bytes} bytes"
            raise SamplingMismatch("outside", obj.outside, observation.outside, why)

    def _why(self, action: Action, observation: Observation, before: SamplingFacts) -> str:
        """The sum that led to the expected samples, in words."""
        if before.period_bytes is None:
            return "sampling was off"
        counted, counted_bytes = self._counted(action)
        callback_bytes = self._shadow.callback_bytes if observation.minors else 0
        if callback_bytes and action.allocates:
            counted += f", the callback's string {callback_bytes}"
        its = Sum(
            before.period_bytes,
            before.bytes_until_sample(action.thread),
            counted,
            counted_bytes,
            self._hits,
            outside=action.allocates and self._shadow.roots[-1].outside,
            room_bytes=before.room_bytes[action.thread] if self._has_local_buffers else None,
            has_more=bool(callback_bytes),
        )
        return describe_sum(self._rule, self._clocks[action.thread].explained(its))

    def _counted(self, action: Action) -> tuple[str, int]:
        """What of an action counts, in words, and in bytes."""
        if isinstance(action, Free) and self._counts_frees and self._shadow.freed:
            size_bytes = self._shadow.freed.number
            counted_bytes = bytes_counted(self._rule, self._layout, size_bytes)
            return f"the block gives {counted_bytes} back", counted_bytes
        if not action.allocates and not isinstance(action, Realloc):
            return "this action allocates nothing", 0
        obj = self._shadow.placed_by(action)
        if obj.kind != "block":
            return f"the {obj.kind} takes {obj.size_bytes}", obj.size_bytes
        counted_bytes = self._counted_bytes or 0
        return f"the block counts {counted_bytes or 'nothing'}", counted_bytes

    def _check_hits(self, observation: Observation) -> None:
        offsets, weights = self.facts.offsets, [hit.weight for hit in self._hits]
        if "offsets" in self._observes and observation.offsets != offsets:
            why = "the byte of the object at which the distance ends"
            raise SamplingMismatch("offsets", offsets, observation.offsets, why)
        if "weights" in self._observes and observation.weights != weights:
            why = WEIGHTS[self._rule.weights]
            raise SamplingMismatch("weights", weights, observation.weights, why)

    # What is counted.

    def _allocated(
        self, action: Action, observation: Observation, answer: Observation | None
    ) -> int:
        """Count the new object."""
        obj = self._shadow.roots[-1]
        if obj.kind == "block":
            return self._count_block(action, obj, obj.number, observation, answer)
        callback_bytes = self._shadow.callback_bytes if observation.minors else 0
        if callback_bytes:
            self._make_room_after_callback(obj, callback_bytes)
        if not obj.outside:
            self._nursery_used_bytes += obj.size_bytes
        if self._period_bytes is not None and not self._is_stated:
            self._callback_samples = None if callback_bytes and observation.samples else 0
            return observation.samples
        clock = self._clocks[action.thread]
        request = self._request(obj.size_bytes, obj.outside, obj.kind, observation.minors)
        if callback_bytes and self._period_bytes is not None:
            self._hits = self._count_with_callback(clock, observation, request, callback_bytes)
        else:
            self._hits = self._count(clock, request, answer)
        self._place = clock.place
        if self._place and self._place.nursery_used_bytes is not None:
            self._nursery_used_bytes = self._place.nursery_used_bytes
        return len(self._hits)

    def _request(self, size_bytes: int, outside: bool, kind: str, minors: int) -> Request:
        """An allocation, with the period that it counts for, also while sampling is paused."""
        period_bytes = self._period_bytes
        paused_bytes = self._shadow.paused_bytes
        if period_bytes is None and paused_bytes is not None and self._rule.paused != "stopped":
            period_bytes = paused_bytes if self._rule.paused == "counting" else 0
        return Request(size_bytes, outside, kind, minors, period_bytes)

    def _count(
        self, clock: Clock, request: Request, answer: Observation | None
    ) -> Sequence[ExpectedSample]:
        """The samples of an allocation by the clock's thread. While paused none is reported."""
        is_paused = self._period_bytes is None and request.period_bytes is not None
        if not is_paused:
            return clock.allocated(request, answer)
        if self._is_stated:
            self._unrecorded = len(clock.allocated(request, answer))
        return NONE

    def _make_room_after_callback(self, obj: ShadowObject, callback_bytes: int) -> None:
        """The callback allocates in the empty nursery, which may leave too little for `obj`."""
        fits = callback_bytes + obj.size_bytes <= self._nursery_bytes
        self._callback_was_reported = not obj.outside and not fits
        self._nursery_used_bytes = 0 if self._callback_was_reported else callback_bytes

    def _count_with_callback(
        self, clock: Clock, observation: Observation, request: Request, callback_bytes: int
    ) -> Sequence[ExpectedSample]:
        """The samples of a callback's string and of the object whose allocation caused it.

        The object may pass sample points before it is found not to fit. Its bytes are counted when
        it is placed, after those of the string, but these samples are taken.
        """
        hits: Sequence[ExpectedSample] = NONE
        if observation.order.startswith("s"):
            hits = clock.allocated(request, observation)
            clock.uncount(request.size_bytes)
        of_callback = clock.allocated(self._request(callback_bytes, False, "string", 0), None)
        self._callback_samples = len(of_callback)
        return all_of(hits, of_callback, clock.allocated(request, observation))

    def _reallocated(
        self, action: Realloc, observation: Observation, answer: Observation | None
    ) -> int:
        block = self._shadow.roots[action.root]
        to_move_bytes = self._bytes_to_move(block, action)
        if to_move_bytes is None:
            return 0
        return self._count_block(action, block, to_move_bytes, observation, answer)

    def _freed(self, action: Free) -> int:
        block = self._shadow.freed
        if block and self._counts_frees and self._period_bytes is not None:
            counted_bytes = bytes_counted(self._rule, self._layout, block.number)
            self._hits = self._clocks[action.thread].freed(counted_bytes, self._period_bytes)
        return len(self._hits)

    def _bytes_to_move(self, block: ShadowObject, action: Realloc) -> int | None:
        """What is asked for when a block moves; None if it stays, and nothing counts."""
        room_bytes, requested_bytes = block.size_bytes, action.size_bytes
        if self._rule.realloc == "when_moved":
            return bytes_to_move(room_bytes, requested_bytes)
        is_alike = self._layout.room_bytes(requested_bytes) == room_bytes
        if self._rule.realloc == "always" or not is_alike or block in self._sampled_blocks:
            return requested_bytes
        counted_bytes = bytes_counted(self._rule, self._layout, requested_bytes)
        is_due = self._clocks[action.thread].is_due(counted_bytes)
        is_small = self._layout.class_bytes(requested_bytes) is not None
        return requested_bytes if is_due and is_small else None

    def _count_block(
        self,
        action: Action,
        block: ShadowObject,
        size_bytes: int,
        observation: Observation,
        answer: Observation | None,
    ) -> int:
        """Count a block for which there is to be room of `size_bytes`."""
        if size_bytes < self._layout.shared_bytes:
            if not size_bytes:
                return 0
            beside = self._shared[action.thread].place(block, size_bytes)
            if beside is not block:
                self._beside = beside
                return 0
        self._counted_bytes = bytes_counted(self._rule, self._layout, size_bytes)
        if self._period_bytes is not None and not self._is_stated:
            samples = observation.samples
        else:
            request = self._request(self._counted_bytes, True, block.kind, observation.minors)
            self._hits = self._count(self._clocks[action.thread], request, answer)
            samples = len(self._hits)
        self._shadow.resize(block, size_bytes)
        (self._sampled_blocks.add if samples else self._sampled_blocks.discard)(block)
        return samples

    # What starts and ends a count.

    def _start(self, period_bytes: int, seed: int | None = None) -> None:
        self._period_bytes = period_bytes
        self._was_enabled = True
        for clock in self._clocks:
            clock.start(period_bytes, seed)

    def _toggled(self, action: Action, seed: int | None) -> None:
        """Enabled or disabled; what goes on counting for another period, or unrecorded, goes on."""
        self._last_period_bytes = getattr(action, "period_bytes", self._last_period_bytes)
        goes_on = action.sampling in PAUSING and self._rule.paused != "stopped"
        period_bytes = self._shadow.sampling_bytes
        if action.sampling == "sets period" or goes_on or period_bytes is None:
            self._period_bytes = period_bytes
        else:
            self._start(period_bytes, seed)
