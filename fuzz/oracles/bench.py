"""The bench: the oracles that can judge a contract, over one shadow heap, in their order.

Nobody lists them: each says what it judges, whom it relies on and what concerns it (see `oracle`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, cast

from fuzz.mutator.shadow import Shadow, ShadowObject
from fuzz.oracles.excluded import field_of, judged_contract
from fuzz.oracles.oracle import Mismatch, Oracle, RerunOracle
from fuzz.oracles.sampling import SamplingFacts, SamplingOracle
from fuzz.oracles.survival import SurvivalOracle
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import FIELDS, Observation

for _module in iter_modules([str(Path(__file__).parent)]):
    import_module(f"{__package__}.{_module.name}")


def _depth(oracle: type[Oracle[Any] | RerunOracle]) -> int:
    """How many others have to be asked before it, one after another."""
    return max((1 + _depth(before) for before in oracle.relies_on), default=0)


ORACLES = sorted(Oracle.written, key=lambda each: (_depth(each), FIELDS.index(each.judges[0])))
"""All that judge an observation, as they are asked: each after those that it relies on, and else as
the fields stand in an observation."""
RERUN_ORACLES: dict[str, RerunOracle] = {
    each.name: each()
    for each in sorted(RerunOracle.written, key=lambda each: (_depth(each), each.share))
}
"""The oracles that run a trace once more, by name, in the order in which they are asked."""


def tells_of_events(told: Observation) -> bool:
    """Whether an observation says something that is an event to any oracle, whatever the action.

    Each field has its place here, since this is asked of every action.
    """
    happened = told.minors or told.samples or told.order or told.reports
    return bool(happened or told.offsets or told.weights or told.error)


def states_of(told: Observation) -> tuple[int | None, ...]:
    """What an observation says of states that concern any oracle if they are others than before.

    Each has its place here too: an attrgetter takes thrice as long.
    """
    return told.free, told.limit, told.top, told.sample_point, told.state


class _Concerned(dict[type[Action], tuple[int, ...]]):
    """Which of the oracles, by place, are asked about an action; found out when it first comes."""

    def __init__(
        self, kinds: Sequence[type[Oracle[Any]]], says_something: bool, changes: bool
    ) -> None:
        super().__init__()
        self._kinds = kinds
        self._says_something = says_something
        self._changes = changes

    def __missing__(self, action: type[Action]) -> tuple[int, ...]:
        self[action] = places = tuple(
            place
            for place, kind in enumerate(self._kinds)
            if kind.concerns(action)
            or (self._says_something and kind.events)
            or (self._changes and kind.states)
        )
        return places


@cache
def _concerned(kinds: tuple[type[Oracle[Any]], ...]) -> list[list[_Concerned]]:
    """Where the observation tells of no event, and where of some; of no other state, and of one."""
    return [
        [_Concerned(kinds, says_something, changes) for changes in (False, True)]
        for says_something in (False, True)
    ]


class Bench:
    """What is known of one heap: `shadow` by the mutator, all the rest by the oracles.

    An excluded field is judged as if the contract did not observe it.
    """

    def __init__(self, contract: Contract, excluded: Collection[str] = ()) -> None:
        contract = judged_contract(contract, excluded)
        self._excluded = excluded
        self.nursery_bytes = contract.nursery_bytes
        self.shadow = Shadow(contract)
        self.oracles: dict[type[Oracle[Any]], Oracle[Any]] = {
            kind: kind(contract, self.shadow) for kind in ORACLES if kind.can_judge(contract)
        }
        self._sampling = cast(SamplingOracle, self.oracles[SamplingOracle])
        self.sampling: SamplingFacts = self._sampling.facts
        self._survival = cast(SurvivalOracle | None, self.oracles.get(SurvivalOracle))
        # The sampled objects of which nothing was reported yet, and how often each was.
        self.pending: Mapping[ShadowObject, int] = self._survival.pending if self._survival else {}
        self._concerned = _concerned(tuple(self.oracles))
        self._states: object = None
        # Who is told by nobody is told the facts of the class itself: None.
        self._checks = [
            (oracle.check, Oracle if oracle.told_by is None else self.oracles[oracle.told_by])
            for oracle in self.oracles.values()
        ]

    def judge(self, action: Action, observation: Observation) -> None:
        """Follow the action and judge what the target said. Raises a Mismatch."""
        self.shadow.follow(action, observation.minors)
        states = states_of(observation)
        concerned = self._concerned[tells_of_events(observation)][states != self._states]
        checks = self._checks
        for place in concerned[type(action)]:
            check, teller = checks[place]
            try:
                check(action, observation, teller.facts)
            except Mismatch as mismatch:
                if field_of(mismatch.field) not in self._excluded:
                    raise
        self._states = states  # One that was wrong is wrong until it changes.
        self.sampling = self._sampling.facts
        if self._survival is not None:
            self.pending = self._survival.pending

    def predict(self, action: Action, minors: int) -> int:
        """Follow an action that no target performed; returns the samples that it should take."""
        self.shadow.follow(action, minors)
        samples = self._sampling.predict(action, minors)
        self.sampling = self._sampling.facts
        return samples
