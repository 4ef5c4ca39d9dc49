"""jemalloc as it is, under a contract with one mistake in it, which the command line names."""

import sys
from collections.abc import Mapping

import attrs

from fuzz.protocol.contract import Contract
from fuzz.targets.allocators.jemalloc_driver import StockJemalloc
from fuzz.targets.process.serve import serve

MISTAKES = {
    "beyond": {"crosses": "beyond"},
    "carried": {"surplus": "carried"},
    "several": {"samples_per_allocation": "all"},
    "requested": {"counts": "requested"},
    "moved": {"realloc": "when_moved"},
    "stopped": {"paused": "stopped"},
}
# Small figures: what is left of a distance is then often the size of a block.
PERIODS = (16, 64)
BLOCK_BYTES_MAX = 1024


class MistakenTarget(StockJemalloc):
    def __init__(self, mistake: str) -> None:
        super().__init__()
        self._mistake = mistake

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start({"period_bytes": PERIODS[0], **configuration})
        changes = MISTAKES.get(self._mistake)
        if changes is None:
            changes = getattr(self, "_" + self._mistake)(contract)
        period, threads, seed = contract.settings
        return attrs.evolve(
            contract,
            layout=attrs.evolve(contract.layout, object_bytes_max=BLOCK_BYTES_MAX),
            settings=(attrs.evolve(period, default=PERIODS[0], choices=PERIODS), threads, seed),
            sampling=attrs.evolve(contract.sampling, periods=PERIODS, **changes),
        )

    def _less(self, contract: Contract) -> dict[str, object]:
        """The first distance of the first thread is one byte less than it is."""
        state = self.samplers[0].state
        _, *others = contract.sampling.seeds
        return {
            "seeds": (state.prng_state, *others),
            "first_bytes": (max(state.prof_sample_event_wait - 1, 1), *(None for _ in others)),
        }

    def _other(self, contract: Contract) -> dict[str, object]:
        """The generator begins one step from where it does."""
        return {"seeds": tuple(seed ^ 1 for seed in contract.sampling.seeds)}


if __name__ == "__main__":
    serve(MistakenTarget(sys.argv[1]), sys.stdin, sys.stdout)
