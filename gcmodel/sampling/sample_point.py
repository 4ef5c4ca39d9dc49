"""Sampling every n-th allocated byte, or bytes at random: the owner of the sample point.

The sampler keeps no count of allocated bytes. It keeps the address at which they would reach the
next distance, and folds the comparison with it into the nursery's own limit check:

    nursery_start  nursery_free          sample_point          nursery_top
    |    objects    |<- bytes until sample ->|                     |
                                       == nursery_limit

Invariants, while sampling is on:

    sample_point - nursery_free == bytes until the next sample    (section 3.2)
    nursery_limit == min(sample_point, nursery_top)

An allocation in the nursery moves `nursery_free`; a minor collection, and a jump over a pinned
object, move `nursery_free` and the sample point by the same amount; an object outside moves the
sample point. A sample is due when an object's end lies strictly beyond the sample point, and an
object is sampled as often as it passes one. (Jung and Bolz-Tereick, Low Overhead Allocation
Sampling in a Garbage Collected Virtual Machine, sections 3.2 to 3.5; several samples for one
object, which their listings 4 and 5 leave out, after their footnotes 10 and 11.)

How far the sample points are apart is for `distances` to say: the period, as published, or at
random, as its authors plan. Nothing but the slow path asks it.
"""

from __future__ import annotations

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
        """How far the next sample point is from the one before, or from where counting begins."""
        return self._distances.draw(self.period_bytes)

    def set_limit(self) -> None:
        """The fast path must stop at the sample point too, while there is one."""
        self._nursery.set_limit(self.sample_point if self.period_bytes else None)

    def is_due(self, end: int) -> bool:
        """Whether an object that ends at `end` passes the sample point. Reaching it does not."""
        return self.sample_point < end

    def pass_sample_points(self, end: int) -> int:
        """Sample for every sample point that an object passes which ends at `end`; how often."""
        count = 0
        while self.is_due(end):
            self._events.sample()
            self.sample_point += self.next_distance()
            count += 1
        return count

    def passed_in_nursery(self, end: int) -> int:
        """An object that ends at `end` may pass the limit: sample if that is the sample point.

        A sample point beyond the end of the room is not passed here: the nursery is collected
        first, or the pinned object jumped, and the sample point moves with it. (Listing 4.)
        """
        if not self.period_bytes or self._nursery.nursery_limit != self.sample_point:
            return 0
        count = self.pass_sample_points(end)
        self.set_limit()
        return count

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        """An object outside counts `counted_bytes`, unrounded. (Listing 5.)

        `nursery_free` does not move for it, so the sample point comes nearer by its size.
        """
        if self.period_bytes:
            self.sample_point -= counted_bytes
            count = self.pass_sample_points(self._nursery.nursery_free)
            self.record(obj, count, counted_bytes)
            self.set_limit()

    def jumped(self, jump_bytes: int) -> None:
        """`nursery_free` jumped a pinned object without allocating; so does the sample point."""
        if self.period_bytes:
            self.sample_point += jump_bytes
        self.set_limit()

    def before_minor_collection(self) -> None:
        if self.period_bytes:
            self._bytes_until_sample = self.sample_point - self._nursery.nursery_free

    def after_minor_collection(self) -> None:
        """The sample point moves with `nursery_free`. (Figure 6.)"""
        if self.period_bytes:
            self.sample_point = self._nursery.nursery_free + self._bytes_until_sample
            self.set_limit()
