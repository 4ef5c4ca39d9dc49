"""The bench: the oracles that can judge a contract, over one shadow heap, in their order.

It finds every oracle that is written in this folder, so that no list has to name them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import cast

from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.occupancy import as_exhausted
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.excluded import field_of, judged_contract
from fuzz.oracles.oracle import Mismatch, Oracle, RerunOracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.oracles.survival import SurvivalOracle
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import FIELDS, Observation

for _module in iter_modules([str(Path(__file__).parent)]):
    import_module(f"{__package__}.{_module.name}")


def _depth(oracle: type[Oracle | RerunOracle]) -> int:
    """The length of the longest chain of oracles that are asked before it."""
    return max((1 + _depth(before) for before in oracle.relies_on), default=0)


ORACLES = sorted(
    Oracle.__subclasses__(), key=lambda kind: (_depth(kind), FIELDS.index(kind.judges[0]))
)
"""The oracles that judge observations: each after those it relies on, then by its first field."""
RERUN_ORACLES: dict[str, RerunOracle] = {
    kind.name: kind()
    for kind in sorted(RerunOracle.__subclasses__(), key=lambda kind: (_depth(kind), kind.share))
}
"""The oracles that run a trace again, by name, in the order in which they are asked."""


class Bench:
    """The state of one heap: `shadow` is the mutator's, everything else the oracles'.

    An excluded field is judged as if the contract did not observe it.
    """

    def __init__(self, contract: Contract, excluded: Collection[str] = ()) -> None:
        contract = judged_contract(contract, excluded)
        self._excluded = excluded
        self._exhaustion = contract.exhaustion
        self.nursery_bytes = contract.nursery_bytes
        self.shadow = Shadow(contract)
        self.oracles = {
            kind: kind(contract, self.shadow) for kind in ORACLES if kind.can_judge(contract)
        }
        self._checks = [oracle.check for oracle in self.oracles.values()]
        self._sampling = cast(SamplingOracle, self.oracles[SamplingOracle])
        self._survival = cast(SurvivalOracle | None, self.oracles.get(SurvivalOracle))

    @property
    def sampling(self) -> SamplingState:
        """The state of sampling."""
        return self._sampling.state

    @property
    def pending(self) -> Mapping[ShadowObject, int]:
        """The sampled objects that are not reported yet, each with its number of samples."""
        return self._survival.pending if self._survival else {}

    def judge(self, action: Action, observation: Observation) -> None:
        """Follow the action and judge its observation. Raises a Mismatch."""
        action = self._follow(action, observation)
        sampling = self._sampling
        for check in self._checks:
            try:
                check(action, observation, sampling.state)
            except Mismatch as mismatch:
                if field_of(mismatch.field) not in self._excluded:
                    raise

    def mismatches(self, action: Action, observation: Observation) -> Iterator[Mismatch]:
        """Follow the action, and judge its observation with each oracle, whatever the others find.

        The caller may correct the observation before the next oracle judges it.
        """
        action = self._follow(action, observation)
        for check in self._checks:
            try:
                check(action, observation, self._sampling.state)
            except Mismatch as mismatch:
                yield mismatch

    def _follow(self, action: Action, observation: Observation) -> Action:
        """Follow the action as it was carried out, which is returned."""
        if observation.exhausted:
            action = as_exhausted(action, self._exhaustion)
        self.shadow.follow(action, observation.minors, observation.finalized)
        return action

    def predict(self, action: Action, minors: int) -> int:
        """Follow an action that no target performed; returns its expected samples."""
        self.shadow.follow(action, minors)
        return self._sampling.predict(action, minors)
