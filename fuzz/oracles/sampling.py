"""The sampling oracle: which samples each allocation takes, by arithmetic alone.

It asks the thread's clock. It passes sizes to the clock, and never addresses or limits, which must
make no difference. Nothing here depends on one system or on one way to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import accumulate
from operator import attrgetter

import attrs

from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.occupancy import Exhausted
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.blocks import SharedBlock, bytes_counted, bytes_to_move
from fuzz.oracles.counting import clocks_of
from fuzz.oracles.counting.expected import (
    NONE,
    ExpectedSample,
    Place,
    Request,
    Sum,
    all_of,
    samples_in,
)
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling_descriptions import WEIGHTS, describe_sum
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action, AllocateGroup, BeginThread, Free, Realloc, RunAtOnce
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

COUNTED = frozenset({BeginThread, Free, Realloc})
"""Actions that may change a count, although they neither allocate nor switch sampling."""
_UNTIL_BYTES, _FREE_BYTES = attrgetter("until_bytes"), attrgetter("free_bytes")


def _is_counted(action: Action) -> bool:
    return action.allocates or bool(action.sampling) or type(action) in COUNTED


@cache
def _predicted(minors: int) -> Observation:
    """An answer that no target gave. It is only read."""
    return Observation(minors=minors)


class SamplingOracle(Oracle):
    """Compares samples and sizes with what the contract states."""

    name = "sampling"
    judges = ("samples", "size", "outside", "offsets", "weights", "seed", "ended")
    relies_on = (HeapOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._rule, self._layout = contract.sampling, contract.layout
        self._groups = contract.groups
        self._observes = frozenset(contract.observes)
        self._observes_samples = "samples" in self._observes
        self._is_stated = self._rule.is_stated
        self._checks_hits = self._is_stated and not self._observes.isdisjoint(
            ("offsets", "weights")
        )
        self._nursery_bytes = contract.nursery_bytes
        self._has_local_buffers = self._rule.counting.has_local_buffers
        self._clocks = clocks_of(contract)
        self._bytes_counted = partial(bytes_counted, self._rule, self._layout)
        self._nothing_free = (0,) * contract.threads
        # The period that samples are taken for, that allocations count for, and that was set last.
        self._period_bytes: int | None = None
        self._counted_period_bytes: int | None = None
        self._last_period_bytes: int | None = None
        self._nursery_used_bytes = 0
        self._was_enabled = False
        self._sampled_blocks: set[ShadowObject] = set()
        self._shared = [SharedBlock(self._layout.shared_bytes) for _ in self._clocks]
        self._is_predicted = False
        self._forget_last_action()
        if shadow.sampling_bytes is not None:
            self._start(shadow.sampling_bytes)
        self.state = self._state()

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        has_samples = observation.samples or observation.offsets or observation.weights
        if not (observation.minors or has_samples or _is_counted(action)):
            return
        before = self.state
        self._check_reported(action, observation)
        expected = self.follow(action, observation)
        if action.allocates or isinstance(action, Realloc):
            self._check_cost(action, observation)
        if self._observes_samples and observation.samples != expected:
            why = self._why(action, observation, before)
            raise self.mismatch("samples", expected, observation.samples, why)
        if self._checks_hits:
            self._check_hits(observation)

    def follow(self, action: Action, observation: Observation) -> int:
        """Count what the action allocated; returns the samples that it must have taken.

        Reads only those fields of the observation that no rule predicts.
        """
        self._forget_last_action()
        if observation.minors:
            self._empty_nursery()
        samples = 0
        if action.allocates:
            samples = self._allocated(action, observation)
        elif action.sampling:
            self._switch(action, observation.seed)
        else:
            samples = self._changed(action, observation)
        if observation.minors and not action.allocates:
            for clock in self._clocks:
                clock.collected(observation.minors, self._period_bytes)
        self.state = self._state()
        return samples

    def _changed(self, action: Action, observation: Observation) -> int:
        """Count what another action changes; returns its samples."""
        match action:
            case Exhausted():
                return self._exhausted(action.action, observation)
            case Realloc():
                return self._reallocated(action, observation)
            case Free():
                return self._freed(action)
            case BeginThread():
                self._clocks[action.thread].begin_thread(observation.seed, self._last_period_bytes)
            case RunAtOnce() if self._period_bytes is not None:
                return observation.samples
        return 0

    def predict(self, action: Action, minors: int) -> int:
        """Count an action that no target performed; returns its expected samples."""
        if not (minors or _is_counted(action)):
            return 0
        self._is_predicted = True
        samples = self.follow(action, _predicted(minors))
        self._is_predicted = False
        return samples

    # What other oracles get.

    def _forget_last_action(self) -> None:
        self._hits: Sequence[ExpectedSample] = NONE
        self._unrecorded = 0
        self._counted_bytes: int | None = None
        self._beside: ShadowObject | None = None
        self._callback_samples: int | None = 0
        self._callback_was_reported = False
        self._place: Place | None = None
        # Those of the action's own bytes, before and after a callback.
        self._own_hits: Sequence[Sequence[ExpectedSample]] = ()
        self._samples_by_member: Sequence[int] | None = None

    def _state(self) -> SamplingState:
        clocks = self._clocks
        # Most contracts have one thread.
        one = (clocks[0].until_bytes,) if len(clocks) == 1 else None
        state = (
            self._period_bytes,
            one or tuple(map(_UNTIL_BYTES, clocks)),
            tuple(map(_FREE_BYTES, clocks)) if self._has_local_buffers else self._nothing_free,
            self._nursery_used_bytes,
            self._was_enabled,
            self._hits,
            self._unrecorded,
            self._counted_bytes,
            self._beside,
            self._callback_samples,
            self._callback_was_reported,
            self._place,
            self._samples_by_member,
        )
        return tuple.__new__(SamplingState, state)  # The class itself takes three times as long.

    # What is compared.

    def _check_reported(self, action: Action, observation: Observation) -> None:
        """Check the fields that no rule predicts."""
        if action.allocates:
            if observation.ended and not self._clocks[action.thread].free_bytes:
                raise self.mismatch("ended", None, True, "its thread had nothing left of one")
        elif observation.seed is None:
            if isinstance(action, BeginThread) and self._rule.counting.births_reseed:
                raise self.mismatch("seed", "a number", None, "of a thread that begins")
            if action.sampling == "starts" and self._rule.enabling == "reseeds":
                raise self.mismatch("seed", "a number", None, "of enabling")

    def _check_cost(self, action: Action, observation: Observation) -> None:
        """The new object costs what the layout states."""
        obj = self._shadow.placed
        if observation.size != obj.size_bytes and "size" in self._observes:
            place = " outside the nursery" if obj.outside else ""
            why = f"by the layout, a {obj.kind} of {obj.number}{place}"
            raise self.mismatch("size", obj.size_bytes, observation.size, why)
        if observation.outside is not obj.outside and "outside" in self._observes:
            kept = " that must not move" if getattr(action, "nonmovable", False) else ""
            why = f"by the layout, {obj.size_bytes} bytes{kept}"
            raise self.mismatch("outside", obj.outside, observation.outside, why)

    def _check_hits(self, observation: Observation) -> None:
        offsets, weights = self.state.offsets, [hit.weight for hit in self._hits]
        if "offsets" in self._observes and observation.offsets != offsets:
            why = "the byte of the object at which the distance ends"
            raise self.mismatch("offsets", offsets, observation.offsets, why)
        if "weights" in self._observes and observation.weights != weights:
            why = WEIGHTS[self._rule.weights]
            raise self.mismatch("weights", weights, observation.weights, why)

    def _why(self, action: Action, observation: Observation, before: SamplingState) -> str:
        """The sum that leads to the expected samples, as text."""
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
            outside=action.allocates and self._shadow.placed.outside,
            free_bytes=before.free_bytes[action.thread] if self._has_local_buffers else None,
            # A distance may begin at each part.
            has_more=bool(callback_bytes or (action.allocates and self._shadow.placed.parts)),
        )
        return describe_sum(self._rule, self._clocks[action.thread].explained(its))

    def _counted(self, action: Action) -> tuple[str, int]:
        """What counts of an action: as text, and in bytes."""
        if isinstance(action, Free) and self._rule.counting.counts_frees and self._shadow.freed:
            counted_bytes = self._bytes_counted(self._shadow.freed.number)
            return f"the block gives {counted_bytes} back", counted_bytes
        if not action.allocates and not isinstance(action, Realloc):
            return "this action allocates nothing", 0
        obj = self._shadow.placed
        if obj.parts:
            sizes = " and ".join(str(size_bytes) for size_bytes, _ in obj.parts)
            return f"the parts of the {obj.kind} take {sizes}", obj.size_bytes
        if obj.kind != "block":
            return f"the {obj.kind} takes {obj.size_bytes}", obj.size_bytes
        counted_bytes = self._counted_bytes or 0
        return f"the block counts {counted_bytes or 'nothing'}", counted_bytes

    # What is counted.

    def _empty_nursery(self) -> None:
        """A collection does so, and ends the blocks that small ones share."""
        self._nursery_used_bytes = 0
        for shared in self._shared:
            shared.forget()

    def _allocated(self, action: Action, observation: Observation) -> int:
        """Count the new object, or the group."""
        obj = self._shadow.placed
        if obj.kind == "block":
            return self._count_block(action, obj, obj.number, observation)
        callback_bytes = self._shadow.callback_bytes if observation.minors else 0
        if callback_bytes:
            # The callback allocates in the empty nursery. It may leave too little for the object.
            fits = callback_bytes + obj.size_bytes <= self._nursery_bytes
            self._callback_was_reported = not obj.outside and not fits
            self._nursery_used_bytes = 0 if self._callback_was_reported else callback_bytes
        if obj.parts:
            self._nursery_used_bytes += sum(size for size, outside in obj.parts if not outside)
        elif not obj.outside:
            self._nursery_used_bytes += obj.size_bytes
        if obj.parts and self._is_stated:
            samples = self._count_parts(action, obj, observation)
        elif isinstance(action, AllocateGroup):
            samples = self._count_group(action, obj, observation, callback_bytes)
        else:
            samples = self._count(action, obj.size_bytes, obj, observation, callback_bytes)
        self._place = self._place or self._clocks[action.thread].place
        if self._place and self._place.nursery_used_bytes is not None:
            self._nursery_used_bytes = self._place.nursery_used_bytes
        return samples

    def _count_group(
        self,
        action: AllocateGroup,
        group: ShadowObject,
        observation: Observation,
        callback_bytes: int,
    ) -> int:
        """Count a group, and find the members that its samples name."""
        samples = self._count(action, group.size_bytes, group, observation, callback_bytes)
        if self._is_stated:
            assert self._groups is not None
            sizes = [member.size_bytes for member in self._shadow.members(action)]
            named = _by_member(self._own_hits, sizes)
            first = [sum(named), *[0] * (len(named) - 1)]
            self._samples_by_member = first if self._groups.sampled == "first" else named
        return samples

    def _count_parts(self, action: Action, obj: ShadowObject, observation: Observation) -> int:
        """Count the blocks of an object, one after another. The last one is the object itself."""
        parts: list[Sequence[ExpectedSample]] = []
        samples = unrecorded = collections = 0
        for size_bytes, outside in obj.parts:
            part = ShadowObject(obj.kind, obj.type_index, 0, [], size_bytes, outside)
            samples += self._count(action, size_bytes, part, observation)
            parts.append(self._hits)
            unrecorded += self._unrecorded
            if place := self._clocks[action.thread].place:
                collections += place.collections
                self._place = attrs.evolve(place, collections=collections)
        self._hits, self._unrecorded = all_of(*parts), unrecorded
        return samples

    def _exhausted(self, action: Action, observation: Observation) -> int:
        """Count nothing. But an object may be sampled before it is found not to fit."""
        if not action.allocates or not observation.order.startswith("s"):
            return 0
        obj, clock = self._shadow.object_of(action), self._clocks[action.thread]
        samples = self._count(action, obj.size_bytes, obj, observation)
        clock.uncount(obj.size_bytes)
        return samples

    def _count(
        self,
        action: Action,
        size_bytes: int,
        obj: ShadowObject,
        observation: Observation,
        callback_bytes: int = 0,
    ) -> int:
        """Count bytes of an object; returns its samples. While paused, they are not recorded."""
        if not self._is_stated:
            samples = observation.samples if self._period_bytes is not None else 0
            self._callback_samples = None if callback_bytes and samples else 0
            return samples
        clock, period_bytes = self._clocks[action.thread], self._counted_period_bytes
        request = Request(
            *(size_bytes, obj.outside, obj.kind, period_bytes, self._is_predicted),
            is_recorded=self._period_bytes is not None,
            is_resized=isinstance(action, Realloc),
        )
        if not callback_bytes or self._period_bytes is None:
            hits = clock.allocated(request, observation)
            if self._period_bytes is None and period_bytes is not None:
                self._unrecorded = len(hits)
                return 0
            self._hits, self._own_hits = hits, (hits,)
            return len(hits)
        # The object may pass sample points before it is found not to fit. It takes these samples,
        # although its bytes are counted only when it is placed, after those of the string.
        hits = NONE
        if observation.order.startswith("s"):
            hits = clock.allocated(request, observation)
            clock.uncount(size_bytes)
        string = Request(callback_bytes, False, "string", period_bytes, self._is_predicted)
        of_callback = clock.allocated(string, observation)
        self._callback_samples = len(of_callback)
        self._own_hits = hits, clock.allocated(request, observation)
        self._hits = all_of(hits, of_callback, self._own_hits[-1])
        return len(self._hits)

    def _reallocated(self, action: Realloc, observation: Observation) -> int:
        block = self._shadow.roots[action.root]
        to_move_bytes = self._bytes_to_move(block, action)
        if to_move_bytes is None:
            return 0
        return self._count_block(action, block, to_move_bytes, observation)

    def _bytes_to_move(self, block: ShadowObject, action: Realloc) -> int | None:
        """The bytes requested for a block that moves; None if it stays, and nothing counts."""
        capacity_bytes, requested_bytes = block.size_bytes, action.size_bytes
        if self._rule.realloc == "when_moved":
            return bytes_to_move(capacity_bytes, requested_bytes)
        is_alike = self._layout.capacity_bytes(requested_bytes) == capacity_bytes
        if self._rule.realloc == "always" or not is_alike or block in self._sampled_blocks:
            return requested_bytes
        is_due = self._clocks[action.thread].is_due(self._bytes_counted(requested_bytes))
        is_small = self._layout.class_bytes(requested_bytes) is not None
        return requested_bytes if is_due and is_small else None

    def _freed(self, action: Free) -> int:
        block = self._shadow.freed
        if block and self._rule.counting.counts_frees and self._period_bytes is not None:
            counted_bytes = self._bytes_counted(block.number)
            self._hits = self._clocks[action.thread].freed(counted_bytes, self._period_bytes)
        return len(self._hits)

    def _count_block(
        self, action: Action, block: ShadowObject, size_bytes: int, observation: Observation
    ) -> int:
        """Count a block for which `size_bytes` are requested."""
        placed_bytes = self._layout.placed_bytes(size_bytes)
        if placed_bytes < self._layout.shared_bytes:
            if not size_bytes:
                return 0
            beside = self._shared[action.thread].place(block, placed_bytes)
            if beside is not block:
                self._beside = beside
                return 0
        self._counted_bytes = self._bytes_counted(size_bytes)
        samples = self._count(action, self._counted_bytes, block, observation)
        self._place = self._clocks[action.thread].place
        self._shadow.resize(block, size_bytes)
        (self._sampled_blocks.add if samples else self._sampled_blocks.discard)(block)
        return samples

    # What starts and ends a count.

    def _start(self, period_bytes: int, seed: int | None = None) -> None:
        self._period_bytes = self._counted_period_bytes = period_bytes
        self._was_enabled = True
        for clock in self._clocks:
            clock.start(period_bytes, seed)

    def _switch(self, action: Action, seed: int | None) -> None:
        """Sampling is switched, or its period set."""
        self._last_period_bytes = getattr(action, "period_bytes", self._last_period_bytes)
        period_bytes, paused_bytes = self._shadow.sampling_bytes, self._shadow.paused_bytes
        is_resumed = action.sampling == "resumes" and self._period_bytes != period_bytes
        if period_bytes is not None and (
            action.sampling == "starts" or (is_resumed and self._rule.paused == "stopped")
        ):
            self._start(period_bytes, seed)
        self._period_bytes = self._counted_period_bytes = period_bytes
        if paused_bytes is not None and self._rule.paused != "stopped":
            self._counted_period_bytes = paused_bytes if self._rule.paused == "counting" else 0


def _by_member(parts: Sequence[Sequence[ExpectedSample]], sizes: Sequence[int]) -> Sequence[int]:
    """How many of the samples are of bytes of each member; the members have these sizes."""
    ends = [*accumulate(sizes)]
    return [
        sum(samples_in(hits, end - size_bytes, end) for hits in parts)
        for size_bytes, end in zip(sizes, ends, strict=True)
    ]
