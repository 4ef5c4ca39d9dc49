"""What becomes of sampled objects that survive: a sampler that follows them until they are freed.

Invariant: it samples as the sampler does whose subclass it is, and tells plain data. An object is
told by how many were sampled before it; one that is pinned when it survives is followed no further.
So what is live at a moment, or retained, is what a heap of these objects would hold. (TCMalloc, How
sampling in TCMalloc works: it keeps the sampled objects until they are freed.)
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gcmodel.collector.heap import Heap, Parts
from gcmodel.memory.configuration import Configuration
from gcmodel.memory.events import Events
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import FREED, OUTSIDE, Object
from gcmodel.profiling.recorder import Recorder
from gcmodel.sampling.sample_point import Sampling

ALL = Parts()


def followed_heap(recorder: Recorder, configuration: Configuration, parts: Parts = ALL) -> Heap:
    """A heap whose sampled objects are followed, of these parts otherwise."""
    return Heap(configuration, attrs.evolve(parts, sampling=FollowedSampling), recorder)


class FollowedSampling(Sampling):
    """The sampler of a heap that has a recorder."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        assert isinstance(events, Recorder)
        self._recorder = events
        self._sampled_objects = 0
        self._followed: dict[int, Object] = {}

    def record(self, sampled: int | Object, count: int, counted_bytes: int) -> None:
        self._sampled_objects += count > 0
        super().record(sampled, count, counted_bytes)

    def report(self, statistics: Callable[[], tuple[int, int, int]]) -> None:
        pending = dict.fromkeys(self.pending)
        for number, sampled in enumerate(pending, self._sampled_objects - len(pending)):
            obj = self._nursery.memory[sampled] if isinstance(sampled, int) else sampled
            moved = obj.forwarded_to or obj
            if self.has_survived(obj) and moved.place == OUTSIDE:
                self._followed[number] = moved
        super().report(statistics)

    def after_minor_collection(self) -> None:
        """One comes before each step of a major collection: the last step may have freed some."""
        super().after_minor_collection()
        if not self._recorder.has_swept:
            return
        self._recorder.has_swept = False
        freed = [number for number, obj in self._followed.items() if obj.place == FREED]
        for number in freed:
            del self._followed[number]
        if freed:
            self._recorder.freed(freed)
