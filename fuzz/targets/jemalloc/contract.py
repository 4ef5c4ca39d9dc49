"""What jemalloc 5.3.0 does."""

from __future__ import annotations

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.counting import PlacedBlocks
from fuzz.protocol.layout import layout_of_blocks

BLOCK_BYTES_MAX = 2**22
PAGE_BYTES = 4096
LARGE_BYTES = 16384
"""The least size class that takes pages of its own: SC_LARGE_MINCLASS."""
SIZE_CLASSES = (
    *(8, 16, 32, 48, 64),
    *(quarters << shift for shift in range(4, 20) for quarters in (5, 6, 7, 8)),
)
"""From 64 bytes up, four between a power of two and the next, up to the largest block.
(jemalloc 5.3.0, src/sc.c)"""
PERIODS = tuple(1 << lg_period for lg_period in range(21))
THREADS = Range(1, 4)
SETTINGS = (
    Setting("period_bytes", 4096, Range(1, PERIODS[-1]), choices=PERIODS),
    Setting("threads", 2, THREADS),
    Setting("sampler_seed", 0, Range(0, 2**32)),
)
"""Those of `reference-jemalloc`, so that a trace of one replays on the other."""


def contract(actions: tuple[str, ...], period_bytes: int, seeds: tuple[int, ...]) -> Contract:
    """The contract if the threads' generators start from `seeds`."""
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, SIZE_CLASSES),
        actions=actions,
        observes=("samples", "size", "at", "profile", "contents"),
        contents="bytes",
        sampling=SamplingRule(
            period_bytes=Range(1, PERIODS[-1]),
            counting=PlacedBlocks(LARGE_BYTES),
            periods=PERIODS,
            counts="size",
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            realloc="always",
            paused="counting",
            setting_period="drops",
            distances="jemalloc",
            estimates="dumped",
            seeds=seeds,
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
    )
