"""Threads at once by hand: what each must have read, and how often it may be sampled."""

from typing import Any

import attrs
import pytest
from judging import Judge, answer

from fuzz.oracles.oracle import Mismatch
from fuzz.protocol.actions import EnableSampling, RunAtOnce
from fuzz.protocol.contract import AtOnce, Contract, Range, SamplingRule
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.layout import KindLayout, Layout

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


def run(*shares: list[int], is_on: bool = True, minors: int = 0, **at_once: Any) -> None:
    """Judge these shares; sampling is on or off."""
    judge = Judge(contract_of(**at_once))
    if is_on:
        judge(EnableSampling(PERIOD))
    samples = sum(share[1] for share in shares)
    judge(RUN, shares=list(shares), samples=samples, minors=minors)


def with_samples(samples: int) -> list[list[int]]:
    """As many in each thread."""
    return [[read, samples, 40 * samples] for read in READ]


def is_right(samples: int, **at_once: Any) -> bool:
    try:
        run(*with_samples(samples), **at_once)
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
def test_unpromised_shares_are_right(samples: int, promise: dict[str, Any], minors: int) -> None:
    assert not is_right(samples)
    run(*with_samples(samples), minors=minors, **promise)


@pytest.mark.parametrize("thread", [0, 1])
def test_a_thread_that_has_read_something_else_is_found(thread: int) -> None:
    shares = with_samples(0)
    shares[thread][0] -= 1
    with pytest.raises(
        Mismatch, match=rf"^concurrency: .*thread {thread} makes 4096 nodes, numbered from"
    ):
        run(*shares, is_on=False)


def test_a_node_that_has_the_string_of_another_is_found() -> None:
    wrong = READ[0] - 5 * (1 + 57) - 6 * (1 + 94) + 5 * (1 + 94) + 6 * (1 + 57)
    with pytest.raises(Mismatch, match=r"^concurrency: .*read"):
        run([wrong, 0, 0], [READ[1], 0, 0], is_on=False)


def test_a_sample_while_sampling_is_off_is_found() -> None:
    run(*with_samples(0), is_on=False)
    with pytest.raises(Mismatch, match=r"^sampling: .*sampling was off"):
        run([READ[0], 1, 40], [READ[1], 0, 0], is_on=False)


def test_a_sample_of_no_thread_is_wrong() -> None:
    wrong = answer(RUN, shares=with_samples(0), samples=1)
    mismatch = Judge(contract_of()).mismatch(EnableSampling(2**20), wrong)
    assert (mismatch.oracle, mismatch.expected, mismatch.got) == ("concurrency", 0, 1)


@pytest.mark.parametrize("sampled_bytes", [15, 145])
def test_a_sample_of_an_object_of_another_size_is_found(sampled_bytes: int) -> None:
    with pytest.raises(Mismatch, match=r"^concurrency: .*1 times 16 to 144 bytes"):
        run([READ[0], 1, sampled_bytes], [READ[1], 0, 0])


@pytest.mark.parametrize("shares", [None, [], [[READ[0], 0, 0]], [[READ[0], 0], [READ[1], 0]]])
def test_a_share_that_is_missing_is_found(shares: Any) -> None:
    mismatch = Judge(contract_of()).mismatch(RUN, shares=shares)
    assert mismatch.oracle == "concurrency"
    assert "3 numbers for each of 2 threads" in str(mismatch)


def test_where_several_samples_are_taken_of_an_object_there_may_be_more_than_objects() -> None:
    contract = contract_of()
    rule = attrs.evolve(contract.sampling, samples_per_allocation="all")
    samples = BYTES // 18
    assert samples > 2 * OBJECTS
    right = answer(RUN, shares=with_samples(samples), samples=2 * samples)
    Judge(attrs.evolve(contract, sampling=rule))(EnableSampling(16), right)


def test_of_few_objects_no_number_of_samples_is_blamed_too_soon() -> None:
    shares = [[5 * (1 + 57), 2, 80], [6 * (1 + 94), 0, 0]]
    right = answer(RunAtOnce(1, 5), shares=shares, samples=2)
    Judge(contract_of())(EnableSampling(2**20), right)


@pytest.mark.parametrize(("samples", "is_wrong"), [(8, False), (6, False), (5, True), (9, True)])
def test_with_a_period_of_0_each_seen_object_is_sampled(samples: int, is_wrong: bool) -> None:
    contract = contract_of(unseen_bytes=2 * 24)
    rule = attrs.evolve(contract.sampling, period_bytes=Range(0, 8))
    judge = Judge(attrs.evolve(contract, sampling=rule))
    reads = [sum(n * (1 + n * 37 % 128) for n in range(at, at + 4)) for at in (0, 4)]
    shares = [[read, samples, 40 * samples] for read in reads]
    seen = answer(RunAtOnce(4, 0), shares=shares, samples=2 * samples)
    mismatch = judge.verdict(EnableSampling(0), seen)
    assert (mismatch and mismatch.oracle) == ("concurrency" if is_wrong else None)
