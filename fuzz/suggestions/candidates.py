"""The keys whose value may be wrong, and their other values: named ones of the vocabulary.

They are read from the types of the contract's classes, so a new key is a candidate at once.
Invariants: no candidate promises less than what the contract states, since a weaker contract fits
more answers; none is a generator or a number, since a search would always find one that fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs

from fuzz.failures.weaker import IS_WEAKER
from fuzz.protocol.contract import DRAWN, Contract
from fuzz.protocol.counting import WAYS, Way
from fuzz.suggestions.change import Change

COUNTING = "sampling.counting"
PARTS = ("sampling", COUNTING, "layout", "groups")
"""The parts of a contract that say what an allocation costs, and which one is sampled."""
NEVER = ("unstated", "random", "sums", "none", *DRAWN)
"""Values that promise nothing, or next to nothing, and the generators."""


def candidates_for(contract: Contract) -> list[Change]:
    """Each key of the contract with each other value that it may have by its name."""
    found: list[Change] = []
    for place in PARTS:
        part: Any = contract
        for name in place.split("."):
            part = getattr(part, name)
        if part is None:
            continue
        for name, values in _named_values(type(part)).items():
            key, stated = f"{place}.{name}", getattr(part, name)
            is_weaker = IS_WEAKER.get(key, lambda then, now: False)
            found += [
                Change(key, value)
                for value in values
                if value != stated and value not in NEVER and not is_weaker(stated, value)
            ]
    other_ways = (way for way in _ways() if type(way) is not type(contract.sampling.counting))
    return found + [Change(COUNTING, way) for way in other_ways]


def _named_values(kind: type[Any]) -> dict[str, tuple[str, ...]]:
    """The keys of a class that have names as values, with all of these."""
    hints = get_type_hints(kind)
    own = {field.name: hints[field.name] for field in attrs.fields(kind)}
    return {name: get_args(hint) for name, hint in own.items() if get_origin(hint) is Literal}


def _ways() -> Iterator[Way]:
    """The ways to count that need no number, with each of their named values."""
    for kind in WAYS.values():
        if all(field.default is not attrs.NOTHING for field in attrs.fields(kind)):
            named = _named_values(kind)
            for values in product(*named.values()):
                yield kind(**dict(zip(named, values, strict=True)))
