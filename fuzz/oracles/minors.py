"""The minors oracle: how many minor collections are part of a collection that an allocation causes.

    1                     the nursery is full, or an object outside makes a major collection due
    1 for each step       of a major collection, which `state` shows; the first one is that above
    1 more                if the callback's string leaves too little room for the object

A callback that runs twice shows here, since its second string leaves less room than the first. The
same holds for `collect_progress`, which calls nothing back. Each step follows a minor collection,
so more of them than one need a step each. Only marking and sweeping may take several steps, so
between two other states their number is known. (Jung and Bolz-Tereick, Low Overhead Allocation
Sampling in a Garbage Collected Virtual Machine, listing 4.)
"""

from __future__ import annotations

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.major import MARKING, SCANNING, STATES, SWEEPING, MajorOracle
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action, CollectProgress
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import MAJOR_STATES, Observation

OF_ANY_LENGTH = {MARKING, SWEEPING}
"""The states that may take several steps."""


class MinorsOracle(Oracle):
    """Follows the state, and the callback's string."""

    name = "minors"
    judges = ("minors",)
    relies_on = (MajorOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._nursery_bytes = contract.nursery_bytes
        self._shows_state = "state" in contract.observes
        self._state = SCANNING

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return "collections" in contract.promises and contract.nursery_bytes > 0

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        before, after = self._state, observation.state
        if after is not None:
            self._state = after
        if not observation.minors or not (action.allocates or isinstance(action, CollectProgress)):
            return
        again = self._callback_leaves_too_little(action)
        collections = observation.minors - again
        if collections < 1:
            why = "the callback's string and the object do not fit in the nursery together"
            raise self.mismatch("minors", "at least 2", observation.minors, why)
        if not self._shows_state or after is None or collections == 1:
            return
        steps = (after - before) % STATES
        passed = {(before + step) % STATES for step in range(steps + 1)}
        if passed.isdisjoint(OF_ANY_LENGTH) and steps < collections < steps + STATES:
            why = f"the major collection was {MAJOR_STATES[before]}, and is {MAJOR_STATES[after]}"
            if again:
                why += "; one is due to the callback's string"
            raise self.mismatch("minors", max(steps, 1) + again, observation.minors, why)

    def _callback_leaves_too_little(self, action: Action) -> bool:
        """Whether the object has no room beside the string, so that another collection follows."""
        callback_bytes = self._shadow.callback_bytes
        if not (callback_bytes and action.allocates):
            return False
        obj = self._shadow.placed
        return not obj.outside and callback_bytes + obj.size_bytes > self._nursery_bytes
