"""The bench: the oracles that can judge a contract, over one shadow heap, in their order.

It finds every oracle that is written in this folder, so that no list has to name them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
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
from fuzz.protocol.actions import Action, AllocateGroup, alone
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

    An excluded field is judged as if the contract did not observe it. `kinds` are the oracles that
    judge; the one of sampling is always among them.
    """

    def __init__(
        self,
        contract: Contract,
        excluded: Collection[str] = (),
        kinds: Iterable[type[Oracle]] = ORACLES,
    ) -> None:
        contract = judged_contract(contract, excluded)
        self._excluded = excluded
        self._exhaustion, self._counts_members = contract.exhaustion, contract.counts_members
        self.nursery_bytes = contract.nursery_bytes
        self.shadow = Shadow(contract)
        self.oracles = {
            kind: kind(contract, self.shadow) for kind in kinds if kind.can_judge(contract)
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
        sampling = self._sampling
        for each, answer in self._followed(action, observation):
            for check in self._checks:
                try:
                    check(each, answer, sampling.state)
                except Mismatch as mismatch:
                    if field_of(mismatch.field) not in self._excluded:
                        raise

    def mismatches(self, action: Action, observation: Observation) -> Iterator[Mismatch]:
        """Follow the action, and judge its observation with each oracle, whatever the others find.

        The caller may correct the observation before the next oracle judges it.
        """
        for each, answer in self._followed(action, observation):
            for check in self._checks:
                try:
                    check(each, answer, self._sampling.state)
                except Mismatch as mismatch:
                    yield mismatch

    def _followed(
        self, action: Action, observation: Observation
    ) -> Iterable[tuple[Action, Observation]]:
        """Follow the action as it was carried out, with its answer."""
        if not self._counts_members or not isinstance(action, AllocateGroup) or observation.error:
            # A generator for each action would make a session slower.
            return ((self._follow(action, observation), observation),)
        return self._followed_members(action, observation)

    def _followed_members(
        self, action: AllocateGroup, observation: Observation
    ) -> Iterator[tuple[Action, Observation]]:
        """If each member of a group counts: follow one after another, each with its own answer."""
        members, answers = action.members, observation.members or ()
        if len(answers) != len(members):
            why = "one for each member of the group"
            raise Mismatch("members", "members", f"{len(members)} answers", len(answers), why)
        for place, (member, answer) in enumerate(zip(members, answers, strict=True), 1):
            yield self._follow(alone(member, action.thread), answer, place), answer

    def _follow(self, action: Action, observation: Observation, place: int = 0) -> Action:
        """Follow the action as it was carried out, which is returned. `place` is in its group."""
        if observation.exhausted:
            action = as_exhausted(action, self._exhaustion)
        minors, finalized = observation.minors, observation.finalized
        self.shadow.follow(action, minors, finalized, place, observation.alive)
        return action

    def predict(self, action: Action, minors: int) -> int:
        """Follow an action that no target performed; returns its expected samples."""
        self.shadow.follow(action, minors)
        return self._sampling.predict(action, minors)
