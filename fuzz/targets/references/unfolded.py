"""The target `reference-unfolded`: allocations of several blocks, each with a check of its own.

An array is two blocks, its items and itself, as in V8. The members of a group are allocated one by
one, as in systems that do not fold. Otherwise it is `reference-hotspot`, where the size of each
block decides which buffer it is in, and whether it is sampled.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from typing_extensions import override

from fuzz.protocol.contract import Contract
from fuzz.protocol.groups import Groups
from fuzz.protocol.layout import KindLayout, PartLayout
from fuzz.targets.references.tlabs import TlabTarget
from gcmodel.collector.divided import DividedHeap, DividedParts

ARRAY = KindLayout(
    type_index=3, fixed_bytes=56, item_bytes=8, parts=(PartLayout(24, 8), PartLayout(32))
)
OBSERVES = (
    *("samples", "minors", "size", "at", "tlab", "value", "alive", "identity", "graph"),
    *("samples_by_member", "members"),
)
MEMBERS_MAX = 4


class UnfoldedTarget(TlabTarget):
    """A collector with arrays of two blocks, and with groups that it does not fold."""

    PARTS = DividedParts()
    make_heap = DividedHeap

    @override
    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().contract_of(chosen)
        layout = attrs.evolve(contract.layout, kinds={**contract.layout.kinds, "array": ARRAY})
        groups = Groups(
            chosen["nursery_bytes"] - 1, MEMBERS_MAX, ("node", "array", "string"), counted="each"
        )
        return attrs.evolve(
            contract,
            layout=layout,
            actions=(*contract.actions, "allocate_group"),
            observes=OBSERVES,
            promises=(),
            groups=groups,
        )
