"""The transparency oracle: sampling changes nothing except the samples.

The same actions without sampling collect at the same actions and leave the same heap. The second
run leaves out enabling, pausing, resuming, and disabling that drops. Disabling that reports becomes
a minor collection. Everything else remains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuzz.oracles.determinism import DeterminismOracle
from fuzz.oracles.oracle import RerunOracle
from fuzz.protocol.actions import Action, CollectMinor, Fork, collects
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

SWITCHES = ("starts", "stops", "pauses", "resumes")
COMPARED = ("error", "exhausted", "minors", "alive", "graph")
"""The fields of an observation that show the heap. The first ones explain most."""


class TransparencyOracle(RerunOracle):
    """Leaves sampling out, and compares the heaps."""

    name = "transparency"
    share = 8
    relies_on = (DeterminismOracle,)

    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        """None for a trace without sampling."""
        instead = {self.instead(action) for action in actions if _only_switches(action)}
        if not instead or (CollectMinor() in instead and "collect_minor" not in contract.actions):
            return None
        return dict(configuration)

    def instead(self, action: Action) -> Action | None:
        if not _only_switches(action):
            return action
        return CollectMinor() if collects(action) == "minor" else None

    def check(self, first: Observation, second: Observation) -> None:
        self.compare_fields(COMPARED, second, first, "the same actions without sampling")


def _only_switches(action: Action) -> bool:
    """A fork does more than switch sampling off."""
    return action.sampling in SWITCHES and not isinstance(action, Fork)
