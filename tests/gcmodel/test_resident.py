"""The process's resident bytes: there for a recorder to read, never read by the heap."""

import pytest

from gcmodel import Configuration, Heap
from gcmodel.resident import resident_bytes


class ResidentBytesWereReadError(Exception):
    """The heap read what differs from run to run."""


def refuse() -> int:
    raise ResidentBytesWereReadError


def test_the_heap_never_reads_the_resident_bytes() -> None:
    heap = Heap(Configuration(), resident_bytes=refuse)
    heap.enable_sampling(104)
    for number in range(200):
        heap.allocate_node(number)
        heap.allocate_array(number % 20)
        heap.allocate_string(number)
        heap.identity(len(heap.roots) - 1)
        heap.free(number // 2)
        heap.collect_step()
    heap.disable_sampling(report=True)
    heap.collect_full()
    order, reports = heap.events.take()
    assert order.count("s") > 200
    assert len(reports) > 100


def test_a_recorder_reads_them_through_the_heap() -> None:
    heap = Heap(Configuration(), resident_bytes=refuse)
    with pytest.raises(ResidentBytesWereReadError):
        heap.resident_bytes()


def test_by_default_they_are_what_the_system_counts_for_this_process() -> None:
    assert Heap(Configuration()).resident_bytes is resident_bytes


def test_a_process_has_resident_bytes() -> None:
    assert resident_bytes() > 0
