"""Blocks that the mutator frees: what each counts, where it stays, who samples it."""

from typing import Any

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.mutator.objects import ShadowObject
from fuzz.oracles.blocks import SharedBlock, bytes_counted, bytes_to_move
from fuzz.oracles.counting.distances import generator_of
from fuzz.oracles.sampling import SamplingOracle
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.counting import NetBytes
from fuzz.protocol.layout import layout_of_blocks

PERIOD = 100
UNTIL = 50
"""The first thread's first distance."""


def judge_of(contract: Contract, **rule: Any) -> Judge:
    """The sampling oracle alone, under the contract with another rule or layout."""
    observes = rule.pop("observes", contract.observes)
    layout = attrs.evolve(contract.layout, **rule.pop("layout", {}))
    rules = attrs.evolve(contract.sampling, **rule)
    contract = attrs.evolve(contract, layout=layout, sampling=rules, observes=observes)
    assert list(problems_of(contract)) == []
    return Judge(contract, SamplingOracle)


def malloc(size_bytes: int, size: int, samples: int = 0, thread: int = 0) -> Step:
    return answer(do.Malloc(size_bytes, thread=thread), size=size, samples=samples)


def until(judge: Judge, thread: int = 0) -> int:
    return judge.state.bytes_until_sample(thread)


@pytest.fixture
def judge(blocks: Contract) -> Judge:
    return judge_of(blocks)


# What a block counts.


@pytest.mark.parametrize(
    ("counts", "of_9", "of_128", "of_300"),
    [
        ("size", 16, 128, 512),
        ("requested", 9, 128, 300),
        ("requested_plus_one", 10, 129, 301),
        ("class_or_requested", 16, 128, 300),
    ],
)
def test_what_of_a_block_counts(
    blocks: Contract, counts: Any, of_9: int, of_128: int, of_300: int
) -> None:
    rule = attrs.evolve(blocks.sampling, counts=counts)
    found = [bytes_counted(rule, blocks.layout, size) for size in (9, 128, 300)]
    assert found == [of_9, of_128, of_300]


@pytest.mark.parametrize(
    ("counts", "counted"),
    [("size", 8), ("requested", 0), ("requested_plus_one", 1), ("class_or_requested", 8)],
)
def test_what_a_block_of_nothing_counts(blocks: Contract, counts: Any, counted: int) -> None:
    rule = attrs.evolve(blocks.sampling, counts=counts)
    assert bytes_counted(rule, blocks.layout, 0) == counted


@pytest.mark.parametrize(
    ("counts", "left"),
    [
        *(("size", UNTIL - 16), ("requested", UNTIL - 9)),
        *(("requested_plus_one", UNTIL - 10), ("class_or_requested", UNTIL - 16)),
    ],
)
def test_the_clock_counts_what_the_rule_states(blocks: Contract, counts: str, left: int) -> None:
    judge = judge_of(blocks, counts=counts)
    judge(malloc(9, size=16))
    assert until(judge) == left


def test_a_block_of_several_parts_counts_all_of_them(judge: Judge) -> None:
    judge(do.Calloc(3, 9), size=32)
    assert until(judge) == UNTIL - 32


def test_freeing_a_block_counts_nothing(judge: Judge) -> None:
    judge(malloc(9, size=16), do.Free(0))
    assert (until(judge), judge.state.counted_bytes) == (UNTIL - 16, None)


# A block that is made another size.


@pytest.mark.parametrize(
    ("requested", "moves_for"),
    [(31, 31), (32, None), (63, None), (64, None), (65, 80), (79, 80), (80, 80), (81, 81)],
)
def test_a_block_moves_for_much_less_or_for_more(requested: int, moves_for: int | None) -> None:
    assert bytes_to_move(64, requested) == moves_for


@pytest.mark.parametrize("requested", [1, 32, 64, 65, 128])
def test_where_each_realloc_counts_what_is_asked_counts(blocks: Contract, requested: int) -> None:
    judge = judge_of(blocks, counts="requested", first_bytes=(1000,) * 3)
    judge(malloc(64, size=64))
    judge(do.Realloc(0, requested), size=blocks.layout.capacity_bytes(requested))
    assert judge.state.counted_bytes == requested


