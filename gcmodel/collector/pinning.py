"""Pinned objects: young ones that stay in the nursery, each an obstacle, until they are unpinned.

Only strings are pinned: an object with references would have to be traced by every collection.
Invariant, between any two actions: an old object that refers to a pinned one is in `parents`, so
that every minor collection visits it; it is not in the remembered set for that.
"""

from __future__ import annotations

from gcmodel.memory.configuration import Configuration
from gcmodel.memory.errors import PinningError
from gcmodel.memory.layout import Kind, rounded
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import OUTSIDE, PINNED, VISITED, VISITED_YOUNG, Object


def pins_max(configuration: Configuration) -> int:
    """How many objects may be pinned at once, such that an empty nursery has room for any other.

    In units of the largest object that a nursery takes: n pinned ones leave `objects - n` units in
    n + 1 rooms, and the largest room has at least one unit if 2 * n + 1 <= objects.
    """
    objects = configuration.nursery_bytes // rounded(configuration.large_object_bytes)
    return max(objects - 1, 0) // 2


class Pinning:
    """`count` are the pinned objects that no minor collection has found dead.

    `kept` are those that the last minor collection has reached, by their address.
    """

    def __init__(self, configuration: Configuration, nursery: Nursery) -> None:
        self.count = 0
        self.kept: dict[int, Object] = {}
        self.parents: dict[Object, None] = {}
        self._pins_max = pins_max(configuration)
        self._nursery = nursery

    def pin(self, obj: Object) -> None:
        """From here on `obj` does not move. Raises PinningError if it cannot be pinned."""
        if obj.kind is not Kind.STRING or obj.place == OUTSIDE or obj.flags & PINNED:
            raise PinningError(f"{obj!r} cannot be pinned")
        if self.count >= self._pins_max:
            raise PinningError(f"no more than {self.count} may be pinned at once")
        obj.flags |= PINNED
        self.count += 1

    def unpin(self, obj: Object) -> None:
        """The next minor collection moves `obj` out. Raises PinningError if it is not pinned."""
        if not obj.flags & PINNED:
            raise PinningError(f"{obj!r} is not pinned")
        obj.flags &= ~PINNED
        self.count -= 1

    def before_minor_collection(self) -> list[Object]:
        """Nothing is known to survive; returns the parents so far, which are to be visited."""
        parents, self.parents, self.kept = list(self.parents), {}, {}
        return parents

    def losing_a_pin(self, parents: list[Object]) -> list[Object]:
        """The parents of an object that is no longer pinned: it will move to a place that is white.

        Not all parents, or a marking that visits them one by one might never come to an end.
        """
        filling = self._nursery.filling
        return [
            parent
            for parent in parents
            if any(ref and ref.place == filling and not ref.flags & PINNED for ref in parent.refs)
        ]

    def reach(self, obj: Object, parent: Object | None) -> None:
        """The minor collection met a reference to the pinned `obj`, in `parent` unless a root."""
        obj.flags |= VISITED_YOUNG
        if parent is not None:
            self.parents[parent] = None

    def after_minor_collection(self) -> None:
        """What was reached stays in the nursery, each object an obstacle."""
        if not self.count:
            return
        for address, obj in self._nursery.memory.items():
            if obj.flags & PINNED and obj.flags & VISITED_YOUNG:
                obj.flags &= ~VISITED_YOUNG
                self.kept[address] = obj
        self.count = len(self.kept)

    def after_marking(self) -> None:
        """A parent that is about to be freed keeps nothing alive."""
        self.parents = {obj: None for obj in self.parents if obj.flags & VISITED}
