"""TCMalloc's four profiles, made from the samples of one process.

Heap: live objects. Allocation: objects allocated between start and stop. Lifetime: objects
allocated and freed between them, as pairs. Fragmentation: the free room that live objects hold.
(TCMalloc, How sampling in TCMalloc works.)

Invariant: a profile sums what TCMalloc reports for each sample, from its start up to, but not
including, its stop. Whether pages are resident or swapped is not modelled, as only an operating
system knows that.
"""

from collections.abc import Iterable

import attrs

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.samples import Sample, Site
from gcmodel.estimation.tcmalloc import reported
from gcmodel.estimation.unbiased import Totals, totals_by


@attrs.frozen(kw_only=True)
class SampledObject:
    """A sampled allocation, and its deallocation. Times are nanoseconds of any clock."""

    sample: Sample
    allocated_at_ns: int
    freed_at_ns: int | None = None
    freeing_site: Site = ()

    def __attrs_post_init__(self) -> None:
        if self.freed_at_ns is not None:
            check_at_least("freed_at_ns", self.freed_at_ns, self.allocated_at_ns)

    def is_live(self, at_ns: int) -> bool:
        """Whether it exists at that moment. When it is freed it does not."""
        return self.allocated_at_ns <= at_ns and (
            self.freed_at_ns is None or at_ns < self.freed_at_ns
        )


@attrs.frozen
class Lifetime:
    """A pair of an allocation and its deallocation, and the objects that it stands for."""

    site: Site
    freeing_site: Site
    lifetime_ns: int
    totals: Totals


@attrs.frozen
class ProxySpan:
    """The span of a sampled small object's proxy, which is live, when the profile is made."""

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
    """Each site's live objects at that moment."""
    return _by_site(each.sample for each in objects if each.is_live(at_ns))


def allocation(objects: Iterable[SampledObject], start_ns: int, stop_ns: int) -> dict[Site, Totals]:
    """What each site allocated from start to stop, including objects that were freed."""
    return _by_site(each.sample for each in objects if start_ns <= each.allocated_at_ns < stop_ns)


def lifetime(objects: Iterable[SampledObject], start_ns: int, stop_ns: int) -> list[Lifetime]:
    """The objects allocated and freed within the profile, in the order given.

    Objects that outlive the profile are missing, so long lives are too.
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
    """The free objects that each site's live ones keep in their spans, as objects and bytes.

    A sampled small object has pages of its own, so its proxy represents it: a second object of the
    same size class in an ordinary span. A large object has no proxy (None) and keeps nothing else.
    The document does not define the degree of fragmentation. As in TCMalloc's
    `Span::Fragmentation`, a span's free objects are spread evenly over its live ones, and neither
    the pages of a span nor the rest behind its last object count. Unused bytes inside an object are
    not fragmentation here.
    """
    sums: dict[Site, Totals] = {}
    for sample, proxy in live:
        if proxy and proxy.live_objects < proxy.capacity_objects:
            charged = reported(sample, proxy.free_objects_per_live_object)
            sums[sample.site] = sums.get(sample.site, Totals()) + charged
    return sums


def _by_site(samples: Iterable[Sample]) -> dict[Site, Totals]:
    return totals_by(samples, lambda sample: sample.site, reported)
