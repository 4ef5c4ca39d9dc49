""".NET as it is, under a contract with one mistake in it, which the command line names."""

import sys
from collections.abc import Mapping

import attrs

from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import Contexts
from fuzz.targets.dotnet.dotnet_driver import CONTEXT_BYTES, RuntimeTarget
from fuzz.targets.process.serve import serve_late

MISTAKES: dict[str, tuple[str, dict[str, object]]] = {
    "formula": ("sampling", {"distances": "dotnet_document"}),
    "outside": ("sampling", {"counting": Contexts(CONTEXT_BYTES, sizes="reported")}),
    "enabling": ("sampling", {"enabling": "draws"}),
    "large objects": ("layout", {"large_object_bytes": 85_008}),
}
"""Which part of the contract is wrong, and how."""


class MistakenTarget(RuntimeTarget):
    def __init__(self, program: str, mistake: str) -> None:
        super().__init__(program)
        self._part, self._mistake = MISTAKES[mistake]

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start({**configuration, "threads": 1})
        part = attrs.evolve(getattr(contract, self._part), **self._mistake)
        return attrs.evolve(contract, **{self._part: part})


if __name__ == "__main__":
    target = MistakenTarget(*sys.argv[1:])
    serve_late(target, sys.stdin, sys.stdout)
    target.close()
