"""The events of the collector, and their order."""

from gcmodel import Events, Heap, Report

REPORT = Report(entries=[5], memory_used_bytes=32, arena_bytes=512, major_state=0)


def test_events_are_letters_in_their_order_and_are_taken_once() -> None:
    events = Events()
    events.minor_collection()
    events.report(REPORT)
    events.sample()
    events.sample()
    order, reports = events.take()
    assert events.take() == ("", [])
    events.report(REPORT)
    assert (order, reports) == ("MRss", [REPORT])


def test_a_report_follows_the_beginning_of_its_minor_collection(heap: Heap) -> None:
    heap.enable_sampling(8)
    heap.allocate_node(1)
    heap.collect_minor()
    assert heap.events.take()[0] == "sssMR"


def test_a_minor_collection_without_pending_samples_reports_nothing(heap: Heap) -> None:
    heap.enable_sampling(64)
    heap.allocate_node(1)
    heap.collect_minor()
    assert heap.events.take() == ("M", [])
