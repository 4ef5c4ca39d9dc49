"""Weak references: cleared exactly when their object dies.

A weak reference is immutable, so it is never older than its object. An old one can refer to a young
object only if that is pinned. So a minor collection looks at the young ones, and at those whose
object is pinned.
"""

from gcmodel.memory.objects import (
    NO_HEAP_REFERENCES,
    OUTSIDE,
    PINNED,
    VISITED,
    VISITED_YOUNG,
    YOUNG,
    Object,
)


class Weakrefs:
    """The weak references whose object can still die.

    The objects of `young` ones are young. Only a major collection frees the objects of `old` ones.
    """

    def __init__(self) -> None:
        self.young: list[Object] = []
        self.old: list[Object] = []

    def followed(self, weakref: Object) -> Object:
        """The object of one that is alive."""
        assert weakref.target is not None
        return weakref.target

    def after_minor_collection(self) -> None:
        """Update or clear the young ones. All survivors have moved out of the nursery."""
        looked_at, self.young = self.young, []
        for young in reversed(looked_at):
            weakref = young if young.place == OUTSIDE else young.forwarded_to
            if weakref is None:
                continue  # The weak reference itself died.
            self._follow(weakref)

    def _follow(self, weakref: Object) -> None:
        target = weakref.target
        assert target is not None
        if target.flags & PINNED and target.flags & VISITED_YOUNG:
            self.young.append(weakref)
            return
        if target.place != OUTSIDE:
            target = target.forwarded_to
        elif target.flags & YOUNG and not target.flags & VISITED_YOUNG:
            target = None
        weakref.target = target
        # A prebuilt object never dies, and is not visited while it has no references.
        if target is not None and not target.flags & NO_HEAP_REFERENCES:
            self.old.append(weakref)

    def after_marking(self) -> None:
        """Clear the old ones whose object the major collection did not reach."""
        surviving = [weakref for weakref in reversed(self.old) if weakref.flags & VISITED]
        self.old = []
        for weakref in surviving:
            assert weakref.target is not None
            if weakref.target.flags & VISITED:
                self.old.append(weakref)
            else:
                weakref.target = None
