"""The determinism oracle: the same actions, a second time, give the same observations.

Without that a trace could not be replayed, and a failure not be reduced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from fuzz.actions import Action
from fuzz.contract import Contract
from fuzz.observation import Observation
from fuzz.oracles.mismatch import Mismatch


class DeterminismMismatch(Mismatch):
    """A target answered the same actions differently the second time."""

    oracle = "determinism"


class DeterminismOracle:
    """Changes nothing, and compares everything."""

    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        """See RerunOracle."""
        return dict(configuration)

    def instead(self, action: Action) -> Action | None:
        """See RerunOracle."""
        return action

    def check(self, first: Observation, second: Observation) -> None:
        """See RerunOracle. Raises DeterminismMismatch."""
        if first == second:
            return
        field = next(
            each.name
            for each in attrs.fields(Observation)
            if getattr(first, each.name) != getattr(second, each.name)
        )
        expected, got = getattr(first, field), getattr(second, field)
        raise DeterminismMismatch(field, expected, got, "the same actions, a second time")
