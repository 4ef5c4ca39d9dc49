"""The invariance oracle: the size of the nursery makes no difference to what is sampled.

The same actions under a nursery of twice the size, the large-object threshold unchanged, take the
same samples. It needs no sampling rule, so it also judges targets whose contract leaves the
distances between samples unstated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuzz.actions import Action, Pin, SetCallback
from fuzz.contract import Contract, problem_of_configuration
from fuzz.observation import Observation
from fuzz.oracles.mismatch import Mismatch

NURSERY = "nursery_bytes"


class InvarianceMismatch(Mismatch):
    """Under another nursery other objects were sampled."""

    oracle = "invariance"


class InvarianceOracle:
    """Doubles the nursery, and compares the samples."""

    def configuration(
        self, contract: Contract, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> dict[str, int] | None:
        """See RerunOracle.

        What can be pinned, how often a callback allocates, and where an allocation context ends,
        depend on when a collection comes.
        """
        if contract.sampling.context_bytes:
            return None
        if any(isinstance(action, Pin) or _has_callback(action) for action in actions):
            return None
        doubled = {**configuration, NURSERY: 2 * contract.nursery_bytes}
        return None if problem_of_configuration(doubled, contract.settings) else doubled

    def instead(self, action: Action) -> Action | None:
        """See RerunOracle."""
        return action

    def check(self, first: Observation, second: Observation) -> None:
        """See RerunOracle. Raises InvarianceMismatch."""
        why = "the same actions with a nursery of twice the size"
        if first.error != second.error:
            raise InvarianceMismatch("error", first.error, second.error, why)
        if first.samples != second.samples:
            raise InvarianceMismatch("samples", second.samples, first.samples, why)


def _has_callback(action: Action) -> bool:
    return isinstance(action, SetCallback) and action.length is not None
