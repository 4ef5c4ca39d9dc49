"""What samples stand for, by the figures of real allocators, and how many of them are chance."""

import itertools
import math
from random import Random
from typing import Any, Literal

import attrs
import pytest
from changed_contracts import with_layout
from judging import Judge, Step, answer

from fuzz.oracles.counting.distances import generator_of
from fuzz.oracles.estimate import IMPROBABLE, EstimateOracle, improbability
from fuzz.oracles.oracle import Mismatch
from fuzz.oracles.stands_for import STANDS_FOR, CountedBlock, dumped
from fuzz.protocol import actions as do
from fuzz.protocol.contract import Contract
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.groups import Groups
from fuzz.protocol.observation import Observation

BLOCKS = 10_000
NODE = do.AllocateNode(0)
NODE_BYTES, STRING_BYTES = 32, 48
STRING = do.AllocateString(STRING_BYTES - 25)


def judge_of(contract: Contract) -> Judge:
    assert list(problems_of(contract)) == []
    return Judge(contract, EstimateOracle)


def profile(objects: int, size_bytes: int) -> Step:
    return answer(do.ReadProfile(), profile=[objects, size_bytes])


def mismatch_in(judge: Judge, *steps: Step, **fields: Any) -> Mismatch:
    """What is wrong with one of these steps, each of which has these fields."""
    with pytest.raises(Mismatch, match=r"^estimate: ") as raised:
        judge(*steps, **fields)
    return raised.value


# Profiles.


def profiling(blocks: Contract, **rule: Any) -> Contract:
    """Blocks of any size, of which each thread's first is sampled."""
    fields: dict[str, Any] = {
        "crosses": "at",
        "distances": "jemalloc",
        "estimates": "probability",
        "first_bytes": (1, 1, 1),
        "period_bytes": attrs.evolve(blocks.sampling.period_bytes, maximum=2**40),
    }
    actions = (*blocks.actions, "read_profile")
    layout = attrs.evolve(blocks.layout, size_classes=(), page_bytes=1, object_bytes_max=2**40)
    return attrs.evolve(
        blocks,
        layout=layout,
        actions=actions,
        sampling=attrs.evolve(blocks.sampling, **{**fields, **rule}),
        observes=(*blocks.observes, "profile"),
    )


def test_a_block_that_counts_nothing_stands_for_as_many_as_one_of_a_byte(blocks: Contract) -> None:
    """Some distances may be nothing, and then such a block can reach one."""
    seed = next(
        seed for seed in itertools.count() if generator_of("gperftools", seed).draw(4096) == 0
    )
    rule = {"counts": "requested", "distances": "gperftools", "first_bytes": (), "seeds": (seed,)}
    judge = judge_of(profiling(blocks, **rule, initial_period_bytes=4096))
    judge(do.Malloc(0), profile(4096, 0))


JEMALLOC = {
    (8, 0): (8, 8),
    (8, 12): (4100, 4100),
    (8, 19): (524292, 524292),
    (16, 0): (16, 8),
    (16, 12): (4104, 2052),
    (16, 19): (524296, 262148),
    (1024, 0): (1024, 8),
    (1024, 12): (4629, 36),
    (1024, 19): (524800, 4100),
    (4096, 0): (4096, 8),
    (4096, 12): (6480, 13),
    (4096, 19): (526339, 1028),
    (16384, 12): (16690, 8),
    (16384, 19): (532523, 260),
    (524288, 12): (524288, 8),
    (524288, 19): (829411, 13),
    (1048576, 19): (1212697, 9),
}
"""By usable size and binary logarithm of the period: what jemalloc adds to its sums for a sample,
in bytes and in eighths of objects."""


@pytest.mark.parametrize(("size_bytes", "lg"), JEMALLOC)
def test_a_sample_has_jemallocs_estimate(blocks: Contract, size_bytes: int, lg: int) -> None:
    unbiased_bytes, eighths = JEMALLOC[size_bytes, lg]
    judge = judge_of(profiling(blocks, initial_period_bytes=2**lg))
    judge(do.Malloc(size_bytes))
    assert len(judge.state.hits) == 1
    judge(profile(round(eighths / 8), unbiased_bytes))


