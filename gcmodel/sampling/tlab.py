"""Thread-local allocation buffers, whose end is the sample point: HotSpot's way.

A TLAB is taken from eden, which is the nursery, and belongs to one thread. Sampling is folded into
the one check that the thread makes anyway:

    start          top            end              allocation_end
      |   objects   |<- until the   |                    |<- reserve ->|
                        next sample ->

Invariants, for the TLAB of each thread:

    start <= top <= end <= allocation_end <= nursery_free
    end == allocation_end    unless a sample is due before, or was when sampling was disabled

What a TLAB has no room for lies outside it, in eden too, or has another TLAB taken, in which the
rest of the old one is lost. Of what is due there are two rules: versions 11 to 24 charge what lies
between two allocations that are looked at (`ChargingAhead`), 25 counts what is allocated
(`CountingAllocated`, since JDK-8356372). Both draw from one generator for all threads, and neither
draws when sampling is enabled. Nothing is pinned, and nothing lies outside eden when it is new.
(OpenJDK, memAllocator.cpp, threadLocalAllocBuffer.cpp, threadHeapSampler.cpp.)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import attrs

from gcmodel.memory.configuration import Configuration
from gcmodel.memory.events import Events
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import Object
from gcmodel.sampling.distances import Hotspot
from gcmodel.sampling.sampler import Sampler
from gcmodel.sampling.slow_path import Allocation

Placed: TypeAlias = Literal["before the end", "in the TLAB", "outside"]
"""Where an object had room: in the TLAB only after its end was set back, or it was a new one."""


@attrs.define
class Tlab:
    """A thread's buffer; an empty one if the thread must take one first.

    If it has more than `waste_limit_bytes` left, it is kept, and what has no room lies outside.
    """

    start: int = 0
    top: int = 0
    end: int = 0
    allocation_end: int = 0
    waste_limit_bytes: int = 0

    @property
    def free_bytes(self) -> int:
        """What is left before the end."""
        return self.end - self.top

    def allocate(self, size_bytes: int) -> int | None:
        """The address of so many bytes, if they have room before the end."""
        if size_bytes > self.free_bytes:
            return None
        self.top += size_bytes
        return self.top - size_bytes

    def fill(self, start: int, end: int, waste_limit_bytes: int) -> None:
        """It is another one, and empty."""
        self.start = self.top = start
        self.end = self.allocation_end = end
        self.waste_limit_bytes = waste_limit_bytes

    def retire(self) -> None:
        """The thread has none."""
        self.start = self.top = self.end = self.allocation_end = 0


class TlabNursery(Nursery):
    """Eden; `tlabs` has one for each thread."""

    def __init__(self, size_bytes: int, moving: bool, reserve: Callable[[int], int]) -> None:
        super().__init__(size_bytes, moving, reserve)
        self.tlabs: list[Tlab] = []

    @property
    def tlab(self) -> Tlab:
        """That of the thread which allocates."""
        return self.tlabs[self.thread]

    @property
    def free_bytes(self) -> int:
        """What nobody has taken."""
        return self.nursery_top - self.nursery_free

    def allocate(self, size_bytes: int) -> int:
        """The machine's own allocation: it looks at the TLAB itself. (MemAllocator::allocate.)"""
        return self._reserve(size_bytes)

    def take(self, size_bytes: int) -> int:
        """So many bytes of eden, which must be free."""
        self.nursery_free += size_bytes
        return self.nursery_free - size_bytes

    def empty(self, pinned: Mapping[int, Object]) -> None:
        """The TLABs are gone with all else."""
        super().empty(pinned)
        for tlab in self.tlabs:
            tlab.retire()


class TlabSampling(Sampler):
    """The samplers of all threads. What is due is the subclass's."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        assert isinstance(nursery, TlabNursery)
        self._eden = nursery
        nursery.tlabs = [Tlab() for _ in configuration.sampler_seeds]
        self._distances = Hotspot(configuration.sampler_seeds[0])

    def begin(self) -> None:
        """Nothing: the present distance goes on, and every TLAB ends where it did."""

    def end(self) -> None:
        """Nothing: the same."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        """Nothing: what is new lies in eden."""

    def before_minor_collection(self) -> None:
        """All TLABs are retired."""
        for thread in range(len(self._eden.tlabs)):
            self.retire(thread)

    def after_minor_collection(self) -> None:
        """Nothing: whoever allocates next takes a TLAB."""

    def next_distance(self) -> int:
        """How far the thread's next sample is from the present one."""
        return self._distances.draw(self.period_bytes)

    @abstractmethod
    def retire(self, thread: int) -> None:
        """The thread is about to lose its TLAB."""

    @abstractmethod
    def filled(self) -> None:
        """The thread has a new TLAB."""

    @abstractmethod
    def notify(self, size_bytes: int, placed: Placed) -> int:
        """The thread has allocated an object; how often it is sampled, 0 or 1."""

    def _sampled(self, is_due: bool) -> int:
        if is_due:
            self._events.sample()
        return int(is_due)


@attrs.define
class Allocated:
    """What a thread has allocated since its last sample, and when the next one is due."""

    threshold_bytes: int
    start: int = 0
    """What lies behind it in the present TLAB counts."""
    in_tlabs_bytes: int = 0
    """In those that were retired."""
    outside_bytes: int = 0


