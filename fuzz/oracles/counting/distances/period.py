"""Distances that are not drawn."""

from fuzz.oracles.counting.distances.generator import Generator


class Period(Generator):
    """Each distance is the period. There are no numbers."""

    def __init__(self, seed: int) -> None:
        """The seed has no effect."""

    def number(self) -> int:
        return 0

    def draw(self, period_bytes: int) -> int:
        return period_bytes
