"""The target gperftools with one mistake, named on the command line: each must be found."""

import sys
from collections.abc import Mapping
from typing import Any

import attrs

from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.counting import Bytes
from fuzz.targets.allocators.gperftools_driver import StockGperftools, serve_in_fixed_memory

WRONG_RULES: dict[str, dict[str, Any]] = {
    "crosses_at": {"crosses": "at"},
    "surplus_carried": {"surplus": "carried"},
    "all_samples": {"samples_per_allocation": "all"},
    "requested": {"counts": "requested"},
    "room": {"counts": "size"},
    "realloc_always": {"realloc": "always"},
    "paused_counting": {"paused": "counting"},
    "paused_stopped": {"paused": "stopped"},
    "other_seed": {"seeds": (7,)},
    "never_reseeded": {"counting": Bytes()},
    "no_placeholder": {"first_bytes": ()},
}
"""What the contract states of sampling, wrongly."""
WRONG_LAYOUTS: dict[str, dict[str, Any]] = {"class_left_out": {"size_classes": (8, 16, 48)}}
INTERVAL_LESS_ONE = "interval_less_one"
"""Not the contract is wrong but the library: each thread's first distance is one byte short."""
MISTAKES = (*WRONG_RULES, *WRONG_LAYOUTS, INTERVAL_LESS_ONE)


SETTINGS = (
    Setting("sampler_seed", 1, Range(1, 2**32 - 1)),
    Setting("period_bytes", 4096, Range(1024, 2**40)),
    Setting("fresh_threads", 0, Range(0, 1)),
)
"""One thread, so that one seed is enough; and no period so short that a carried surplus is long."""


class WrongTarget(StockGperftools):
    """The target, but for the mistake."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.mistake = mistake

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        if self.mistake == INTERVAL_LESS_ONE:
            self.samplers[0].bytes_until -= 1
        rule = attrs.evolve(contract.sampling, period_bytes=Range(1024, 2**40))
        sampling = attrs.evolve(rule, **WRONG_RULES.get(self.mistake, {}))
        layout = attrs.evolve(contract.layout, **WRONG_LAYOUTS.get(self.mistake, {}))
        return attrs.evolve(contract, sampling=sampling, layout=layout, settings=SETTINGS)


if __name__ == "__main__":
    serve_in_fixed_memory(WrongTarget(sys.argv[1]))
