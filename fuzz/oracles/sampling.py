"""The sampling oracle: how many samples each allocation takes, by arithmetic alone.

It counts the bytes since the last sample and divides. It is told sizes, never addresses, and it
knows nothing of nurseries, limits or collections: none of them may make a difference.
"""

from __future__ import annotations

from fuzz.actions import ALLOCATIONS, Action, EnableSampling
from fuzz.contract import Contract
from fuzz.observation import Observation
from fuzz.oracles.mismatch import Mismatch
from fuzz.shadow import Shadow, ShadowObject


class SamplingMismatch(Mismatch):
    """An allocation was sampled too often, or not often enough, or cost the wrong bytes."""

    oracle = "sampling"


class SamplingOracle:
    """`period_bytes` is 0 while sampling is off; `counted_bytes` are those since the last sample.

    `nursery_used_bytes` is what was allocated in the nursery since the last minor collection: the
    pointers oracle expects `free` there, and the rules aim with it at the nursery's edge.
    `callback_samples` are those that the last action's callback took, None if nobody can tell them
    from those of the object, and `callback_was_reported` whether the action collected once more
    after it. `was_enabled`, whether sampling ever was, is asked by a probe.
    """

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        self._rule = contract.sampling
        self._observes_samples = "samples" in contract.observes
        self._observes_size = "size" in contract.observes
        self._observes_outside = "outside" in contract.observes
        self._nursery_bytes = contract.nursery_bytes
        self._shadow = shadow
        self.period_bytes = 0
        self.callback_samples: int | None = 0
        self.callback_was_reported = False
        self.counted_bytes = 0
        self.nursery_used_bytes = 0
        self.was_enabled = False

    @property
    def bytes_until_sample(self) -> int:
        """The next allocation of more bytes than this is sampled (or of as many, if so ruled)."""
        return self.period_bytes - self.counted_bytes

    def check(self, action: Action, observation: Observation) -> None:
        """Compare with what the target said. Raises SamplingMismatch."""
        period_bytes, counted_bytes = self.period_bytes, self.counted_bytes
        expected = self.follow(action, observation)
        if type(action) in ALLOCATIONS:
            self._check_cost(observation)
        if self._observes_samples and observation.samples != expected:
            before = _describe(period_bytes, counted_bytes)
            raise SamplingMismatch("samples", expected, observation.samples, before)

    def follow(self, action: Action, observation: Observation) -> int:
        """Count what the action allocated; returns the samples that it must have taken.

        Of the observation it regards only what collected.
        """
        if observation.minors:
            self.nursery_used_bytes = 0
        self.callback_samples = 0
        self.callback_was_reported = False
        if type(action) in ALLOCATIONS:
            return self._allocated(observation)
        if isinstance(action, EnableSampling) or self._shadow.sampling_bytes != self.period_bytes:
            self._toggled()
        return 0

    def _check_cost(self, observation: Observation) -> None:
        """What the new object cost is what the layout says."""
        obj = self._shadow.roots[-1]
        if self._observes_size and observation.size != obj.size_bytes:
            why = f"by the layout, a {obj.kind} of {obj.number}"
            raise SamplingMismatch("size", obj.size_bytes, observation.size, why)
        if self._observes_outside and observation.outside is not obj.outside:
            why = f"by the layout, {obj.size_bytes} bytes"
            raise SamplingMismatch("outside", obj.outside, observation.outside, why)

    def _allocated(self, observation: Observation) -> int:
        """Count the new object."""
        obj = self._shadow.roots[-1]
        callback_bytes = self._shadow.callback_bytes if observation.minors else 0
        if callback_bytes:
            self._make_room_after_callback(obj, callback_bytes)
        if not obj.outside:
            self.nursery_used_bytes += obj.size_bytes
        if not self.period_bytes:
            return 0
        if self._rule.distances == "unstated":
            self.callback_samples = None if callback_bytes and observation.samples else 0
            return observation.samples
        if callback_bytes:
            return self._samples_with_callback(observation, obj.size_bytes, callback_bytes)
        return self._samples(obj.size_bytes)

    def _make_room_after_callback(self, obj: ShadowObject, callback_bytes: int) -> None:
        """The callback allocates in the empty nursery, which may leave too little for `obj`."""
        fits = callback_bytes + obj.size_bytes <= self._nursery_bytes
        self.callback_was_reported = not obj.outside and not fits
        self.nursery_used_bytes = 0 if self.callback_was_reported else callback_bytes

    def _samples_with_callback(
        self, observation: Observation, size_bytes: int, callback_bytes: int
    ) -> int:
        """The samples of a callback's string and of the object whose allocation caused it.

        The object may pass sample points before it is found not to fit. Its bytes are counted when
        it is placed, after those of the string, but these samples are taken.
        """
        samples = 0
        if observation.order.startswith("s"):
            samples = self._samples(size_bytes)
            self.counted_bytes -= size_bytes
        self.callback_samples = callback_samples = self._samples(callback_bytes)
        return samples + callback_samples + self._samples(size_bytes)

    def _toggled(self) -> None:
        self.period_bytes = self._shadow.sampling_bytes
        self.counted_bytes = 0
        self.was_enabled = self.was_enabled or self.period_bytes > 0

    def _samples(self, size_bytes: int) -> int:
        """How many samples an object of `size_bytes` takes; what is left over is counted on."""
        rule = self._rule
        total = self.counted_bytes + size_bytes
        # The last byte that takes no sample is byte `period` itself where a sample is due beyond
        # it, and the one before where it is due at it.
        samples = max(total - 1 if rule.crosses == "beyond" else total, 0) // self.period_bytes
        if samples and rule.surplus == "dropped":
            total = 0
        else:
            total -= samples * self.period_bytes
        self.counted_bytes = total
        return min(samples, 1) if rule.samples_per_allocation == "one" else samples


def _describe(period_bytes: int, counted_bytes: int) -> str:
    """The sampler's state before the action."""
    if not period_bytes:
        return "sampling was off"
    left_bytes = period_bytes - counted_bytes
    return f"period {period_bytes}, {left_bytes} bytes were left until the next sample"
