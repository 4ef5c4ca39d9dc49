"""Pinned objects: young objects that stay in place in the nursery until they are unpinned.

Only strings can be pinned: every collection would have to trace an object with references.
Invariant, between any two actions: an old object that refers to a pinned one is in `parents`, which
every minor collection visits. It does not need to be in the remembered set.
"""

from gcmodel.memory.configuration import Configuration
from gcmodel.memory.errors import PinningError
from gcmodel.memory.layout import Kind, rounded
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import OUTSIDE, PINNED, VISITED, VISITED_YOUNG, Object


def pins_max(configuration: Configuration) -> int:
    """How many objects may be pinned at once so that any other still fits an empty nursery.

    A unit is the size of the largest object in the nursery. n pinned objects leave `objects - n`
    units in n + 1 rooms. The largest room has at least one unit if 2 * n + 1 <= objects.
    """
    objects = configuration.nursery_bytes // rounded(configuration.large_object_bytes)
    return max(objects - 1, 0) // 2


class Pinning:
    """The pinned objects.

    `count` is the number of pinned objects that no minor collection has found dead. `kept` has
    those that the last minor collection reached, by address.
    """

    def __init__(self, configuration: Configuration, nursery: Nursery) -> None:
        self.count = 0
        self.kept: dict[int, Object] = {}
        self.parents: dict[Object, None] = {}
        self._pins_max = pins_max(configuration)
        self._nursery = nursery

    def pin(self, obj: Object) -> None:
        """Pin `obj`, so that it does not move. Raises PinningError if it cannot be pinned."""
        if obj.kind is not Kind.STRING or obj.place == OUTSIDE or obj.flags & PINNED:
            raise PinningError(f"{obj!r} cannot be pinned")
        if self.count >= self._pins_max:
            raise PinningError(f"no more than {self.count} may be pinned at once")
        obj.flags |= PINNED
        self.count += 1

    def unpin(self, obj: Object) -> None:
        """Let the next minor collection move `obj`. Raises PinningError if it is not pinned."""
        if not obj.flags & PINNED:
            raise PinningError(f"{obj!r} is not pinned")
        obj.flags &= ~PINNED
        self.count -= 1

    def before_minor_collection(self) -> list[Object]:
        """Forget what survives, and return the parents so far, which must be visited."""
        parents, self.parents, self.kept = list(self.parents), {}, {}
        return parents

    def losing_a_pin(self, parents: list[Object]) -> list[Object]:
        """The parents of an unpinned object, which will move to a new place, which is white.

        Parents of pinned objects only are left out. If each step rescanned them too, marking might
        never end.
        """
        filling = self._nursery.filling
        return [
            parent
            for parent in parents
            if any(ref and ref.place == filling and not ref.flags & PINNED for ref in parent.refs)
        ]

    def reach(self, obj: Object, parent: Object | None) -> None:
        """The minor collection found a reference to the pinned `obj`, in `parent` or a root."""
        obj.flags |= VISITED_YOUNG
        if parent is not None:
            self.parents[parent] = None

    def after_minor_collection(self) -> None:
        """Keep the pinned objects that were reached."""
        if not self.count:
            return
        for address, obj in self._nursery.memory.items():
            if obj.flags & PINNED and obj.flags & VISITED_YOUNG:
                obj.flags &= ~VISITED_YOUNG
                self.kept[address] = obj
        self.count = len(self.kept)

    def after_marking(self) -> None:
        """Forget the parents that are about to be freed."""
        self.parents = {obj: None for obj in self.parents if obj.flags & VISITED}
