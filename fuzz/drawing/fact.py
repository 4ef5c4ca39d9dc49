"""A fact as data: what it needs of a contract, how it is brought about, and what it excludes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import attrs

from fuzz.drawing.cast import Cast
from fuzz.drawing.situation import Scenario
from fuzz.protocol.contract import Contract

BringAbout = Callable[[Cast], Scenario]


@attrs.frozen(eq=False)
class Fact:
    """Something that can be true of an object, of the sampler, of the collector or of the heap.

    A plan has at most one fact of a dimension: two would exclude each other, or say nearly the
    same.
    """

    bring_about: BringAbout
    """Makes it true, if that is possible from here."""
    dimension: str
    needs: frozenset[str]
    """The actions that it needs of a contract."""
    collects: bool
    """Whether bringing it about collects, so that other facts end, such as that an object is young.
    """
    is_brief: bool
    """Whether the next allocation may end it."""


FACTS: list[Fact] = []
"""All facts, in the order of their declarations."""


def fact(
    dimension: str, *needs: str, collects: bool = False, is_brief: bool = False
) -> Callable[[BringAbout], BringAbout]:
    """Declare a function to bring about a fact of that dimension."""

    def declare(bring_about: BringAbout) -> BringAbout:
        FACTS.append(Fact(bring_about, dimension, frozenset(needs), collects, is_brief))
        return bring_about

    return declare


def dimensions_for(contract: Contract) -> Sequence[Sequence[Fact]]:
    """The facts that can be brought about under the contract, those of a dimension together."""
    return _dimensions(contract.actions, contract.pins_max != 0)


@cache
def _dimensions(actions: tuple[str, ...], may_pin: bool) -> Sequence[Sequence[Fact]]:
    supported = {*actions} - (set() if may_pin else {"pin"})
    dimensions: dict[str, list[Fact]] = {}
    for each in FACTS:
        if each.needs <= supported:
            dimensions.setdefault(each.dimension, []).append(each)
    return [*dimensions.values()]
