"""OCaml's distances (OCaml 5.3, memprof.c)."""

from typing import ClassVar

from fuzz.oracles.counting.distances.ocaml import Numbers, Ocaml, single


class DomainNumbers(Numbers):
    """As in OCaml 4.13, but the constant is added to the polynomial first."""

    def _sum(self, polynomial: float, power: float) -> float:
        return single(single(self.CONSTANT + polynomial) + power)


class OcamlDomain(Ocaml):
    """The distances of the first domain.

    splitmix64 starts from the number of the domain, which is 0. The end of sampling draws a number,
    too. That matters only if it is the first of a batch, since the next start drops the rest.
    """

    SEQUENCE: ClassVar = DomainNumbers(0)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._has_started = False

    def restart(self) -> None:
        # The end before it. The oracle reports only the start.
        self._drawn += self._has_started
        self._has_started = True
        super().restart()
