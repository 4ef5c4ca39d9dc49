"""The target `reference-finalizers`: the reference with finalizers and ephemerons like PyPy's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from typing_extensions import override

from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.layout import KindLayout
from fuzz.targets.references.collector import CARRY_OUT, KINDS, OBSERVES, ReferenceTarget
from gcmodel.collector.finalizing import FinalizingHeap, FinalizingParts

PROMISE = Finalizers(
    order="referrer_first", cycles="first_registered", weak="cleared_before", destructors=True
)
EPHEMERON = KindLayout(type_index=5, fixed_bytes=24)


def _allocate_node(heap: FinalizingHeap, each: actions.AllocateNode) -> tuple[int, int | None]:
    if each.destructor is None:
        return heap.allocate_node(each.number, each.nonmovable)
    return heap.allocate_destructible(each.number, each.destructor)


DEATHS: Mapping[type[Action], Callable[[FinalizingHeap, Any], Any]] = {
    actions.AllocateNode: _allocate_node,
    actions.RegisterFinalizer: lambda heap, each: heap.register_finalizer(each.root, each.number),
    actions.UnregisterFinalizer: lambda heap, each: heap.unregister_finalizer(each.root),
    actions.RunFinalizers: lambda heap, each: heap.run_finalizers(each.keep),
    actions.Resurrect: lambda heap, each: heap.resurrect(each.number),
    actions.AllocateEphemeron: lambda heap, each: heap.allocate_ephemeron(each.key, each.value),
    actions.ReadEphemeron: lambda heap, each: heap.read_ephemeron(each.root),
}
ALL: Mapping[type[Action], Callable[[Any, Any], Any]] = {**CARRY_OUT, **DEATHS}


class FinalizersTarget(ReferenceTarget):
    """The heap of `reference`, whose objects may have finalizers."""

    PARTS = FinalizingParts()
    carry_out = ALL
    make_heap = FinalizingHeap

    @override
    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().contract_of(chosen)
        layout = attrs.evolve(contract.layout, kinds={**KINDS, "ephemeron": EPHEMERON})
        observes = (*OBSERVES, "finalized")
        return attrs.evolve(contract, layout=layout, observes=observes, finalizers=PROMISE)
