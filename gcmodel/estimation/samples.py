"""One sampled allocation, whoever sampled it.

Invariant: a sample carries all that an estimator needs, the sampling period included. So samples of
several threads, processes and periods can be summed, as long as each is unbiased first.
"""

from __future__ import annotations

import attrs

from gcmodel.estimation.checks import check_at_least

Site = tuple[str | int, ...]
"""Where an allocation was made: names or addresses of its stack, the innermost frame first."""


@attrs.frozen(kw_only=True)
class Sample:
    """A sampled allocation. Raises ValueError when a figure is outside its range."""

    type: str
    site: Site
    requested_bytes: int
    """What the program asked for, 0 or more."""
    allocated_bytes: int
    """What it got, 1 or more: the size class, or the object with its header."""
    counted_bytes: int
    """What the sampler counted for it, 1 or more: .NET the object, jemalloc the size class,
    TCMalloc what was requested and one byte more."""
    offset_bytes: int | None = None
    """Which of the counted bytes was hit first, from 0 on; None where a system does not say."""
    period_bytes: float
    """One byte in so many was hit, 1 or more, as it was when this sample was due."""

    def __attrs_post_init__(self) -> None:
        check_at_least("requested_bytes", self.requested_bytes, 0)
        check_at_least("allocated_bytes", self.allocated_bytes, 1)
        check_at_least("counted_bytes", self.counted_bytes, 1)
        check_at_least("period_bytes", self.period_bytes, 1)
        offset = self.offset_bytes
        if offset is not None and not 0 <= offset < self.counted_bytes:
            raise ValueError(
                f"offset_bytes is {offset}; it must be from 0 to below "
                f"counted_bytes ({self.counted_bytes})"
            )
