"""How far samples are apart: each system's own generator, and what it makes of a number.

From the seed that the contract states, the same distances follow as in the system itself, so that
each is foretold. Invariant: a sequence is a matter of its seed and of the periods asked for.

    jemalloc     s = s * 6364136223846793005 + 1442695040888963407 mod 2^64; r = its upper 53 bits,
                 u = r / 2^53, or 1 if r is 0: floor(ln u / ln(1 - 1/period)) + 1, the byte itself;
                 a period of 1 draws nothing (jemalloc 5.3.0, prof.c and prng.h)
    gperftools   r = r * 0x5DEECE66D + 0xB mod 2^48, twenty times to begin with; q = (r >> 22) + 1:
                 floor((log2 q - 26) * -ln 2 * period), the bytes before
                 (gperftools 2.10, sampler.cc)
    tcmalloc     the same less one, but not below 0; a period of 1 draws nothing (TCMalloc,
                 sampler.cc)
    hotspot      gperftools' generator, from the state itself, and log2 by a table of 1024 entries,
                 each at the middle of its interval: floor(min(log2 q - 26, 0) * -ln 2 * period + 1)
                 a period of 0 draws nothing, and is 0 (OpenJDK 11 to 25, threadHeapSampler.cpp)
    dotnet       xoshiro128++, from its state, whose lowest 32 bits are the first word; u = its
                 number / 2^32: floor(-ln(1-u) * period), the bytes before
                 (.NET 10, gcheaputilities.h and xoshiro128pp.c)
    dotnet_document
                 the subtractive generator of System.Random, u = its number / (2^31 - 1):
                 floor(ln(1-u) / ln(1 - 1/period)), the bytes before
                 (Nasarre and Falk, Randomized Allocation Sampling)
    geometric    splitmix64, u = its upper 53 bits / 2^53: floor(ln(1-u) / ln(1 - 1/period)) + 1
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Protocol

from typing_extensions import override

BITS_64 = 2**64 - 1
BITS_48 = 2**48 - 1
BITS_32 = 2**32 - 1
LN_2 = math.log(2)
GPERFTOOLS_PLACEHOLDER_BYTES = 16 << 20
"""Its distance for a period of 0, with which nothing is sampled and nothing drawn."""


class Distances(Protocol):
    """A sequence of distances, which goes on with each that is drawn."""

    def draw(self, period_bytes: int) -> int:
        """The next distance, in bytes."""

    def reseed(self, seed: int) -> None:
        """Begin anew, as all sequences do that are drawn."""
        self.__init__(seed)  # type: ignore[misc]


class Fixed(Distances):
    """The period itself, each time."""

    @override
    def draw(self, period_bytes: int) -> int:
        return period_bytes


class Jemalloc(Distances):
    """jemalloc's, from the state of a thread's generator."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    @override
    def draw(self, period_bytes: int) -> int:
        if period_bytes == 1:
            return 1
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & BITS_64
        upper = self._state >> 11
        uniform = upper / 2**53 if upper else 1.0
        return int(math.log(uniform) / math.log(1 - 1 / period_bytes)) + 1


class Gperftools(Distances):
    """gperftools', from what its sampler is seeded with."""

    def __init__(self, seed: int) -> None:
        self._state = seed
        for _ in range(20):
            self._step()

    def _step(self) -> None:
        self._state = (self._state * 0x5DEECE66D + 0xB) & BITS_48

    @override
    def draw(self, period_bytes: int) -> int:
        if period_bytes == 0:
            return GPERFTOOLS_PLACEHOLDER_BYTES
        self._step()
        q = (self._state >> 22) + 1.0
        return int((math.log2(q) - 26) * (-LN_2 * period_bytes))


class Tcmalloc(Gperftools):
    """TCMalloc's, which has the same generator."""

    @override
    def draw(self, period_bytes: int) -> int:
        return 0 if period_bytes == 1 else max(0, super().draw(period_bytes) - 1)


