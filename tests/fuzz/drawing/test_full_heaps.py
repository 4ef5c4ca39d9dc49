"""The scenario of a full heap: sessions exhaust memory, and go on."""

from __future__ import annotations

from fuzz.drawing.full_heaps import heap_is_filled
from fuzz.drawing.scenarios import scenarios_for
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.protocol.contract import Contract
from fuzz.reached.probes import ProbeCounter
from fuzz.targets import make_target


def test_a_session_exhausts_memory_and_never_too_often() -> None:
    """The second time is an error of the reference, so it would be a failure."""
    probes = ProbeCounter()
    engine = RandomEngine(make_target("reference-exhaustion"), "1")
    failures = [each for done in slices_of(engine, 4000, probes) for each in done.failures]
    assert failures == []
    reached = ("allocation_exhausted", "collection_exhausted", "allocated_after_exhaustion")
    assert all(probes.counts[probe] > 2 for probe in reached)


def test_only_where_memory_may_be_exhausted_it_is_drawn(contract: Contract) -> None:
    limited = make_target("reference-exhaustion").start({})
    for is_late in (False, True):
        assert heap_is_filled in scenarios_for(limited, is_late)
        assert heap_is_filled not in scenarios_for(contract, is_late)