def test_half_of_an_odd_room_is_rounded_down() -> None:
    assert [bytes_to_move(9, requested) for requested in (3, 4)] == [3, None]


def test_where_each_realloc_counts_one_in_place_counts_in_full(judge: Judge) -> None:
    judge(malloc(9, size=16), answer(do.Realloc(0, 16), size=16))
    assert until(judge) == UNTIL - 32


def test_a_block_that_stays_counts_nothing_and_keeps_its_room(blocks: Contract) -> None:
    judge = judge_of(blocks, realloc="when_moved")
    judge(malloc(30, size=32), answer(do.Realloc(0, 16), size=32))
    assert (until(judge), judge.state.counted_bytes) == (UNTIL - 32, None)


def test_a_block_that_stays_is_measured_by_its_room_ever_after(blocks: Contract) -> None:
    judge = judge_of(blocks, realloc="when_moved")
    judge(
        malloc(30, size=32), answer(do.Realloc(0, 16), size=32), answer(do.Realloc(0, 15), size=16)
    )


def test_a_block_that_grows_a_little_gets_room_for_a_quarter_more(blocks: Contract) -> None:
    judge = judge_of(blocks, realloc="when_moved", counts="requested")
    judge(malloc(6, size=8), answer(do.Realloc(0, 9), size=16))
    assert judge.state.counted_bytes == 10


@pytest.mark.parametrize(("requested", "counted"), [(30, None), (17, None), (16, 16), (33, 33)])
def test_unless_alike_a_block_moves_to_another_room_only(
    blocks: Contract, requested: int, counted: int | None
) -> None:
    judge = judge_of(blocks, realloc="unless_alike", counts="requested", first_bytes=(1000,) * 3)
    judge(malloc(32, size=32))
    judge(do.Realloc(0, requested), size=blocks.layout.capacity_bytes(requested))
    assert judge.state.counted_bytes == counted


def test_unless_alike_a_block_that_was_sampled_moves(blocks: Contract) -> None:
    judge = judge_of(blocks, realloc="unless_alike", counts="requested", first_bytes=(3,) * 3)
    judge(malloc(4, size=8, samples=1), answer(do.Realloc(0, 3), size=8))
    assert judge.state.counted_bytes == 3
    judge(do.Realloc(0, 2), size=8)
    assert judge.state.counted_bytes is None


def test_unless_alike_a_block_moves_when_a_sample_is_due(blocks: Contract) -> None:
    judge = judge_of(blocks, realloc="unless_alike", counts="requested", first_bytes=(60,) * 3)
    judge(malloc(32, size=32), answer(do.Realloc(0, 28), size=32))
    judge(do.Realloc(0, 29), samples=1, size=32)


def test_a_block_beyond_all_classes_stays_though_a_sample_is_due(blocks: Contract) -> None:
    judge = judge_of(blocks, realloc="unless_alike", counts="requested", first_bytes=(310,) * 3)
    judge(malloc(300, size=512), answer(do.Realloc(0, 310), size=512))
    assert judge.state.counted_bytes is None


def test_a_block_may_be_sampled_when_it_is_made_another_size(judge: Judge) -> None:
    judge(malloc(9, size=16), answer(do.Realloc(0, 40), samples=1, size=64))


# How much room a block has.


def test_a_sampled_block_has_room_for_the_class_where_nothing_else_is_said(judge: Judge) -> None:
    judge(malloc(60, size=64, samples=1))


@pytest.mark.parametrize("action", [do.Malloc(9), do.Calloc(3, 3), do.Realloc(0, 9)], ids=str)
def test_another_room_than_that_of_the_class_is_wrong(judge: Judge, action: Action) -> None:
    mismatch = judge.mismatch(malloc(20, size=32), action, size=32)
    assert (mismatch.field, mismatch.expected, mismatch.got) == ("size", 16, 32)


def test_a_target_that_reports_no_room_is_not_judged_by_it(blocks: Contract) -> None:
    judge = judge_of(blocks, observes=("samples", "minors"))
    judge(do.Malloc(9), do.Realloc(0, 9))


