"""One object in the heap: its header flags, its contents and its place.

A reference is a Python reference to an `Object`, and moving an object makes a *new* `Object`, as
moving memory would. A reference that the collector forgot to update therefore still leads to the
old one, whose place says that it is gone: the mistake shows at the next access and can never be
read as a wrong value. (Objects that kept their Python identity when moved would hide it.)
"""

from __future__ import annotations

from gcmodel.memory.layout import Kind

# Places of an object. A number from 0 up is the filling of the nursery in which it was allocated:
# the nursery counts its fillings, so all objects of an earlier one are gone without being touched.
OUTSIDE = -1
FREED = -2

# Header flags, after incminimark's.
TRACK_YOUNG = 1
"""Old, and in no list of objects to rescan: a write into it must be remembered."""
VISITED = 2
"""Black: reached by the major collection in progress."""
VISITED_YOUNG = 4
"""A young object that this minor collection has reached and does not move: it lies outside the
nursery, or is pinned."""
YOUNG = 8
"""Outside the nursery, but not yet through a minor collection."""
CARDS_SET = 16
"""An array in the list of arrays with dirty cards."""
NO_HEAP_REFERENCES = 32
"""A prebuilt object into which nothing was written yet."""
HAS_SHADOW = 64
"""A young object whose identity was taken: its future place is reserved."""
PINNED = 128
"""An object in the nursery that no collection may move."""


class Object:
    """An object. `refs` are its strong references, `target` what a weak reference refers to."""

    __slots__ = (
        "cards",
        "flags",
        "forwarded_to",
        "freed_by",
        "identity",
        "kind",
        "number",
        "place",
        "refs",
        "size_bytes",
        "target",
    )

    def __init__(
        self, kind: Kind, place: int, size_bytes: int, number: int, refs: list[Object | None]
    ) -> None:
        self.kind = kind
        self.place = place
        self.flags = 0
        self.size_bytes = size_bytes  # rounded to words
        self.number = number  # a node's integer, a string's or array's length
        self.refs = refs
        self.target: Object | None = None
        self.cards: set[int] | None = None  # dirty cards of a large array
        self.forwarded_to: Object | None = None
        self.identity = 0  # 0: never taken
        self.freed_by: str  # The collection that freed it outside the nursery; none so far.

    def free(self, collection: str) -> None:
        """It is gone from its place outside the nursery."""
        self.place = FREED
        self.freed_by = collection

    def __repr__(self) -> str:
        where = {OUTSIDE: "outside", FREED: "freed"}.get(self.place, f"nursery {self.place}")
        return f"<{self.kind.name.lower()} of {self.size_bytes} bytes, {where}>"
