"""HotSpot's distances (OpenJDK 11 to 25, threadHeapSampler.cpp)."""

import math
from typing import ClassVar

from fuzz.oracles.counting.distances.gperftools import LN_2, Gperftools


class Hotspot(Gperftools):
    """`floor(min(log2 q - 26, 0) * -ln 2 * period + 1)`, where q is `number + 1`.

    A table has the logarithms of the middles of the 1024 parts of an octave, rounded to 15
    decimals. A period of 0 draws nothing; the distance is 0. The generator is gperftools', without
    the twenty numbers.
    """

    SKIPPED = 0
    TABLE: ClassVar = [round(math.log2(1 + (index + 0.5) / 1024), 15) for index in range(1024)]

    def draw(self, period_bytes: int) -> int:
        if period_bytes == 0:
            return 0
        fraction, exponent = math.frexp(self.number() + 1.0)  # The fraction is at least 1/2.
        log2 = exponent - 1 + self.TABLE[int((2 * fraction - 1) * 1024)]
        return int(min(log2 - 26, 0.0) * (-LN_2 * period_bytes) + 1)
