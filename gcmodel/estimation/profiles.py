"""TCMalloc's four profiles, made from the samples of one process.

Heap: what is live. Allocation: what was allocated between start and stop. Lifetime: what was
allocated and freed between them, as pairs. Fragmentation: the free room that live objects hold.
(TCMalloc, How sampling in TCMalloc works.)

Invariant: a profile sums what TCMalloc reports of each sample, and lasts from its start up to, but
not including, its stop.

Left out is whether pages are resident or swapped: that has to be asked of an operating system.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.samples import Sample, Site
from gcmodel.estimation.tcmalloc import reported
from gcmodel.estimation.unbiased import Totals, totals_by


@attrs.frozen(kw_only=True)
class SampledObject:
    """A sampled allocation, and its end if it has come. Times are nanoseconds of any clock.

    Raises ValueError when it is freed before it is allocated.
    """

    sample: Sample
    allocated_at_ns: int
    freed_at_ns: int | None = None
    freeing_site: Site = ()
    """Where it was freed."""

    def __attrs_post_init__(self) -> None:
        if self.freed_at_ns is not None:
            check_at_least("freed_at_ns", self.freed_at_ns, self.allocated_at_ns)

    def is_live(self, at_ns: int) -> bool:
        """Whether it exists then; at the moment of its end it does not."""
        return self.allocated_at_ns <= at_ns and (
            self.freed_at_ns is None or at_ns < self.freed_at_ns
        )


@attrs.frozen
class Lifetime:
    """A pair of a lifetime profile: an allocation and its deallocation, both seen."""

    site: Site
    freeing_site: Site
    lifetime_ns: int
    totals: Totals
    """How many such objects the pair stands for."""


@attrs.frozen
class ProxySpan:
    """The span of a sampled small object's proxy, when the profile is made.

    Raises ValueError unless one of its objects is live, the proxy, and none is over its capacity.
    """

    capacity_objects: int
    live_objects: int

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.live_objects <= self.capacity_objects:
            raise ValueError(
                f"live_objects is {self.live_objects}; it must be from 1 "
                f"to capacity_objects ({self.capacity_objects})"
            )

    @property
    def free_objects_per_live_object(self) -> float:
        """The degree of fragmentation, 0 for a full span."""
        return (self.capacity_objects - self.live_objects) / self.live_objects


def heap(objects: Iterable[SampledObject], at_ns: int) -> dict[Site, Totals]:
    """What each site's live objects amount to at that moment."""
    return _by_site(each.sample for each in objects if each.is_live(at_ns))


def allocation(objects: Iterable[SampledObject], start_ns: int, stop_ns: int) -> dict[Site, Totals]:
    """What each site allocated from start to stop, whether it was freed since or not."""
    return _by_site(each.sample for each in objects if start_ns <= each.allocated_at_ns < stop_ns)


def lifetime(objects: Iterable[SampledObject], start_ns: int, stop_ns: int) -> list[Lifetime]:
    """The objects whose allocation and deallocation were both seen, in the order given.

    Long lives are missing from it: an object that outlives the profile makes no pair.
    """
    return [
        Lifetime(
            each.sample.site,
            each.freeing_site,
            each.freed_at_ns - each.allocated_at_ns,
            reported(each.sample),
        )
        for each in objects
        if each.freed_at_ns is not None
        and start_ns <= each.allocated_at_ns
        and each.freed_at_ns < stop_ns
    ]


def fragmentation(live: Iterable[tuple[Sample, ProxySpan | None]]) -> dict[Site, Totals]:
    """The free objects that each site's live ones keep from being given back, as objects and bytes.

    A small sampled object has pages of its own, so its neighbours say nothing; its proxy, a second
    object of the same size class in an ordinary span, stands in for it. A large object has no
    proxy (None) and holds nothing but itself. The document says that the proxy is used and that
    its degree of fragmentation is computed, not how. TCMalloc's `Span::Fragmentation` spreads a
    span's free objects evenly over its live ones, wherever they lie, and so does this; the pages
    that a span needs and the room lost behind its last object are in neither. What is charged is
    of the size class: what a request leaves unused inside its object is no fragmentation here.
    """
    sums: dict[Site, Totals] = {}
    for sample, proxy in live:
        if proxy and proxy.live_objects < proxy.capacity_objects:
            charged = reported(sample, proxy.free_objects_per_live_object)
            sums[sample.site] = sums.get(sample.site, Totals()) + charged
    return sums


def _by_site(samples: Iterable[Sample]) -> dict[Site, Totals]:
    return totals_by(samples, lambda sample: sample.site, reported)
