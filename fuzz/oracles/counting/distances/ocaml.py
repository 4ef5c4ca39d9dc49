"""OCaml's distances (OCaml 4.13, memprof.c)."""

import math
from array import array
from functools import cache

from fuzz.oracles.counting.distances.generator import (
    SPLITMIX64_STEP,
    Generator,
    Words,
    splitmix64,
    xoshiro128_step,
)

WORD_BYTES = 8
LANES = 64
_CELL = array("f", [0])


def _single(number: float) -> float:
    """The nearest number of single precision."""
    _CELL[0] = number
    return _CELL[0]


@cache
def _lanes_after(batches: int) -> tuple[Words, ...]:
    """The states of the lanes after that many batches."""
    if batches:
        return tuple(map(xoshiro128_step, _lanes_after(batches - 1)))
    states = (42 + index * SPLITMIX64_STEP for index in range(1, 2 * LANES + 1))
    numbers = [splitmix64(state % 2**64) for state in states]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return tuple((a % 2**32, a >> 32, b % 2**32, b >> 32) for a, b in pairs)


class Ocaml(Generator):
    """`8 * floor(1 + L * (1 / ln(1 - 8/period)))` in single precision: distances are whole words.

    L is a polynomial for `ln((number + 1/2) / 2^32)`. 64 generators xoshiro128+ return their
    numbers in turn, a batch of 64 at a time. Their states are splitmix64's numbers from the state
    42. The start of sampling drops the rest of a batch. The seed is the number of batches drawn
    before.
    """

    _FACTORS = tuple(map(_single, (2.104659476859, -0.720478916626, 0.107132064797)))
    _CONSTANT, _LN_2 = map(_single, (-111.701724334061, 0.6931471805))

    def __init__(self, seed: int) -> None:
        self._lanes = _lanes_after(seed)
        self._batch: list[int] = []

    def restart(self) -> None:
        self._batch.clear()

    def number(self) -> int:
        if not self._batch:
            self._batch = [(a + d) % 2**32 for a, _, _, d in reversed(self._lanes)]
            self._lanes = tuple(map(xoshiro128_step, self._lanes))
        return self._batch.pop()

    def draw(self, period_bytes: int) -> int:
        number, period_words = self.number(), period_bytes // WORD_BYTES
        if period_words == 1:
            return WORD_BYTES
        inverse = _single(1 / math.log1p(-1 / period_words))
        return int(_single(1 + _single(self._log(number) * inverse))) * WORD_BYTES

    def _log(self, number: int) -> float:
        """The polynomial. Each step is rounded to single precision."""
        fraction, exponent = math.frexp(_single(_single(number) + 0.5))
        first, second, third = self._FACTORS
        x = 2 * fraction
        middle = _single(first + _single(x * _single(second + _single(x * third))))
        power = _single(self._CONSTANT + _single(self._LN_2 * (exponent + 126)))
        return _single(_single(x * middle) + power)
