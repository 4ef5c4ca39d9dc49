"""The targets `reference-hotspot` and `reference-hotspot-17`: the collector, as HotSpot samples it.

Each thread allocates in its own buffer, a TLAB, whose end is its sample point. All threads draw
from one generator. Version 25 counts what is allocated; versions 11 to 24 count what was charged
when an end was set. No object is larger than eden, which is the nursery. (OpenJDK;
docs/hotspot.md.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs
from typing_extensions import override

from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.counting import Buffers
from fuzz.protocol.observation import Observation
from fuzz.targets.references.collector import CARRY_OUT, SETTINGS, ReferenceTarget
from gcmodel import TLABS, TLABS_CHARGED_AHEAD, Configuration, Heap, TlabSizes
from gcmodel.sampling.tlab import TlabNursery

EDEN_BYTES = Setting("nursery_bytes", 1024, Range(64, 2**20, 8))
TLAB_SETTINGS = (
    Setting("desired_bytes", 128, Range(32, 2**14, 8)),
    Setting("least_bytes", 32, Range(8, 2**11, 8)),
    Setting("reserve_bytes", 16, Range(16, 576, 8)),
    Setting("waste_bytes", 16, Range(8, 512, 8)),
    Setting("waste_increment_bytes", 8, Range(0, 64, 8)),
)
SAMPLER_SETTINGS = (
    Setting("sampler_seed", 1, Range(0, 2**48 - 1)),
    Setting("first_bytes", 64, Range(1, 2**20)),
    Setting("threads", 1, Range(1, 3), choices=(1, 1, 2, 3)),
)
UNUSED = ("nursery_bytes", "large_object_bytes", "card_items", "moving_nursery")
"""Settings of `reference` without a use: no object is large, and eden does not move."""
PERIODS = Range(8, 2**31 - 8, 8)
IN_EDEN: Mapping[type[Action], Callable[[Heap, Any], Any]] = {
    actions.AllocateNode: lambda heap, each: heap.allocate_node(each.number),
    actions.AllocateString: lambda heap, each: heap.allocate_string(each.length),
    actions.AllocateArray: lambda heap, each: heap.allocate_array(each.length),
}
"""A non-movable object is like any other."""
UNCHANGED = (
    *(actions.AllocateWeakref, actions.LoadPrebuilt, actions.Free, actions.Read),
    *(actions.ReadNumber, actions.ReadWeakref, actions.Write, actions.WriteNumber),
    *(actions.CopyArray, actions.TakeIdentity, actions.CollectMinor, actions.CollectFull),
    *(actions.EnableSampling, actions.DisableSampling, actions.CheckHeap),
)
CARRIED_OUT: Mapping[type[Action], Callable[[Heap, Any], Any]] = {
    **IN_EDEN,
    **{action: CARRY_OUT[action] for action in UNCHANGED},
}
OBSERVES = (
    *("samples", "minors", "size", "outside", "at", "tlab", "value", "alive", "identity"),
    *("graph", "memory"),
)


class TlabTarget(ReferenceTarget):
    """As version 25."""

    PARTS = TLABS
    settings = (
        *(EDEN_BYTES, *TLAB_SETTINGS, *SAMPLER_SETTINGS),
        *(each for each in SETTINGS if each.name not in (*UNUSED, "pin_while_sampling")),
    )
    carry_out = CARRIED_OUT
    charges: Literal["ahead", "allocated"] = "allocated"

    @override
    def configuration_of(self, chosen: Mapping[str, int]) -> Configuration:
        return attrs.evolve(
            super().configuration_of(chosen),
            large_object_bytes=chosen["nursery_bytes"],
            tlab=TlabSizes(**_sizes(chosen)),
            sampler_seeds=(chosen["sampler_seed"],) * chosen["threads"],
        )

    @override
    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        eden_bytes = chosen["nursery_bytes"]
        unused = {"large_object_bytes": eden_bytes, "card_items": 0, "pin_while_sampling": 0}
        contract = super().contract_of({**chosen, **unused})
        layout = attrs.evolve(
            contract.layout, object_bytes_max=eden_bytes - 1, nonmovable="ignored"
        )
        return attrs.evolve(
            contract, layout=layout, observes=OBSERVES, pins_max=0, promises=("memory",)
        )

    @override
    def rule_of(self, chosen: Mapping[str, int]) -> SamplingRule:
        threads = chosen["threads"]
        return SamplingRule(
            period_bytes=PERIODS,
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            disabling=("drop",),
            enabling="keeps",
            distances="hotspot",
            counting=Buffers(
                charges=self.charges,
                taken="in order",
                generators="shared",
                births="draws",
                **_sizes(chosen),
            ),
            seeds=(chosen["sampler_seed"],) * threads,
            first_bytes=(chosen["first_bytes"],) * threads,
        )

    @override
    def _add_pointers(self, observation: Observation) -> None:
        nursery = self._heap.nursery
        assert isinstance(nursery, TlabNursery)
        tlab = nursery.tlab
        if observation.at is not None and tlab.allocation_end:
            observation.tlab = [tlab.start, tlab.top, tlab.end, tlab.allocation_end]


class ChargingTarget(TlabTarget):
    """As versions 11 to 24."""

    PARTS = TLABS_CHARGED_AHEAD
    charges = "ahead"


def _sizes(chosen: Mapping[str, int]) -> dict[str, Any]:
    return {setting.name: chosen[setting.name] for setting in TLAB_SETTINGS}
