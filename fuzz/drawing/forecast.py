"""A forecast: a trace drawn before any of it is performed.

The next action of a trace depends on the state of the oracles (what still fits in the nursery, how
far the next sample is), and that state on the answers of the target. To send actions ahead of their
answers, a forecast predicts the answers: a full nursery is collected. If a collector collects for
other reasons, the actions only hit fewer edges; the oracles judge the real answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.drawing.situation import Situation
from fuzz.oracles import Bench
from fuzz.protocol.actions import Action, AllocateGroup, Member, alone, collects, group_bytes
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import Layout


class Forecast:
    """A situation to draw from that needs no target."""

    def __init__(self, contract: Contract) -> None:
        self.situation = Situation(contract, Bench(contract))

    def follow(self, action: Action) -> None:
        """Continue as if the action had been performed."""
        bench = self.situation.bench
        members: Sequence[Member] = ()
        if self.situation.contract.counts_members and isinstance(action, AllocateGroup):
            members = action.members
        for each in [alone(member, action.thread) for member in members] or [action]:
            minors = int(self._collects(each))
            bench.predict(each, minors)
            if minors:
                self.situation.objects = len(bench.shadow.reachable())

    def _collects(self, action: Action) -> bool:
        if action.allocates:
            contract, sampling = self.situation.contract, self.situation.bench.sampling
            if not contract.nursery_bytes:
                return False
            size_bytes, outside = cost_of(contract.layout, action)
            free_bytes = contract.nursery_bytes - sampling.nursery_used_bytes
            return not outside and size_bytes > free_bytes
        return collects(action) != "never"


def cost_of(layout: Layout, allocation: Action) -> tuple[int, bool]:
    """The bytes that an allocation counts, and whether it lies outside the nursery."""
    if isinstance(allocation, AllocateGroup):
        return group_bytes(allocation, layout), False
    assert allocation.kind is not None
    nonmovable = allocation.old or getattr(allocation, "nonmovable", False)
    return layout.cost(allocation.kind, getattr(allocation, "length", 0), nonmovable)
