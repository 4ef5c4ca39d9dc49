"""TCMalloc's weight, and the bytes and objects that its profiles report for a sample.

The sampler counts the requested bytes and one more, down from a distance of T bytes on average. It
samples the allocation that takes the counter below zero. (TCMalloc, How sampling in TCMalloc works,
"Detailed treatment of weighting"; `Sampler::RecordAllocationSlow`, `StackTraceTable::AddTrace`.)

Invariant: a profile reports whole objects, and bytes that are a multiple of the allocated size. The
bytes represented are unbiased. Rounding to whole objects is not, by up to half an object a sample.
"""

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.failed_trials import represented_bytes
from gcmodel.estimation.samples import Sample
from gcmodel.estimation.unbiased import Totals


def weight_bytes(bytes_until_sample: int, period_bytes: int) -> int:
    """The weight of an allocation that takes the counter below zero: `T - (counter + 1)`.

    T is the period when the distance was drawn.
    """
    check_at_least("period_bytes", period_bytes, 1)
    if bytes_until_sample >= 0:
        raise ValueError(f"bytes_until_sample is {bytes_until_sample}; a sample needs less than 0")
    return period_bytes - (bytes_until_sample + 1)


def bytes_represented(weight: float, allocated_bytes: int, requested_bytes: int) -> int:
    """The allocated bytes that a sample stands for: `a/(r + 1) W`, rounded."""
    check_at_least("weight", weight, 0)
    check_at_least("allocated_bytes", allocated_bytes, 1)
    check_at_least("requested_bytes", requested_bytes, 0)
    return int(weight * allocated_bytes / (requested_bytes + 1) + 0.5)


def objects_represented(represented: int, allocated_bytes: int) -> int:
    """The nearest whole number of objects to the bytes that a sample stands for."""
    check_at_least("represented", represented, 0)
    check_at_least("allocated_bytes", allocated_bytes, 1)
    return (represented + allocated_bytes // 2) // allocated_bytes


def reported(sample: Sample, share: float = 1) -> Totals:
    """What a profile reports for the sample: whole objects, and their allocated bytes.

    `share` is the part of the sample that is charged, for fragmentation profiles. The weight is
    that of `failed_trials`: the counter's distance below zero is the bytes behind the hit.
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
