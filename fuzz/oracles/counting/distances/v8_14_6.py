"""V8's distances since version 14.6 (random-number-generator.h)."""

from fuzz.oracles.counting.distances.v8 import V8


class V8Sum(V8):
    """As `v8`, but a number is the upper 52 bits of the sum of both words.

    The generator is then xorshift128+ as published. V8 14.1 still took the first word alone.
    """

    def number(self) -> int:
        super().number()
        first, second = self._words
        return (first + second) % 2**64 >> 12
