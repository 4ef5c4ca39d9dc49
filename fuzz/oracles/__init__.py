"""The oracles: each predicts observations from the contract and the actions, in its own file.

They are the second opinion. None imports the reference or the engines, and each raises its own
subclass of Mismatch.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from fuzz.actions import Action
from fuzz.contract import Contract
from fuzz.observation import Observation
from fuzz.oracles.determinism import DeterminismMismatch, DeterminismOracle
from fuzz.oracles.estimate import EstimateOracle
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.invariance import InvarianceMismatch, InvarianceOracle
from fuzz.oracles.mismatch import Mismatch
from fuzz.oracles.pointers import PointersOracle
from fuzz.oracles.rerun import RerunOracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.survival import SurvivalOracle
from fuzz.oracles.transparency import TransparencyMismatch, TransparencyOracle
from fuzz.shadow import Shadow

__all__ = ["RERUN_ORACLES", "Bench", "Mismatch", "Oracle", "RerunOracle"]

RERUN_ORACLES: dict[str, RerunOracle] = {
    DeterminismMismatch.oracle: DeterminismOracle(),
    TransparencyMismatch.oracle: TransparencyOracle(),
    InvarianceMismatch.oracle: InvarianceOracle(),
}
"""The oracles that run a trace once more, by name."""


class Oracle(Protocol):
    """What judges one observation after another."""

    def check(self, action: Action, observation: Observation) -> None:
        """Raise a Mismatch unless the observation is right. The shadow has followed the action."""


@attrs.define(init=False)
class Bench:
    """The oracles that can judge a contract, over one shadow heap.

    The heap oracle comes first: after an error nothing else in an observation means anything.
    """

    nursery_bytes: int
    shadow: Shadow
    sampling: SamplingOracle
    survival: SurvivalOracle
    oracles: tuple[Oracle, ...]

    def __init__(self, contract: Contract) -> None:
        self.nursery_bytes = contract.nursery_bytes
        self.shadow = Shadow(contract)
        self.sampling = SamplingOracle(contract, self.shadow)
        self.survival = SurvivalOracle(contract, self.shadow, self.sampling)
        # The sampling oracle also counts for the others.
        oracles: list[Oracle] = [HeapOracle(contract, self.shadow), self.sampling]
        if "reports" in contract.observes:
            oracles.append(self.survival)
        if contract.sampling.distances == "random" or contract.sampling.estimates != "none":
            oracles.append(EstimateOracle(contract, self.shadow, self.sampling))
        if "limit" in contract.observes:
            oracles.append(PointersOracle(contract, self.shadow, self.sampling))
        self.oracles = tuple(oracles)

    def judge(self, action: Action, observation: Observation) -> None:
        """Follow the action and judge what the target said. Raises a Mismatch."""
        self.shadow.follow(action, observation.minors)
        for oracle in self.oracles:
            oracle.check(action, observation)
