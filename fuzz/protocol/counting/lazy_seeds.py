"""Counting with a generator that is seeded when a sample is first due (gperftools).

(gperftools 2.10, sampler.cc: Sampler::Init.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
from typing_extensions import override

from fuzz.protocol.counting.way import Way

if TYPE_CHECKING:
    from fuzz.protocol.contract import Contract


@attrs.frozen
class LazySeeds(Way):
    """One countdown per thread. The first time a sample is due, another distance decides."""

    by = "lazy_seeds"

    seeds: tuple[int, ...]
    """Each thread's: what its generator starts from when a sample is due for the first time. That
    sample is then decided by a distance drawn from it."""

    @override
    def problems(self, contract: Contract) -> Iterator[str]:
        rule = contract.sampling
        if len(self.seeds) != contract.threads:
            yield (
                f"lazy_seeds has {len(self.seeds)} seeds; it must have {contract.threads},"
                " like seeds of sampling"
            )
        if not rule.is_drawn:
            yield f"lazy_seeds mean nothing where distances is {rule.distances}"
