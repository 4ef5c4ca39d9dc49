"""The exhaustion oracle: an action fails for lack of memory if and only if there is no room.

- An action is exhausted only if living objects take more than `heap_bytes_max`, together with the
  object that it allocates. Objects that died count too if a major collection was in progress that
  may have missed them.
- Such an action allocates nothing.
- Living objects never take more than that and `overshoot_bytes`. Each allocation shows this, or
  each full collection if major collections find it. What is alive only because its finalizer has
  not run may not count there, so then nothing is known.
"""

from __future__ import annotations

from fuzz.mutator.occupancy import Exhausted
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation


class ExhaustionOracle(Oracle):
    """Compares what the mutator's objects take with the contract's bounds."""

    name = "exhaustion"
    judges = ("exhausted",)
    relies_on = (HeapOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        assert contract.exhaustion is not None
        assert shadow.occupancy is not None
        self._occupancy = shadow.occupancy
        self._bytes_min = contract.exhaustion.heap_bytes_max
        self._bytes_max = self._bytes_min + contract.exhaustion.overshoot_bytes
        self._is_found_by_allocations = contract.exhaustion.found_by == "allocations"

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return contract.exhaustion is not None

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        if isinstance(action, Exhausted):
            self._check_nothing_allocated(observation)
            self._check_exhausted(action.action)
        elif action.allocates if self._is_found_by_allocations else action.collects == "full":
            self._check_not_exhausted()

    def _check_nothing_allocated(self, observation: Observation) -> None:
        for name in ("size", "outside", "at"):
            value = getattr(observation, name)
            if value is not None:
                why = f"{name} is {value}, but an action that is exhausted allocates nothing"
                raise self.mismatch("exhausted", False, True, why)

    def _check_exhausted(self, action: Action) -> None:
        new = [self._shadow.object_of(action)] if action.allocates else []
        new_bytes = self._occupancy.bytes_of(new)
        bytes_max = self._occupancy.before_bytes + new_bytes
        if bytes_max <= self._bytes_min:
            asked_for = f", of which {new_bytes} are asked for" if new else ""
            room = f"there is room for {self._bytes_min}"
            why = f"at most {bytes_max} bytes are taken{asked_for}; {room}"
            raise self.mismatch("exhausted", False, True, why)

    def _check_not_exhausted(self) -> None:
        if self._shadow.finalizers.waiting:
            return
        taken_bytes = self._occupancy.living_bytes()
        if taken_bytes > self._bytes_max:
            why = f"living objects take {taken_bytes} bytes; there is room for {self._bytes_max}"
            raise self.mismatch("exhausted", True, False, why)
