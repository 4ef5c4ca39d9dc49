"""TCMalloc's weight, and the bytes and objects that its profiles report of a sample.

The sampler counts down by what is requested and one byte more, from a distance of T bytes on
average, and samples the allocation that takes it below zero. (TCMalloc, How sampling in TCMalloc
works, "Detailed treatment of weighting"; `Sampler::RecordAllocationSlow`,
`StackTraceTable::AddTrace`.)

Invariant: a profile reports whole objects, and bytes that are a multiple of the allocated size. The
bytes represented are unbiased; what is reported is rounded to the nearest object, which is not, by
up to half an object a sample.
"""

from __future__ import annotations

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.failed_trials import represented_bytes
from gcmodel.estimation.samples import Sample
from gcmodel.estimation.unbiased import Totals


def weight_bytes(bytes_until_sample: int, period_bytes: int) -> int:
    """The weight of an allocation after which the counter stands at `bytes_until_sample`.

    `T - (counter + 1)`, with the T of when the distance was drawn. Raises ValueError for a
    counter of 0 or more, since nothing is sampled then, and for a period below one byte.
    """
    check_at_least("period_bytes", period_bytes, 1)
    if bytes_until_sample >= 0:
        raise ValueError(f"bytes_until_sample is {bytes_until_sample}; a sample needs less than 0")
    return period_bytes - (bytes_until_sample + 1)


def bytes_represented(weight: float, allocated_bytes: int, requested_bytes: int) -> int:
    """How many allocated bytes a sample stands for: `a/(r + 1) W`, rounded.

    Raises ValueError for a weight or a request below 0, or an allocation below one byte.
    """
    check_at_least("weight", weight, 0)
    check_at_least("allocated_bytes", allocated_bytes, 1)
    check_at_least("requested_bytes", requested_bytes, 0)
    return int(weight * allocated_bytes / (requested_bytes + 1) + 0.5)


def objects_represented(represented: int, allocated_bytes: int) -> int:
    """The bytes that a sample stands for as whole objects, the nearest number of them."""
    check_at_least("represented", represented, 0)
    check_at_least("allocated_bytes", allocated_bytes, 1)
    return (represented + allocated_bytes // 2) // allocated_bytes


def reported(sample: Sample, share: float = 1) -> Totals:
    """What a profile reports of the sample: whole objects, and their allocated bytes.

    `share` is how much of the sample is charged; a fragmentation profile has its own. The sample's
    weight is that of `failed_trials`: what the counter is below zero is what lies behind the hit.
    """
    check_at_least("share", share, 0)
    if sample.counted_bytes != sample.requested_bytes + 1:
        raise ValueError(
            f"counted_bytes is {sample.counted_bytes}; TCMalloc counts requested_bytes "
            f"({sample.requested_bytes}) and one more"
        )
    weight = share * represented_bytes(sample)
    size = sample.allocated_bytes
    objects = objects_represented(bytes_represented(weight, size, sample.requested_bytes), size)
    return Totals(objects, objects * size)
