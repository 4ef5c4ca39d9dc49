"""The distances that PyPy plans (Jung and Bolz-Tereick)."""

import math

from fuzz.oracles.counting.distances.generator import SPLITMIX64_STEP, Generator, splitmix64


class Geometric(Generator):
    """`floor(ln(1 - u) / ln(1 - 1/period)) + 1`, where u is `number / 2^53`.

    The numbers are the upper 53 bits of splitmix64's. The seed is its state.
    """

    def __init__(self, seed: int) -> None:
        self._state = seed

    def number(self) -> int:
        self._state = (self._state + SPLITMIX64_STEP) % 2**64
        return splitmix64(self._state) >> 11

    def draw(self, period_bytes: int) -> int:
        uniform = self.number() / 2**53
        if period_bytes == 1:
            return 1
        return math.floor(math.log(1 - uniform) / math.log(1 - 1 / period_bytes)) + 1