class CountingAllocated(TlabSampling):
    """Since version 25: an object is sampled if what was allocated reaches the threshold.

    It counts while sampling is off, too.
    """

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._allocated = [Allocated(configuration.first_bytes) for _ in self._eden.tlabs]

    def retire(self, thread: int) -> None:
        """What was allocated in it stays allocated."""
        allocated, tlab = self._allocated[thread], self._eden.tlabs[thread]
        allocated.in_tlabs_bytes += tlab.top - allocated.start
        allocated.start = 0

    def filled(self) -> None:
        """Nothing lies in it yet."""
        self._allocated[self._eden.thread].start = self._eden.tlab.start

    def notify(self, size_bytes: int, placed: Placed) -> int:
        """Whatever the thread allocates is looked at."""
        allocated, tlab = self._allocated[self._eden.thread], self._eden.tlab
        if placed == "outside":
            allocated.outside_bytes += size_bytes
        if not self.period_bytes or not self.is_looked_at(placed):
            return 0
        bytes_until_sample = self.bytes_until_sample(allocated, tlab)
        is_due = bytes_until_sample <= 0
        if is_due:
            bytes_until_sample = self.next_distance()
            self._allocated[self._eden.thread] = Allocated(bytes_until_sample, tlab.top)
        sample_point = tlab.top + bytes_until_sample // WORD_BYTES * WORD_BYTES
        tlab.end = min(sample_point, tlab.end)
        return self._sampled(is_due)

    def is_looked_at(self, placed: Placed) -> bool:
        """Whether such an object may be sampled, while sampling is on."""
        return True

    def bytes_until_sample(self, allocated: Allocated, tlab: Tlab) -> int:
        """What is left; below 1 if the sample is due."""
        in_tlabs_bytes = allocated.in_tlabs_bytes + tlab.top - allocated.start
        return allocated.threshold_bytes - in_tlabs_bytes - allocated.outside_bytes


class ChargingAhead(TlabSampling):
    """Versions 11 to 24: when an end is put, what lies before it is charged to the next sample.

    Only what has no room before the end is looked at, and what was charged counts then, whether or
    not it was ever allocated.
    """

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._bytes_until_sample = [configuration.first_bytes for _ in self._eden.tlabs]
        self._charged_bytes = [0] * len(self._eden.tlabs)

    def retire(self, thread: int) -> None:
        """What was charged stays charged."""

    def filled(self) -> None:
        """Nothing: what was charged for the last one counts in this."""

    def notify(self, size_bytes: int, placed: Placed) -> int:
        """What has room before the end was charged when that was put."""
        if not self.period_bytes or placed == "before the end":
            return 0
        thread = self._eden.thread
        charged_bytes = 0 if placed == "outside" else self._charged_bytes[thread]
        counted_bytes = charged_bytes + size_bytes
        is_due = counted_bytes >= self._bytes_until_sample[thread]
        if is_due:
            self._bytes_until_sample[thread] = self.next_distance()
        else:
            self._bytes_until_sample[thread] -= counted_bytes
        self._charged_bytes[thread] -= charged_bytes
        self._charged_bytes[thread] += self._put_end(self._bytes_until_sample[thread])
        return self._sampled(is_due)

    def _put_end(self, bytes_until_sample: int) -> int:
        """The TLAB ends where the sample is due, if that comes sooner; what that charges."""
        tlab = self._eden.tlab
        before_end_bytes = bytes_until_sample // WORD_BYTES * WORD_BYTES
        if before_end_bytes >= tlab.free_bytes:
            return tlab.free_bytes
        tlab.end = tlab.top + before_end_bytes
        return bytes_until_sample


class TlabAllocation(Allocation):
    """The machine's allocation, whether it is slow or not."""

    def collect_and_reserve(self, size_bytes: int) -> int:
        """The address at which an object of the thread's can lie. (MemAllocator::allocate.)"""
        nursery, sampling = self._heap.nursery, self._heap.sampling
        assert isinstance(nursery, TlabNursery)
        assert isinstance(sampling, TlabSampling)
        placed: Placed = "before the end"
        address = nursery.tlab.allocate(size_bytes)
        if address is None:
            placed, address = "in the TLAB", self._make_room(nursery, sampling, size_bytes)
        if address is None:
            placed, address = "outside", self._beside(nursery, size_bytes)
        # Only now: a report of a collection above must not speak of this object.
        sampling.record(address, sampling.notify(size_bytes, placed), size_bytes)
        return address

    def _make_room(
        self, nursery: TlabNursery, sampling: TlabSampling, size_bytes: int
    ) -> int | None:
        """In the TLAB after all, or in a new one. (mem_allocate_inside_tlab_slow.)"""
        tlab, sizes = nursery.tlab, self._heap.configuration.tlab
        if sampling.period_bytes:
            tlab.end = tlab.allocation_end
            address = tlab.allocate(size_bytes)
            if address is not None:
                return address
        if tlab.free_bytes > tlab.waste_limit_bytes:
            tlab.waste_limit_bytes += sizes.waste_increment_bytes
            return None
        sampling.retire(nursery.thread)
        tlab.retire()
        new_bytes = min(nursery.free_bytes, sizes.desired_bytes + size_bytes)
        if new_bytes < max(sizes.least_bytes, size_bytes + sizes.reserve_bytes):
            return None
        start = nursery.take(new_bytes)
        tlab.fill(start, start + new_bytes - sizes.reserve_bytes, sizes.waste_bytes)
        sampling.filled()
        return tlab.allocate(size_bytes)

    def _beside(self, nursery: TlabNursery, size_bytes: int) -> int:
        """Outside all TLABs, after a collection if eden is full. (mem_allocate_outside_tlab.)"""
        if nursery.free_bytes < size_bytes:
            self._heap.collect_minor()
        return nursery.take(size_bytes)
