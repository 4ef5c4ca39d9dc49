"""The tiers oracle: compiled code answers as interpreted code does.

The contract names the setting that says which tier of a runtime executes allocations. The same
actions in its first tier read the same values and leave the same graph. When it collects, what a
weak reference still shows, and what is sampled may differ: objects cost other bytes, and tiers fold
allocations differently. So may an identity: an object can get that of one that was collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuzz.oracles.determinism import DeterminismOracle
from fuzz.oracles.oracle import RerunOracle
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

COMPARED = ("error", "value", "contents")


class TiersOracle(RerunOracle):
    """Runs a trace in the tier with the least number, and compares the heaps."""

    name = "tiers"
    share = 8
    relies_on = (DeterminismOracle,)
    needs_same = ("prebuilt",)

    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        """None without tiers, and for a trace that ran in the first one."""
        for setting in contract.settings:
            if setting.name == contract.tier_setting:
                tier = configuration.get(setting.name, setting.default)
                return (
                    None
                    if tier == setting.least
                    else {**configuration, setting.name: setting.least}
                )
        return None

    def check(self, first: Observation, second: Observation) -> None:
        fields: tuple[str, ...] = COMPARED
        # One of them may have collected here, and the other one at another action.
        if first.graph is not None and second.graph is not None:
            fields += ("graph",)
        self.compare_fields(fields, second, first, "the same actions in the first tier")
