"""The invariance oracle: the size of the nursery makes no difference to samples.

The same actions take the same samples if the nursery is twice as large. It needs no sampling rule,
so it also judges contracts that do not state the distances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuzz.oracles.determinism import DeterminismOracle
from fuzz.oracles.oracle import RerunOracle
from fuzz.protocol.actions import Action, Pin, Resurrect, SetCallback
from fuzz.protocol.contract import Contract, problem_of_configuration
from fuzz.protocol.observation import Observation

NURSERY = "nursery_bytes"


class InvarianceOracle(RerunOracle):
    """Doubles the nursery, and compares the samples."""

    name = "invariance"
    share = 16
    relies_on = (DeterminismOracle,)

    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        # Pins, callbacks and resurrections depend on collections too, and so does exhaustion.
        if contract.sampling.counting.depends_on_collections or contract.exhaustion:
            return None
        for action in actions:
            has_callback = isinstance(action, SetCallback) and action.length is not None
            if has_callback or isinstance(action, Pin | Resurrect):
                return None
        doubled = {**configuration, NURSERY: 2 * contract.nursery_bytes}
        return None if problem_of_configuration(doubled, contract.settings) else doubled

    def check(self, first: Observation, second: Observation) -> None:
        why = "the same actions with a nursery of twice the size"
        if first.error != second.error:
            raise self.mismatch("error", first.error, second.error, why)
        self.compare_fields(("samples", "samples_by_member"), second, first, why)
