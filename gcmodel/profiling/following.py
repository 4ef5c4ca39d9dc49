"""A sampler that follows sampled objects until a major collection frees them.

Invariant: it samples like its base class, and reports plain data. It identifies an object by the
number of objects sampled before it. A pinned object that survives is not followed. So the followed
objects show what is live or retained at any moment. (TCMalloc, How sampling in TCMalloc works:
sampled objects are kept until they are freed.)
"""

from collections.abc import Callable

import attrs

from gcmodel.collector.heap import Heap, Parts
from gcmodel.memory.configuration import Configuration
from gcmodel.memory.events import Events
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import FREED, OUTSIDE, Object
from gcmodel.profiling.recorder import Recorder
from gcmodel.sampling.sample_point import Sampling


def followed_heap(
    recorder: Recorder,
    configuration: Configuration,
    parts: Parts | None = None,
    make: Callable[..., Heap] = Heap,
) -> Heap:
    """A heap whose sampled objects are followed. `make` is its class."""
    parts = attrs.evolve(parts or Parts(), sampling=FollowedSampling)
    return make(configuration, parts, recorder)


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
        """Report what the last step of the major collection freed."""
        super().after_minor_collection()
        if not self._recorder.has_swept:
            return
        self._recorder.has_swept = False
        freed = [number for number, obj in self._followed.items() if obj.place == FREED]
        for number in freed:
            del self._followed[number]
        if freed:
            self._recorder.freed(freed)
