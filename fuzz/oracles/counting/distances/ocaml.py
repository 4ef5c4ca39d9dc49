"""OCaml's distances (OCaml 4.13 and 4.14, memprof.c)."""

import math
from array import array
from typing import ClassVar

from fuzz.oracles.counting.distances.generator import (
    SPLITMIX64_STEP,
    Generator,
    splitmix64,
    xoshiro128_step,
)

WORD_BYTES = 8
LANES = 64
_CELL = array("f", [0])


def single(number: float) -> float:
    """The nearest number of single precision."""
    _CELL[0] = number
    return _CELL[0]


class Numbers:
    """The numbers of all batches up to the last one that a trace has drawn, and their logarithms.

    All traces draw from the same sequence, so each number is computed once. splitmix64 starts from
    the `state`.
    """

    _FACTORS = tuple(map(single, (2.104659476859, -0.720478916626, 0.107132064797)))
    CONSTANT, _LN_2 = map(single, (-111.701724334061, 0.6931471805))

    def __init__(self, state: int) -> None:
        states = (state + index * SPLITMIX64_STEP for index in range(1, 2 * LANES + 1))
        numbers = [splitmix64(state % 2**64) for state in states]
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        self._lanes = [(a % 2**32, a >> 32, b % 2**32, b >> 32) for a, b in pairs]
        self.numbers, self.logarithms = array("I"), array("f")

    def extend(self, count: int) -> None:
        """Draw batches until there are that many numbers."""
        while len(self.numbers) < count:
            batch = [(a + d) % 2**32 for a, _, _, d in self._lanes]
            self.numbers.extend(batch)
            self.logarithms.extend(map(self._logarithm, batch))
            self._lanes = list(map(xoshiro128_step, self._lanes))

    def _logarithm(self, number: int) -> float:
        """The polynomial. Each step is rounded to single precision."""
        fraction, exponent = math.frexp(single(single(number) + 0.5))
        first, second, third = self._FACTORS
        x = 2 * fraction
        middle = single(first + single(x * single(second + single(x * third))))
        return self._sum(single(x * middle), single(self._LN_2 * (exponent + 126)))

    def _sum(self, polynomial: float, power: float) -> float:
        """With the constant. The order of the additions differs between versions of OCaml."""
        return single(polynomial + single(self.CONSTANT + power))


class Ocaml(Generator):
    """`8 * floor(1 + L * (1 / ln(1 - 8/period)))` in single precision: distances are whole words.

    L is a polynomial for `ln((number + 1/2) / 2^32)`. 64 generators xoshiro128+ return their
    numbers in turn, a batch of 64 at a time. Their states are splitmix64's numbers from the state
    42. The start of sampling drops the rest of a batch. The seed is the number of batches drawn
    before.
    """

    SEQUENCE: ClassVar = Numbers(42)

    def __init__(self, seed: int) -> None:
        self._drawn = seed * LANES
        self._period_bytes, self._inverse = WORD_BYTES, 0.0

    def restart(self) -> None:
        self._drawn = -(-self._drawn // LANES) * LANES

    def number(self) -> int:
        drawn = self._drawn
        self._drawn += 1
        if drawn >= len(self.SEQUENCE.numbers):
            self.SEQUENCE.extend(self._drawn)
        return self.SEQUENCE.numbers[drawn]

    def draw(self, period_bytes: int) -> int:
        self.number()
        if period_bytes == WORD_BYTES:
            return WORD_BYTES
        if period_bytes != self._period_bytes:
            self._period_bytes = period_bytes
            self._inverse = single(1 / math.log1p(-1 / (period_bytes // WORD_BYTES)))
        words = single(1 + single(self.SEQUENCE.logarithms[self._drawn - 1] * self._inverse))
        return int(words) * WORD_BYTES
