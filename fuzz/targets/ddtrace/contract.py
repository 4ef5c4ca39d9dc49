"""What ddtrace 4.16.0 does, and what it promises."""

from __future__ import annotations

import attrs

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.layout import layout_of_blocks
from fuzz.targets.python_profilers.profiler_driver import BLOCK_BYTES_MAX, HEADER_BYTES

INTERVALS = Range(256, 2**17 - 1)
SETTINGS = (Setting("period_bytes", 4096, INTERVALS),)
ACTIONS = ("malloc", "free", "check_contents")


def contract(version: str, period_bytes: int) -> Contract:
    """The contract with this interval, which is also the generator's seed."""
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, header_bytes=HEADER_BYTES),
        actions=ACTIONS,
        observes=("samples", "weights", "contents"),
        contents="bytes",
        sampling=SamplingRule(
            period_bytes=INTERVALS,
            counts="requested",
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            weights="since",
            distances="ddtrace",
            seeds=(period_bytes,),
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
        version=f"ddtrace {version}",
    )


def as_documented(contract: Contract) -> Contract:
    """The contract that the comments in _memalloc_heap.cpp promise of the heap profile.

    A block's bytes and objects are estimated by the probability with which it is sampled.
    """
    promised = attrs.evolve(contract.sampling, weights="none", estimates="probability")
    return attrs.evolve(
        contract,
        actions=(*ACTIONS, "read_profile"),
        observes=("samples", "profile", "contents"),
        sampling=promised,
    )