@pytest.mark.parametrize(
    ("sizes", "lg", "expected"),
    [
        ({16: 1, 33554432: 1}, 19, [65, 67530]),
        ({64: 10, 1048576: 3}, 19, [17, 1836]),
        ({8: 100, 4096: 7, 20480: 2}, 12, [121, 1173]),
        ({16: 1024, 33554432: 16}, 19, [2048, 65534]),
    ],
)
def test_a_dump_has_jemallocs_numbers(sizes: dict[int, int], lg: int, expected: list[int]) -> None:
    """As jemalloc writes them for these numbers of samples, by their size."""
    sums = [0.0, 0.0]
    for size_bytes, count in sizes.items():
        pair = STANDS_FOR["dumped"](CountedBlock(size_bytes, size_bytes, 0, 2**lg))
        sums = [sum_ + count * each for sum_, each in zip(sums, pair, strict=True)]
    assert [math.floor(each + 0.5) for each in dumped(sums[0], sums[1], 2**lg)] == expected


def test_a_dump_has_all_blocks_since_the_samples_were_dropped(blocks: Contract) -> None:
    rule = {"estimates": "dumped", "setting_period": "drops", "initial_period_bytes": 8}
    judge = judge_of(profiling(blocks, **rule).without(["enable_sampling"]))
    judge(
        do.Malloc(80),
        do.Malloc(80, thread=1),
        do.Free(0),
        answer(do.ReadProfile(), profile=[1, 80, 2, 160]),
    )
    assert judge.mismatch(do.ReadProfile(), profile=[1, 80, 1, 80]).expected == 160
    judge(do.SetPeriod(16), answer(do.ReadProfile(), profile=[0, 0, 0, 0]))


def test_a_weight_stands_for_whole_blocks(blocks: Contract) -> None:
    """Each of 100 bytes: a weight of 250 is two and a half, which TCMalloc rounds up."""
    block = CountedBlock(counted_bytes=101, size_bytes=112, weight=253, period_bytes=200)
    assert STANDS_FOR["whole_weight"](block) == (3, 336)
    assert STANDS_FOR["weight"](block)[0] == pytest.approx(253 / 101)


@pytest.fixture
def judge(blocks: Contract) -> Judge:
    """A block of 8 bytes is sampled, and stands for 512.5 objects of 4100 bytes."""
    judge = judge_of(profiling(blocks, initial_period_bytes=4096))
    judge(do.Malloc(8))
    return judge


@pytest.mark.parametrize(("objects", "size_bytes"), [(512, 4100), (511, 4099), (514, 4102)])
def test_a_profile_may_be_rounded(judge: Judge, objects: int, size_bytes: int) -> None:
    judge(profile(objects, size_bytes))


@pytest.mark.parametrize(("objects", "direction"), [(1, "less"), (510, "less"), (515, "more")])
def test_another_number_of_objects_is_wrong(judge: Judge, objects: int, direction: str) -> None:
    mismatch = judge.mismatch(do.ReadProfile(), profile=[objects, 4100])
    assert (mismatch.oracle, mismatch.field, mismatch.expected) == ("estimate", "objects", 513)
    assert mismatch.direction == direction


@pytest.mark.parametrize("size_bytes", [8, 4097, 4103])
def test_another_number_of_bytes_is_wrong(judge: Judge, size_bytes: int) -> None:
    mismatch = judge.mismatch(do.ReadProfile(), profile=[512, size_bytes])
    assert (mismatch.field, mismatch.expected, mismatch.got) == ("bytes", 4100, size_bytes)


@pytest.mark.parametrize("profile", [None, [], [512], [512, 4100, 0]], ids=str)
def test_a_profile_is_two_numbers(judge: Judge, profile: list[int] | None) -> None:
    assert judge.mismatch(do.ReadProfile(), profile=profile).field == "profile"


def test_what_is_not_sampled_stands_for_nothing(judge: Judge) -> None:
    assert judge.state.bytes_until_sample() > 8
    judge(do.Malloc(8), profile(512, 4100))


