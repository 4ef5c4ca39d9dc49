"""The transparency oracle: sampling changes nothing but the samples.

The same actions with sampling left out collect at the same actions and leave the same heap. Left
out means: enabling, pausing, resuming, and disabling that drops become nothing; disabling that
collects and reports becomes a minor collection; everything else stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuzz.actions import (
    Action,
    CollectMinor,
    DisableSampling,
    EnableSampling,
    PauseSampling,
    ResumeSampling,
)
from fuzz.contract import Contract
from fuzz.observation import Observation
from fuzz.oracles.mismatch import Mismatch

SAMPLING = (EnableSampling, DisableSampling, PauseSampling, ResumeSampling)
COMPARED = ("error", "minors", "alive", "graph")
"""The fields of an observation in which the heap shows, those that explain more first."""


class TransparencyMismatch(Mismatch):
    """Sampling made a difference to the heap."""

    oracle = "transparency"


class TransparencyOracle:
    """Leaves sampling out, and compares the heaps."""

    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        """See RerunOracle. A trace without sampling has nothing that could be left out."""
        instead = {self.instead(action) for action in actions if isinstance(action, SAMPLING)}
        if not instead or (CollectMinor() in instead and "collect_minor" not in contract.actions):
            return None
        return dict(configuration)

    def instead(self, action: Action) -> Action | None:
        """See RerunOracle."""
        if not isinstance(action, SAMPLING):
            return action
        reports = isinstance(action, DisableSampling) and action.report
        return CollectMinor() if reports else None

    def check(self, first: Observation, second: Observation) -> None:
        """See RerunOracle. Raises TransparencyMismatch."""
        for field in COMPARED:
            with_sampling, without = getattr(first, field), getattr(second, field)
            if with_sampling != without:
                why = "the same actions without sampling"
                raise TransparencyMismatch(field, without, with_sampling, why)
