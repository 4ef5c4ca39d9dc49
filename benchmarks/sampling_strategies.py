"""Ways to pick the allocations to sample, and how wrong each is. Needs numpy, which scipy brings.

A strategy sees a stream of allocations, an array of their sizes in bytes in the order in which they
are made, and says of each how many bytes it stands for: none if it is not sampled. The sum of these
over any part of the stream (one type's allocations, say) estimates the bytes of that part.

Invariant: with chances per allocation or per byte the expectation of each allocation's figure is
its size, so every part is estimated without bias and only the variance differs. The others, which
have no randomness, always make the same error; no chance can be stated for them but 0 or 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import attrs
import numpy as np
import numpy.typing as npt

from gcmodel.estimation.checks import check_above, check_at_least

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Strategy(Protocol):
    """What is asked of a strategy. Each figure is one for each allocation of the stream."""

    def chances(self, sizes_bytes: Integers) -> Floats:
        """How probable it is that each allocation is sampled, 0 to 1."""

    def represented_bytes(self, sizes_bytes: Integers, generator: np.random.Generator) -> Floats:
        """The bytes that each allocation stands for in one run; 0 where it is not sampled."""

    def mean_bytes(self, sizes_bytes: Integers) -> Floats:
        """The expectation of the same: the size, where the strategy is unbiased."""

    def variance_bytes2(self, sizes_bytes: Integers) -> Floats:
        """The variance of the same, in bytes squared; allocations do not depend on one another."""


@attrs.frozen
class Error:
    """How wrong a strategy is about the bytes of one part of a stream, in bytes."""

    bias_bytes: float
    """By how much the expected estimate is too large."""
    standard_error_bytes: float
    """The square root of the estimate's variance."""


def error_of(strategy: Strategy, sizes_bytes: Integers, part: Mask) -> Error:
    """The error of the estimated bytes of the allocations that `part` selects."""
    bias = (strategy.mean_bytes(sizes_bytes) - sizes_bytes)[part].sum()
    return Error(float(bias), math.sqrt(strategy.variance_bytes2(sizes_bytes)[part].sum()))


def chances_per_byte(sizes_bytes: Integers | Floats, period_bytes: float) -> Floats:
    """The chance that any byte of each size is hit, one in `period_bytes`, which is above 1."""
    check_above("period_bytes", period_bytes, 1)
    missed: Floats = np.expm1(sizes_bytes.astype(np.float64) * math.log1p(-1 / period_bytes))
    return -missed


@attrs.frozen
class Independent:
    """Each allocation is sampled by itself, with a chance of its own.

    `chance` is any function from the stream's sizes to the chances, above 0 and at most 1: it may
    look at a size, or at the place in the stream. Drawing raises ValueError where it is outside.
    (jemalloc, PROFILING_INTERNALS.md.)
    """

    chance: Callable[[Integers], Floats]

    def chances(self, sizes_bytes: Integers) -> Floats:
        chances = self.chance(sizes_bytes)
        if not ((chances > 0) & (chances <= 1)).all():
            raise ValueError("a chance is not above 0 and at most 1")
        return chances

    def represented_bytes(self, sizes_bytes: Integers, generator: np.random.Generator) -> Floats:
        chances = self.chances(sizes_bytes)
        return np.where(generator.random(len(chances)) < chances, sizes_bytes / chances, 0.0)

    def mean_bytes(self, sizes_bytes: Integers) -> Floats:
        return sizes_bytes.astype(np.float64)

    def variance_bytes2(self, sizes_bytes: Integers) -> Floats:
        chances = self.chances(sizes_bytes)
        return sizes_bytes.astype(np.float64) ** 2 * (1 - chances) / chances


def per_allocation(one_in: float) -> Independent:
    """One coin for each allocation, whatever its size: one in so many, 1 or more, is sampled.

    The variance is `(one_in - 1) size^2` each. (jemalloc, PROFILING_INTERNALS.md.)
    """
    check_at_least("one_in", one_in, 1)
    return Independent(lambda sizes_bytes: np.full(len(sizes_bytes), 1 / one_in))


