"""Go's distances (Go 1.27, malloc.go, rand.go and fastlog2.go)."""

import math
from typing import ClassVar

from fuzz.oracles.counting.distances.generator import Generator
from fuzz.oracles.counting.distances.gperftools import LN_2

NEVER_BYTES = 2**63 - 1
MEAN_BYTES_MAX = 0x7000000


class Go(Generator):
    """`floor(min(log2 q - 26, 0) * -ln 2 * min(period, 0x7000000)) + 1`.

    q is `number * 2^26 / 2^32 + 1`, rounded down. log2 is interpolated between its values at 33
    places of an octave. A period of 1 draws nothing; the distance is 0. A period of 0, with which
    sampling is off, draws nothing; the distance never ends.

    The generator is `s = s + 0x53c5ca59` modulo 2^32. Its number is the upper half of
    `s * (s ^ 0x74743c1b)`, xored with the lower half. The seed is s, the state of the first
    thread's generator.
    """

    MODULUS: ClassVar = 2**32
    STEP, MASK = 0x53C5CA59, 0x74743C1B
    TABLE: ClassVar = [math.log2(1 + index / 32) for index in range(33)]

    def __init__(self, seed: int) -> None:
        self._state = seed

    def number(self) -> int:
        self._state = (self._state + self.STEP) % self.MODULUS
        high, low = divmod(self._state * (self._state ^ self.MASK), self.MODULUS)
        return (high ^ low) % 2**32

    def draw(self, period_bytes: int) -> int:
        if period_bytes <= 1:
            return 0 if period_bytes else NEVER_BYTES
        fraction, exponent = math.frexp((self.number() * 2**26 >> 32) + 1.0)
        # The first 25 bits after the leading one: the place, and where q is between two places.
        place, share = divmod(int((2 * fraction - 1) * 2**25), 2**20)
        low_log2, high_log2 = self.TABLE[place], self.TABLE[place + 1]
        log2 = exponent - 1 + low_log2 + (high_log2 - low_log2) * share * 2**-20
        mean_bytes = min(period_bytes, MEAN_BYTES_MAX)
        return int(min(log2 - 26, 0.0) * (-LN_2 * mean_bytes)) + 1
