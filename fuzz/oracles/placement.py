"""The placement oracle: all that lies in the nursery fits there.

    0        at      at + size     at + size       nursery_bytes
    |        | pinned |            | an object |   |

Invariants, where the same actions cause the same collections, so that the nursery has a fixed size:

    the bytes allocated since the last minor collection, and those pinned, fit in the nursery
    an object lies within the nursery, and overlaps no object that was pinned before

A pinned object lies where it was allocated. (PyPy's pinning.) This oracle is one of four changes by
which more bugs that need several things at once are found (docs/decisions.md).
"""

from __future__ import annotations

from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.pointers import PointersOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation


class PlacementOracle(Oracle):
    """Adds up the sizes of objects, and compares their places, where the target shows them."""

    name = "placement"
    judges = ("at", "minors")
    relies_on = (PointersOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._end = contract.nursery_bytes
        # Where each object in the nursery lies, if that is known.
        self._at: dict[ShadowObject, int] = {}
        self._pinned: list[ShadowObject] = []
        self._pinned_bytes = 0

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return "collections" in contract.promises and contract.nursery_bytes > 0

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        if observation.minors:
            # One that only dead objects refer to may be dead.
            self._pinned = [obj for obj in self._shadow.pinned if obj.is_in_nursery]
            self._pinned_bytes = sum(obj.size_bytes for obj in self._pinned)
            self._at = {obj: self._at[obj] for obj in self._pinned if obj in self._at}
        if not action.allocates or self._shadow.placed.outside:
            return
        used_bytes = sampling.nursery_used_bytes + self._pinned_bytes
        if used_bytes > self._end:
            why = f"{used_bytes} bytes lie in the nursery of {self._end}"
            raise self.mismatch("minors", "at least 1", observation.minors, why)
        if observation.at is not None:
            at = observation.at
            for obj in self._shadow.members(action):
                self._check_place(obj, at)
                at += obj.size_bytes

    def _check_place(self, obj: ShadowObject, at: int) -> None:
        end = at + obj.size_bytes
        if not 0 <= at <= end <= self._end:
            expected = f"from 0 to {self._end - obj.size_bytes}"
            raise self.mismatch("at", expected, at, "within the nursery")
        for pinned in self._pinned:
            start = self._at.get(pinned, end)
            if start < end and at < start + pinned.size_bytes:
                why = f"{pinned.label} was pinned at {start}, and has {pinned.size_bytes} bytes"
                raise self.mismatch("at", "another place", at, why)
        self._at[obj] = at
