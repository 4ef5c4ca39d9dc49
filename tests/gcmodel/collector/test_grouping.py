"""Several objects by one allocation."""

from __future__ import annotations

import pytest

from gcmodel import Configuration, Kind
from gcmodel.collector.grouping import GroupingHeap, GroupingParts
from gcmodel.memory.events import Report

NODE, ARRAY = (Kind.NODE, 7), (Kind.ARRAY, 1)  # 32 and 24 bytes
TYPE_SHIFT, SURVIVED = 2, 1


@pytest.fixture
def heap() -> GroupingHeap:
    return GroupingHeap(Configuration(nursery_bytes=128, large_object_bytes=128), GroupingParts())


def entries(reports: list[Report]) -> list[int]:
    return [entry for report in reports for entry in report.entries]


def test_the_members_lie_side_by_side(heap: GroupingHeap) -> None:
    heap.allocate_node(0)
    assert heap.allocate_group([ARRAY, NODE]) == (56, 32)
    assert [*heap.nursery.memory] == [0, 32, 56]
    assert [(obj.kind, obj.number, len(obj.refs)) for obj in heap.roots[1:]] == [
        (Kind.ARRAY, 1, 1),
        (Kind.NODE, 7, 2),
    ]


def test_a_collection_comes_before_the_first_member(heap: GroupingHeap) -> None:
    for _ in range(3):
        heap.allocate_node(0)
    assert heap.allocate_group([NODE, NODE]) == (64, 0)
    assert heap.events.order == "M"


@pytest.mark.parametrize(
    ("period_bytes", "sampled"),
    [(24, [Kind.NODE, Kind.NODE]), (32, [Kind.ARRAY]), (48, [Kind.ARRAY]), (56, [])],
)
def test_a_sample_is_of_the_member_with_the_sampled_byte(
    period_bytes: int, sampled: list[Kind], heap: GroupingHeap
) -> None:
    heap.enable_sampling(period_bytes)
    heap.allocate_group([NODE, ARRAY] if period_bytes != 24 else [NODE, NODE])
    heap.collect_minor()
    _, reports = heap.events.take()
    assert [entry >> TYPE_SHIFT for entry in entries(reports)] == sampled


def test_a_report_says_whether_the_sampled_member_survived(heap: GroupingHeap) -> None:
    heap.enable_sampling(40)
    heap.allocate_group([NODE, ARRAY])
    heap.free(1)
    heap.collect_minor()
    _, reports = heap.events.take()
    assert entries(reports) == [Kind.ARRAY << TYPE_SHIFT]


def test_a_sample_before_a_collection_names_the_same_member(heap: GroupingHeap) -> None:
    """The distance ends in the second node, which does not fit any more."""
    heap.allocate_node(0)
    heap.allocate_node(0)
    heap.enable_sampling(40)
    heap.allocate_group([NODE, (Kind.ARRAY, 3)])
    assert heap.events.order == "sM"
    heap.collect_minor()
    _, reports = heap.events.take()
    assert entries(reports) == [Kind.ARRAY << TYPE_SHIFT | SURVIVED]


def test_the_samples_of_a_callback_are_of_its_string(heap: GroupingHeap) -> None:
    """Byte 40 of the string is sampled, and then byte 32 of the group, which is behind it."""
    for _ in range(3):
        heap.allocate_node(0)
    heap.set_callback(23)  # 48 bytes
    heap.enable_sampling(40)
    heap.allocate_group([NODE, ARRAY])
    heap.collect_minor()
    _, reports = heap.events.take()
    assert sorted(entries(reports)) == [
        Kind.ARRAY << TYPE_SHIFT | SURVIVED,
        Kind.STRING << TYPE_SHIFT,
    ]
