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
    ocaml        64 generators xoshiro128+, their states by splitmix64 from 42, drawn from in turn;
                 the logarithm of their numbers n, ln((n + 1/2) / 2^32), by a polynomial, all in
                 single precision: floor(1 + log * (1 / ln(1 - 1/period))). A seed is how often each
                 was drawn from before. (OCaml 4.13, memprof.c)
    ddtrace      minstd_rand, from its seed; a and b are its next two numbers less 1, r = 2^31 - 2,
                 u = (a + b r) / r^2: floor(-ln(1-u) / (1 / (period + 1))), the byte itself
                 (dd-trace-py 4.16, _memalloc_heap.cpp, and libstdc++'s exponential_distribution)
    go           a word of 32 bits, s += 0x53c5ca59; the halves of s * (s ^ 0x74743c1b) are xored,
                 times 2^26 over 2^32, and 1 more is q; log2 by a table of 32 intervals and a line
                 in each: floor(min(log2 q - 26, 0) * -ln 2 * min(period, 0x7000000)) + 1
                 a period of 1 draws nothing, and is 0; nor does 0, whose distance never ends
                 (Go 1.27, malloc.go, rand.go and fastlog2.go)
    go_1_19      the same, by a word of 64 bits, s += 0xa0761d6478bd642f, xored with
                 0xe7037ed1a0b428db, of whose halves, xored, the lowest 32 bits count (stubs.go)
    v8           xorshift128+, begun with MurmurHash3's end of the seed without its lowest 20 bits,
                 which say how many numbers to pass by; u = the upper 52 bits / 2^52:
                 floor(-ln u * period), at least 8 and at most 2^31 - 1
                 (V8 11.3, sampling-heap-profiler.cc and random-number-generator.cc)
    geometric    splitmix64, u = its upper 53 bits / 2^53: floor(ln(1-u) / ln(1 - 1/period)) + 1
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from functools import cache
from typing import ClassVar, Protocol

from typing_extensions import override

BITS_64 = 2**64 - 1
BITS_48 = 2**48 - 1
BITS_32 = 2**32 - 1
GOLDEN_64 = 0x9E3779B97F4A7C15
LN_2 = math.log(2)
TAKES_ONE_NUMBER = 16
"""A period for which each formula but ddtrace's takes one number of its generator."""
GPERFTOOLS_PLACEHOLDER_BYTES = 16 << 20
"""Its distance for a period of 0, with which nothing is sampled and nothing drawn."""


class Distances(Protocol):
    """A sequence of distances, which goes on with each that is drawn."""

    def draw(self, period_bytes: int) -> int:
        """The next distance, in bytes."""

    def restart(self) -> None:
        """Sampling begins."""
        return

    def skip(self, numbers: int) -> None:
        """So many numbers of the generator are used for something else."""
        for _ in range(numbers):
            self.draw(TAKES_ONE_NUMBER)

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


class Ddtrace(Distances):
    """ddtrace's, from the interval with which its generator is seeded."""

    _NUMBERS = 2.0**31 - 2

    def __init__(self, seed: int) -> None:
        self._state = (seed or 0x9E3779B9) % (2**31 - 1) or 1

    def _next(self) -> float:
        self._state = 48271 * self._state % (2**31 - 1)
        return self._state - 1.0

    @override
    def skip(self, numbers: int) -> None:
        for _ in range(numbers):
            self._next()

    @override
    def draw(self, period_bytes: int) -> int:
        low = self._next()
        uniform = (low + self._next() * self._NUMBERS) / (self._NUMBERS * self._NUMBERS)
        return int(-math.log(1 - uniform) / (1 / (period_bytes + 1)))


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


def _mixed(state: int) -> int:
    """What splitmix64 makes of a state."""
    mixed = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & BITS_64
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & BITS_64
    return mixed ^ mixed >> 31


_CELL = array("f", [0])


def _single(number: float) -> float:
    """The nearest number of single precision."""
    _CELL[0] = number
    return _CELL[0]


Lane = tuple[int, int, int, int]
"""The state of a xoshiro128+, whose next number is the sum of the first and the last."""


@cache
def _lanes_after(batches: int) -> tuple[Lane, ...]:
    """OCaml's 64 lanes, when so many batches were drawn of them."""
    if batches:
        return tuple(map(_stepped, _lanes_after(batches - 1)))
    numbers = [_mixed((42 + index * GOLDEN_64) & BITS_64) for index in range(1, 129)]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return tuple((a & BITS_32, a >> 32, b & BITS_32, b >> 32) for a, b in pairs)


def _stepped(lane: Lane) -> Lane:
    a, b, c, d = lane
    c ^= a
    d ^= b
    return a ^ d, b ^ c, c ^ (b << 9 & BITS_32), (d << 11 | d >> 21) & BITS_32


class Ocaml(Distances):
    """OCaml's, which draws words, and 64 at once; what is left is lost when sampling begins."""

    WORD_BYTES = 8
    _FACTORS = tuple(map(_single, (2.104659476859, -0.720478916626, 0.107132064797)))
    _CONSTANT, _LN_2 = map(_single, (-111.701724334061, 0.6931471805))

    def __init__(self, seed: int) -> None:
        self._lanes = _lanes_after(seed)
        self._batch: list[int] = []

    @override
    def restart(self) -> None:
        self._batch.clear()

    @override
    def draw(self, period_bytes: int) -> int:
        if not self._batch:
            self._batch = [(a + d) & BITS_32 for a, _, _, d in reversed(self._lanes)]
            self._lanes = tuple(map(_stepped, self._lanes))
        number = self._batch.pop()
        period_words = period_bytes // self.WORD_BYTES
        if period_words == 1:
            return self.WORD_BYTES
        inverse = _single(1 / math.log1p(-1 / period_words))
        return int(_single(1 + _single(self._log(number) * inverse))) * self.WORD_BYTES

    def _log(self, number: int) -> float:
        """Each step is rounded to single precision."""
        fraction, exponent = math.frexp(_single(_single(number) + 0.5))
        first, second, third = self._FACTORS
        x = 2 * fraction
        middle = _single(first + _single(x * _single(second + _single(x * third))))
        power = _single(self._CONSTANT + _single(self._LN_2 * (exponent + 126)))
        return _single(_single(x * middle) + power)


class Go(Distances):
    """Go's, from the state of its first thread's generator."""

    BITS, STEP, MASK = 32, 0x53C5CA59, 0x74743C1B
    TABLE: ClassVar = [math.log2(1 + index / 32) for index in range(33)]
    NEVER_BYTES, MEAN_BYTES_MAX = 2**63 - 1, 0x7000000

    def __init__(self, seed: int) -> None:
        self._state = seed

    @override
    def draw(self, period_bytes: int) -> int:
        if period_bytes <= 1:
            return 0 if period_bytes else self.NEVER_BYTES
        self._state = (self._state + self.STEP) % 2**self.BITS
        high, low = divmod(self._state * (self._state ^ self.MASK), 2**self.BITS)
        q = float((((high ^ low) & BITS_32) * 2**26 >> 32) + 1)
        fraction, exponent = math.frexp(q)
        # The first 25 bits behind the leading one.
        index, share = divmod(int((2 * fraction - 1) * 2**25), 2**20)
        low_log2, high_log2 = self.TABLE[index], self.TABLE[index + 1]
        log2 = exponent - 1 + low_log2 + (high_log2 - low_log2) * share * 2**-20
        mean_bytes = min(period_bytes, self.MEAN_BYTES_MAX)
        return int(min(log2 - 26, 0.0) * (-LN_2 * mean_bytes)) + 1


class GoWide(Go):
    """Go 1.19's, whose generator has 64 bits."""

    BITS, STEP, MASK = 64, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB


class V8(Distances):
    """V8's, from its generator's seed, and a place in the numbers that follow."""

    PLACE_BITS = 20
    LEAST, MOST = 8, 2**31 - 1

    def __init__(self, seed: int) -> None:
        first = self._mixed(seed >> self.PLACE_BITS)
        self._words = first, self._mixed(first ^ BITS_64)
        for _ in range(seed % 2**self.PLACE_BITS):
            self._step()

    @staticmethod
    def _mixed(word: int) -> int:
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            word = (word ^ word >> 33) * factor & BITS_64
        return word ^ word >> 33

    def _step(self) -> int:
        before, word = self._words
        before ^= before << 23 & BITS_64
        self._words = word, before ^ before >> 17 ^ word ^ word >> 26
        return word

    @override
    def draw(self, period_bytes: int) -> int:
        upper = self._step() >> 12
        if not upper:
            return self.MOST
        return min(max(int(-math.log(upper / 2**52) * period_bytes), self.LEAST), self.MOST)


class Geometric(Distances):
    """A geometric one with the mean of the period, from the state of a splitmix64 generator."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    @override
    def draw(self, period_bytes: int) -> int:
        self._state = (self._state + GOLDEN_64) & BITS_64
        if period_bytes == 1:
            return 1
        uniform = (_mixed(self._state) >> 11) / 2**53
        return math.floor(math.log(1 - uniform) / math.log(1 - 1 / period_bytes)) + 1


SEQUENCES: dict[str, Callable[[int], Distances]] = {
    "geometric": Geometric,
    "dotnet": Dotnet,
    "dotnet_document": DotnetDocument,
    "jemalloc": Jemalloc,
    "tcmalloc": Tcmalloc,
    "gperftools": Gperftools,
    "hotspot": Hotspot,
    "ocaml": Ocaml,
    "ddtrace": Ddtrace,
    "go": Go,
    "go_1_19": GoWide,
    "v8": V8,
}
"""What is drawn, by the contract's name for it."""


def distances_of(name: str, seed: int) -> Distances:
    """The sequence of that name; what is not drawn is the period."""
    make = SEQUENCES.get(name)
    return Fixed() if make is None else make(seed)
