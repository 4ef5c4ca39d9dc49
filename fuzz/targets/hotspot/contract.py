"""What HotSpot does, and what JEP 331 and JVMTI promise."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.protocol.contract import Contract, Range, SamplingRule
from fuzz.protocol.counting import Buffers
from fuzz.protocol.layout import Layout
from fuzz.targets.hotspot.machines import SETTINGS_AS_DOCUMENTED

PERIODS = Range(0, 2**31 - 8, 8)
PROMISED = ("samples", "minors", "size", "value", "alive", "identity", "graph", "contents")
OBSERVES = (*PROMISED, "at", "seed")


def contract(
    actions: tuple[str, ...],
    chosen: Mapping[str, int],
    nursery_bytes: int,
    layout: Layout,
    buffers: Buffers,
) -> Contract:
    """The contract without settings, which depend on the library."""
    threads = chosen["threads"]
    # An object of this size leaves more of a new buffer than the limit, until the limit grows.
    wasted_bytes = buffers.reserve_bytes + buffers.waste_bytes + buffers.waste_increment_bytes // 2
    return Contract(
        nursery_bytes=nursery_bytes,
        layout=layout,
        actions=actions,
        observes=OBSERVES if buffers.taken == "in order" else (*OBSERVES, "buffer"),
        contents="bytes",
        sampling=SamplingRule(
            period_bytes=PERIODS,
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            disabling=("drop",),
            pinning="allowed",
            enabling="keeps",
            counting=buffers,
            distances="hotspot",
            seeds=(chosen["sampler_seed"],) * threads,
            first_bytes=(chosen["first_bytes"],) * threads,
        ),
        boundary_bytes=(max(buffers.desired_bytes - wasted_bytes, 1),),
    )


def contract_as_documented(
    actions: tuple[str, ...], chosen: Mapping[str, int], nursery_bytes: int, layout: Layout
) -> Contract:
    """The contract that JEP 331 and JVMTI promise instead.

    An event is sent "on average, once for every sampling_interval bytes of memory allocated by a
    given thread" (SetHeapSamplingInterval). They do not mention collections and buffers.
    """
    return Contract(
        nursery_bytes=nursery_bytes,
        layout=layout,
        actions=actions,
        observes=PROMISED,
        contents="bytes",
        sampling=SamplingRule(
            period_bytes=SETTINGS_AS_DOCUMENTED[-1].range,
            periods=(chosen["period_bytes"],),
            surplus="dropped",
            samples_per_allocation="one",
            disabling=("drop",),
            distances="random",
            seeds=(0,) * chosen["threads"],
        ),
    ).without(("set_period", "end_thread", "begin_thread"))
