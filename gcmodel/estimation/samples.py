"""One sampled allocation, of any sampler.

Invariant: a sample has everything that an estimator needs, including the sampling period. So
samples of several threads, processes and periods can be summed after unbiasing each.
"""

import attrs
from attrs.validators import ge

Site = tuple[str | int, ...]
"""Where an allocation was made: the names or addresses of its stack, the innermost frame first."""


@attrs.frozen(kw_only=True)
class Sample:
    """A sampled allocation."""

    type: str
    site: Site
    requested_bytes: int = attrs.field(validator=ge(0))
    """What the program requested."""
    allocated_bytes: int = attrs.field(validator=ge(1))
    """What it got: the size class, or the object with its header."""
    counted_bytes: int = attrs.field(validator=ge(1))
    """What the sampler counted: .NET the object, jemalloc the size class, TCMalloc the requested
    bytes and one more."""
    offset_bytes: int | None = None
    """The first counted byte that was hit, from 0; None if the system does not report it."""
    period_bytes: float = attrs.field(validator=ge(1))
    """The mean distance of hits when this sample was due."""

    def __attrs_post_init__(self) -> None:
        offset = self.offset_bytes
        if offset is not None and not 0 <= offset < self.counted_bytes:
            raise ValueError(
                f"offset_bytes is {offset}; it must be from 0 to below "
                f"counted_bytes ({self.counted_bytes})"
            )
