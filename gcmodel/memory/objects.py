"""One object in the heap: its header flags, its contents and its place.

A reference is a Python reference to an `Object`, and moving an object creates a new `Object`. So a
reference that the collector forgot to update leads to the old one, whose place shows that it is
gone. The next access raises an error. If objects kept their Python identity when they move, such a
mistake would stay hidden.
"""

from typing import Self

from gcmodel.memory.layout import Kind

# Places of an object. A number from 0 up is the filling of the nursery in which it was allocated.
# Emptying the nursery starts a new filling, which makes all older objects in it gone at once.
OUTSIDE = -1
FREED = -2

# Header flags, after incminimark's.
TRACK_YOUNG = 1
"""Old, and in no list of objects to rescan: the barrier must remember a write into it."""
VISITED = 2
"""Black: the major collection in progress has visited it."""
VISITED_YOUNG = 4
"""Young, reached by this minor collection, and not moved: outside the nursery, or pinned."""
YOUNG = 8
"""Outside the nursery, and allocated since the last minor collection."""
CARDS_SET = 16
"""An array in the list of arrays with dirty cards."""
NO_HEAP_REFERENCES = 32
"""A prebuilt object that was never written to."""
HAS_SHADOW = 64
"""A young object whose identity was taken: its future place is reserved."""
PINNED = 128
"""An object in the nursery that no collection may move."""


class Object:
    """An object. `refs` are its strong references, `target` is what a weak reference refers to."""

    __slots__ = (
        "cards",
        "contents",
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
        self, kind: Kind, place: int, size_bytes: int, number: int, refs: list[Self | None]
    ) -> None:
        self.kind = kind
        self.place = place
        self.flags = 0
        self.size_bytes = size_bytes  # rounded to words
        self.number = number  # a node's integer, a string's or array's length
        self.refs = refs
        self.contents = b""  # what the mutator has written into a string
        self.target: Self | None = None
        self.cards: set[int] | None = None  # the dirty cards of a large array
        self.forwarded_to: Self | None = None
        self.identity = 0  # 0: never taken
        self.freed_by: str  # the collection that freed it outside the nursery

    def free(self, collection: str) -> None:
        """Free an object outside the nursery, by the collection of that name."""
        self.place = FREED
        self.freed_by = collection

    def __repr__(self) -> str:
        where = {OUTSIDE: "outside", FREED: "freed"}.get(self.place, f"nursery {self.place}")
        return f"<{self.kind.name.lower()} of {self.size_bytes} bytes, {where}>"
