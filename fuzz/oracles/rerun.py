"""Oracles that judge a trace as a whole: it is run once more, changed, and the two must agree.

They predict nothing by themselves, so they also see what no other oracle knows: when a collector
collects, how far its samples are apart. Invariant: the second run performs each action of the first
one, or what stands for it, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fuzz.actions import Action
from fuzz.contract import Contract
from fuzz.observation import Observation


class RerunOracle(Protocol):
    """What judges one observation beside that of a second run."""

    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        """What the second run begins with; None if nothing can be said of this trace."""

    def instead(self, action: Action) -> Action | None:
        """What the second run does for `action`; None is nothing."""

    def check(self, first: Observation, second: Observation) -> None:
        """Raise a Mismatch unless the observations of one action agree."""
