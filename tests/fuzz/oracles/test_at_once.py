"""Threads at once by hand: what each must have read, and how often it may be sampled."""

from contextlib import nullcontext
from typing import Any

import attrs
import pytest

from fuzz.oracles import Bench
from fuzz.oracles.oracle import Mismatch
from fuzz.protocol.actions import EnableSampling, RunAtOnce
from fuzz.protocol.contract import AtOnce, Contract, KindLayout, Layout, Range, SamplingRule
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.observation import Observation

PERIOD = 1024
OBJECTS, FIRST = 4096, 5
RUN = RunAtOnce(OBJECTS, FIRST)
BYTES = OBJECTS * 32 + OBJECTS // 128 * sum((16 + length + 7) // 8 * 8 for length in range(128))


def read_from(first: int) -> int:
    """What a thread has read."""
    return sum(number * (1 + number * 37 % 128) for number in range(first, first + OBJECTS))


READ = (read_from(FIRST), read_from(FIRST + OBJECTS))


def contract_of(**at_once: int) -> Contract:
    """Nodes of 32 bytes, strings of 16 and one a character, and two threads."""
    contract = Contract(
        nursery_bytes=4096,
        layout=Layout(
            kinds={"node": KindLayout(1, 32), "string": KindLayout(2, 16, 1)},
            large_object_bytes=4096,
            word_bytes=8,
            object_bytes_max=2048,
        ),
        actions=("run_at_once", "enable_sampling"),
        observes=("samples", "minors", "shares"),
        sampling=SamplingRule(
            Range(1, 2**20), samples_per_allocation="one", distances="unstated", seeds=(0, 0)
        ),
        at_once=AtOnce(**at_once),
    )
    assert list(problems_of(contract)) == []
    return contract


def judge(*shares: list[int], is_on: bool = True, minors: int = 0, **at_once: Any) -> None:
    bench = Bench(contract_of(**at_once))
    if is_on:
        bench.judge(EnableSampling(PERIOD), Observation())
    samples = sum(share[1] for share in shares)
    bench.judge(RUN, Observation(shares=list(shares), samples=samples, minors=minors))


def with_samples(samples: int) -> list[list[int]]:
    """As many in each thread."""
    return [[read, samples, 40 * samples] for read in READ]


def is_right(samples: int, **at_once: Any) -> bool:
    try:
        judge(*with_samples(samples), **at_once)
    except Mismatch:
        return False
    return True


def test_what_chance_allows_is_right() -> None:
    assert [is_right(BYTES * share // PERIOD // 10) for share in (5, 9, 10, 11, 15)] == [
        *(False, True, True, True, False)
    ]


@pytest.mark.parametrize(
    ("samples", "promise", "minors"),
    [
        (BYTES // 2 // PERIOD, {"unseen_bytes": BYTES // 2}, 0),
        (BYTES * 3 // 2 // PERIOD, {"phantom_bytes": BYTES // 2}, 0),
        (BYTES * 3 // 2 // PERIOD, {"phantom_bytes": BYTES // 4}, 1),
        (BYTES * 3 // 2 // PERIOD, {"phantom_percent": 50}, 0),
    ],
)
def test_what_the_contract_leaves_open_is_right(
    samples: int, promise: dict[str, Any], minors: int
) -> None:
    assert not is_right(samples)
    judge(*with_samples(samples), minors=minors, **promise)


@pytest.mark.parametrize("thread", [0, 1])
def test_a_thread_that_has_read_something_else_is_found(thread: int) -> None:
    shares = with_samples(0)
    shares[thread][0] -= 1
    with pytest.raises(
        Mismatch, match=rf"^at-once: .*thread {thread} makes 4096 nodes, numbered from"
    ):
        judge(*shares, is_on=False)


def test_a_node_that_has_the_string_of_another_is_found() -> None:
    wrong = READ[0] - 5 * (1 + 57) - 6 * (1 + 94) + 5 * (1 + 94) + 6 * (1 + 57)
    with pytest.raises(Mismatch, match=r"^at-once: .*read"):
        judge([wrong, 0, 0], [READ[1], 0, 0], is_on=False)


def test_a_sample_while_sampling_is_off_is_found() -> None:
    judge(*with_samples(0), is_on=False)
    with pytest.raises(Mismatch, match=r"^sampling: .*sampling was off"):
        judge([READ[0], 1, 40], [READ[1], 0, 0], is_on=False)


def test_a_sample_of_no_thread_is_wrong() -> None:
    bench = Bench(contract_of())
    bench.judge(EnableSampling(2**20), Observation())
    with pytest.raises(Mismatch, match=r"^at-once: .*expected 0, got 1"):
        bench.judge(RUN, Observation(shares=with_samples(0), samples=1))


@pytest.mark.parametrize("sampled_bytes", [15, 145])
def test_a_sample_of_an_object_of_another_size_is_found(sampled_bytes: int) -> None:
    with pytest.raises(Mismatch, match=r"^at-once: .*1 times 16 to 144 bytes"):
        judge([READ[0], 1, sampled_bytes], [READ[1], 0, 0])


@pytest.mark.parametrize("shares", [None, [], [[READ[0], 0, 0]], [[READ[0], 0], [READ[1], 0]]])
def test_a_share_that_is_missing_is_found(shares: Any) -> None:
    with pytest.raises(Mismatch, match=r"^at-once: .*3 numbers for each of 2 threads"):
        Bench(contract_of()).judge(RUN, Observation(shares=shares))


def test_where_several_samples_are_taken_of_an_object_there_may_be_more_than_objects() -> None:
    contract = contract_of()
    rule = attrs.evolve(contract.sampling, samples_per_allocation="all")
    bench = Bench(attrs.evolve(contract, sampling=rule))
    bench.judge(EnableSampling(16), Observation())
    samples = BYTES // 18
    assert samples > 2 * OBJECTS
    shares = [[read, samples, 40 * samples] for read in READ]
    bench.judge(RUN, Observation(shares=shares, samples=2 * samples))


def test_of_few_objects_no_number_of_samples_is_blamed_too_soon() -> None:
    bench = Bench(contract_of())
    bench.judge(EnableSampling(2**20), Observation())
    shares = [[5 * (1 + 57), 2, 80], [6 * (1 + 94), 0, 0]]
    bench.judge(RunAtOnce(1, 5), Observation(shares=shares, samples=2))


@pytest.mark.parametrize(("samples", "is_wrong"), [(8, False), (6, False), (5, True), (9, True)])
def test_with_a_period_of_0_each_object_is_sampled_that_is_seen(
    samples: int, is_wrong: bool
) -> None:
    contract = contract_of(unseen_bytes=2 * 24)
    rule = attrs.evolve(contract.sampling, period_bytes=Range(0, 8))
    bench = Bench(attrs.evolve(contract, sampling=rule))
    bench.judge(EnableSampling(0), Observation())
    reads = [sum(n * (1 + n * 37 % 128) for n in range(at, at + 4)) for at in (0, 4)]
    said = Observation(shares=[[read, samples, 40 * samples] for read in reads])
    said.samples = 2 * samples
    with pytest.raises(Mismatch, match=r"^at-once: ") if is_wrong else nullcontext():
        bench.judge(RunAtOnce(4, 0), said)
