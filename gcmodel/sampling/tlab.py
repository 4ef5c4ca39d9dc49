"""Thread-local allocation buffers (TLABs), whose end is the sample point, as in HotSpot.

A TLAB is a part of eden, which is the nursery, and belongs to one thread. The one check that the
thread makes anyway also finds samples:

    start          top            end              allocation_end
      |   objects   |<- until the   |                    |<- reserve ->|
                        next sample ->

Invariants, for the TLAB of each thread:

    start <= top <= end <= allocation_end <= nursery_free
    end == allocation_end    unless a sample is due before, or was when sampling was disabled

An object that does not fit lies outside the TLAB, but in eden too; or the thread takes a new TLAB,
and the rest of the old one is lost. There are two rules for when a sample is due. Versions 11 to 24
charge the bytes between two allocations that are looked at (`ChargingAhead`). Version 25 counts the
allocated bytes (`CountingAllocated`, since JDK-8356372). Both use one generator for all threads,
and neither draws when sampling is enabled. Nothing is pinned, and no new object lies outside eden.
(OpenJDK, memAllocator.cpp, threadLocalAllocBuffer.cpp, threadHeapSampler.cpp.)
"""

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
"""Where an object fits. "in the TLAB" means after its end was reset, or in a new one."""


@attrs.define
class Tlab:
    """A thread's buffer; an empty one if the thread has none.

    If an object does not fit and more than `waste_limit_bytes` are left, the TLAB is kept.
    """

    start: int = 0
    top: int = 0
    end: int = 0
    allocation_end: int = 0
    waste_limit_bytes: int = 0

    @property
    def free_bytes(self) -> int:
        """The bytes before the end."""
        return self.end - self.top

    def allocate(self, size_bytes: int) -> int | None:
        """Return the address of `size_bytes`, or None if they do not fit before the end."""
        if size_bytes > self.free_bytes:
            return None
        self.top += size_bytes
        return self.top - size_bytes

    def fill(self, start: int, end: int, waste_limit_bytes: int) -> None:
        """Become a new, empty buffer."""
        self.start = self.top = start
        self.end = self.allocation_end = end
        self.waste_limit_bytes = waste_limit_bytes

    def retire(self) -> None:
        """Become no buffer."""
        self.start = self.top = self.end = self.allocation_end = 0


class TlabNursery(Nursery):
    """Eden; `tlabs` has one TLAB for each thread."""

    def __init__(self, size_bytes: int, moving: bool, reserve: Callable[[int], int]) -> None:
        super().__init__(size_bytes, moving, reserve)
        self.tlabs: list[Tlab] = []

    @property
    def tlab(self) -> Tlab:
        """The TLAB of the thread that allocates."""
        return self.tlabs[self.thread]

    @property
    def free_bytes(self) -> int:
        """The bytes of eden that are not taken."""
        return self.nursery_top - self.nursery_free

    def allocate(self, size_bytes: int) -> int:
        """Allocate as the VM does, which checks the TLAB itself. (MemAllocator::allocate.)"""
        return self._reserve(size_bytes)

    def take(self, size_bytes: int) -> int:
        """Take `size_bytes` of eden, which must be free; return their address."""
        self.nursery_free += size_bytes
        return self.nursery_free - size_bytes

    def empty(self, pinned: Mapping[int, Object]) -> None:
        """Drop the TLABs with everything else."""
        super().empty(pinned)
        for tlab in self.tlabs:
            tlab.retire()


class TlabSampling(Sampler):
    """The samplers of all threads. Subclasses define when a sample is due.

    Enabling and disabling change neither the current distance nor any TLAB's end.
    """

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        assert isinstance(nursery, TlabNursery)
        self._eden = nursery
        nursery.tlabs = [Tlab() for _ in configuration.sampler_seeds]
        self._distances = Hotspot(configuration.sampler_seeds[0])

    def before_minor_collection(self) -> None:
        """Retire all TLABs."""
        for thread in range(len(self._eden.tlabs)):
            self.retire(thread)

    def next_distance(self) -> int:
        """Draw the distance of the thread's next sample."""
        return self._distances.draw(self.period_bytes)

    def retire(self, thread: int) -> None:
        """The thread is about to lose its TLAB."""

    def filled(self) -> None:
        """The thread has a new TLAB."""

    def notify(self, size_bytes: int, placed: Placed) -> int:
        """The thread has allocated an object. Sample it 0 or 1 times, and return that."""
        raise NotImplementedError

    def _sampled(self, is_due: bool) -> int:
        if is_due:
            self._events.sample()
        return int(is_due)


