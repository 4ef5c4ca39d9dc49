"""Steps of a trace with made answers, and what the oracles find wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Bench, Mismatch
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

Step = Action | tuple[Action, Mapping[str, Any]]
"""An action, with the fields of its observation that differ from the usual ones."""


def answer(action: Action, **fields: Any) -> Step:
    return action, fields


class Judge:
    """All oracles of a contract, or one of them alone, over a shadow heap.

    For an oracle alone, the sampling oracle counts but does not judge.
    """

    def __init__(
        self,
        contract: Contract,
        alone: type[Oracle] | None = None,
        usual: Callable[[Action], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        """`usual` returns the fields of an action's observation that no step has to state."""
        self.bench = Bench(contract)
        self._alone = alone
        self._usual = usual

    @property
    def state(self) -> SamplingState:
        return self.bench.sampling

    @property
    def shadow(self) -> Shadow:
        return self.bench.shadow

    def __call__(self, *steps: Step, **fields: Any) -> None:
        """Judge steps; the observation of each has these fields too. Raises a Mismatch."""
        for step in steps:
            action, stated = step if isinstance(step, tuple) else (step, {})
            observation = Observation(**{**self._usual(action), **fields, **stated})
            if self._alone is None:
                self.bench.judge(action, observation)
            else:
                self._ask(self._alone, action, observation)

    def _ask(self, kind: type[Oracle], action: Action, observation: Observation) -> None:
        self.shadow.follow(action, observation.minors)
        sampling = self.bench.oracles[SamplingOracle]
        assert isinstance(sampling, SamplingOracle)
        if kind is not SamplingOracle:
            sampling.follow(action, observation)
        self.bench.oracles[kind].check(action, observation, sampling.state)

    def verdict(self, *steps: Step, **fields: Any) -> Mismatch | None:
        """What is wrong with the last step, if anything; the steps before it are right."""
        self(*steps[:-1])
        try:
            self(steps[-1], **fields)
        except Mismatch as mismatch:
            return mismatch
        return None

    def mismatch(self, *steps: Step, **fields: Any) -> Mismatch:
        """What is wrong with the last step; the steps before it are right."""
        mismatch = self.verdict(*steps, **fields)
        assert mismatch is not None, f"{steps[-1]} is right"
        assert self._alone is None or mismatch.oracle == self._alone.name
        return mismatch
