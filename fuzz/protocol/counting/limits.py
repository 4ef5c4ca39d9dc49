"""What the numbers of a contract may be, as a part of their types, and whether they are so."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

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

    def problems(self, what: str, number: int) -> Iterator[str]:
        """What is wrong with a number, in a sentence, if it is not within the limits."""
        if number not in self:
            yield f"{what} is {number}; it must be {self}"


Count = Annotated[int, Limits(0)]
Positive = Annotated[int, Limits(1)]
Seeds = Annotated[tuple[int, ...], Limits(0, 2**64 - 1)]
"""The limits hold for each of them."""


INTEGERS = Limits(-LARGEST)


@lru_cache(maxsize=64)  # Most parts are the same in each trace of a target.
def numbers_in(
    name: str,
    its_limits: Limits,
    part: Any,  # noqa: ANN401 - any field
) -> tuple[int, list[str]]:
    """How many numbers a part of the contract has, and what is wrong with them.

    The part has tuples, and no lists: a contract that was made in Python is read like others.
    """
    count, problems, pending = 0, [], [(name, its_limits, part)]
    for path, limits, data in pending:  # It grows.
        if isinstance(data, int):
            count += 1
            if not limits.minimum <= data <= limits.maximum:
                shown = data if data in INTEGERS else "further from 0 than 2**62"
                problems.append(f"{path} is {shown}; it must be {limits}")
        elif isinstance(data, tuple):
            item = f"{path}[…]"
            pending += [(item, limits, element) for element in data]
        elif isinstance(data, dict):
            pending += [(f"{path}.{key}", INTEGERS, value) for key, value in data.items()]
        elif attrs.has(type(data)):
            fields = limits_of(cast(Any, type(data))).items()
            pending += [(f"{path}.{name}", bounds, getattr(data, name)) for name, bounds in fields]
    return count, problems


@cache
def limits_of(kind: Any) -> dict[str, Limits]:  # noqa: ANN401 - a class
    """The fields of a class, with the limits that their types state."""
    hints = get_type_hints(kind, include_extras=True)
    types = {field.name: hints[field.name] for field in attrs.fields(kind)}
    return {
        name: get_args(hint)[1] if get_origin(hint) is Annotated else INTEGERS
        for name, hint in types.items()
    }
