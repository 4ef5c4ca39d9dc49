"""A small sampler, for `MODULE:CLASS` and for tests: its contract is right unless it is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from fuzz import Contract, KindLayout, Layout, Observation, Range, SamplingRule, actions

FIXED_BYTES = 16
STRING = KindLayout(type_index=1, fixed_bytes=FIXED_BYTES, item_bytes=1)
CONTRACT = Contract(
    nursery_bytes=1024,
    layout=Layout(
        {"string": STRING}, large_object_bytes=2**17, object_bytes_max=2**16, word_bytes=1
    ),
    actions=("allocate_string", "free", "enable_sampling", "disable_sampling"),
    observes=("samples", "size"),
    sampling=SamplingRule(period_bytes=Range(1, 2**20), disabling=("drop",)),
)


class SmallSampler:
    """It counts up to its period. Subclasses and keyword arguments change the rule."""

    stated: Mapping[str, Any] = {}

    def __init__(self, **stated: Any) -> None:
        self._rule = {**self.stated, **stated}
        self.counted_bytes = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.period_bytes = self.counted_bytes = 0
        return attrs.evolve(CONTRACT, sampling=attrs.evolve(CONTRACT.sampling, **self._rule))

    def perform(self, action: actions.Action) -> Observation:
        match action:
            case actions.EnableSampling(period_bytes=period_bytes):
                self.enable(period_bytes)
            case actions.DisableSampling():
                self.period_bytes = 0
            case actions.AllocateString(length=length):
                size_bytes = FIXED_BYTES + length
                samples = self.samples_of(size_bytes) if self.period_bytes else 0
                return Observation(size=size_bytes, samples=samples)
        return Observation()

    def enable(self, period_bytes: int) -> None:
        self.period_bytes, self.counted_bytes = period_bytes, 0

    def is_due(self) -> bool:
        return self.counted_bytes > self.period_bytes

    def samples_of(self, size_bytes: int) -> int:
        self.counted_bytes += size_bytes
        samples = 0
        while self.is_due():
            self.counted_bytes -= self.period_bytes
            samples += 1
        return samples


class AtThePeriod(SmallSampler):
    """It takes a sample when the bytes reach the period, and its contract says beyond."""

    def is_due(self) -> bool:
        return self.counted_bytes >= self.period_bytes


class OneByOne(SmallSampler):
    """An `if` in place of a `while`."""

    def samples_of(self, size_bytes: int) -> int:
        self.counted_bytes += size_bytes
        if not self.is_due():
            return 0
        self.counted_bytes -= self.period_bytes
        return 1


class Keeping(SmallSampler):
    """Enabling keeps what is left of the last period."""

    until_bytes: int

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.until_bytes = -1
        return super().start(configuration)

    def enable(self, period_bytes: int) -> None:
        self.period_bytes = period_bytes
        if self.until_bytes < 0:
            self.until_bytes = period_bytes

    def samples_of(self, size_bytes: int) -> int:
        samples = 0
        self.until_bytes -= size_bytes
        while self.until_bytes < 0:
            self.until_bytes += self.period_bytes
            samples += 1
        return samples


class Alternating(SmallSampler):
    """A bug: after each sample, the next one comes after half of the period. No key states that."""

    def samples_of(self, size_bytes: int) -> int:
        self.counted_bytes += size_bytes
        if not self.is_due():
            return 0
        self.counted_bytes = self.period_bytes // 2
        return 1


class Unequal(SmallSampler):
    """A bug: each string of 7 characters takes a byte less."""

    def perform(self, action: actions.Action) -> Observation:
        observation = super().perform(action)
        if isinstance(action, actions.AllocateString) and action.length == 7:
            observation.size = FIXED_BYTES + 6
        return observation


class Failing(SmallSampler):
    """It fails for long strings."""

    def perform(self, action: actions.Action) -> Observation:
        if isinstance(action, actions.AllocateString) and action.length > 1000:
            return Observation(error="Broken: a long string")
        return super().perform(action)


class Broken(SmallSampler):
    """It fails always."""

    def perform(self, action: actions.Action) -> Observation:
        return Observation(error="Broken: all")
