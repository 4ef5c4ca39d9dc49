"""Objects outside the nursery and the arenas, each with memory of its own.

These are objects too large for the nursery, non-movable objects, and survivors too large for an
arena. Those allocated here are *young* until the next minor collection, which frees them or keeps
them in place. A major collection sweeps the old ones.
"""

from gcmodel.memory.configuration import Configuration
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.objects import VISITED, VISITED_YOUNG, YOUNG, Object

CARD_BITS_PER_WORD = 64


class LargeObjects:
    """The space outside. `used_bytes` includes dead objects that are not swept yet."""

    def __init__(self, configuration: Configuration) -> None:
        self.used_bytes = 0
        self.young: list[Object] = []
        self.old: list[Object] = []
        self.to_sweep: list[Object] = []
        self._sweeping = ""
        self._card_items = configuration.card_items

    def add_young(self, obj: Object) -> None:
        """Add an object that was just allocated."""
        obj.flags |= YOUNG
        self.young.append(obj)
        self.used_bytes += self.memory_bytes(obj)

    def add_old(self, obj: Object) -> None:
        """Add an object that moves here from the nursery."""
        self.old.append(obj)
        self.used_bytes += obj.size_bytes

    def free_young(self, collection: str) -> None:
        """Free the young objects that the minor collection did not visit. The others become old."""
        for obj in self.young:
            obj.flags &= ~YOUNG
            self._keep_if(obj, VISITED_YOUNG, collection)
        self.young = []

    def prepare_sweep(self, collection: str) -> None:
        """Let the major collection of that name sweep all old objects."""
        self._sweeping = collection
        self.to_sweep, self.old = self.old, []

    def sweep(self, count: int) -> None:
        """Free or keep at most `count` objects, the last first."""
        for _ in range(min(count, len(self.to_sweep))):
            self._keep_if(self.to_sweep.pop(), VISITED, self._sweeping)

    def _keep_if(self, obj: Object, visited: int, collection: str) -> None:
        if obj.flags & visited:
            obj.flags &= ~visited
            self.old.append(obj)
        else:
            self.used_bytes -= self.memory_bytes(obj)
            obj.free(collection)

    def memory_bytes(self, obj: Object) -> int:
        """The bytes of the object and its card marks, which take one bit a card, in whole words."""
        if obj.cards is None:
            return obj.size_bytes
        items_per_word = CARD_BITS_PER_WORD * self._card_items
        words = (len(obj.refs) + items_per_word - 1) // items_per_word
        return obj.size_bytes + words * WORD_BYTES
