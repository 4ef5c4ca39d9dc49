"""The bench: the oracles that can judge a contract, over one shadow heap, in their order.

Nobody lists them: each says what it judges, whom it relies on and what concerns it (see `oracle`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from pkgutil import iter_modules
from typing import cast

import attrs

from fuzz.mutator.shadow import Shadow, ShadowObject
from fuzz.oracles.oracle import AnyOracle, Oracle, RerunOracle
from fuzz.oracles.sampling import SamplingFacts, SamplingOracle
from fuzz.oracles.survival import SurvivalOracle
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

for _module in iter_modules([str(Path(__file__).parent)]):
    import_module(f"{__package__}.{_module.name}")

FIELDS = [field.name for field in attrs.fields(Observation)]

_FACTS_OF = attrgetter("facts")


def _depth(oracle: type[AnyOracle | RerunOracle]) -> int:
    """How many others have to be asked before it, one after another."""
    return max((1 + _depth(before) for before in oracle.relies_on), default=0)


def _in_order(oracles: Sequence[type[AnyOracle]]) -> list[type[AnyOracle]]:
    """Each after those that it relies on, and else as the fields stand in an observation."""
    return sorted(oracles, key=lambda each: (_depth(each), FIELDS.index(each.judges[0])))


ORACLES = _in_order(Oracle.written)
"""All that judge an observation, in the order in which they are asked."""
RERUN_ORACLES: dict[str, RerunOracle] = {
    each.name: each()
    for each in sorted(RerunOracle.written, key=lambda each: (_depth(each), each.share))
}
"""The oracles that run a trace once more, by name, in the order in which they are asked."""


class Bench:
    """What is known of one heap: `shadow` by the mutator, all the rest by the oracles."""

    def __init__(self, contract: Contract) -> None:
        self.nursery_bytes = contract.nursery_bytes
        self.shadow = Shadow(contract)
        self.oracles: dict[type[AnyOracle], AnyOracle] = {
            kind: kind(contract, self.shadow) for kind in ORACLES if kind.can_judge(contract)
        }
        self._sampling = cast(SamplingOracle, self.oracles[SamplingOracle])
        self.sampling: SamplingFacts = self._sampling.facts
        self._survival = cast(SurvivalOracle | None, self.oracles.get(SurvivalOracle))
        self._asked = [
            (oracle.check, [self.oracles[kind] for kind in oracle.tellers()])
            for oracle in self.oracles.values()
        ]

    @property
    def pending(self) -> Mapping[ShadowObject, int]:
        """The sampled objects of which nothing was reported yet, and how often each was."""
        return {} if self._survival is None else self._survival.pending

    def judge(self, action: Action, observation: Observation) -> None:
        """Follow the action and judge what the target said. Raises a Mismatch."""
        self.shadow.follow(action, observation.minors)
        for check, tellers in self._asked:
            if tellers:
                check(action, observation, *map(_FACTS_OF, tellers))
            else:
                check(action, observation)
        self.sampling = self._sampling.facts

    def foresee(self, action: Action, minors: int) -> int:
        """Follow an action that no target performed; returns the samples that it should take."""
        self.shadow.follow(action, minors)
        samples = self._sampling.follow(action, Observation(minors=minors))
        self.sampling = self._sampling.facts
        return samples
