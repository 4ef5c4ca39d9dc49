"""Counting with a generator that is seeded when a sample is first due (gperftools).

(gperftools 2.10, sampler.cc: Sampler::Init.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs

from fuzz.protocol.counting.limits import Seeds
from fuzz.protocol.counting.way import DRAWN, StatedContract, Way


@attrs.frozen
class LazySeeds(Way):
    """One countdown per thread. The first time a sample is due, another distance decides."""

    by = "lazy_seeds"
    needs: ClassVar = DRAWN

    seeds: Seeds
    """For each thread, the seed that its generator starts from when a sample is first due. A new
    distance then decides about that sample."""

    def problems(self, contract: StatedContract) -> Iterator[str]:
        seeds, threads = len(self.seeds), contract.threads
        if seeds != threads:
            yield f"counting.seeds has {seeds} numbers; it must have {threads}, as seeds has"
