"""What gperftools 2.10 does, and what its documentation promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.counting import Bytes, LazySeeds
from fuzz.protocol.layout import layout_of_blocks

PAGE_BYTES = 8192
SIZE_CLASSES = (
    *(8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352),
    *(384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048),
    *(2304, 2560, 2816, 3072, 3328, 4096, 4608, 5120, 6144, 6656, 8192, 9216, 10240, 12288, 13312),
    *(16384, 20480, 24576, 26624, 32768, 40960, 49152, 57344, 65536, 73728, 81920, 90112, 98304),
    *(106496, 114688, 122880, 131072, 139264, 147456, 155648, 163840, 172032, 180224, 188416),
    *(196608, 204800, 212992, 221184, 229376, 237568, 245760, 253952, 262144),
)
"""The smallest of these that holds a request is what it takes: `SizeMap::Init` in src/common.cc. A
request above the last takes whole pages."""
PLACEHOLDER_BYTES = 16 << 20
"""The distance that is picked while the sampling parameter is 0: `PickNextSamplingPoint`."""
PERIODS = Range(1, 2**40)
SETTINGS = (
    Setting("sampler_seed", 1, Range(1, 2**32 - 1)),
    Setting("period_bytes", 4096, PERIODS),
    Setting("threads", 1, Range(1, 3), choices=(1, 2, 3)),
    Setting("fresh_threads", 0, Range(0, 1)),
)
"""Thread n has the seed `sampler_seed` + n. A fresh thread is, apart from its seed, as the library
creates it; one that is not has been through its first trigger."""
BLOCK_BYTES_MAX = 20 << 20
"""More than the first distance of a fresh main thread."""


def contract(
    actions: tuple[str, ...], chosen: Mapping[str, int], addresses: Sequence[int]
) -> Contract:
    """The contract if the threads' samplers have these addresses."""
    seeds = tuple(chosen["sampler_seed"] + thread for thread in range(len(addresses)))
    is_fresh = chosen["fresh_threads"] == 1
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, SIZE_CLASSES, PAGE_BYTES),
        sampling=SamplingRule(
            period_bytes=PERIODS,
            counts="class_or_requested",
            crosses="beyond",
            surplus="dropped",
            samples_per_allocation="one",
            realloc="when_moved",
            distances="gperftools",
            seeds=seeds,
            paused="placeholders",
            estimates="itself",
            initial_period_bytes=chosen["period_bytes"],
            first_bytes=(PLACEHOLDER_BYTES, *[None] * (len(seeds) - 1)) if is_fresh else (),
            counting=LazySeeds(tuple(addresses)) if is_fresh else Bytes(),
        ),
        settings=SETTINGS,
        actions=actions,
        observes=("samples", "size", "profile", "contents"),
        contents="bytes",
    )


def as_documented(contract: Contract) -> Contract:
    """The contract that the documentation and the source's comments promise instead.

    Each requested byte is sampled with the same probability from the first byte on (the comment on
    `Sampler` in src/sampler.h). pprof relies on that.
    """
    promised = attrs.evolve(
        contract.sampling, counts="requested", first_bytes=(), counting=Bytes(), estimates="none"
    )
    return attrs.evolve(contract, sampling=promised).without(("read_profile",))
