"""The heap as its collections see it: they reach its other parts through it.

Invariant: a collection knows no more of the heap than this, so that the heap imports its parts, and
no part imports the heap.
"""

from __future__ import annotations

from typing import Protocol

from gcmodel.collector.arenas import Arenas
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.identities import Identities
from gcmodel.collector.large_objects import LargeObjects
from gcmodel.collector.pinning import Pinning
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.configuration import Configuration
from gcmodel.memory.events import Events
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import Object
from gcmodel.sampling.sampler import Sampler


class CollectedHeap(Protocol):
    """What both collections use. Each adds the other one."""

    configuration: Configuration
    events: Events
    roots: list[Object]
    prebuilt: list[Object]
    nursery: Nursery
    arenas: Arenas
    large_objects: LargeObjects
    barrier: Barrier
    identities: Identities
    sampling: Sampler
    pinning: Pinning

    @property
    def weakrefs(self) -> Weakrefs: ...

    def place_old(self, obj: Object) -> None:
        """Place an object that leaves the nursery, by its size."""

    def memory_used_bytes(self) -> int:
        """The bytes of all objects outside the nursery, including dead ones not yet freed."""
        ...

    def statistics(self) -> tuple[int, int, int]:
        """Memory used, bytes of all arenas, and the major collection's state."""
        ...
