"""The driver of `ocaml-finalizers`: finalisers, weak pointers and ephemerons of a stock OCaml.

`python -m fuzz.targets.ocaml.finalizers_driver NAME NATIVE BYTECODE VERSION`. A finaliser puts its
value into a queue of the mutator, so that the runtime itself decides when it is called. One that
was registered with `finalise_last` is a destructor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from fuzz.protocol import actions
from fuzz.protocol.contract import NO_SAMPLING, Contract
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.layout import KindLayout
from fuzz.targets.ocaml.contract import LAYOUT, SURVIVOR_BYTES, WORD_BYTES, release_of
from fuzz.targets.ocaml.driver import OcamlDriver, halves, joined
from fuzz.targets.process.driver import CarryOut, without

OF_MEMPROF = (actions.EnableSampling, actions.DisableSampling, actions.AllocateGroup)
PROMISE = Finalizers(order="reverse_registration", weak="cleared_after", destructors=True)
"""The manual: values that become unreachable in one cycle are finalised "in the reverse order of
the corresponding calls to finalise". docs/ocaml.md has the other promises."""
YOUNG_BYTES_MAX = LAYOUT.large_object_bytes - WORD_BYTES
"""A larger object is old from the start, and no minor collection finds it dead."""
KINDS = {
    "weakref": KindLayout(type_index=4, fixed_bytes=3 * WORD_BYTES),
    "ephemeron": KindLayout(type_index=5, fixed_bytes=3 * WORD_BYTES),
}
"""Each also has a block of the runtime that lies outside the minor heap from the start."""


class OcamlFinalizersDriver(OcamlDriver):
    """Gc.finalise, Gc.finalise_last, Weak and Ephemeron."""

    CARRY_OUT: ClassVar[CarryOut] = {
        **without(OcamlDriver.CARRY_OUT, *OF_MEMPROF),
        actions.AllocateNode: lambda driver, each: driver.node(each),
        actions.RegisterFinalizer: lambda driver, each: driver.ask(15, each.root, each.number),
        actions.RunFinalizers: lambda driver, each: [*driver.ask(16, each.keep)],
        actions.Resurrect: lambda driver, each: driver.ask(17, each.number),
        actions.AllocateWeakref: lambda driver, each: driver.allocate(18, each.root),
        actions.AllocateEphemeron: lambda driver, each: driver.allocate(19, each.key, each.value),
        actions.ReadWeakref: lambda driver, each: driver.ask(20, each.root, each.keep) == (1,),
        actions.ReadEphemeron: lambda driver, each: driver.value(each.root),
    }

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin(chosen)
        kinds = {**contract.layout.kinds, **KINDS}
        return attrs.evolve(
            contract,
            layout=attrs.evolve(contract.layout, kinds=kinds, object_bytes_max=YOUNG_BYTES_MAX),
            observes=("minors", "size", "value", "alive", "graph", "finalized", "contents"),
            sampling=NO_SAMPLING,
            groups=None,
            survivor_bytes=SURVIVOR_BYTES[release_of(self._version)],
            weak_reads="kept",
            finalizers=PROMISE,
        )

    def node(self, action: actions.AllocateNode) -> int:
        """The size of a new node."""
        size_bytes = self.allocate(0, *halves(action.number))
        if action.destructor is not None:
            self.ask(22, action.destructor)
        return size_bytes

    def value(self, root: int) -> int | None:
        """The integer or the length of an ephemeron's value."""
        halves = self.ask(21, root)
        return joined(*halves) if halves else None


if __name__ == "__main__":
    OcamlFinalizersDriver.main()
