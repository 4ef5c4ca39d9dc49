"""jemalloc's distances (jemalloc 5.3.0, prof.c and prng.h)."""

import math

from fuzz.oracles.counting.distances.generator import Generator


class Jemalloc(Generator):
    """`floor(ln u / ln(1 - 1/period)) + 1`, where u is `number / 2^53`, or 1 if that is 0.

    A period of 1 draws nothing; the distance is 1. The generator is
    `s = s * 6364136223846793005 + 1442695040888963407` modulo 2^64. Its numbers are the upper 53
    bits of s. The seed is s, the state of the thread's generator.
    """

    def __init__(self, seed: int) -> None:
        self._state = seed

    def number(self) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self._state >> 11

    def draw(self, period_bytes: int) -> int:
        if period_bytes == 1:
            return 1
        uniform = self.number() / 2**53 or 1.0
        return int(math.log(uniform) / math.log(1 - 1 / period_bytes)) + 1