# Who samples.


def test_sampling_is_on_from_the_start_where_the_contract_says_so(judge: Judge) -> None:
    assert (judge.state.period_bytes, judge.state.was_enabled) == (PERIOD, True)
    judge(malloc(60, size=64, samples=1))


def test_sampling_is_off_at_the_start_where_the_contract_says_nothing(blocks: Contract) -> None:
    judge = judge_of(blocks, initial_period_bytes=0)
    judge(malloc(60, size=64))
    assert not judge.state.was_enabled
    judge(do.EnableSampling(PERIOD), malloc(60, size=64, samples=1))


def test_each_thread_has_a_clock_of_its_own(judge: Judge) -> None:
    judge(malloc(30, size=32, thread=0), malloc(30, size=32, thread=1))
    assert [until(judge, thread) for thread in range(3)] == [18, 28, 70]
    judge(malloc(16, size=16, thread=0), malloc(20, size=32, thread=1, samples=1))


def test_each_thread_goes_on_by_its_own_seed(judge: Judge) -> None:
    for thread in range(3):
        judge(malloc(80, size=128, samples=1, thread=thread))
    expected = [generator_of("gperftools", seed).draw(PERIOD) for seed in (1, 2, 3)]
    assert [until(judge, thread) for thread in range(3)] == expected


def test_a_realloc_is_counted_by_the_thread_that_asks(judge: Judge) -> None:
    judge(malloc(9, size=16, thread=1), answer(do.Realloc(0, 9, thread=2), size=16))
    assert [until(judge, thread) for thread in range(3)] == [50, 44, 54]


def test_the_message_is_of_the_thread_that_allocated(judge: Judge) -> None:
    mismatch = judge.mismatch(do.Malloc(9, thread=2), samples=1, size=16)
    assert mismatch.why == (
        "70 bytes were left until the next sample, the block counts 16, "
        "the period is 100 on average: no sample expected"
    )


def test_the_message_names_the_byte_of_each_sample(blocks: Contract) -> None:
    mismatch = judge_of(blocks, crosses="at").mismatch(do.Malloc(100), samples=0, size=128)
    assert "the block counts 128" in mismatch.why
    assert mismatch.why.endswith(": 1 sample expected, at byte 49")


def test_enabling_restarts_the_count_of_every_thread(judge: Judge) -> None:
    judge(do.EnableSampling(200, thread=1))
    expected = [generator_of("gperftools", seed).draw(200) for seed in (1, 2, 3)]
    assert [until(judge, thread) for thread in range(3)] == expected


@pytest.mark.parametrize("action", [do.Malloc(60), do.Calloc(2, 30), do.Realloc(0, 60)], ids=str)
@pytest.mark.parametrize("samples", [0, 2])
def test_samples_that_are_not_due_are_wrong(judge: Judge, action: Action, samples: int) -> None:
    mismatch = judge.mismatch(malloc(9, size=16), action, samples=samples, size=64)
    assert (mismatch.field, mismatch.expected, mismatch.got) == ("samples", 1, samples)


@pytest.mark.parametrize("action", [do.Free(0), do.SetPeriod(7), do.ReadProfile()], ids=str)
def test_what_allocates_nothing_is_not_sampled(judge: Judge, action: Action) -> None:
    assert judge.mismatch(malloc(9, size=16), action, samples=1).field == "samples"


# The period, and pauses.


def test_setting_the_period_leaves_the_present_distance(judge: Judge) -> None:
    judge(do.SetPeriod(4000))
    assert (judge.state.period_bytes, until(judge)) == (4000, UNTIL)


def test_what_is_drawn_after_the_period_was_set_is_drawn_for_it(judge: Judge) -> None:
    judge(do.SetPeriod(4000), malloc(60, size=64, samples=1))
    assert until(judge) == generator_of("gperftools", 1).draw(4000)


def test_setting_the_period_does_not_enable(judge: Judge) -> None:
    judge(do.DisableSampling(), do.SetPeriod(4000), malloc(60, size=64))
    assert judge.state.period_bytes is None