@attrs.define
class Allocated:
    """The bytes that a thread has allocated since its last sample, and their threshold."""

    threshold_bytes: int
    start: int = 0
    """The address in the current TLAB from which bytes count."""
    in_tlabs_bytes: int = 0
    """The bytes in retired TLABs."""
    outside_bytes: int = 0


class CountingAllocated(TlabSampling):
    """The rule since version 25: sample an object when the allocated bytes reach the threshold.

    Bytes count while sampling is off, too.
    """

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._allocated = [Allocated(configuration.first_bytes) for _ in self._eden.tlabs]

    def retire(self, thread: int) -> None:
        """Count the bytes of the TLAB."""
        allocated, tlab = self._allocated[thread], self._eden.tlabs[thread]
        allocated.in_tlabs_bytes += tlab.top - allocated.start
        allocated.start = 0

    def filled(self) -> None:
        """Count from the start of the new TLAB."""
        self._allocated[self._eden.thread].start = self._eden.tlab.start

    def notify(self, size_bytes: int, placed: Placed) -> int:
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
        """Whether an object that fits there may be sampled, while sampling is on."""
        return True

    def bytes_until_sample(self, allocated: Allocated, tlab: Tlab) -> int:
        """The bytes until the threshold; 0 or less if the sample is due."""
        in_tlabs_bytes = allocated.in_tlabs_bytes + tlab.top - allocated.start
        return allocated.threshold_bytes - in_tlabs_bytes - allocated.outside_bytes


class ChargingAhead(TlabSampling):
    """The rule of versions 11 to 24: setting an end charges the bytes before it to the next sample.

    Only objects that do not fit before the end are looked at. The charged bytes count then, even if
    they were never allocated, or were charged for an earlier TLAB.
    """

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._bytes_until_sample = [configuration.first_bytes for _ in self._eden.tlabs]
        self._charged_bytes = [0] * len(self._eden.tlabs)

    def notify(self, size_bytes: int, placed: Placed) -> int:
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
        """End the TLAB where the sample is due, if that is sooner; return the charged bytes."""
        tlab = self._eden.tlab
        before_end_bytes = bytes_until_sample // WORD_BYTES * WORD_BYTES
        if before_end_bytes >= tlab.free_bytes:
            return tlab.free_bytes
        tlab.end = tlab.top + before_end_bytes
        return bytes_until_sample


class TlabAllocation(Allocation):
    """The VM's allocation, fast and slow paths."""

    def collect_and_reserve(self, size_bytes: int) -> int:
        """Return an address for an object of the thread's. (MemAllocator::allocate.)"""
        nursery, sampling = self._heap.nursery, self._heap.sampling
        assert isinstance(nursery, TlabNursery)
        assert isinstance(sampling, TlabSampling)
        placed: Placed = "before the end"
        address = nursery.tlab.allocate(size_bytes)
        if address is None:
            placed, address = "in the TLAB", self._make_room(nursery, sampling, size_bytes)
        if address is None:
            placed, address = "outside", self._beside(nursery, size_bytes)
        # Last, so that a report of a collection above does not include this object.
        sampling.record(address, sampling.notify(size_bytes, placed), size_bytes)
        return address

    def _make_room(
        self, nursery: TlabNursery, sampling: TlabSampling, size_bytes: int
    ) -> int | None:
        """Allocate behind the TLAB's end, or in a new TLAB. (mem_allocate_inside_tlab_slow.)"""
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
        """Allocate outside all TLABs, after a collection if needed. (mem_allocate_outside_tlab.)"""
        if nursery.free_bytes < size_bytes:
            self._heap.collect_minor()
        return nursery.take(size_bytes)
