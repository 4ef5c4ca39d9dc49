"""Counting by a profile rate that each allocation compares with its thread's (Go).

(Go 1.19 and 1.27, malloc.go: profilealloc, nextSample; mprof.go.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import attrs

from fuzz.protocol.counting.limits import Count, Limits
from fuzz.protocol.counting.way import DRAWN, ONE_DRAW, StatedContract, Way

WITHOUT_REST = ("geometric", "dotnet_document", "jemalloc", "ocaml", "ocaml_5_3")
"""The distances that have none for a period of 0: their formulas divide by it."""


@attrs.frozen
class ProfileRate(Way):
    """One countdown per thread, which the rate in force may cut short. Off is a rate of 0."""

    by = "profile_rate"
    needs: ClassVar = {**DRAWN, **ONE_DRAW}

    new_period: Literal["waits", "samples"] = "waits"
    """`waits`: another period counts from the next distance on; `samples`: it samples each thread's
    next allocation, and draws a distance (Go 1.27)."""
    certain_period_bytes: Count = 0
    """While this is the period, each allocation is sampled, regardless of the distance."""
    spent_numbers: Annotated[int, Limits(0, 2**10)] = 0
    """How many numbers of its generator a thread uses for something else after each distance."""

    def problems(self, contract: StatedContract) -> Iterator[str]:
        distances = contract.sampling.distances
        if self.new_period == "samples" and distances in WITHOUT_REST:
            yield (
                "counting.new_period samples draws a distance for the period 0, while sampling is "
                f"off; distances {distances} have none"
            )