@pytest.fixture
def unrecorded(blocks: Contract) -> Judge:
    """Paused, and counting all the same."""
    judge = judge_of(blocks, paused="counting")
    judge(malloc(9, size=16), do.PauseSampling())
    return judge


def test_where_pausing_goes_on_counting_nothing_is_said_of_samples(unrecorded: Judge) -> None:
    unrecorded(malloc(60, size=64))
    assert (unrecorded.state.unrecorded, unrecorded.state.hits) == (1, ())


def test_a_sample_that_is_said_while_paused_is_wrong(unrecorded: Judge) -> None:
    assert unrecorded.mismatch(do.Malloc(60), samples=1, size=64).why == "sampling was off"


def test_a_distance_that_ends_in_a_counting_pause_is_followed_by_another(unrecorded: Judge) -> None:
    unrecorded(malloc(60, size=64))
    assert until(unrecorded) == generator_of("gperftools", 1).draw(PERIOD)


def test_where_pausing_goes_on_counting_resuming_changes_nothing(unrecorded: Judge) -> None:
    unrecorded(malloc(9, size=16), do.ResumeSampling())
    assert (unrecorded.state.period_bytes, until(unrecorded)) == (PERIOD, UNTIL - 32)
    unrecorded(malloc(30, size=32, samples=1))


def test_a_period_that_is_set_while_paused_is_drawn_for(unrecorded: Judge) -> None:
    unrecorded(do.SetPeriod(4000), malloc(60, size=64))
    assert until(unrecorded) == generator_of("gperftools", 1).draw(4000)
    unrecorded(do.ResumeSampling())
    assert unrecorded.state.period_bytes == 4000


def test_disabling_ends_the_count_that_goes_on(unrecorded: Judge) -> None:
    unrecorded(do.DisableSampling(), malloc(60, size=64))
    assert (unrecorded.state.unrecorded, until(unrecorded)) == (0, UNTIL - 16)


def test_enabling_restarts_a_count_that_pausing_continues(unrecorded: Judge) -> None:
    unrecorded(do.EnableSampling(200))
    assert until(unrecorded) == generator_of("gperftools", 1).draw(200)


def test_where_pausing_stops_the_count_nothing_is_due_meanwhile(judge: Judge) -> None:
    judge(do.PauseSampling(), malloc(60, size=64))
    assert (judge.state.unrecorded, until(judge)) == (0, UNTIL)
    judge(do.ResumeSampling())
    assert until(judge) == generator_of("gperftools", 1).draw(PERIOD)


# What is reported about each sample.

TELLING = ("samples", "minors", "offsets", "weights")


@pytest.fixture
def telling(blocks: Contract) -> Judge:
    """Of a block's samples, the byte and the weight."""
    return judge_of(blocks, observes=TELLING, weights="passed", counts="requested")


def test_the_offset_and_the_weight_of_a_sample_are_right(telling: Judge) -> None:
    telling(do.Malloc(60), samples=1, offsets=[UNTIL], weights=[PERIOD + 60 - UNTIL - 1])


@pytest.mark.parametrize("offsets", [[], [51], [50, 50]], ids=str)
def test_another_byte_than_the_drawn_one_is_wrong(telling: Judge, offsets: list[int]) -> None:
    mismatch = telling.mismatch(do.Malloc(60), samples=1, offsets=offsets, weights=[109])
    assert (mismatch.field, mismatch.expected, mismatch.got) == ("offsets", [UNTIL], offsets)


@pytest.mark.parametrize("weights", [[], [100], [109, 109]], ids=str)
def test_another_weight_is_wrong(telling: Judge, weights: list[int]) -> None:
    mismatch = telling.mismatch(do.Malloc(60), samples=1, offsets=[UNTIL], weights=weights)
    assert (mismatch.field, mismatch.expected, mismatch.got) == ("weights", [109], weights)


@pytest.mark.parametrize("action", [do.Malloc(9), do.Free(0)], ids=str)
@pytest.mark.parametrize("fields", [{"offsets": [0]}, {"weights": [1]}], ids=str)
def test_a_report_about_a_sample_that_was_not_taken_is_wrong(
    telling: Judge, action: Action, fields: dict[str, Any]
) -> None:
    assert telling.mismatch(do.Malloc(9), action, **fields).field in fields


