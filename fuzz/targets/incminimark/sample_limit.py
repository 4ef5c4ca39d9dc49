"""Sampling for a collector that does not sample, so that machine code can be judged without a fork.

It does what sections 3.2 to 3.4 of the paper say (Jung and Bolz-Tereick, *Low Overhead Allocation
Sampling in a Garbage Collected Virtual Machine*). The nursery's limit is the sample point if that
comes first. So the check is the one that each allocation has. There are no reports. Python 2.7
only.

Invariant: `sample_point` is as far from `nursery_free` as bytes are left until the next sample,
also beyond the nursery. No object is pinned while sampling is on.
"""
# Python 2.7 has no annotations.
# ruff: noqa: ANN001, ANN201, ANN202, D103, RUF005, SLF001
# mypy: ignore-errors

from rpython.memory.gc.incminimark import IncrementalMiniMarkGC
from rpython.rtyper.lltypesystem import llmemory

reserve = IncrementalMiniMarkGC.collect_and_reserve.im_func
allocate_outside = IncrementalMiniMarkGC.external_malloc.im_func
collect_minor = IncrementalMiniMarkGC._minor_collection.im_func


def collect_and_reserve(gc, totalsize):
    """Called with `nursery_free` behind an object that ends beyond the limit."""
    if not gc.sample_point:
        return reserve(gc, totalsize)
    result = gc.nursery_free - totalsize
    gc.nursery_top = gc.real_nursery_top
    if gc.nursery_free > gc.real_nursery_top:
        gc.free_before = result
        result = reserve(gc, totalsize)
        # An object that was pinned may lie between.
        gc.sample_point += result - gc.free_before
        gc.real_nursery_top = gc.nursery_top
        gc.free_before = llmemory.NULL
    gc.take_samples(result)
    return result


collect_and_reserve._dont_inline_ = True


def _minor_collection(gc):
    free = gc.free_before
    if not free:
        free = gc.nursery_free
    bytes_left = 0
    if gc.sample_point:
        bytes_left = gc.sample_point - free
    collect_minor(gc)
    gc.real_nursery_top = gc.nursery_top
    if gc.sample_point:
        gc.sample_point = gc.nursery_free + bytes_left
        if gc.free_before:
            # The object that did not fit needs the whole nursery. Steps of a major collection may
            # collect once more before it gets it.
            gc.free_before = gc.nursery_free
        else:
            gc.set_limit()


def external_malloc(gc, typeid, length, alloc_young):
    result = allocate_outside(gc, typeid, length, alloc_young)
    if gc.sample_point:
        size = gc.gcheaderbuilder.size_gc_header + gc.fixed_size(typeid)
        if length > 0:
            size += gc.varsize_item_sizes(typeid) * length
        gc.sample_point -= llmemory.raw_malloc_usage(size)
        gc.take_samples(llmemory.NULL)
    return result


def take_samples(gc, address):
    """Take those that are due. Each names what is allocated there."""
    while gc.nursery_free > gc.sample_point:
        gc._vmprof_allocation_sample_now(address)
        gc.sample_point += gc.sample_allocated_bytes
    gc.set_limit()


def set_limit(gc):
    gc.nursery_top = gc.real_nursery_top
    if gc.sample_point < gc.real_nursery_top:
        gc.nursery_top = gc.sample_point


def gc_set_allocation_sampling(gc, period_bytes):
    """Enable with this period, or disable with 0."""
    gc.after_fork(0)
    if period_bytes > 0:
        gc.sample_allocated_bytes = period_bytes
        gc.real_nursery_top = gc.nursery_top
        gc.sample_point = gc.nursery_free + period_bytes
        gc.set_limit()


def after_fork(gc, _):
    """Disable."""
    if gc.sample_point:
        gc.nursery_top = gc.real_nursery_top
        gc.sample_point = llmemory.NULL


def install():
    methods = (collect_and_reserve, _minor_collection, external_malloc, take_samples, set_limit)
    for method in methods + (gc_set_allocation_sampling, after_fork):
        setattr(IncrementalMiniMarkGC, method.__name__, method)
    for name in ("sample_point", "real_nursery_top", "free_before"):
        setattr(IncrementalMiniMarkGC, name, llmemory.NULL)
    IncrementalMiniMarkGC.sample_allocated_bytes = 0
