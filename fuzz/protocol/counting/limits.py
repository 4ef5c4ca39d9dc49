"""What the numbers of a contract may be, as a part of their types."""

from typing import Annotated

import attrs

LARGEST = 2**62
"""No number is larger unless its type says so."""


@attrs.frozen
class Limits:
    """Whole numbers from `minimum` to `maximum`, both included."""

    minimum: int
    maximum: int = LARGEST

    def __contains__(self, number: int) -> bool:
        return self.minimum <= number <= self.maximum

    def __str__(self) -> str:
        if self.maximum == LARGEST:
            return f"at least {self.minimum}"
        return f"from {self.minimum} to {self.maximum}"


Count = Annotated[int, Limits(0)]
Positive = Annotated[int, Limits(1)]
Seeds = Annotated[tuple[int, ...], Limits(0, 2**64 - 1)]
"""The limits hold for each of them."""
