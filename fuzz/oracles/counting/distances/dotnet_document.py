"""The distances of .NET's design document (Nasarre and Falk, Randomized Allocation Sampling)."""

import math
from functools import lru_cache

from fuzz.oracles.counting.distances.generator import Generator

TOP = 2**31 - 1
GOLDEN = 161803398


class DotnetDocument(Generator):
    """`floor(ln(1 - u) / ln(1 - 1/period))`, where u is `number / (2^31 - 1)`.

    The numbers are those of System.Random: Knuth's subtractive generator with lags 55 and 21. The
    seed is the argument of its constructor.
    """

    def __init__(self, seed: int) -> None:
        self._table = [*_table_of(seed)]
        self._next = 0

    def number(self) -> int:
        place = self._next
        number = self._table[place] - self._table[(place + 21) % 55]
        if number == TOP:
            number -= 1
        self._table[place] = number = _wrapped(number)
        self._next = (place + 1) % 55
        return number

    def draw(self, period_bytes: int) -> int:
        uniform = self.number() * (1.0 / TOP)
        if period_bytes == 1:
            return 0
        return math.floor(math.log(1 - uniform) / math.log(1 - 1 / period_bytes))


@lru_cache(maxsize=64)
def _table_of(seed: int) -> tuple[int, ...]:
    """The first state. A reduction starts from the same few seeds again and again."""
    table = [0] * 56
    before = GOLDEN - min(abs(seed), TOP)
    table[55], value = before, 1
    for index in range(1, 55):
        place = 21 * index % 55
        table[place] = value
        value = _wrapped(before - value)
        before = table[place]
    for _ in range(4):
        for index in range(1, 56):
            lag = table[1 + (index + 30) % 55]
            as_int32 = (table[index] - lag + 2**31) % 2**32 - 2**31
            table[index] = _wrapped(as_int32)
    return tuple(table[1:])


def _wrapped(number: int) -> int:
    return number + TOP if number < 0 else number
