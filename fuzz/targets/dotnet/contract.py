"""What .NET 10 does, and what its design document promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import attrs

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.counting import Contexts
from fuzz.protocol.layout import KindLayout, Layout

COLLECTORS = {
    "workstation": {"gcServer": "0", "gcConcurrent": "0"},
    "workstation, concurrent": {"gcServer": "0", "gcConcurrent": "1"},
    "server": {"gcServer": "1", "gcConcurrent": "0", "GCHeapCount": "2"},
    "server, concurrent": {"gcServer": "1", "gcConcurrent": "1", "GCHeapCount": "2"},
}


class JitTier(NamedTuple):
    """How the runtime compiles the method that allocates."""

    levels: tuple[int, ...]
    """The numbers of the tiers that compile it, one after another."""
    flags: Mapping[str, str]


MINIMAL, OPTIMIZED, QUICK, TIER_1, _, INSTRUMENTED = range(1, 7)
"""The tiers' numbers in events (dotnet/runtime, eventtrace.h, JitOptimizationTier)."""
_TIERED = {"TieredCompilation": "1", "TC_QuickJitForLoops": "0"}
"""A loop that is compiled again while it runs allocates in its thread."""
_PROMOTED = {**_TIERED, "TC_CallCountingDelayMs": "0"}
TIERS = (
    JitTier((OPTIMIZED,), {}),
    JitTier((MINIMAL,), {"JITMinOpts": "1"}),
    JitTier((QUICK,), {**_TIERED, "TC_CallCounting": "0"}),
    JitTier((QUICK, TIER_1), {**_PROMOTED, "TieredPGO": "0"}),
    JitTier((QUICK, INSTRUMENTED, TIER_1), {**_PROMOTED, "TieredPGO": "1"}),
)
"""The full compiler; it without optimizations; tier 0; tier 1; tier 1 with a profile."""
PERIOD_BYTES = 102_400
"""The only period."""
NURSERY_BYTES = 2**16
"""About this many bytes of small objects are allocated from collection to collection."""
CONTEXT_BYTES = 8192
STRING = 2
"""The type index of strings."""
LAYOUT = Layout(
    kinds={
        "node": KindLayout(type_index=1, fixed_bytes=40),
        "string": KindLayout(STRING, fixed_bytes=24, item_bytes=2**15),
        "array": KindLayout(type_index=3, fixed_bytes=24, item_bytes=8),
    },
    large_object_bytes=85_000,
    word_bytes=8,
    object_bytes_max=2**18,
    nonmovable="ignored",
)
"""A string is an array of large items, so that about half of them are sampled."""
NEW, CALL = range(2)
TIER = Setting(
    "tier", 0, Range(0, len(TIERS) - 1), choices=(0, 0, 0, 0, *range(len(TIERS))), of_process=True
)
SETTINGS = (
    Setting("collector", 0, Range(0, len(COLLECTORS) - 1), choices=(*range(len(COLLECTORS)),)),
    Setting("sampler_seed", 1, Range(0, 2**62)),
    TIER,
    Setting("maker", NEW, Range(NEW, CALL), choices=(NEW, NEW, CALL)),
    Setting("threads", 1, Range(1, 3), choices=(1, 1, 2, 3)),
)
"""The collector and the tier, by their numbers; the seed of the generators' states; whether code
allocates by itself while there is space (`new`), or calls the runtime each time."""
SETTINGS_AS_DOCUMENTED = (
    *SETTINGS[:-1],
    Setting("threads", 1, Range(1, 16), choices=(1, 3, 16, 16)),
)
PROMISED = ("samples", "minors", "size", "value", "identity", "graph", "contents")


def contract(
    version: str, actions: tuple[str, ...], seeds: tuple[int, ...], maker: int = NEW
) -> Contract:
    """The contract if the threads' generators start from `seeds`."""
    slow_kinds = tuple(LAYOUT.kinds) if maker == CALL else ()
    counting = Contexts(CONTEXT_BYTES, sizes="reported", outside="in_turn", slow_kinds=slow_kinds)
    return Contract(
        nursery_bytes=NURSERY_BYTES,
        layout=LAYOUT,
        actions=actions,
        observes=(*PROMISED, "outside", "at", "buffer", "ended", "offsets"),
        contents="bytes",
        sampling=SamplingRule(
            period_bytes=Range(PERIOD_BYTES, PERIOD_BYTES),
            surplus="dropped",
            samples_per_allocation="one",
            counting=counting,
            disabling=("drop",),
            enabling="keeps",
            distances="dotnet",
            seeds=seeds,
        ),
        settings=SETTINGS,
        tier_setting=TIER.name,
        version=version,
    )


def as_documented(contract: Contract) -> Contract:
    """The contract that the design document promises instead.

    While the event is enabled, each byte of each object that a thread allocates is sampled with the
    probability p = 1/102,400, independently of all others. No object is sampled twice. The source
    is Nasarre and Falk, Randomized Allocation Sampling, "The sampling model", which does not
    mention contexts.
    """
    promised = SamplingRule(
        period_bytes=contract.sampling.period_bytes,
        surplus="dropped",
        samples_per_allocation="one",
        disabling=("drop",),
        distances="random",
        seeds=(0,) * contract.threads,
    )
    return attrs.evolve(
        contract,
        sampling=promised,
        observes=PROMISED,
        settings=SETTINGS_AS_DOCUMENTED,
        boundary_bytes=(CONTEXT_BYTES,),
    )