def per_byte(period_bytes: float) -> Independent:
    """One coin for each byte, and an allocation is sampled if any of its bytes is hit.

    .NET's approach 1 and jemalloc's. The period is above one byte; sizes are 1 or more.
    """
    check_above("period_bytes", period_bytes, 1)
    return Independent(lambda sizes_bytes: chances_per_byte(sizes_bytes, period_bytes))


@attrs.frozen
class PerByteFailedTrials:
    """The same samples, estimated by failed trials: .NET's approach 2, and TCMalloc's weight.

    The period is above one byte; ValueError otherwise. See `failed_trials`.
    """

    period_bytes: float = attrs.field(validator=attrs.validators.gt(1))

    def chances(self, sizes_bytes: Integers) -> Floats:
        return chances_per_byte(sizes_bytes, self.period_bytes)

    def represented_bytes(self, sizes_bytes: Integers, generator: np.random.Generator) -> Floats:
        offsets = generator.geometric(1 / self.period_bytes, len(sizes_bytes)) - 1
        remaining = sizes_bytes - offsets
        return np.where(remaining > 0, self.period_bytes - 1 + remaining, 0.0)

    def mean_bytes(self, sizes_bytes: Integers) -> Floats:
        return sizes_bytes.astype(np.float64)

    def variance_bytes2(self, sizes_bytes: Integers) -> Floats:
        return (self.period_bytes - 1) * self.period_bytes * self.chances(sizes_bytes)


class WithoutChance(ABC):
    """What the strategies share that sample the same allocations of a stream in every run."""

    @abstractmethod
    def represented(self, sizes_bytes: Integers) -> Floats:
        """The bytes that each allocation stands for, in every run."""

    def chances(self, sizes_bytes: Integers) -> Floats:
        return (self.represented(sizes_bytes) > 0).astype(np.float64)

    def represented_bytes(self, sizes_bytes: Integers, generator: np.random.Generator) -> Floats:
        return self.represented(sizes_bytes)

    def mean_bytes(self, sizes_bytes: Integers) -> Floats:
        return self.represented(sizes_bytes)

    def variance_bytes2(self, sizes_bytes: Integers) -> Floats:
        return np.zeros(len(sizes_bytes))


@attrs.frozen
class FixedStride(WithoutChance):
    """Every n-th byte from a fixed start: .NET's AllocationTick, with 100 KB, and PyPy's sampling.

    An allocation is sampled as often as its end passes a multiple of the stride, and stands for a
    stride each time. The whole stream is estimated to within a stride; a part of it that comes
    round in step with the stride is missed, or taken for all. (Nasarre and Falk, introduction.)
    """

    stride_bytes: int = attrs.field(validator=attrs.validators.ge(1))

    def represented(self, sizes_bytes: Integers) -> Floats:
        ends = np.cumsum(sizes_bytes)
        passed = (ends - 1) // self.stride_bytes
        times: Integers = np.diff(passed, prepend=0)
        return times.astype(np.float64) * self.stride_bytes


@attrs.frozen
class AtOverflow(WithoutChance):
    """The allocation that does not fit any more is sampled, and the next room begins with it.

    With a nursery or heap as the room it is Guile's profiler, one sample a collection; with a
    thread's allocation buffer, Harris's, one an overflow (Dynamic Adaptive Pre-Tenuring, 2000). A
    sample stands for all that was allocated since the one before it, itself included. One that is
    larger than a room leaves an empty one behind; nothing survives to make a room smaller.
    """

    room_bytes: int = attrs.field(validator=attrs.validators.ge(1))

    def represented(self, sizes_bytes: Integers) -> Floats:
        figures = np.zeros(len(sizes_bytes))
        used = since_sample = 0
        for place, size in enumerate(sizes_bytes.tolist()):
            used += size
            since_sample += size
            if used > self.room_bytes:
                figures[place] = since_sample
                since_sample = 0
                used = size if size <= self.room_bytes else 0
        return figures
