"""The objects of the shadow heap, and their ages.

Young and old mean what they mean in every generational collector: an object is old once it has
survived a minor collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import attrs


class Age(IntEnum):
    """How long an object has lived. DEAD means that it is known to be dead."""

    YOUNG = 0
    OLD = 1
    DEAD = 2


YOUNG, OLD, DEAD = Age  # Looking one up in its class is slower than comparing it.


@attrs.define(eq=False)
class ShadowObject:
    """An object as the mutator sees it."""

    kind: str
    type_index: int
    number: int
    """The integer of a node; the length of a string, an array or a block."""
    refs: list[ShadowObject | None]
    size_bytes: int
    outside: bool
    origin: int | str = "of a callback"
    """The number of the action that allocated it, from 1, or a description; people see it."""
    refers: bool = False
    """Whether any reference was ever written; most objects need not be searched."""
    age: Age = YOUNG
    survived: bool = False
    """Whether it survived its first minor collection, even if it died later."""
    pinned: bool = False
    """What the mutator asked for last."""
    target: ShadowObject | None = None
    """The object of a weak reference; the key of an ephemeron."""
    value: ShadowObject | None = None
    """The value of an ephemeron; None if it is known to be lost."""
    parts: Sequence[tuple[int, bool]] = ()
    """The blocks of which it consists, each with its bytes and whether it lies outside; empty if it
    is one block."""
    contents: int = 0
    """The number of a string or a block, from 1, by which its bytes are known; 0 if it has none."""

    @property
    def name(self) -> str:
        """The name of the object for people."""
        return self.origin if isinstance(self.origin, str) else f"#{self.origin}"

    @property
    def label(self) -> str:
        """The kind and the name."""
        return f"{self.kind} {self.name}"

    @property
    def is_in_nursery(self) -> bool:
        """Whether it can still move. A pinned object stays young."""
        return self.age is YOUNG and not self.outside
