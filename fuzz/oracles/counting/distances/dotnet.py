""".NET's distances (.NET 10, gcheaputilities.h and xoshiro128pp.c)."""

import math

from fuzz.oracles.counting.distances.generator import Generator, Words, rotated, xoshiro128_step


class Dotnet(Generator):
    """`floor(-ln(1 - u) * period)`, where u is `number / 2^32`.

    The numbers are xoshiro128++'s. The seed is its state, the first word in the lowest 32 bits.
    """

    def __init__(self, seed: int) -> None:
        a, b, c, d = (seed >> bits & 2**32 - 1 for bits in (0, 32, 64, 96))
        self._words: Words = a, b, c, d

    def number(self) -> int:
        first, *_, last = self._words
        self._words = xoshiro128_step(self._words)
        return (rotated((first + last) % 2**32, 7) + first) % 2**32

    def draw(self, period_bytes: int) -> int:
        return int(-math.log(1 - self.number() / 2**32) * period_bytes)