def test_a_block_of_several_parts_stands_for_blocks_like_it(blocks: Contract) -> None:
    judge = judge_of(profiling(blocks, initial_period_bytes=4096))
    judge(do.Calloc(2, 4), profile(512, 4100))


def test_each_sample_is_unbiased_for_itself_before_they_are_added(blocks: Contract) -> None:
    """Added first, 8 and 2^20 bytes would have a mean of half a MiB, and stand for 2 objects."""
    judge = judge_of(profiling(blocks, initial_period_bytes=4096))
    judge(do.Malloc(8, thread=0), do.Malloc(2**20, thread=1), profile(513, 4100 + 2**20))
    assert mismatch_in(judge, do.ReadProfile(), profile=[2, 8 + 2**20]).field == "objects"


def test_what_was_freed_stands_for_nothing(judge: Judge) -> None:
    judge(do.Malloc(8, thread=1), do.Free(0), profile(512, 4100), do.Free(0), profile(0, 0))


def test_a_block_that_another_thread_frees_is_gone(judge: Judge) -> None:
    judge(do.Free(0, thread=2), profile(0, 0))


def test_a_block_resized_without_a_sample_stands_for_nothing(judge: Judge) -> None:
    judge(do.Realloc(0, 16))
    assert judge.state.hits == ()
    judge(profile(0, 0))


def test_a_block_sampled_when_resized_stands_for_its_new_size(judge: Judge) -> None:
    judge(do.Realloc(0, 1024, thread=1), profile(round(36 / 8), 4629))


def test_a_block_that_stays_where_it_is_stands_for_what_it_did(blocks: Contract) -> None:
    judge = judge_of(profiling(blocks, initial_period_bytes=4096, realloc="when_moved"))
    judge(do.Malloc(8), do.Realloc(0, 5), profile(512, 4100))


def test_a_block_that_grows_a_little_stands_for_a_quarter_more(blocks: Contract) -> None:
    judge = judge_of(profiling(blocks, initial_period_bytes=4096, realloc="when_moved"))
    judge(do.Malloc(1024), do.Realloc(0, 1030, thread=1))
    one_in = 1 / -math.expm1(-1280 / 4096)
    judge(profile(round(one_in), round(one_in * 1280)))


@pytest.mark.parametrize(("setting_period", "figures"), [("keeps", (512, 4100)), ("drops", (0, 0))])
def test_what_becomes_of_samples_when_the_period_is_set(
    blocks: Contract, setting_period: str, figures: tuple[int, int]
) -> None:
    rule = {"initial_period_bytes": 4096, "setting_period": setting_period}
    judge = judge_of(profiling(blocks, **rule))
    judge(do.Malloc(8), do.SetPeriod(2**19), profile(*figures))


def test_a_sample_stands_for_what_its_period_says_when_it_is_taken(blocks: Contract) -> None:
    judge = judge_of(profiling(blocks, initial_period_bytes=4096))
    judge(do.SetPeriod(2**19), do.Malloc(8), profile(65536, 524292))


def test_pausing_drops_no_sample(judge: Judge) -> None:
    judge(do.PauseSampling(), profile(512, 4100), do.ResumeSampling(), profile(512, 4100))


def test_what_counts_is_what_is_sampled_and_what_is_reported_is_the_class(blocks: Contract) -> None:
    """What gperftools does not heed: it samples classes, and unbiases what was requested."""
    contract = profiling(blocks, initial_period_bytes=4096)
    judge = judge_of(with_layout(contract, size_classes=(8, 16)))
    judge(do.Malloc(1), profile(512, 4100))


def by_weight(blocks: Contract) -> Contract:
    """TCMalloc's, with classes of 16, 32 and 64 bytes, and 15 bytes before the first sample."""
    rule = {"crosses": "beyond", "distances": "tcmalloc", "counts": "requested_plus_one"}
    contract = profiling(
        blocks,
        **rule,
        weights="passed",
        estimates="weight",
        first_bytes=(15, 0, 0),
        initial_period_bytes=4096,
    )
    return with_layout(contract, size_classes=(16, 32, 64))


