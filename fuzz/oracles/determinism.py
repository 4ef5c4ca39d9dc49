"""The determinism oracle: the same actions have the same observations the second time.

Without that, a trace could not be replayed, and a failure could not be reduced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuzz.oracles.oracle import RerunOracle
from fuzz.protocol.actions import Action, BeginThread, RunAtOnce
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import FIELDS, Observation


class DeterminismOracle(RerunOracle):
    """Changes nothing, and compares everything."""

    name = "determinism"
    share = 32

    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        # The size of a thread's part of the nursery may be chance, like the seed of a new thread,
        # and the order of threads that run at once.
        if contract.sampling.counting.left_to_chance(has_births=False):
            return None
        if any(isinstance(action, BeginThread | RunAtOnce) for action in actions):
            return None
        return dict(configuration)

    def check(self, first: Observation, second: Observation) -> None:
        if first != second:
            self.compare_fields(FIELDS, first, second, "the same actions, a second time")
