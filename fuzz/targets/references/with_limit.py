"""The target `reference-exhaustion`: the reference with finalizers, and a limit like PyPy's.

The limit is a few nurseries, so that each trace reaches it. As the first threshold is two and a
half of them, and grows by as much at each major collection, none is above the limit in secret.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from typing_extensions import override

from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.protocol.observation import Observation
from fuzz.targets.references.collector import SETTINGS
from fuzz.targets.references.with_finalizers import FinalizersTarget
from gcmodel import Configuration
from gcmodel.collector.limited import LimitedParts
from gcmodel.memory.errors import HeapExhaustedError

HEAP_NURSERIES = Setting("heap_nurseries", 4, Range(1, 6))
"""The limit, in nurseries."""


class LimitTarget(FinalizersTarget):
    """The heap of `reference-finalizers` with a limit."""

    PARTS = LimitedParts()
    settings = (*SETTINGS, HEAP_NURSERIES)

    @override
    def configuration_of(self, chosen: Mapping[str, int]) -> Configuration:
        limit_bytes = chosen["heap_nurseries"] * chosen["nursery_bytes"]
        return attrs.evolve(super().configuration_of(chosen), heap_bytes_max=limit_bytes)

    @override
    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().contract_of(chosen)
        nursery_bytes = contract.nursery_bytes
        limit_bytes = chosen["heap_nurseries"] * nursery_bytes
        threshold_bytes = min(contract.old_space.threshold_bytes, limit_bytes)
        # For an object outside, room for half of a nursery is reserved.
        overshoot_bytes = nursery_bytes // 2
        return attrs.evolve(
            contract,
            observes=(*contract.observes, "exhausted"),
            old_space=attrs.evolve(contract.old_space, threshold_bytes=threshold_bytes),
            exhaustion=Exhaustion(
                limit_bytes - overshoot_bytes, overshoot_bytes, "major_collections", survivable=1
            ),
        ).without(("pin", "unpin"))

    @override
    def _answer(self, action: Action, observation: Observation) -> None:
        try:
            super()._answer(action, observation)
        except HeapExhaustedError:
            observation.exhausted = True
