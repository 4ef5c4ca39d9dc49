"""Buffers by hand: where objects lie, what collects, and which bytes count."""

from typing import Any

import attrs
import pytest
from changed_contracts import with_rule
from judging import Judge, answer

from fuzz.oracles import Bench
from fuzz.oracles.counting import clocks_of
from fuzz.oracles.counting.distances.hotspot import Hotspot
from fuzz.protocol.actions import (
    Action,
    AllocateString,
    CollectFull,
    DisableSampling,
    EnableSampling,
)
from fuzz.protocol.contract import Contract, Range, SamplingRule
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.counting import Buffers
from fuzz.protocol.layout import KindLayout, Layout

EDEN_BYTES, DESIRED_BYTES, RESERVE_BYTES, WASTE_BYTES = 1024, 128, 16, 32
ON = EnableSampling(1000)
"""With the seed 1 the first distance that is drawn is longer than anything here."""
NEVER = 10_000
CHARGES = ("ahead", "allocated")


def contract_of(
    charges: Any = "ahead", taken: Any = "in order", threads: int = 1, first_bytes: int = NEVER
) -> Contract:
    observation = ("buffer",) if taken == "anywhere" else ()
    contract = Contract(
        nursery_bytes=EDEN_BYTES,
        layout=Layout(
            kinds={"string": KindLayout(2, fixed_bytes=0, item_bytes=1)},
            large_object_bytes=EDEN_BYTES + 1,
            word_bytes=8,
            object_bytes_max=EDEN_BYTES,
            nonmovable="ignored",
        ),
        actions=("allocate_string", "collect_full", "enable_sampling", "disable_sampling"),
        observes=("samples", "minors", "size", "at", *observation),
        sampling=SamplingRule(
            period_bytes=Range(1, 2**20),
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            disabling=("drop",),
            enabling="keeps",
            counting=Buffers(
                *(DESIRED_BYTES, 64, RESERVE_BYTES, WASTE_BYTES, 8, charges),
                taken=taken,
                generators="shared",
            ),
            distances="hotspot",
            seeds=(1,) * threads,
            first_bytes=(first_bytes,) * threads,
        ),
    )
    assert list(problems_of(contract)) == []
    return contract


def sized(action: Action) -> dict[str, Any]:
    return {"size": action.length} if isinstance(action, AllocateString) else {}


def judge_of(contract: Contract) -> Judge:
    return Judge(contract, usual=sized)


def allocated(bench: Bench, *sizes: int) -> list[tuple[str, int | None]]:
    """Where objects of these sizes lie, one after another, if nothing is wrong."""
    places: list[tuple[str, int | None]] = []
    for size_bytes in sizes:
        bench.predict(AllocateString(size_bytes), minors=0)
        place = bench.sampling.place
        assert place is not None
        places.append((place.where, place.at))
    return places


def samples(bench: Bench, *sizes: int) -> list[int]:
    return [bench.predict(AllocateString(size_bytes), minors=0) for size_bytes in sizes]


# Where objects lie.


def test_the_first_object_begins_a_buffer_and_others_follow_it() -> None:
    places = allocated(Bench(contract_of()), 8, 24, 16)
    assert places == [("new buffer", 0), ("buffer", 8), ("buffer", 32)]


def test_what_does_not_fit_lies_behind_the_buffer_if_much_is_left_of_that() -> None:
    # Of 8 + 128 bytes 16 are kept in reserve, and 120 - 8 - 72 are 40.
    places = allocated(Bench(contract_of()), 8, 72, 48, 8)
    assert places[2:] == [("outside", DESIRED_BYTES + 8), ("buffer", 80)]


def test_what_does_not_fit_begins_a_new_buffer_if_little_is_left() -> None:
    places = allocated(Bench(contract_of()), 8, 80, 48)
    assert places[2:] == [("new buffer", DESIRED_BYTES + 8)]


def test_each_object_outside_raises_the_limit() -> None:
    places = allocated(Bench(contract_of()), 8, 72, 48, 48)
    assert [where for where, _ in places[2:]] == ["outside", "new buffer"]


def test_each_thread_has_a_buffer_of_its_own() -> None:
    judge = judge_of(contract_of(threads=2))
    judge(AllocateString(8), at=0)
    judge(AllocateString(8, thread=1), at=DESIRED_BYTES + 8)
    judge(AllocateString(8), at=8)


def test_what_has_no_room_in_eden_collects_it_and_ends_all_buffers() -> None:
    judge = judge_of(contract_of(threads=2))
    judge(answer(AllocateString(8, thread=1), at=0), answer(AllocateString(800), at=136))
    judge(answer(AllocateString(200), at=0, minors=1), answer(AllocateString(8, thread=1), at=200))


