"""What Scalene 2.4.0 does, and what it promises."""

from __future__ import annotations

import attrs

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.counting import NetBytes
from fuzz.protocol.layout import layout_of_blocks
from fuzz.targets.python_profilers.profiler_driver import BLOCK_BYTES_MAX, HEADER_BYTES

WINDOWS = (512, 4096, 4096, 32_768, 262_144)
SMALL_CLASSES = tuple(range(8, 513, 8))
"""Up to 512 bytes are rounded up to words: `local_malloc` in libscalene.cpp."""
MARK_BYTES = 98_821
"""`NEWLINE` in sampleheap.hpp."""
SETTINGS = (Setting("period_bytes", 4096, Range(min(WINDOWS), max(WINDOWS)), WINDOWS),)


def contract(version: str, period_bytes: int) -> Contract:
    """The contract with this window."""
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, SMALL_CLASSES, header_bytes=HEADER_BYTES),
        actions=("malloc", "free", "check_contents"),
        observes=("samples", "weights", "contents"),
        contents="bytes",
        sampling=SamplingRule(
            period_bytes=SETTINGS[0].range,
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            weights="since",
            counting=NetBytes(unsampled_bytes=MARK_BYTES),
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
        version=f"Scalene {version}",
    )


def as_documented(contract: Contract) -> Contract:
    """What "per-line memory profiles" (README.md) promise about a program that frees nothing.

    Each byte is as likely to be sampled as any other, whichever line allocates it.
    """
    promised = SamplingRule(
        period_bytes=contract.sampling.period_bytes,
        surplus="dropped",
        samples_per_allocation="one",
        distances="random",
        initial_period_bytes=contract.sampling.initial_period_bytes,
    )
    return attrs.evolve(
        contract,
        actions=("malloc", "check_contents"),
        observes=("samples", "contents"),
        sampling=promised,
        boundary_bytes=(MARK_BYTES,),
    )
