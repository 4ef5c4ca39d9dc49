"""The major oracle: a major collection goes on in steps, each after a minor collection.

    scanning -> marking -> sweeping -> finalizing -> scanning

So an action with n minor collections takes it n states further at most, and one without takes it
nowhere. A minor collection that is asked for as such does not either, and a full collection brings
it to its end, which is where the next one begins. A report says how it stood when it was made,
which is before the step that follows its minor collection.
"""

from __future__ import annotations

from typing_extensions import override

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.oracle import Mismatch, Oracle
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import MAJOR_STATES, Observation

SCANNING = MAJOR_STATES.index("scanning")
STATES = len(MAJOR_STATES)


class MajorMismatch(Mismatch):
    """The major collection is where it cannot have come."""

    oracle = "major"


class MajorOracle(Oracle[None]):
    """Follows the state, where the target shows it; in a report it must at least be one."""

    judges = ("state", "reports")
    relies_on = (HeapOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._observes_state = "state" in contract.observes
        self._state = SCANNING

    @classmethod
    @override
    def can_judge(cls, contract: Contract) -> bool:
        return not {"state", "reports"}.isdisjoint(contract.observes)

    @classmethod
    @override
    def concerns(cls, action: type[Action]) -> bool:
        return True

    @override
    def check(self, action: Action, observation: Observation, facts: None = None) -> None:
        """Compare with what the target said. Raises MajorMismatch."""
        minors = observation.minors
        for report in observation.reports:
            self._check("major_state", report.major_state, self._states_after(minors - 1))
        if not self._observes_state:
            return
        if observation.state == self._state and action.collects != "full":
            return  # It need not go on.
        allowed = self._states_after(0 if action.collects == "minor" else minors)
        if action.collects == "full":
            allowed = [SCANNING]
        self._check("state", observation.state, allowed)
        assert observation.state is not None  # None is nowhere allowed.
        self._state = observation.state

    def _states_after(self, steps_max: int) -> list[int]:
        """Where it may be so many steps further, or less."""
        if not self._observes_state:
            return [*range(STATES)]
        steps = range(min(max(steps_max, 0), STATES - 1) + 1)
        return [(self._state + each) % STATES for each in steps]

    def _check(self, field: str, got: int | None, allowed: list[int]) -> None:
        if got not in allowed:
            states = ", ".join(f"{number} {name}" for number, name in enumerate(MAJOR_STATES))
            why = f"one of these; {states}; before the action it was {self._state}"
            raise MajorMismatch(field, allowed, got, why)
