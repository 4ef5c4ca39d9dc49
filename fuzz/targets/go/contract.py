"""What Go's heap profile does, and what it promises if samples are left to chance."""

from __future__ import annotations

import attrs

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.counting import ProfileRate
from fuzz.protocol.layout import Layout, layout_of_blocks

SHARED_BYTES, ONLY_EMPTY = 16, 1
"""Small blocks share memory; according to the documentation only empty ones do."""
SIZE_CLASSES = (
    *(8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320),
    *(352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792),
    *(2048, 2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472),
    *(9728, 10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264),
    *(28672, 32768),
)
PAGE_BYTES = 8192


@attrs.frozen
class Site:
    """Code that allocates a block: which function of the runtime it calls. (See sites.go.)"""

    number: int
    object_bytes_max: int = 2**20
    shared_bytes: int = SHARED_BYTES
    shared_rounded: bool = False

    @property
    def layout(self) -> Layout:
        return attrs.evolve(
            layout_of_blocks(self.object_bytes_max, SIZE_CLASSES, PAGE_BYTES),
            shared_bytes=self.shared_bytes,
            shared_rounded=self.shared_rounded,
        )


MAKE, ARRAY, POINTER, APPEND = range(4)
SITES = {
    MAKE: Site(MAKE),
    # The mutator has a type for each size.
    ARRAY: Site(ARRAY, SIZE_CLASSES[-1]),
    # A larger block has a header since Go 1.22. None shares another one's memory.
    POINTER: Site(POINTER, 512, shared_bytes=0),
    # growslice rounds the capacity up to a size class before it allocates.
    APPEND: Site(APPEND, shared_rounded=True),
}
"""`make([]byte, n)`, `new` of arrays, `new` of a struct with a pointer, and `append`."""
PERIODS = Range(1, 2**30)
WHEN_ASKED, BY_ITSELF = range(2)
SELDOM = (*[WHEN_ASKED] * 63, BY_ITSELF)
"""Nothing predicts when the collector runs by itself, so few traces are left to chance."""
SETTINGS = (
    Setting("period_bytes", 2**12, PERIODS),
    Setting("collector", WHEN_ASKED, Range(WHEN_ASKED, BY_ITSELF), choices=SELDOM),
    Setting("sampler_seed", 0, Range(0, 2**62)),
    Setting("site", MAKE, Range(MAKE, APPEND), choices=tuple(SITES)),
)
"""The rate at the start; whether the collector runs by itself; the generator's seed; what allocates
blocks."""


@attrs.frozen
class GoSampler:
    """What the mutator reports about its runtime's sampler."""

    version: str
    is_wide: bool
    """Whether its generator has 64 bits instead of 32."""
    knows_rate: bool
    """Whether each processor remembers the rate of its last sample."""
    spent_numbers: tuple[int, ...]
    """How many numbers of the generator the stack walk of a sample takes, for each site. Go 1.19
    takes one for each function in the stack, and one more if another one is inlined into it: a
    random entry of a cache is replaced (pcvalue in symtab.go)."""


def contract(
    sampler: GoSampler, actions: tuple[str, ...], period_bytes: int, state: int, site: Site
) -> Contract:
    """The contract if the generator starts from `state`."""
    is_new = sampler.knows_rate
    return Contract(
        nursery_bytes=0,
        layout=site.layout,
        actions=actions,
        observes=("samples", "minors", "profile", "contents"),
        contents="bytes",
        sampling=SamplingRule(
            period_bytes=PERIODS,
            crosses="beyond" if is_new else "at",
            surplus="dropped",
            samples_per_allocation="one",
            disabling=("drop",),
            enabling="keeps",
            counting=ProfileRate(
                new_period="samples" if is_new else "waits",
                certain_period_bytes=0 if is_new else 1,
                spent_numbers=sampler.spent_numbers[site.number],
            ),
            estimates="present_probability",
            distances="go_1_19" if sampler.is_wide else "go",
            seeds=(state,),
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
        version=sampler.version,
    )


def by_chance(contract: Contract, shared_bytes: int) -> Contract:
    """The rest of a contract if it is unknown what else the runtime allocates."""
    return attrs.evolve(
        contract,
        layout=attrs.evolve(contract.layout, shared_bytes=shared_bytes),
        actions=("malloc", "free", "collect_full", "check_contents"),
        observes=("samples", "minors", "contents"),
        sampling=SamplingRule(
            period_bytes=PERIODS,
            surplus="dropped",
            samples_per_allocation="one",
            distances="random",
            initial_period_bytes=contract.sampling.initial_period_bytes,
        ),
    )
