"""The distances between samples, one class for each system.

Invariant: a distance depends only on the seed, on the number of distances drawn before, and on the
period of this draw. Each sampler defines what a distance means: the bytes that may be allocated
before a sample is due, or one byte more (see sample_point and contexts).

Except for the fixed period, the mean is the period, or as close to it as the system comes.
"""

import math
from typing import Protocol

from gcmodel.sampling.generators import (
    JemallocGenerator,
    Rand48Generator,
    SplitMix64,
    SubtractiveGenerator,
    Xoshiro128,
)


class Distances(Protocol):
    """A sequence of distances."""

    def draw(self, period_bytes: int) -> int:
        """Draw the next distance in bytes, with the mean `period_bytes`."""


def failed_trials(fraction: float, period_bytes: int) -> int:
    """How many bytes fail before one succeeds, if each succeeds with probability 1/period.

    This is the inverse of the geometric distribution at `fraction`, which is from 0 up to, and not
    including, 1. (Nasarre and Falk, Randomized Allocation Sampling, CalculateGeometricRandom.)
    """
    if period_bytes == 1:
        return 0  # Every byte succeeds, and the logarithm of a failure does not exist.
    return math.floor(math.log(1.0 - fraction) / math.log(1.0 - 1.0 / period_bytes))


class FixedPeriod:
    """Always the period. (Jung and Bolz-Tereick, as published.)"""

    def draw(self, period_bytes: int) -> int:
        return period_bytes


class Geometric:
    """The next byte to succeed, counted from 1. (Jung and Bolz-Tereick's plan for PyPy.)"""

    def __init__(self, seed: int) -> None:
        self._generator = SplitMix64(seed)

    def draw(self, period_bytes: int) -> int:
        return failed_trials(self._generator.fraction(), period_bytes) + 1


class Dotnet:
    """An exponential distribution, rounded down: 0 or more. (.NET 10, ComputeGeometricRandom.)"""

    def __init__(self, seed: int) -> None:
        self._generator = Xoshiro128(seed)

    def draw(self, period_bytes: int) -> int:
        return int(-math.log(1.0 - self._generator.bits_32() * 2.0**-32) * period_bytes)


class DotnetDocument:
    """The bytes that fail before one succeeds: 0 or more, with the mean period - 1.

    (Nasarre and Falk, Randomized Allocation Sampling.)
    """

    def __init__(self, seed: int) -> None:
        self._generator = SubtractiveGenerator(seed)

    def draw(self, period_bytes: int) -> int:
        return failed_trials(self._generator.fraction(), period_bytes)


class Jemalloc:
    """1 or more, for a period that is a power of two.

    (jemalloc 5.3.0, prof_sample_new_event_wait.)
    """

    FRACTION_BITS = 53

    def __init__(self, seed: int) -> None:
        self._generator = JemallocGenerator(seed)

    def draw(self, period_bytes: int) -> int:
        """Draw the next distance. A period of 1 uses no random number."""
        if period_bytes == 1:
            return 1
        number = self._generator.bits(self.FRACTION_BITS)
        fraction = number * 2.0**-self.FRACTION_BITS if number else 1.0
        return int(math.log(fraction) / math.log(1.0 - 1.0 / period_bytes)) + 1


class Gperftools:
    """An exponential distribution, rounded down: 0 or more.

    (gperftools 2.10, Sampler::PickNextSamplingPoint.)
    """

    def __init__(self, seed: int) -> None:
        self._generator = Rand48Generator(seed)

    def draw(self, period_bytes: int) -> int:
        # The logarithm to base 2 of a number from 1 to 2**26, as a fraction of 2**26.
        logarithm = math.log2(self._generator.bits_26() + 1.0) - 26
        return int(logarithm * (-math.log(2.0) * period_bytes))


class Tcmalloc(Gperftools):
    """The same less one, but not below 0, so that byte `max(1, floor(E))` is sampled.

    A period of 1 uses no random number. (google/tcmalloc, sampler.cc. Its document on sampling has
    the ceiling of the exponential instead.)
    """

    def draw(self, period_bytes: int) -> int:
        if period_bytes == 1:
            return 0
        return max(0, super().draw(period_bytes) - 1)


class Hotspot:
    """The same distribution from a table of logarithms, rounded up: 1 or more.

    (OpenJDK, threadHeapSampler.cpp: fast_log2 and pick_next_geometric_sample.)
    """

    TABLE_BITS = 10
    TABLE = tuple(round(math.log2(1.0 + (part + 0.5) / (1 << 10)), 15) for part in range(1 << 10))
    """The logarithm of the middle of each part of an octave."""

    def __init__(self, seed: int) -> None:
        self._generator = Rand48Generator(seed, thrown_away=0)

    def draw(self, period_bytes: int) -> int:
        number = self._generator.bits_26() + 1
        octave = number.bit_length() - 1
        part = (number << self.TABLE_BITS >> octave) - (1 << self.TABLE_BITS)
        logarithm = min(octave + self.TABLE[part] - 26, 0.0)
        return int(logarithm * (-math.log(2.0) * period_bytes) + 1)
