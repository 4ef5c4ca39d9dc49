"""The target `reference-threads`: several threads of one heap with finalizers, which end and begin.

They sample as in .NET 10. Each thread records its writes in a log of its own, so what a thread
leaves behind at its end meets collections, deaths and finalizers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from typing_extensions import override

from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.targets.references.dotnet import ACTIONS, DotnetTarget
from fuzz.targets.references.with_finalizers import ALL, DEATHS, EPHEMERON, PROMISE
from gcmodel.collector.mutator_threads import ThreadedHeap, ThreadedParts

LIVES: Mapping[type[Action], Callable[[ThreadedHeap, Any], Any]] = {
    actions.EndThread: lambda heap, each: heap.end_thread(each.thread),
    actions.BeginThread: lambda heap, _: heap.begin_thread(),
}
NAMED = tuple(actions.NAMES[each] for each in (*DEATHS, *LIVES) if each is not actions.AllocateNode)


class ThreadsTarget(DotnetTarget):
    """The heap of `reference-finalizers`, the samplers of `reference-dotnet`, and threads."""

    PARTS = ThreadedParts()
    carry_out: Mapping[type[Action], Callable[[Any, Any], Any]] = {**ALL, **LIVES}
    make_heap = ThreadedHeap

    @override
    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().contract_of(chosen)
        kinds = {**contract.layout.kinds, "ephemeron": EPHEMERON}
        return attrs.evolve(
            contract,
            actions=(*ACTIONS, "fill_array", "move_array", *NAMED),
            layout=attrs.evolve(contract.layout, kinds=kinds),
            observes=(*contract.observes, "finalized"),
            finalizers=PROMISE,
        )
