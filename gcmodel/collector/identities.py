"""Identities that survive moving.

An object's identity belongs to its place in the old space. Taking the identity of an object in the
nursery reserves its future place, a *shadow*. If the object survives it moves there. If it dies,
the shadow is garbage for the next major collection.
"""

from collections.abc import Callable, Mapping

from gcmodel.memory.objects import HAS_SHADOW, OUTSIDE, VISITED, Object


class Identities:
    """The shadows, and the last number given. No number is given twice."""

    def __init__(self, place_old: Callable[[Object], None]) -> None:
        self._place_old = place_old
        self._shadows: dict[Object, Object] = {}
        self._given = 0

    def identity(self, obj: Object) -> int:
        """Return the identity of `obj`, from 1 up."""
        owner = obj if obj.place == OUTSIDE else self._shadow(obj)
        if not owner.identity:
            self._given += 1
            owner.identity = self._given
        return owner.identity

    def _shadow(self, obj: Object) -> Object:
        if not obj.flags & HAS_SHADOW:
            obj.flags |= HAS_SHADOW
            self._shadows[obj] = Object(obj.kind, OUTSIDE, obj.size_bytes, obj.number, [])
            self._place_old(self._shadows[obj])
        return self._shadows[obj]

    def move_to_shadow(self, obj: Object) -> Object:
        """Move the contents of `obj` to its shadow, and return that."""
        shadow = self._shadows[obj]
        shadow.number = obj.number
        shadow.refs = obj.refs
        shadow.target = obj.target
        shadow.contents = obj.contents
        return shadow

    def after_minor_collection(self, pinned: Mapping[int, Object], is_marking: bool) -> None:
        """Keep the shadows of pinned objects only; all others are used, or garbage.

        The major collection does not visit objects in the nursery. So while it marks, a shadow that
        it must not free is marked here. Marked any earlier, it would stay marked into the next
        cycle. (PyPy, commit 96a224bd.)
        """
        shadows, self._shadows = self._shadows, {}
        for obj in pinned.values():
            if obj.flags & HAS_SHADOW:
                self._shadows[obj] = shadows[obj]
                if is_marking:
                    shadows[obj].flags |= VISITED
