"""What .NET 10 does, and what its design document promises."""

from __future__ import annotations

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
SETTINGS = (
    Setting("collector", 0, Range(0, len(COLLECTORS) - 1), choices=(*range(len(COLLECTORS)),)),
    Setting("sampler_seed", 1, Range(0, 2**62)),
    Setting("threads", 1, Range(1, 3), choices=(1, 1, 2, 3)),
)
"""The collector, by its number; the seed of the generators' states."""
SETTINGS_AS_DOCUMENTED = (
    *SETTINGS[:2],
    Setting("threads", 1, Range(1, 16), choices=(1, 3, 16, 16)),
)
PROMISED = ("samples", "minors", "size", "value", "identity", "graph", "contents")


def contract(version: str, actions: tuple[str, ...], seeds: tuple[int, ...]) -> Contract:
    """The contract if the threads' generators start from `seeds`."""
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
            counting=Contexts(CONTEXT_BYTES, sizes="reported", outside="in_turn"),
            disabling=("drop",),
            enabling="keeps",
            distances="dotnet",
            seeds=seeds,
        ),
        settings=SETTINGS,
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
