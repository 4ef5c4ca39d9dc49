"""The driver of `ocaml-finalizers`: Gc.finalise of a stock OCaml 4.13, without Memprof.

`python -m fuzz.targets.ocaml.finalizers_driver NAME PROGRAM VERSION`. A finaliser puts its value
into a queue of the mutator, so that the runtime itself decides when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from fuzz.protocol import actions
from fuzz.protocol.contract import NO_SAMPLING, Contract
from fuzz.protocol.finalizers import Finalizers
from fuzz.targets.ocaml.driver import OcamlDriver
from fuzz.targets.process.driver import CarryOut

OF_MEMPROF = (actions.EnableSampling, actions.DisableSampling)
PROMISE = Finalizers(order="reverse_registration", weak="cleared_after")
"""The manual: values that become unreachable in one cycle are finalised "in the reverse order of
the corresponding calls to finalise"."""


class OcamlFinalizersDriver(OcamlDriver):
    """Gc.finalise."""

    CARRY_OUT: ClassVar[CarryOut] = {
        **{each: do for each, do in OcamlDriver.CARRY_OUT.items() if each not in OF_MEMPROF},
        actions.RegisterFinalizer: lambda driver, each: driver.ask(15, each.root, each.number),
        actions.RunFinalizers: lambda driver, each: [*driver.ask(16, each.keep)],
        actions.Resurrect: lambda driver, each: driver.ask(17, each.number),
    }

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin(chosen)
        observes = ("minors", "size", "value", "graph", "finalized")
        return attrs.evolve(contract, sampling=NO_SAMPLING, observes=observes, finalizers=PROMISE)


if __name__ == "__main__":
    OcamlFinalizersDriver.main()
