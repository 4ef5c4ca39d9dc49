"""gperftools' distances (gperftools 2.10, sampler.cc)."""

import math

from fuzz.oracles.counting.distances.generator import Generator

LN_2 = math.log(2)
PLACEHOLDER_BYTES = 16 << 20
"""The distance for a period of 0, with which gperftools neither samples nor draws."""


class Gperftools(Generator):
    """`floor((log2 q - 26) * -ln 2 * period)`, where q is `number + 1`.

    The generator is `r = r * 0x5DEECE66D + 0xB` modulo 2^48. Its numbers are the upper 26 bits of
    r. The seed is r. Twenty numbers are skipped at first.
    """

    SKIPPED = 20

    def __init__(self, seed: int) -> None:
        self._state = seed
        self.skip(self.SKIPPED)

    def number(self) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) % 2**48
        return self._state >> 22

    def draw(self, period_bytes: int) -> int:
        if period_bytes == 0:
            return PLACEHOLDER_BYTES
        return int((math.log2(self.number() + 1.0) - 26) * (-LN_2 * period_bytes))
