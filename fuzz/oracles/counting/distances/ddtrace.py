"""ddtrace's distances (dd-trace-py 4.16, _memalloc_heap.cpp, and libstdc++)."""

import math

from fuzz.oracles.counting.distances.generator import Generator

MODULUS = 2**31 - 1
NUMBERS = 2.0**31 - 2


class Ddtrace(Generator):
    """`floor(-ln(1 - u) / (1 / (period + 1)))`, where u is `(a + b r) / r^2`, and r is `2^31 - 2`.

    a and b are the next two numbers. The generator is minstd_rand, `s = s * 48271` modulo 2^31 - 1.
    Its numbers are s - 1. The seed is the sampling interval.
    """

    def __init__(self, seed: int) -> None:
        self._state = (seed or 0x9E3779B9) % MODULUS or 1

    def number(self) -> int:
        self._state = 48271 * self._state % MODULUS
        return self._state - 1

    def draw(self, period_bytes: int) -> int:
        low = self.number()
        uniform = (low + self.number() * NUMBERS) / (NUMBERS * NUMBERS)
        return int(-math.log(1 - uniform) / (1 / (period_bytes + 1)))