def test_a_full_collection_leaves_eden_empty() -> None:
    judge = judge_of(contract_of())
    judge(answer(AllocateString(8), at=0), answer(CollectFull(), minors=1))
    judge(AllocateString(8), at=0)


@pytest.mark.parametrize("said", [{"at": 8}, {"at": None}, {"at": 0, "minors": 1}])
def test_an_object_elsewhere_or_a_collection_for_it_is_wrong(said: dict[str, Any]) -> None:
    mismatch = judge_of(contract_of()).mismatch(AllocateString(8), **said)
    assert mismatch.oracle == "places"


@pytest.mark.parametrize("tlab", [None, [0, 8, 120, 128], [0, 0, 120, 120], [0, 8, 64, 120]])
def test_a_buffer_that_is_shown_otherwise_is_wrong(tlab: list[int] | None) -> None:
    contract = contract_of()
    shown = attrs.evolve(contract, observes=(*contract.observes, "tlab"))
    judge_of(shown)(AllocateString(8), at=0, tlab=[0, 8, 120, 120])
    mismatch = judge_of(shown).mismatch(AllocateString(8), at=0, tlab=tlab)
    assert mismatch.oracle == "places"
    assert "the buffer's start" in mismatch.why


@pytest.mark.parametrize("taken", ["in order", "anywhere"])
def test_where_nothing_is_allocated_nothing_collects(taken: str) -> None:
    mismatch = judge_of(contract_of(taken=taken)).mismatch(ON, minors=1)
    assert mismatch.oracle == "places"
    assert "nothing was allocated" in mismatch.why


# Buffers anywhere.


def test_if_buffers_lie_anywhere_their_size_is_reported() -> None:
    judge = judge_of(contract_of(taken="anywhere"))
    judge(answer(AllocateString(8), buffer=64, at=0), answer(AllocateString(56), at=8))
    judge(AllocateString(8), buffer=80, at=0, minors=1)
    judge(AllocateString(200), at=None)


@pytest.mark.parametrize("said", [{"buffer": 64, "at": 8}, {"at": 8, "minors": 1}, {"at": None}])
def test_what_fits_begins_no_buffer_and_collects_nothing(said: dict[str, Any]) -> None:
    judge = judge_of(contract_of(taken="anywhere"))
    judge(AllocateString(8), buffer=64, at=0)
    assert judge.mismatch(AllocateString(8), **said).oracle == "places"


# What counts.


@pytest.mark.parametrize(
    ("charges", "expected"), [("ahead", [0, 0, 0, 1]), ("allocated", [0, 0, 1, 0])]
)
def test_charging_ahead_samples_what_is_behind_the_point(charges: str, expected: list[int]) -> None:
    bench = Bench(contract_of(charges, first_bytes=40))
    bench.predict(ON, minors=0)
    assert samples(bench, 24, 8, 8, 8) == expected


@pytest.mark.parametrize(("charges", "expected"), [("ahead", [1, 0]), ("allocated", [0, 0])])
def test_what_a_collection_throws_away_is_charged_ahead(charges: str, expected: list[int]) -> None:
    bench = Bench(contract_of(charges, first_bytes=100))
    bench.predict(ON, minors=0)
    assert samples(bench, 8) == [0]
    bench.predict(CollectFull(), minors=1)
    # Of the 92 bytes that were left all are charged, and 8 more are enough.
    assert samples(bench, 8, 8) == expected


@pytest.mark.parametrize(("charges", "expected"), [("ahead", 0), ("allocated", 1)])
def test_allocations_while_off_count_if_allocated_bytes_do(charges: str, expected: int) -> None:
    bench = Bench(contract_of(charges, first_bytes=64))
    assert samples(bench, 8, 56, 8) == [0, 0, 0]
    bench.predict(ON, minors=0)
    assert samples(bench, 8) == [expected]


def test_disabling_leaves_the_end_at_the_sample_point() -> None:
    bench = Bench(contract_of(first_bytes=64))
    bench.predict(ON, minors=0)
    allocated(bench, 8)
    bench.predict(DisableSampling(), minors=0)
    # There are 112 bytes, and the sample point is after 56.
    assert allocated(bench, 32, 32) == [("buffer", 8), ("new buffer", DESIRED_BYTES + 8)]


@pytest.mark.parametrize("charges", CHARGES)
def test_enabling_again_draws_nothing(charges: str) -> None:
    bench = Bench(contract_of(charges, first_bytes=48))
    for _ in range(3):
        bench.predict(ON, minors=0)
        bench.predict(DisableSampling(), minors=0)
    bench.predict(ON, minors=0)
    assert samples(bench, 40, 16) == [0, 1]


