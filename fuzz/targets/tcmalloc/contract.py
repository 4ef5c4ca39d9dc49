"""What Google's TCMalloc does."""

from __future__ import annotations

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.layout import layout_of_blocks

BLOCK_BYTES_MAX = 2**20
SIZE_CLASSES = (
    *(16, 32, 48, 64, 80, 96, 112, 128, 160, 176, 208, 256, 304, 368, 448, 512, 576, 704, 896),
    *(1024, 1152, 1408, 1792, 2048, 2304, 2688, 3456, 4096, 4736, 6144, 8192, 9472, 12288, 16384),
    *(20480, 28672, 32768, 40960, 49152, 65536, 73728, 81920, 98304, 131072, 155648),
    *(204800, 262144),
)
"""As `malloc_usable_size` returns them, for blocks as `malloc` aligns them."""
PERIODS = Range(1, 2**30)
SETTINGS = (
    Setting("period_bytes", 4096, PERIODS),
    Setting("threads", 2, Range(1, 4)),
    Setting("sampler_seed", 0, Range(0, 2**32)),
)
"""Those of `reference-tcmalloc`, so that a trace of one replays on the other."""


def contract(actions: tuple[str, ...], period_bytes: int, seeds: tuple[int, ...]) -> Contract:
    """The contract if the threads' generators start from `seeds`."""
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, SIZE_CLASSES, page_bytes=8192),
        actions=actions,
        observes=("samples", "size", "weights", "profile", "contents"),
        contents="bytes",
        sampling=SamplingRule(
            period_bytes=PERIODS,
            counts="requested_plus_one",
            surplus="dropped",
            samples_per_allocation="one",
            realloc="unless_alike",
            weights="passed",
            estimates="whole_weight",
            distances="tcmalloc",
            seeds=seeds,
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
    )
