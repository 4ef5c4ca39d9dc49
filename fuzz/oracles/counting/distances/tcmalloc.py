"""TCMalloc's distances (TCMalloc, sampler.cc)."""

from fuzz.oracles.counting.distances.gperftools import Gperftools


class Tcmalloc(Gperftools):
    """gperftools' distance less 1, at least 0.

    A period of 1 draws nothing; the distance is 0.
    """

    def draw(self, period_bytes: int) -> int:
        return 0 if period_bytes == 1 else max(0, super().draw(period_bytes) - 1)
