"""The members oracle: which member of a group a sample names."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import pytest
from judging import Judge, answer

from fuzz.oracles import Bench
from fuzz.oracles.excluded import excluded_for
from fuzz.protocol.actions import (
    AllocateGroup,
    AllocateNode,
    EnableSampling,
    Member,
    PauseSampling,
    SetCallback,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.groups import Groups
from fuzz.protocol.observation import Observation

NODE = Member("node")
TWO = AllocateGroup((NODE, NODE))  # 32 bytes each
EVERY_40, EVERY_16 = EnableSampling(40), EnableSampling(16)


def judge(
    contract: Contract,
    sampled: Literal["first", "containing"] = "containing",
    counted: Literal["as_one", "each"] = "as_one",
    **rule: Any,
) -> Judge:
    return Judge(grouping(contract, sampled, counted, **rule))


def grouping(
    contract: Contract,
    sampled: Literal["first", "containing"] = "containing",
    counted: Literal["as_one", "each"] = "as_one",
    **rule: Any,
) -> Contract:
    return attrs.evolve(
        contract,
        groups=Groups(64, 2, counted=counted, sampled=sampled),
        layout=attrs.evolve(contract.layout, large_object_bytes=72),
        actions=(*contract.actions, "allocate_group"),
        observes=("minors", "samples", "order", "samples_by_member"),
        sampling=attrs.evolve(contract.sampling, **rule),
    )


def test_the_member_with_the_sampled_byte_is_named(contract: Contract) -> None:
    assert (
        judge(contract).verdict(EVERY_40, TWO, samples=1, order="s", samples_by_member=[0, 1])
        is None
    )


def test_another_member_is_a_mismatch(contract: Contract) -> None:
    named = judge(contract).mismatch(EVERY_40, TWO, samples=1, order="s", samples_by_member=[1, 0])
    assert (named.oracle, named.expected, named.got) == ("members", [0, 1], [1, 0])
    assert (
        named.why
        == "each sample names the member with the sampled byte; the members take 32, 32 bytes"
    )


def test_the_first_member_is_named_where_the_contract_says_so(contract: Contract) -> None:
    of_first = judge(contract, "first")
    assert of_first.verdict(EVERY_16, TWO, samples=3, order="sss", samples_by_member=[3, 0]) is None
    named = judge(contract, "first").mismatch(
        EVERY_16, TWO, samples=3, order="sss", samples_by_member=[1, 2]
    )
    assert named.why.startswith("each sample names the first member")


def each_with(*samples: int) -> dict[str, Any]:
    """The answers of members that count by themselves."""
    return {"members": [Observation(samples=each, order="s" * each) for each in samples]}


def test_several_members_are_named_for_several_samples(contract: Contract) -> None:
    of_all = judge(contract)
    assert of_all.verdict(EVERY_16, TWO, samples=3, order="sss", samples_by_member=[1, 2]) is None
    each = judge(contract, counted="each")
    assert each.verdict(EVERY_16, TWO, **each_with(1, 2)) is None


def test_a_member_that_counts_by_itself_is_named_in_a_mismatch(contract: Contract) -> None:
    mismatch = judge(contract, counted="each").mismatch(EVERY_16, TWO, **each_with(1, 1))
    assert (mismatch.oracle, mismatch.field, mismatch.expected) == ("sampling", "samples", 2)
    assert mismatch.why.startswith("member 2: ")


@pytest.mark.parametrize("answers", [{}, {"samples": 2}, each_with(1)])
def test_each_member_that_counts_by_itself_has_an_answer(
    answers: dict[str, Any], contract: Contract
) -> None:
    mismatch = judge(contract, counted="each").mismatch(EVERY_16, TWO, **answers)
    assert (mismatch.field, mismatch.expected) == ("members", "2 answers")


@pytest.mark.parametrize(
    ("counted", "answers"), [("as_one", {"samples_by_member": [0, 0]}), ("each", each_with(0, 0))]
)
def test_objects_have_the_names_of_their_places_in_the_group(
    counted: Literal["as_one", "each"], answers: dict[str, Any], contract: Contract
) -> None:
    group = judge(contract, counted=counted)
    group(answer(TWO, **answers), AllocateNode(0))
    assert [obj.name for obj in group.shadow.roots] == ["#1.1", "#1.2", "#2"]


def test_what_was_counted_before_brings_the_sample_nearer(contract: Contract) -> None:
    after_node = judge(contract)
    after_node(EVERY_40, AllocateNode(0))
    assert after_node.verdict(TWO, samples=2, order="ss", samples_by_member=[1, 1]) is None


def test_each_member_has_its_number(contract: Contract) -> None:
    assert judge(contract).mismatch(TWO, samples_by_member=[0]).expected == "2 numbers"
    assert judge(contract).mismatch(TWO).got is None


def test_an_action_without_members_has_none(contract: Contract) -> None:
    assert judge(contract).mismatch(AllocateNode(0), samples_by_member=[0]).expected is None


def test_where_distances_are_not_stated_the_members_have_the_samples(contract: Contract) -> None:
    unstated = judge(contract, distances="unstated")
    answer = {"samples": 2, "order": "ss"}
    assert unstated.verdict(EVERY_40, TWO, **answer, samples_by_member=[2, 0]) is None
    assert unstated.mismatch(TWO, **answer, samples_by_member=[1, 0]).expected == 2


@pytest.mark.parametrize(
    ("sampled", "got", "expected"),
    [("containing", [3, -1], "at least 0 each"), ("first", [1, 1], [2, 0])],
)
def test_what_holds_for_any_distances_is_judged_without_them(
    sampled: Literal["first", "containing"], got: list[int], expected: object, contract: Contract
) -> None:
    unstated = judge(contract, sampled, distances="unstated")
    answer = {"samples": 2, "order": "ss"}
    assert unstated.mismatch(EVERY_40, TWO, **answer, samples_by_member=got).expected == expected


def test_no_more_samples_name_members_than_there_are(contract: Contract) -> None:
    called = judge(contract, distances="unstated")
    called(SetCallback(23), EVERY_40)
    answer: dict[str, Any] = {"samples": 2, "minors": 1, "order": "Mss"}
    assert called.verdict(TWO, **answer, samples_by_member=[0, 1]) is None
    assert called.mismatch(TWO, **answer, samples_by_member=[2, 1]).got == 3


def test_where_samples_are_excluded_their_members_are_not_judged(contract: Contract) -> None:
    bench = Bench(grouping(contract), excluded_for("samples"))
    bench.judge(EVERY_40, Observation())
    bench.judge(TWO, Observation(samples=2, order="ss", samples_by_member=[2, 0]))


def test_a_wrong_number_of_members_is_no_error_of_survival(contract: Contract) -> None:
    """The field is excluded, so that the oracle after this one gets the wrong answer."""
    unstated = grouping(contract, distances="unstated")
    bench = Bench(
        attrs.evolve(unstated, observes=(*unstated.observes, "reports")), ["samples_by_member"]
    )
    bench.judge(EVERY_40, Observation())
    bench.judge(TWO, Observation(samples=2, order="ss", samples_by_member=[2]))


ONE_DRAW: dict[str, Any] = {
    "distances": "geometric",
    "seeds": (1,),
    "surplus": "dropped",
    "samples_per_allocation": "one",
}


def test_members_that_count_by_themselves_have_distances_of_their_own(contract: Contract) -> None:
    each = judge(contract, counted="each", **ONE_DRAW)
    each(EnableSampling(8))
    each(TWO, **each_with(1, 1))
    assert each.state.offsets[0] < 32


def test_the_samples_of_each_member_are_those_that_a_pause_leaves_out(contract: Contract) -> None:
    paused = judge(contract, counted="each", paused="counting")
    paused(EVERY_16, PauseSampling())
    paused(TWO, **each_with(0, 0))
    assert paused.state.unrecorded == 2  # Those of the last member.


def test_the_samples_of_a_callback_name_no_member(contract: Contract) -> None:
    """The group does not fit: a collection comes, then the string of 48 bytes with byte 40."""
    called = judge(contract)
    called(SetCallback(23), *[AllocateNode(0)] * 7, EVERY_40)
    answer: dict[str, Any] = {"samples": 2, "minors": 1, "order": "Mss"}
    assert called.verdict(TWO, **answer, samples_by_member=[0, 1]) is None


def test_samples_before_and_after_a_callback_name_members(contract: Contract) -> None:
    """Two sample points are passed before the group is found not to fit, and one after it."""
    called = judge(contract)
    called(SetCallback(7), *[AllocateNode(0)] * 7, EnableSampling(24))
    answer: dict[str, Any] = {"samples": 3, "minors": 1, "order": "ssMs"}
    assert called.verdict(TWO, **answer, samples_by_member=[1, 2]) is None
