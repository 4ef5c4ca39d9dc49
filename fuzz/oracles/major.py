"""The major oracle: a major collection goes on in steps, each after a minor collection.

    scanning -> marking -> sweeping -> finalizing -> scanning

An action with n minor collections takes at most n steps. `collect_minor` takes none. A full
collection ends in the first state, and so does an action that is exhausted. A report contains the
state before the step that follows its minor collection. Within an action, no report and no final
state is a step back.
"""

from __future__ import annotations

from fuzz.mutator.occupancy import Exhausted
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import MAJOR_STATES, Observation

STATES = len(MAJOR_STATES)
SCANNING, MARKING, SWEEPING, _ = range(STATES)


class MajorOracle(Oracle):
    """Follows the state, if the target shows it. In a report it must at least be a state."""

    name = "major"
    judges = ("state", "reports")
    relies_on = (HeapOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._observes_reports = "reports" in contract.observes
        self._observes_state = "state" in contract.observes
        self._state = SCANNING

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return not {"state", "reports"}.isdisjoint(contract.observes)

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        steps = 0
        has_ended = action.collects == "full" or isinstance(action, Exhausted)
        if observation.reports and self._observes_reports:
            before = _minors_before_reports(observation)
            for report, minors in zip(observation.reports, before, strict=True):
                allowed = self._states(steps, minors - 1)
                steps = self._check("major_state", report.major_state, allowed, steps)
        elif observation.state == self._state and not has_ended:
            return  # It need not take a step.
        if not self._observes_state:
            return
        allowed = self._states(steps, 0 if action.collects == "minor" else observation.minors)
        if has_ended:
            allowed = [SCANNING]
        self._check("state", observation.state, allowed, steps)
        assert observation.state is not None  # None is never allowed.
        self._state = observation.state

    def _states(self, steps_min: int, steps_max: int) -> list[int]:
        """The states after that many steps since the action began."""
        if not self._observes_state:
            return [*range(STATES)]
        steps = range(steps_min, max(steps_min, min(steps_max, steps_min + STATES - 1)) + 1)
        return [(self._state + step) % STATES for step in steps]

    def _check(self, field: str, got: int | None, allowed: list[int], steps: int) -> int:
        """The least number of steps that lead to a state, if `steps` were taken before."""
        if got not in allowed:
            why = f"before the action it was {MAJOR_STATES[self._state]}"
            raise self.mismatch(field, allowed, got, why)
        return steps + allowed.index(got)


def _minors_before_reports(observation: Observation) -> list[int]:
    """The number of minor collections when each report was made, its own included.

    The highest possible number, if the order of the events is not observed.
    """
    counts, minors = [], 0
    for event in observation.order:
        minors += event == "M"
        if event == "R":
            counts.append(minors)
    reports = len(observation.reports)
    if len(counts) == reports:
        return counts
    return [observation.minors - later for later in reversed(range(reports))]
