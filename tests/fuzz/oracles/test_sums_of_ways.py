"""Why an action takes its samples, in the words of each way to count."""

from typing import Any

import attrs
import pytest

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.counting import clocks_of
from fuzz.oracles.counting.clock import Clock
from fuzz.oracles.counting.expected import ALIKE, Request, Sum
from fuzz.oracles.oracle import Mismatch
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_descriptions import describe_sum
from fuzz.protocol.actions import AllocateNode, EnableSampling, Free
from fuzz.protocol.contract import Contract, Range, SamplingRule
from fuzz.protocol.counting import (
    Buffers,
    Bytes,
    Contexts,
    LazySeeds,
    NetBytes,
    ProfileRate,
    Streams,
    Way,
)
from fuzz.protocol.layout import Layout
from fuzz.protocol.observation import Observation

PERIOD = 100
DRAWN: dict[str, Any] = {
    "distances": "geometric",
    "surplus": "dropped",
    "samples_per_allocation": "one",
}
TLABS = Buffers(
    desired_bytes=64,
    least_bytes=8,
    reserve_bytes=8,
    waste_bytes=0,
    waste_increment_bytes=0,
    charges="ahead",
)


class Counting:
    """A clock, and what it says of an allocation."""

    def __init__(self, way: Any, **rule: Any) -> None:
        contract = Contract(
            1024,
            Layout({}, 2**40, 8, 2**40),
            actions=(),
            observes=(),
            sampling=SamplingRule(Range(1, 2**20), counting=way, **{**DRAWN, **rule}),
        )
        self.rule = contract.sampling
        [self.clock] = clocks_of(contract)
        self.clock.start(PERIOD)

    def words(self, size_bytes: int, period_bytes: int = PERIOD, outside: bool = False) -> str:
        """The sum of an allocation."""
        until_bytes, free_bytes = self.clock.until_bytes, self.clock.free_bytes
        request = Request(size_bytes, outside, "string", period_bytes)
        hits = self.clock.allocated(request, Observation())
        its = Sum(
            *(period_bytes, until_bytes, f"the block counts {size_bytes}", size_bytes, hits),
            outside=outside,
            free_bytes=free_bytes if self.rule.counting.has_local_buffers else None,
        )
        return describe_sum(self.rule, self.clock.explained(its))


def left_of(clock: Clock[Any]) -> str:
    return f"{clock.until_bytes} bytes were left until the next sample"


@pytest.mark.parametrize("way", [Bytes(), ProfileRate(), LazySeeds((1,))], ids=lambda way: way.by)
def test_an_allocation_without_a_sample_has_the_sum_of_plain_bytes(way: Way) -> None:
    counting = Counting(way)
    left = left_of(counting.clock)
    assert counting.words(1) == (
        f"{left}, the block counts 1, the period is 100 on average: no sample expected"
    )


def test_a_period_that_samples_each_allocation_is_the_reason() -> None:
    words = Counting(ProfileRate(certain_period_bytes=8)).words(1, period_bytes=8)
    assert words.endswith(": 1 sample expected, since this period samples each allocation")


def test_a_new_period_is_the_reason_unless_the_distance_is_over() -> None:
    rate = ProfileRate(new_period="samples")
    words = Counting(rate).words(1, period_bytes=200)
    assert words.endswith(": 1 sample expected, since the period is a new one")
    counting = Counting(rate)
    until_bytes = counting.clock.until_bytes
    assert "since" not in counting.words(until_bytes + 1)


def test_a_size_that_is_never_sampled_is_the_reason() -> None:
    counting = Counting(NetBytes(unsampled_bytes=500), distances="period", crosses="at")
    assert counting.words(500).endswith(
        ": no sample expected, since no block of this size is sampled"
    )
    assert counting.words(501).endswith(": 1 sample expected, at byte 99")


def test_the_rest_of_an_object_behind_its_context_has_a_distance_of_its_own() -> None:
    counting = Counting(Contexts(64), distances="dotnet")
    words = counting.words(2**20)
    assert "left until the next sample and 0 of its buffer" in words
    assert "where a new distance of" in words


@pytest.mark.parametrize("outside", ["apart", "in_turn"])
def test_an_object_outside_has_a_distance_of_its_own_only_apart(outside: str) -> None:
    way = Contexts(64, outside="apart" if outside == "apart" else "in_turn")
    counting = Counting(way, distances="dotnet", seeds=(3,))
    counting.words(8)
    counting.clock.until_bytes = 1
    words = counting.words(2**20, outside=True)
    assert ("where a new distance of" in words) == (outside == "apart")
    assert ("and 0 of its buffer" in words) == (outside == "apart")


def test_an_object_that_its_buffer_has_room_for_counts_nothing() -> None:
    counting = Counting(TLABS, distances="hotspot", enabling="keeps", first_bytes=(2**20,))
    assert "count with its buffer's" not in counting.words(8)
    assert ", which its buffer has room for, " in counting.words(8)


def test_an_object_that_does_not_fit_counts_with_its_buffer() -> None:
    counting = Counting(TLABS, distances="hotspot", enabling="keeps", first_bytes=(2**20,))
    counting.words(8)
    counting.words(56)
    assert ", 72 count with its buffer's, " in counting.words(16)


def test_what_lies_outside_has_the_sum_of_its_own_stream() -> None:
    counting = Counting(Streams(), surplus="carried", samples_per_allocation="all", crosses="at")
    first, second = (counting.words(1, outside=True) for _ in range(2))
    [first_left, second_left] = (int(words.split()[0]) for words in (first, second))
    assert first_left == second_left + 1


def test_a_postponed_sample_leaves_open_what_was_left() -> None:
    way = Streams(postponed=("string",))
    counting = Counting(way, surplus="carried", samples_per_allocation="all", crosses="at")
    words = counting.words(counting.clock.until_bytes)
    assert words.startswith("a distance was drawn meanwhile, ")
    assert counting.clock.explained(Sum(1, 1, "", 1, [ALIKE])).until_bytes is None


def test_a_sample_that_an_action_takes_without_allocating_is_a_mismatch(contract: Contract) -> None:
    rule = attrs.evolve(
        contract.sampling, **{**DRAWN, "distances": "dotnet", "counting": Contexts(64)}
    )
    contract = attrs.evolve(contract, sampling=rule, observes=("samples",))
    shadow = Shadow(contract)
    oracle = SamplingOracle(contract, shadow)
    for action in (EnableSampling(8), AllocateNode(0)):
        shadow.follow(action, 0)
        oracle.follow(action, Observation())
    shadow.follow(Free(0), 0)
    with pytest.raises(Mismatch, match=r"^sampling: .*this action allocates nothing"):
        oracle.check(Free(0), Observation(samples=1), oracle.state)