def test_all_threads_draw_from_one_generator() -> None:
    bench = Bench(contract_of("allocated", threads=2, first_bytes=1))
    bench.predict(ON, minors=0)
    distances = Hotspot(1)
    for thread in (0, 1):
        assert bench.predict(AllocateString(8, thread=thread), minors=0) == 1
        assert bench.sampling.until_bytes[thread] == distances.draw(ON.period_bytes)


def test_an_overshoot_that_is_carried_shortens_the_next_distance() -> None:
    contract = contract_of("allocated", first_bytes=8)
    bench = Bench(with_rule(contract, surplus="carried"))
    bench.predict(ON, minors=0)
    assert samples(bench, 40) == [1]
    assert bench.sampling.bytes_until_sample() == Hotspot(1).draw(ON.period_bytes) - 32


def test_a_sample_too_many_is_wrong() -> None:
    mismatch = judge_of(contract_of()).mismatch(ON, answer(AllocateString(8), at=0, samples=1))
    assert mismatch.oracle == "sampling"


@pytest.mark.parametrize(
    ("period_bytes", "resting_period_bytes", "drawn_for_bytes"),
    [(None, 0, None), (None, 300, 300), (0, 300, 0), (500, 300, 500)],
)
def test_a_birth_draws_for_the_period_that_was_set_last_also_if_it_is_0(
    period_bytes: int | None, resting_period_bytes: int, drawn_for_bytes: int | None
) -> None:
    contract = contract_of(threads=2, first_bytes=77)
    assert isinstance(contract.sampling.counting, Buffers)
    buffers = attrs.evolve(
        contract.sampling.counting, resting_period_bytes=resting_period_bytes, generators="each"
    )
    clock = clocks_of(with_rule(contract, counting=buffers))[1]
    clock.begin_thread(None, period_bytes)
    drawn = 77 if drawn_for_bytes is None else Hotspot(1).draw(drawn_for_bytes)
    assert clock.until_bytes == drawn


@pytest.mark.parametrize(("charges", "counted_bytes"), [("ahead", 0), ("allocated", 40)])
def test_a_thread_s_own_allocations_count(charges: str, counted_bytes: int) -> None:
    contract = contract_of(charges, threads=2)
    assert isinstance(contract.sampling.counting, Buffers)
    buffers = attrs.evolve(contract.sampling.counting, birth_bytes=40)
    clock = clocks_of(with_rule(contract, counting=buffers))[1]
    clock.begin_thread(None, 500)
    assert clock.until_bytes == Hotspot(1).draw(500) - counted_bytes


# Objects that are allocated without a call.


def inline(contract: Contract, **keys: Any) -> Bench:
    """A bench whose strings are."""
    assert isinstance(contract.sampling.counting, Buffers)
    way = attrs.evolve(contract.sampling.counting, inline_kinds=("string",), **keys)
    changed = with_rule(contract, counting=way)
    assert list(problems_of(changed)) == []
    bench = Bench(changed)
    bench.predict(AllocateString(8), minors=0)
    return bench


@pytest.mark.parametrize(
    ("size_bytes", "spare_bytes", "expected"), [(112, 0, 0), (120, 0, 1), (104, 8, 0), (112, 8, 1)]
)
def test_inline_objects_take_an_overdue_sample_only_if_they_do_not_fit(
    size_bytes: int, spare_bytes: int, expected: int
) -> None:
    """The buffer has 112 bytes left. All bytes count."""
    bench = inline(contract_of("allocated", first_bytes=8), inline_spare_bytes=spare_bytes)
    bench.predict(ON, minors=0)
    assert samples(bench, size_bytes) == [expected]
    assert samples(bench, 8) == [1 - expected]


@pytest.mark.parametrize(("outside", "expected"), [("looked at", [1, 0]), ("unseen", [0, 1])])
def test_inline_objects_outside_do_not_count_if_they_are_unseen(
    outside: str, expected: list[int]
) -> None:
    bench = inline(contract_of(first_bytes=64), inline_outside=outside)
    bench.predict(ON, minors=0)
    assert allocated(bench, 8) == [("buffer", 8)]
    first = samples(bench, 112)
    place = bench.sampling.place
    assert place is not None
    assert place.where == "outside"
    # One of 800 bytes collects.
    assert [*first, bench.predict(AllocateString(800), minors=1)] == expected


@pytest.mark.parametrize(("spare_bytes", "expected"), [(0, 0), (8, 1)])
def test_the_last_object_of_eden_needs_spare_bytes_to_be_unseen(
    spare_bytes: int, expected: int
) -> None:
    bench = inline(
        contract_of(first_bytes=64), inline_outside="unseen", inline_spare_bytes=spare_bytes
    )
    bench.predict(ON, minors=0)
    assert samples(bench, EDEN_BYTES - DESIRED_BYTES - 8) == [expected]
