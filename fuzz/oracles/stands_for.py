"""What the sample of a block stands for in a profile: a function for each value of `estimates`.

A dump of jemalloc has whole numbers, which jeprof multiplies by one over the chance for their mean
size. So jemalloc has divided its sums by that. (jemalloc 5.3.0, prof_data.c: prof_do_unbias and
prof_unbias_map_init. TCMalloc: StackTraceTable::AddTrace.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple


class CountedBlock(NamedTuple):
    """A block that was sampled."""

    counted_bytes: int
    size_bytes: int
    """What it has room for."""
    weight: int
    period_bytes: int | None
    """None while sampling is off. Go may take a sample then, which stands for one block."""

    @property
    def over_chance(self) -> float:
        """How many blocks of its size it stands for."""
        assert self.period_bytes is not None
        # A block that counts nothing is sampled only if a distance may be 0.
        return one_over_chance(max(self.counted_bytes, 1), self.period_bytes)


def one_over_chance(size_bytes: float, period_bytes: int) -> float:
    """How many blocks of this size a sampled one stands for."""
    return -1 / math.expm1(-size_bytes / period_bytes)


def _rounded(number: float) -> int:
    return math.floor(number + 0.5)


def _by_probability(block: CountedBlock) -> tuple[float, float]:
    return block.over_chance, block.over_chance * block.size_bytes


def _by_weight(block: CountedBlock) -> tuple[float, float]:
    objects = block.weight / max(block.counted_bytes, 1)
    return objects, objects * block.size_bytes


def _by_whole_weight(block: CountedBlock) -> tuple[float, float]:
    estimated_bytes = _rounded(block.weight / block.counted_bytes * block.size_bytes)
    objects = (estimated_bytes + block.size_bytes // 2) // block.size_bytes
    return objects, objects * block.size_bytes


def _for_a_dump(block: CountedBlock) -> tuple[float, float]:
    return (_rounded(8 * block.over_chance) / 8, _rounded(block.counted_bytes * block.over_chance))


STANDS_FOR: Mapping[str, Callable[[CountedBlock], tuple[float, float]]] = {
    "itself": lambda block: (1, block.counted_bytes),
    "present_probability": lambda block: (1, block.size_bytes),
    "probability": _by_probability,
    "weight": _by_weight,
    "whole_weight": _by_whole_weight,
    "dumped": _for_a_dump,
}
"""The objects and bytes that a sampled block stands for."""


def dumped(objects: float, sum_bytes: float, period_bytes: int) -> list[float]:
    """The two numbers of a dump for these sums."""
    if not objects:
        return [0, 0]
    mean_bytes = sum_bytes / objects
    dumped_bytes = sum_bytes / one_over_chance(mean_bytes, period_bytes)
    return [dumped_bytes / mean_bytes, dumped_bytes]
