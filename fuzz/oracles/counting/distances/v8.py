"""V8's distances (V8 11.3, sampling-heap-profiler.cc and random-number-generator.cc)."""

import math

from fuzz.oracles.counting.distances.generator import Generator

PLACE_BITS = 20
LEAST_BYTES, MOST_BYTES = 8, 2**31 - 1


class V8(Generator):
    """`floor(-ln u * period)`, at least 8 and at most 2^31 - 1, where u is `number / 2^52`.

    The generator is xorshift128+ with the shifts 23, 17 and 26. Its numbers are the upper 52 bits
    of the first word. The lowest 20 bits of the seed are how many numbers to skip. MurmurHash3's
    finalizer makes the first word from the other bits, and the second from the first word's
    complement.
    """

    def __init__(self, seed: int) -> None:
        first = _mixed(seed >> PLACE_BITS)
        self._words = first, _mixed(first ^ 2**64 - 1)
        self.skip(seed % 2**PLACE_BITS)

    def number(self) -> int:
        before, word = self._words
        before ^= (before << 23) % 2**64
        self._words = word, before ^ before >> 17 ^ word ^ word >> 26
        return word >> 12

    def draw(self, period_bytes: int) -> int:
        number = self.number()
        if not number:
            return MOST_BYTES
        return min(max(int(-math.log(number / 2**52) * period_bytes), LEAST_BYTES), MOST_BYTES)


def _mixed(word: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        word = (word ^ word >> 33) * factor % 2**64
    return word ^ word >> 33