def test_what_the_contract_does_not_observe_of_a_sample_is_not_judged(judge: Judge) -> None:
    judge(do.Malloc(60), samples=1, size=64, offsets=[7], weights=[8])


# What is freed counts back.

NET: dict[str, Any] = {
    "observes": ("samples", "minors", "weights"),
    "distances": "period",
    "crosses": "at",
    "first_bytes": (),
    "counts": "requested",
    "weights": "since",
    "counting": NetBytes(),
}


@pytest.fixture
def net(blocks: Contract) -> Judge:
    """A period of 100 bytes, of which 60 are allocated."""
    judge = judge_of(blocks, **NET)
    judge(do.Malloc(60))
    return judge


def test_what_was_freed_since_the_last_sample_does_not_count_for_the_next(net: Judge) -> None:
    net(do.Free(0), do.Malloc(99), answer(do.Malloc(2), samples=1, weights=[101]))
    assert until(net) == PERIOD


def test_a_period_that_is_freed_is_a_sample(net: Judge) -> None:
    net(answer(do.Malloc(70), samples=1, weights=[130]), do.Free(0))
    assert net.mismatch(do.Free(0)).expected == 1
    assert until(net) == PERIOD


def test_a_sample_of_what_is_freed_weighs_what_was_freed(net: Judge) -> None:
    net(answer(do.Malloc(70), samples=1, weights=[130]), do.Malloc(5), do.Free(0))
    net(do.Free(0), samples=1, weights=[125])


def test_a_sample_of_what_is_freed_too_early_is_wrong(net: Judge) -> None:
    mismatch = net.mismatch(do.Free(0), samples=1, weights=[60])
    assert (mismatch.expected, mismatch.got) == (0, 1)


def test_a_block_of_the_size_that_is_not_sampled_ends_a_distance(blocks: Contract) -> None:
    judge = judge_of(blocks, **{**NET, "counting": NetBytes(unsampled_bytes=130)})
    judge(do.Malloc(40), do.Malloc(130))
    assert until(judge) == PERIOD
    assert judge.mismatch(do.Malloc(131)).expected == 1


def test_a_header_before_a_block_counts(blocks: Contract) -> None:
    kinds = {"block": attrs.evolve(blocks.layout.kinds["block"], fixed_bytes=10)}
    judge = judge_of(blocks, layout={"kinds": kinds}, counts="requested")
    judge(do.Malloc(9), size=32)
    assert until(judge) == UNTIL - 19


@pytest.mark.parametrize(
    ("sizes", "begun"),
    [
        ((7, 4, 5), (True, False, True)),
        ((8, 7, 1), (True, False, False)),
        ((1, 8, 8), (True, False, True)),
        ((15, 12, 4), (True, True, False)),
        ((4, 13, 12), (True, True, False)),
    ],
)
def test_small_blocks_share_a_block(sizes: tuple[int, ...], begun: tuple[bool, ...]) -> None:
    shared = SharedBlock(16)
    blocks = [ShadowObject("block", 1, size, [], 16, True) for size in sizes]
    beside = [shared.place(block, size) for block, size in zip(blocks, sizes, strict=True)]
    assert tuple(place is block for place, block in zip(beside, blocks, strict=True)) == begun


def test_a_rounded_block_takes_its_class_of_a_shared_block() -> None:
    layout = layout_of_blocks(2**10, (8, 16, 24))
    rounded = attrs.evolve(layout, shared_bytes=16, shared_rounded=True)
    sizes = (0, 1, 8, 9, 16, 25)
    assert [*map(rounded.placed_bytes, sizes)] == [0, 8, 8, 16, 16, 25]
    assert [*map(layout.placed_bytes, sizes)] == [*sizes]


def test_after_a_collection_another_shared_block_begins() -> None:
    shared = SharedBlock(16)
    blocks = [ShadowObject("block", 1, 1, [], 16, True) for _ in range(2)]
    shared.place(blocks[0], 1)
    shared.forget()
    assert shared.place(blocks[1], 1) is blocks[1]
