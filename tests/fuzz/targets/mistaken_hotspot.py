"""HotSpot as it is, under a contract with one mistake in it, which the command line names.

With `held`, the mistake is the target's: whatever a weak reference refers to is held.
"""

import sys
from collections.abc import Mapping
from typing import Any

import attrs

from fuzz.protocol.actions import Action, AllocateWeakref
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.counting import Buffers
from fuzz.protocol.observation import Observation
from fuzz.targets.hotspot.hotspot_driver import HotspotTarget
from fuzz.targets.process.serve import serve

OF_SAMPLING: dict[str, dict[str, Any]] = {
    "overshoot": {"surplus": "carried"},
    "beyond": {"crosses": "beyond"},
    "exact": {"distances": "gperftools", "period_bytes": Range(1, 2**20)},
    "late": {"first_bytes": (4104,)},
}


class MistakenTarget(HotspotTarget):
    def __init__(self, library: str, mistake: str) -> None:
        super().__init__(library)
        self._mistake = mistake
        self._held: list[int] = []

    def perform(self, action: Action) -> Observation:
        if self._mistake == "held" and isinstance(action, AllocateWeakref):
            self._held.append(self._attached[0].hold(self._roots[action.root]))
        return super().perform(action)

    def start(self, configuration: Mapping[str, int]) -> Contract:
        while self._held:
            self._attached[0].free(self._held.pop())
        threads = 2 if self._mistake in ("each", "births") else 1
        known = {"first_bytes": 4096, "threads": threads}
        contract = super().start({"sampler_seed": configuration.get("sampler_seed", 1), **known})
        changes = OF_SAMPLING.get(self._mistake, {})
        buffers = contract.sampling.counting
        assert isinstance(buffers, Buffers)
        wrong = attrs.evolve(buffers, **self.of_buffers(buffers).get(self._mistake, {}))
        return attrs.evolve(
            contract,
            sampling=attrs.evolve(contract.sampling, counting=wrong, **changes),
            settings=tuple(each for each in contract.settings if not each.of_process),
        )

    def of_buffers(self, right: Buffers) -> dict[str, dict[str, Any]]:
        return {
            "each": {"generators": "each"},
            "births": {"births": "draws"},
            "phantoms": {"charges": "ahead" if right.charges == "allocated" else "allocated"},
            "larger": {"desired_bytes": right.desired_bytes + 8},
        }


if __name__ == "__main__":
    serve(MistakenTarget(*sys.argv[1:]), sys.stdin, sys.stdout)
