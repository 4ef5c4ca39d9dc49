"""The best chances of being sampled, size by size, under a budget of samples. Needs scipy.

jemalloc's document asks, for each size Z, for the chance p_Z that makes the variance least,
`sum Z^2 l_Z (1 - p_Z)/p_Z`, when at most a share P of all allocations may be sampled,
`sum a_Z p_Z <= P`, and how far sampling per byte is from it. (jemalloc, PROFILING_INTERNALS.md, "An
avenue for future exploration".) By Lagrange's condition p_Z is proportional to
`Z sqrt(l_Z/a_Z)`; what would be above 1 is 1, and the others share what is left of the budget.

Of all allocations a_Z is the share that has size Z, and l_Z the share that has size Z and is live
when the dump is made. Arrays hold one item for each size.
"""

from __future__ import annotations

import math

import numpy as np
from sampling_strategies import Floats, chances_per_byte
from scipy.optimize import brentq

from gcmodel.estimation.checks import check_open_unit


def optimal_chances(
    sizes_bytes: Floats, allocated_shares: Floats, live_shares: Floats, budget: float
) -> Floats:
    """The chances that make the variance least with a share `budget` of allocations sampled.

    0 for a size of which nothing is live: no sample of it tells anything of the heap. Raises
    ValueError for a size or an allocated share that is not above 0, a live share below 0, or a
    budget outside 0 to 1.
    """
    _check(sizes_bytes, allocated_shares, live_shares)
    check_open_unit("budget", budget)
    pull = sizes_bytes * np.sqrt(live_shares / allocated_shares)
    certain = np.zeros(len(pull), dtype=bool)
    while True:
        rest = ~certain & (pull > 0)
        left = budget - allocated_shares[certain].sum()
        wanted = pull * left / max((allocated_shares * pull)[rest].sum(), np.finfo(float).tiny)
        beyond = rest & (wanted > 1)
        if not beyond.any():
            return np.where(certain, 1.0, wanted)
        certain |= beyond


def period_for(sizes_bytes: Floats, allocated_shares: Floats, budget: float) -> float:
    """The period in bytes with which sampling per byte samples a share `budget` of allocations.

    Raises ValueError as `optimal_chances` does, and when it would have to be below 1.001 bytes.
    """
    _check(sizes_bytes, allocated_shares, allocated_shares)
    check_open_unit("budget", budget)

    def excess(log_period: float) -> float:
        chances = chances_per_byte(sizes_bytes, math.exp(log_period))
        return float((allocated_shares * chances).sum()) - budget

    most = math.log(2 * float((allocated_shares * sizes_bytes).sum()) / budget + 2)
    return math.exp(float(brentq(excess, math.log(1.001), most, xtol=1e-14)))


def variance_per_allocation_bytes2(
    sizes_bytes: Floats, live_shares: Floats, chances: Floats
) -> float:
    """The variance of the estimated live bytes, in bytes squared, divided by all allocations.

    Raises ValueError for a size that has live objects and a chance outside 0 to 1.
    """
    live = live_shares > 0
    chance = chances[live]
    if not ((chance > 0) & (chance <= 1)).all():
        raise ValueError("a size with live objects has a chance that is not above 0 and at most 1")
    return float((sizes_bytes[live] ** 2 * live_shares[live] * (1 - chance) / chance).sum())


def _check(sizes_bytes: Floats, allocated_shares: Floats, live_shares: Floats) -> None:
    if not ((sizes_bytes > 0) & (allocated_shares > 0) & (live_shares >= 0)).all():
        raise ValueError("sizes and allocated shares must be above 0, live shares at least 0")
