"""The sampling oracle: how many samples each allocation takes, by arithmetic alone.

It tells each thread's clock the bytes that the contract's rule counts. It is told sizes, never
addresses, and it knows nothing of nurseries, limits or collections: none of them may make a
difference, but for the end of an allocation context where the rule has such. Nothing in it is
special to one system.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.actions import (
    ALLOCATIONS,
    Action,
    Calloc,
    EnableSampling,
    Malloc,
    PauseSampling,
    Realloc,
    ResumeSampling,
    SetPeriod,
    requested_bytes,
)
from fuzz.contract import DRAWN, Contract
from fuzz.observation import Observation
from fuzz.oracles.blocks import bytes_counted, bytes_to_move
from fuzz.oracles.clock import NONE, Clock, Hit
from fuzz.oracles.mismatch import Mismatch
from fuzz.shadow import Shadow, ShadowObject

PAUSING = (PauseSampling, ResumeSampling)


class SamplingMismatch(Mismatch):
    """An allocation was sampled too often, or not often enough, or cost the wrong bytes."""

    oracle = "sampling"


class SamplingOracle:
    """`period_bytes` is 0 while nothing is sampled. `hits` are the last action's samples.

    `unheard` says how many of them nothing was said of, because sampling was paused.
    `nursery_used_bytes` is what was allocated in the nursery since the last minor collection: the
    pointers oracle expects `free` there, and the rules aim with it at the nursery's edge.
    `callback_samples` are those that the last action's callback took, None if nobody can tell them
    from those of the object, and `callback_was_reported` whether the action collected once more
    after it. `counted_bytes` is what the last action's block counted, None if none was counted.
    `was_enabled`, whether sampling ever was, is asked by a probe.
    """

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        self._rule = contract.sampling
        self._layout = contract.layout
        self._observes = frozenset(contract.observes)
        self._tells_hits = not self._observes.isdisjoint(("offsets", "weights"))
        self._nursery_bytes = contract.nursery_bytes
        self._shadow = shadow
        self._is_stated = self._rule.is_stated
        self._is_drawn = self._rule.distances in DRAWN
        self.clocks = [Clock(self._rule, thread) for thread in range(contract.threads)]
        self.period_bytes = 0
        self.hits: Sequence[Hit] = NONE
        self.unheard = 0
        self.callback_samples: int | None = 0
        self.callback_was_reported = False
        self.counted_bytes: int | None = None
        self.nursery_used_bytes = 0
        self.was_enabled = False
        if shadow.sampling_bytes:
            self._start()

    def bytes_until_sample(self, thread: int = 0) -> int:
        """The thread's next allocation of more bytes is sampled (or of as many, if so ruled)."""
        return self.clocks[thread].until_bytes

    @property
    def offsets(self) -> list[int]:
        """The bytes that were drawn in the last action; none where distances are not."""
        return [hit.offset for hit in self.hits] if self._is_drawn else []

    def check(self, action: Action, observation: Observation) -> None:
        """Compare with what the target said. Raises SamplingMismatch."""
        period_bytes, until_bytes = self.period_bytes, self.clocks[action.thread].until_bytes
        expected = self.follow(action, observation)
        self._check_cost(action, observation)
        if "samples" in self._observes and observation.samples != expected:
            why = _describe(period_bytes, until_bytes)
            if self.counted_bytes is not None:
                why += f"; the block counts {self.counted_bytes}"
                why += ", and as many are enough" if self._rule.crosses == "at" else ""
            raise SamplingMismatch("samples", expected, observation.samples, why)
        if self._is_stated and self._tells_hits:
            self._check_hits(observation)

    def follow(self, action: Action, observation: Observation) -> int:
        """Count what the action allocated; returns the samples that it must have taken.

        Of the observation it regards only what collected, and what nobody could foretell.
        """
        if observation.minors:
            self.nursery_used_bytes = 0
        self.callback_samples = 0
        self.callback_was_reported = False
        self.counted_bytes = None
        self.hits = NONE
        self.unheard = 0
        samples = 0
        if type(action) in ALLOCATIONS:
            samples = self._allocated(action, observation)
        elif isinstance(action, Realloc):
            samples = self._reallocated(action, observation)
        elif isinstance(action, EnableSampling) or self._shadow.sampling_bytes != self.period_bytes:
            self._toggled(action)
        if observation.minors and self._rule.context_bytes:
            self._end_contexts(action)
        return samples

    # What is compared.

    def _check_cost(self, action: Action, observation: Observation) -> None:
        """What the new object cost is what the layout says."""
        if type(action) not in ALLOCATIONS and not isinstance(action, Realloc):
            return
        obj = self._shadow.placed_by(action)
        if "size" in self._observes and observation.size != obj.size_bytes:
            why = f"by the layout, a {obj.kind} of {obj.number}"
            raise SamplingMismatch("size", obj.size_bytes, observation.size, why)
        if "outside" in self._observes and observation.outside is not obj.outside:
            why = f"by the layout, {obj.size_bytes} bytes"
            raise SamplingMismatch("outside", obj.outside, observation.outside, why)

    def _check_hits(self, observation: Observation) -> None:
        offsets, weights = self.offsets, [hit.weight for hit in self.hits]
        if "offsets" in self._observes and observation.offsets != offsets:
            why = "the byte of the object at which the distance ends"
            raise SamplingMismatch("offsets", offsets, observation.offsets, why)
        if "weights" in self._observes and observation.weights != weights:
            why = "the period of the distance, and the bytes beyond the one that was drawn"
            raise SamplingMismatch("weights", weights, observation.weights, why)

    # What is counted.

    def _allocated(self, action: Action, observation: Observation) -> int:
        """Count the new object."""
        obj = self._shadow.roots[-1]
        if isinstance(action, Malloc | Calloc):
            return self._count_block(action, obj, requested_bytes(action), observation)
        callback_bytes = self._shadow.callback_bytes if observation.minors else 0
        if callback_bytes:
            self._make_room_after_callback(obj, callback_bytes)
        if not obj.outside:
            self.nursery_used_bytes += obj.size_bytes
        if self.period_bytes and not self._is_stated:
            self.callback_samples = None if callback_bytes and observation.samples else 0
            return observation.samples
        clock = self.clocks[action.thread]
        if callback_bytes and self.period_bytes:
            self.hits = self._count_with_callback(clock, observation, obj, callback_bytes)
        else:
            self.hits = self._count(clock, obj.size_bytes, obj.outside)
        return len(self.hits)

    def _count(self, clock: Clock, size_bytes: int, outside: bool) -> Sequence[Hit]:
        """The samples of so many bytes that are allocated by the clock's thread."""
        period_bytes = self.period_bytes
        if self._rule.context_bytes and not outside:
            return clock.count_in_context(size_bytes, period_bytes)
        if not period_bytes:
            paused_bytes = self._shadow.paused_bytes
            if paused_bytes and self._rule.paused != "stopped" and self._is_stated:
                drawn_for_bytes = paused_bytes if self._rule.paused == "counting" else 0
                self.unheard = len(clock.count(size_bytes, drawn_for_bytes))
            return NONE
        if self._rule.context_bytes:
            return clock.count_outside(size_bytes, period_bytes)
        return clock.count(size_bytes, period_bytes)

    def _make_room_after_callback(self, obj: ShadowObject, callback_bytes: int) -> None:
        """The callback allocates in the empty nursery, which may leave too little for `obj`."""
        fits = callback_bytes + obj.size_bytes <= self._nursery_bytes
        self.callback_was_reported = not obj.outside and not fits
        self.nursery_used_bytes = 0 if self.callback_was_reported else callback_bytes

    def _count_with_callback(
        self, clock: Clock, observation: Observation, obj: ShadowObject, callback_bytes: int
    ) -> Sequence[Hit]:
        """The samples of a callback's string and of the object whose allocation caused it.

        The object may pass sample points before it is found not to fit. Its bytes are counted when
        it is placed, after those of the string, but these samples are taken.
        """
        hits = NONE
        if observation.order.startswith("s"):
            hits = (*self._count(clock, obj.size_bytes, obj.outside),)
            clock.uncount(obj.size_bytes)
        of_callback = self._count(clock, callback_bytes, outside=False)
        self.callback_samples = len(of_callback)
        return (*hits, *of_callback, *self._count(clock, obj.size_bytes, obj.outside))

    def _reallocated(self, action: Realloc, observation: Observation) -> int:
        block = self._shadow.roots[action.root]
        to_move_bytes = bytes_to_move(self._rule, block.size_bytes, action.size_bytes)
        if to_move_bytes is None:
            return 0
        return self._count_block(action, block, to_move_bytes, observation)

    def _count_block(
        self, action: Action, block: ShadowObject, size_bytes: int, observation: Observation
    ) -> int:
        """Count a block for which there is to be room of `size_bytes`."""
        self.counted_bytes = bytes_counted(self._rule, self._layout, size_bytes)
        if self.period_bytes and not self._is_stated:
            samples = observation.samples
        else:
            self.hits = self._count(self.clocks[action.thread], self.counted_bytes, outside=True)
            samples = len(self.hits)
        block.size_bytes = self._layout.room_bytes(size_bytes)
        return samples

    # What starts and ends a count.

    def _start(self) -> None:
        self.period_bytes = self._shadow.sampling_bytes
        self.was_enabled = True
        for clock in self.clocks:
            clock.start(self.period_bytes)

    def _toggled(self, action: Action) -> None:
        """Enabled or disabled; what goes on counting for another period, or unheard, goes on."""
        goes_on = isinstance(action, PAUSING) and self._rule.paused != "stopped"
        if isinstance(action, SetPeriod) or goes_on or not self._shadow.sampling_bytes:
            self.period_bytes = self._shadow.sampling_bytes
        else:
            self._start()

    def _end_contexts(self, action: Action) -> None:
        """A collection ends all contexts. One that an allocation causes comes before its object."""
        allocating = type(action) in ALLOCATIONS and not self._shadow.roots[-1].outside
        for thread, clock in enumerate(self.clocks):
            if not (allocating and thread == action.thread):
                clock.room_bytes = 0


def _describe(period_bytes: int, until_bytes: int) -> str:
    """The sampler's state before the action."""
    if not period_bytes:
        return "sampling was off"
    left = "1 byte was" if until_bytes == 1 else f"{until_bytes} bytes were"
    return f"period {period_bytes}, {left} left until the next sample"
