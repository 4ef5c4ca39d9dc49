"""Counting by a profile rate that every allocation compares with its thread's (Go).

(Go 1.19 and 1.27, malloc.go: profilealloc, nextSample; mprof.go.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import attrs
from typing_extensions import override

from fuzz.protocol.counting.way import ONE_DRAW, Way

if TYPE_CHECKING:
    from fuzz.protocol.contract import Contract

SPENT_MAX = 2**10
"""The most numbers of a generator that may pass unused after each distance."""


@attrs.frozen
class ProfileRate(Way):
    """One countdown per thread, which the rate in force may cut short. Off is a rate of 0."""

    by = "profile_rate"

    new_period: Literal["waits", "samples"] = "waits"
    """What another period does.

    waits: nothing, until the next distance is drawn.
    samples: a thread's first allocation since then is sampled, and a distance drawn (Go 1.27).
    """
    certain_period_bytes: int = 0
    """While this is the period, each allocation is sampled, wherever the distance ends."""
    spent_numbers: int = 0
    """How many numbers of its generator a thread uses for something else after each distance, from
    0 to 1024."""

    @override
    def problems(self, contract: Contract) -> Iterator[str]:
        rule = contract.sampling
        if not 0 <= self.spent_numbers <= SPENT_MAX:
            yield f"spent_numbers is {self.spent_numbers}; it must be from 0 to {SPENT_MAX}"
        if not (rule.is_drawn and rule.samples_once):
            yield f"profile_rate needs distances that are drawn: {ONE_DRAW}"
