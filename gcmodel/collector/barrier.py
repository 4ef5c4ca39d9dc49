"""The write barrier, which records old objects that may refer to a young one.

Invariant, between any two actions: an old object that refers to a young one is in `remembered`, or
is a parent of a pinned object (see pinning), or is an array in `dirty_arrays`. In the array the
card for that item is dirty.

While the major collection marks, the barrier also makes black objects gray again. Each object
written since it was visited is in one of the two lists, and the next minor collection queues it for
rescanning.

    flags of an old object                 a write into it
    TRACK_YOUNG                            -> remembered, flag cleared
    TRACK_YOUNG, cards (a large array)     -> one card dirty, in dirty_arrays (CARDS_SET)
    none (remembered already)              -> nothing to do: all of it will be traced
"""

from collections.abc import Callable

from gcmodel.memory.configuration import Configuration
from gcmodel.memory.objects import CARDS_SET, NO_HEAP_REFERENCES, TRACK_YOUNG, YOUNG, Object

CARDS_IN_BYTE = 8


class Barrier:
    """The remembered set, the arrays with dirty cards, and the prebuilt objects that are roots."""

    def __init__(self, configuration: Configuration, is_marking: Callable[[], bool]) -> None:
        self.remembered: list[Object] = []
        self.dirty_arrays: list[Object] = []
        self.prebuilt_roots: list[Object] = []
        self._card_items = configuration.card_items
        self._is_marking = is_marking

    def before_write(self, obj: Object, index: int) -> None:
        """Must be called before `obj.refs[index]` is written."""
        if obj.flags & TRACK_YOUNG:
            if obj.cards is None:
                self.remember(obj)
            else:
                self.mark_card(obj, index // self._card_items)

    def remember(self, obj: Object) -> None:
        """Let the next minor collection trace all of `obj`."""
        self.remembered.append(obj)
        obj.flags &= ~TRACK_YOUNG
        if obj.flags & NO_HEAP_REFERENCES:
            self.make_root(obj)

    def mark_card(self, array: Object, card: int) -> None:
        """Let the next minor collection trace one card of `array`.

        A young array's cards are marked too, but it is in no list. If it survives, the minor
        collection that makes it old traces them.
        """
        assert array.cards is not None
        if card not in array.cards:
            array.cards.add(card)
            self._list_dirty(array)

    def _list_dirty(self, array: Object) -> None:
        if not array.flags & CARDS_SET:
            array.flags |= CARDS_SET
            self.dirty_arrays.append(array)

    def before_copy(
        self, source: Object, dest: Object, source_start: int, dest_start: int, length: int
    ) -> None:
        """Must be called before `length` items are copied between arrays, or within one.

        It may remember too much, never too little. Until 2024 PyPy relied on the source's flags
        while marking too, and so lost objects (PyPy issue 4925).
        """
        if not dest.flags & TRACK_YOUNG:
            return
        if source.cards is not None:
            self._before_copy_of_cards(source, dest, source_start, dest_start, length)
        # While marking, a black destination must become gray, whatever the source's flags are.
        elif not source.flags & TRACK_YOUNG or self._is_marking():
            self.remember(dest)
        elif dest.flags & NO_HEAP_REFERENCES and not source.flags & NO_HEAP_REFERENCES:
            self.make_root(dest)

    def make_root(self, prebuilt: Object) -> None:
        """Make a prebuilt object a root, as it may now refer to the heap. (PyPy, 345aaf99.)"""
        prebuilt.flags &= ~NO_HEAP_REFERENCES
        self.prebuilt_roots.append(prebuilt)

    def _before_copy_of_cards(
        self, source: Object, dest: Object, source_start: int, dest_start: int, length: int
    ) -> None:
        """Handle a source with cards, whose young references are on its dirty cards only.

        Cards are copied in whole bytes, so some of them may lie beyond the copied items.
        """
        assert source.cards is not None
        # A source without dirty cards has nothing that could be copied to the wrong card.
        misaligned = source.flags & CARDS_SET and (source_start or dest_start)
        if not source.flags & TRACK_YOUNG or dest.cards is None or misaligned:
            self.remember(dest)
            return
        byte_items = CARDS_IN_BYTE * self._card_items
        copied = {card for card in source.cards if card // CARDS_IN_BYTE * byte_items < length}
        dest.cards |= copied
        if copied or self._is_marking():
            self._list_dirty(dest)  # While marking this makes a black array gray again.

    def before_fill(self, array: Object) -> None:
        """Must be called before all items are written. (PyPy's `ll_arrayfill`.)"""
        if array.flags & TRACK_YOUNG:
            self.remember(array)

    def before_move(self, array: Object) -> None:
        """Must be called before items are moved within an array. (`writebarrier_before_move`.)

        Only a large array needs it: its dirty cards are not those of the items any more.
        """
        if array.flags & TRACK_YOUNG and array.flags & CARDS_SET:
            self.remember(array)

    def forget_young(self) -> None:
        """Forget young objects outside the nursery: they are traced anyway if they survive."""
        self.remembered = [obj for obj in self.remembered if not obj.flags & YOUNG]