def test_a_weight_stands_for_what_tcmalloc_makes_of_it(blocks: Contract) -> None:
    judge = judge_of(by_weight(blocks))
    judge(do.Malloc(20))
    weight = 4096 + 21 - 15 - 1
    size_bytes = int(weight * 32 / 21 + 0.5)
    judge(profile((size_bytes + 32 // 2) // 32, size_bytes))


@pytest.mark.slow
def test_on_average_weights_stand_for_all_that_was_allocated(blocks: Contract) -> None:
    judge = judge_of(by_weight(blocks))
    judge(do.EnableSampling(64))
    weights = 0
    for _ in range(BLOCKS):
        judge(do.Malloc(20))
        weights += sum(hit.weight for hit in judge.state.hits)
        judge(do.Free(0))
    # Five standard deviations, and some more: a weight is about 1 / chance blocks.
    chance = 1 - math.exp(-21 / 64)
    assert abs(weights / 21 - BLOCKS) < 5 * math.sqrt(BLOCKS / chance)


# Chance.

ONE = {"samples_per_allocation": "one", "surplus": "dropped"}


def at_random(contract: Contract, **rule: Any) -> Contract:
    """The same, with distances of which nothing is stated but that they are unbiased."""
    rules = attrs.evolve(contract.sampling, distances="random", **rule)
    return attrs.evolve(contract, sampling=rules, observes=("samples", "minors", "order"))


@pytest.fixture
def chance(contract: Contract) -> Judge:
    """A node and a string alternate, and a sample is expected of each 80 bytes."""
    judge = judge_of(at_random(contract))
    judge(do.EnableSampling(NODE_BYTES + STRING_BYTES))
    return judge


def alternate(judge: Judge, samples: tuple[int, int], rounds: int) -> None:
    """A node and a string in each round, with these numbers of samples."""
    for _ in range(rounds):
        for action, count in zip((NODE, STRING), samples, strict=True):
            judge(answer(action, samples=count), do.Free(0))


def test_a_fixed_stride_in_step_with_what_alternates_is_found(chance: Judge) -> None:
    with pytest.raises(Mismatch, match=r"^estimate: ") as raised:
        alternate(chance, (0, 1), rounds=1000)
    mismatch = raised.value
    assert (mismatch.oracle, mismatch.field, mismatch.direction) == ("estimate", "samples", "less")
    assert "every node; for their bytes" in mismatch.why


def test_a_few_rounds_in_step_may_be_chance(chance: Judge) -> None:
    # Of 99 nodes 39.6 samples are expected: that there is none has one chance in exp(39.6).
    alternate(chance, (0, 1), rounds=99)
    mismatch_in(chance, *[NODE] * 2)


def test_too_many_samples_are_found(chance: Judge) -> None:
    assert mismatch_in(chance, *[STRING, do.Free(0)] * 1000, samples=1).direction == "more"


def test_of_one_kind_each_size_is_judged_by_itself(chance: Judge) -> None:
    """Strings of 40 and 120 bytes: a sample each is as many as both together should take."""
    small, large = (do.AllocateString(length, nonmovable=True) for length in (40 - 25, 120 - 25))
    mismatch = mismatch_in(chance, *[small, do.Free(0), large, do.Free(0)] * 1000, samples=1)
    assert "of every string of 40 bytes" in mismatch.why


@pytest.mark.slow
@pytest.mark.parametrize("per_allocation", ["all", "one"])
def test_a_sampler_that_is_right_is_not_blamed(contract: Contract, per_allocation: str) -> None:
    """Each byte is sampled with one chance in a period, in 25 traces of 400 objects.

    That any of these 20,000 comparisons goes wrong has a chance below 20,000 exp(-40), 10^-13.
    """
    one = per_allocation == "one"
    for seed in range(25):
        random = Random(seed)
        judge = judge_of(at_random(contract, **(ONE if one else {})))
        period_bytes = 8 * random.randint(1, 30)
        judge(do.EnableSampling(period_bytes))
        ln_q = math.log(1 - 1 / period_bytes)
        for _ in range(400):
            action, size_bytes = random.choice(
                ((NODE, NODE_BYTES), (STRING, STRING_BYTES), (do.AllocateString(200), 225))
            )
            samples, at = 0, int(math.log(1 - random.random()) / ln_q)
            while at < size_bytes:
                samples, at = samples + 1, at + 1 + int(math.log(1 - random.random()) / ln_q)
            judge(answer(action, samples=min(samples, 1) if one else samples), do.Free(0))


def test_a_large_object_without_a_sample_is_found_with_one_sample_each(contract: Contract) -> None:
    """With a period of 8, 280 bytes take no sample with a chance of exp(-37), 336 of exp(-45)."""
    judge = judge_of(at_random(contract, **ONE))
    judge(do.EnableSampling(8), do.AllocateString(280 - 25))
    other = judge_of(at_random(contract, **ONE))
    other(do.EnableSampling(8))
    assert mismatch_in(other, do.AllocateString(336 - 25)).direction == "less"


def test_a_block_is_expected_to_be_sampled_by_what_it_counts(blocks: Contract) -> None:
    """What is requested counts, and each block has room for much more."""
    rule = {"counts": "requested", "first_bytes": (), "initial_period_bytes": 1000}
    judge = judge_of(at_random(with_layout(blocks, size_classes=(4096,)), **rule))
    random = Random(1)
    for _ in range(1000):
        judge(do.Malloc(100), samples=int(random.random() < 1 - (1 - 1 / 1000) ** 100))
        judge(do.Free(0))
    mismatch = mismatch_in(judge, *[do.Malloc(101), do.Free(0)] * 1000, samples=1)
    assert mismatch.why.startswith("of every block of 101 bytes")


def test_a_block_that_is_made_another_size_is_expected_to_be_sampled(blocks: Contract) -> None:
    judge = judge_of(at_random(blocks, first_bytes=()))
    judge(do.Malloc(100))
    with pytest.raises(Mismatch, match=r"^estimate: .*every block; for"):
        judge(*[do.Realloc(0, 100)] * 100)


def test_a_block_that_stays_is_not_expected_to_be_sampled(blocks: Contract) -> None:
    judge = judge_of(at_random(blocks, first_bytes=(), realloc="when_moved"))
    judge(do.Malloc(100), *[do.Realloc(0, 100)] * 1000)


def test_an_allocation_of_no_bytes_that_is_sampled_is_found_at_once(blocks: Contract) -> None:
    judge = judge_of(at_random(blocks, first_bytes=(), counts="requested"))
    assert judge.mismatch(do.Malloc(0), do.Malloc(0), samples=1).got == 1


def test_while_sampling_is_off_nothing_is_expected(contract: Contract) -> None:
    judge = judge_of(at_random(contract))
    alternate(judge, (0, 0), rounds=1000)
    judge(do.EnableSampling(80), do.PauseSampling())
    alternate(judge, (0, 0), rounds=1000)


def test_with_a_period_of_0_each_allocation_is_sampled(contract: Contract) -> None:
    from_0 = attrs.evolve(contract.sampling.period_bytes, minimum=0)
    judge = judge_of(at_random(contract, period_bytes=from_0))
    judge(do.EnableSampling(0))
    judge(NODE, STRING, samples=1)
    wrong = mismatch_in(judge, NODE)
    assert (wrong.expected, wrong.got) == (1, 0)


def test_what_a_callback_takes_is_not_taken_for_the_objects(chance: Judge) -> None:
    chance(do.SetCallback(0))
    for _ in range(1000):
        chance(answer(NODE, samples=3, minors=1, order="Msss"), do.Free(0))


def test_without_a_callback_an_object_that_collects_is_like_any_other(chance: Judge) -> None:
    mismatch_in(chance, *[NODE, do.Free(0)] * 1000, samples=3, minors=1, order="Msss")


def test_a_distance_that_was_drawn_for_another_period_is_not_judged(blocks: Contract) -> None:
    """The first of a million bytes is on its way, of which a period of 8 knows nothing."""
    judge = judge_of(at_random(blocks, first_bytes=(), initial_period_bytes=4096))
    judge(do.SetPeriod(8), *[do.Malloc(16), do.Free(0)] * 1000, do.EnableSampling(8))
    mismatch_in(judge, *[do.Malloc(16), do.Free(0)] * 1000)


def test_samples_are_expected_of_each_period_by_itself(chance: Judge) -> None:
    alternate(chance, (0, 0), rounds=60)
    chance(do.EnableSampling(2**30))
    alternate(chance, (0, 0), rounds=1000)
    # 60 nodes let expect 24, and 41 more the rest of 40.
    assert mismatch_in(chance, do.EnableSampling(80), *[NODE] * 41).expected == 40


# The bound.


def test_as_many_samples_as_are_expected_are_not_improbable() -> None:
    assert improbability(100, 100.0) == 0


@pytest.mark.parametrize(("samples", "expected"), [(0, 39.9), (100, 40.0), (100, 200.0)])
def test_what_has_some_chance_is_not_improbable(samples: int, expected: float) -> None:
    assert 0 < improbability(samples, expected) < IMPROBABLE


@pytest.mark.parametrize(("samples", "expected"), [(0, 40.1), (1, 0.0), (150, 60.0), (50, 150.0)])
def test_what_has_no_chance_is_improbable(samples: int, expected: float) -> None:
    assert improbability(samples, expected) > IMPROBABLE


@pytest.mark.parametrize(("trials", "chance"), [(100, 0.01), (200, 0.5), (1000, 0.05)])
def test_the_bound_is_above_the_probability_of_each_number(trials: int, chance: float) -> None:
    """By the binomial distribution itself, summed from each side."""
    masses = [
        math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)
    ]
    expected = trials * chance
    for samples in range(trials + 1):
        tail = sum(masses[samples:] if samples > expected else masses[: samples + 1])
        assert tail <= math.exp(-improbability(samples, expected)) * (1 + 1e-9)
        of_missed = improbability(trials - samples, trials - expected)
        assert tail <= math.exp(-improbability(samples, expected) - of_missed) * (1 + 1e-9)


def test_members_that_count_by_themselves_are_sampled_once_each(contract: Contract) -> None:
    """Two nodes of 32 bytes, nearly all of which are sampled with a period of 8."""
    layout = {"large_object_bytes": 72}
    grouping = attrs.evolve(with_layout(contract, **layout), groups=Groups(64, counted="each"))
    two = do.AllocateGroup((do.Member("node"), do.Member("node")))
    one, none = Observation(samples=1, order="s"), Observation()
    right, wrong = (
        [do.EnableSampling(8), *[answer(two, members=[one, other])] * 200] for other in (one, none)
    )
    Judge(at_random(grouping, **ONE))(*right)
    mismatch = mismatch_in(Judge(at_random(grouping, **ONE)), *wrong)
    assert (mismatch.oracle, mismatch.direction) == ("estimate", "less")


TWO_NODES = do.AllocateGroup((do.Member("node"), do.Member("node")))


def grouping(contract: Contract, sampled: Literal["first", "containing"], **rule: Any) -> Judge:
    """Groups of two nodes of 32 bytes; a sample is expected of each 64 bytes."""
    with_groups = attrs.evolve(
        with_layout(contract, large_object_bytes=72), groups=Groups(64, sampled=sampled)
    )
    judge = Judge(at_random(with_groups, **rule), EstimateOracle)
    judge(do.EnableSampling(64))
    return judge


def test_a_sampler_that_always_names_the_first_member_is_found(contract: Contract) -> None:
    wrong = [answer(TWO_NODES, samples=1, samples_by_member=[1, 0])] * 200
    mismatch = mismatch_in(grouping(contract, "containing"), *wrong)
    assert mismatch.field == "samples_by_member"
    assert "every node of 32 bytes in place 2 of a group" in mismatch.why
    grouping(contract, "first")(*wrong)


@pytest.mark.parametrize("per_allocation", ["all", "one"])
def test_a_sampler_that_names_the_right_member_is_not_blamed(
    contract: Contract, per_allocation: str
) -> None:
    one = per_allocation == "one"
    judge, random = grouping(contract, "containing", **(ONE if one else {})), Random(1)
    for _ in range(2000):
        sampled = [at for at in range(64) if random.random() < 1 / 64][: 1 if one else None]
        named = [sum(at < 32 for at in sampled), sum(at >= 32 for at in sampled)]
        judge(answer(TWO_NODES, samples=len(sampled), samples_by_member=named))