class Hotspot(Distances):
    """HotSpot's, from the state of its generator."""

    TABLE: ClassVar = [round(math.log2(1 + (index + 0.5) / 1024), 15) for index in range(1024)]

    def __init__(self, seed: int) -> None:
        self._state = seed

    @override
    def draw(self, period_bytes: int) -> int:
        if period_bytes == 0:
            return 0
        self._state = (self._state * 0x5DEECE66D + 0xB) & BITS_48
        fraction, exponent = math.frexp((self._state >> 22) + 1.0)
        # That is from a half up to one.
        log2 = exponent - 1 + self.TABLE[int((2 * fraction - 1) * 1024)]
        return int(min(log2 - 26, 0.0) * (-LN_2 * period_bytes) + 1)


class Dotnet(Distances):
    """.NET 10's, from the state of a thread's generator."""

    def __init__(self, seed: int) -> None:
        self._words = [seed >> bits & BITS_32 for bits in (0, 32, 64, 96)]

    @staticmethod
    def _rotated(word: int, bits: int) -> int:
        return (word << bits | word >> 32 - bits) & BITS_32

    @override
    def draw(self, period_bytes: int) -> int:
        a, b, c, d = self._words
        number = (self._rotated((a + d) & BITS_32, 7) + a) & BITS_32
        c ^= a
        d ^= b
        self._words = [a ^ d, b ^ c, c ^ (b << 9 & BITS_32), self._rotated(d, 11)]
        return int(-math.log(1 - number / 2**32) * period_bytes)


class DotnetDocument(Distances):
    """The design document's, from the seed of System.Random: Knuth's generator, lags 55 and 21."""

    _TOP = 2**31 - 1
    _GOLDEN = 161803398

    def __init__(self, seed: int) -> None:
        table = [0] * 56
        before = self._GOLDEN - min(abs(seed), self._TOP)
        table[55], value = before, 1
        for index in range(1, 55):
            place = 21 * index % 55
            table[place] = value
            value = self._wrapped(before - value)
            before = table[place]
        for _ in range(4):
            for index in range(1, 56):
                lag = table[1 + (index + 30) % 55]
                table[index] = self._wrapped(self._as_int32(table[index] - lag))
        self._table = table[1:]
        self._next = 0

    def _wrapped(self, number: int) -> int:
        return number + self._TOP if number < 0 else number

    @staticmethod
    def _as_int32(number: int) -> int:
        return (number + 2**31) % 2**32 - 2**31

    def _uniform(self) -> float:
        place = self._next
        number = self._table[place] - self._table[(place + 21) % 55]
        if number == self._TOP:
            number -= 1
        number = self._wrapped(number)
        self._table[place] = number
        self._next = (place + 1) % 55
        return number * (1.0 / self._TOP)

    @override
    def draw(self, period_bytes: int) -> int:
        uniform = self._uniform()
        if period_bytes == 1:
            return 0
        return math.floor(math.log(1 - uniform) / math.log(1 - 1 / period_bytes))


class Geometric(Distances):
    """A geometric one with the mean of the period, from the state of a splitmix64 generator."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    @override
    def draw(self, period_bytes: int) -> int:
        self._state = mixed = (self._state + 0x9E3779B97F4A7C15) & BITS_64
        mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & BITS_64
        mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & BITS_64
        mixed ^= mixed >> 31
        if period_bytes == 1:
            return 1
        uniform = (mixed >> 11) / 2**53
        return math.floor(math.log(1 - uniform) / math.log(1 - 1 / period_bytes)) + 1


SEQUENCES: dict[str, Callable[[int], Distances]] = {
    "geometric": Geometric,
    "dotnet": Dotnet,
    "dotnet_document": DotnetDocument,
    "jemalloc": Jemalloc,
    "tcmalloc": Tcmalloc,
    "gperftools": Gperftools,
    "hotspot": Hotspot,
}
"""What is drawn, by the contract's name for it."""


def distances_of(name: str, seed: int) -> Distances:
    """The sequence of that name; what is not drawn is the period."""
    make = SEQUENCES.get(name)
    return Fixed() if make is None else make(seed)
