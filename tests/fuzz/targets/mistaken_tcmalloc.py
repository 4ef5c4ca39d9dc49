"""TCMalloc as it is, under a contract with one mistake in it, which the command line names."""

import sys
from collections.abc import Mapping
from typing import Any

import attrs

from fuzz.protocol.contract import Contract
from fuzz.targets.allocators.tcmalloc_driver import StockTcmalloc
from fuzz.targets.process.serve import serve

MISTAKES: dict[str, dict[str, Any]] = {
    "at": {"crosses": "at"},
    "requested": {"counts": "requested"},
    "moved": {"realloc": "when_moved"},
    "drawn": {"distances": "gperftools", "weights": "none"},
    "first": {"first_bytes": (4096, 4096)},
}


class MistakenTarget(StockTcmalloc):
    def __init__(self, mistake: str) -> None:
        super().__init__()
        self._changes = MISTAKES[mistake]

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start({**configuration, "threads": 2, "period_bytes": 64})
        sampling = attrs.evolve(contract.sampling, **self._changes)
        observes = [each for each in contract.observes if each != "weights"]
        return attrs.evolve(
            contract,
            layout=attrs.evolve(contract.layout, object_bytes_max=1024),
            observes=contract.observes if sampling.weights == "passed" else tuple(observes),
            sampling=sampling,
        )


if __name__ == "__main__":
    serve(MistakenTarget(sys.argv[1]), sys.stdin, sys.stdout)
