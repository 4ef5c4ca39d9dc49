"""Sampling every n-th allocated byte, or random bytes: the owner of the sample point.

The sampler does not count allocated bytes. It keeps the address at which they reach the next
distance, and the nursery's own limit check compares with it:

    nursery_start  nursery_free          sample_point          nursery_top
    |    objects    |<- bytes until sample ->|                     |
                                       == nursery_limit

Invariants, while sampling is on:

    sample_point - nursery_free == bytes until the next sample    (section 3.2)
    nursery_limit == min(sample_point, nursery_top)

An allocation in the nursery moves `nursery_free`. A minor collection, and a jump over a pinned
object, move `nursery_free` and the sample point by the same distance. An object outside moves the
sample point. A sample is due when an object ends strictly beyond the sample point, and each sample
point that an object passes is one sample. (Jung and Bolz-Tereick, Low Overhead Allocation Sampling
in a Garbage Collected Virtual Machine, sections 3.2 to 3.5. Several samples for one object follow
their footnotes 10 and 11, and are not in their listings 4 and 5.)

`distances` defines how far apart the sample points are: the period, as published, or random, as its
authors plan.
"""

from gcmodel.memory.configuration import Configuration
from gcmodel.memory.events import Events
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import Object
from gcmodel.sampling.distances import Distances, FixedPeriod, Geometric
from gcmodel.sampling.sampler import Sampler


class Sampling(Sampler):
    """The sampler. `sample_point` has no meaning while it is off."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self.sample_point = 0
        self._distances: Distances = FixedPeriod()
        if configuration.random_periods:
            self._distances = Geometric(configuration.sampler_seeds[0])
        self._bytes_until_sample = 0  # while a minor collection moves `nursery_free`

    def begin(self) -> None:
        self.sample_point = self._nursery.nursery_free + self.next_distance()
        self.set_limit()

    def end(self) -> None:
        self.set_limit()

    def next_distance(self) -> int:
        """Draw the distance from one sample point, or the start of counting, to the next."""
        return self._distances.draw(self.period_bytes)

    def set_limit(self) -> None:
        """Make the fast path stop at the sample point while sampling is on."""
        self._nursery.set_limit(self.sample_point if self.period_bytes else None)

    def is_due(self, end: int) -> bool:
        """Whether an object that ends at `end` passes the sample point, not just reaches it."""
        return self.sample_point < end

    def pass_sample_points(self, end: int) -> list[int]:
        """Sample an object that ends at `end` once for each sample point.

        Returns how many bytes each of the sampled bytes lies before the end.
        """
        passed = []
        while self.is_due(end):
            self._events.sample()
            passed.append(end - self.sample_point)
            self.sample_point += self.next_distance()
        return passed

    def passed_in_nursery(self, end: int) -> list[int]:
        """Sample an object that ends at `end` if the limit is the sample point. (Listing 4.)

        If the room ends before the sample point, nothing is sampled here: a collection or a jump
        over the pinned object comes first, and moves the sample point.
        """
        if not self.period_bytes or self._nursery.nursery_limit != self.sample_point:
            return []
        passed = self.pass_sample_points(end)
        self.set_limit()
        return passed

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        """Move the sample point nearer by the object's size. (Listing 5.)"""
        if self.period_bytes:
            self.sample_point -= counted_bytes
            passed = self.pass_sample_points(self._nursery.nursery_free)
            self.record(obj, len(passed), counted_bytes)
            self.set_limit()

    def jumped(self, jump_bytes: int) -> None:
        """Move the sample point with `nursery_free`, which jumped over a pinned object."""
        if self.period_bytes:
            self.sample_point += jump_bytes
        self.set_limit()

    def before_minor_collection(self) -> None:
        if self.period_bytes:
            self._bytes_until_sample = self.sample_point - self._nursery.nursery_free

    def after_minor_collection(self) -> None:
        """Move the sample point with `nursery_free`. (Figure 6.)"""
        if self.period_bytes:
            self.sample_point = self._nursery.nursery_free + self._bytes_until_sample
            self.set_limit()
