"""Objects that are several blocks, each with a check of its own."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from changed_contracts import with_layout, with_rule
from judging import Judge, answer

from fuzz.protocol.actions import AllocateArray, EnableSampling, PauseSampling
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import KindLayout, PartLayout

ARRAY = KindLayout(3, 56, 8, (PartLayout(24, 8), PartLayout(32)))
TWO_BLOCKS = AllocateArray(1)  # 32 bytes each
ONE_DRAW: dict[str, Any] = {"surplus": "dropped", "samples_per_allocation": "one"}


@pytest.fixture
def parted(contract: Contract) -> Contract:
    kinds = {**contract.layout.kinds, "array": ARRAY}
    observed = attrs.evolve(contract, observes=("minors", "samples", "size", "order"))
    return with_layout(with_rule(observed, **ONE_DRAW), kinds=kinds)


def test_each_part_counts_by_itself(parted: Contract) -> None:
    judge = Judge(parted)
    judge(EnableSampling(24))
    assert judge.verdict(TWO_BLOCKS, samples=2, size=64, order="ss") is None
    mismatch = judge.mismatch(TWO_BLOCKS, samples=1, size=64, order="s")
    assert (mismatch.field, mismatch.expected) == ("samples", 2)
    assert "the parts of the array take 32 and 32" in mismatch.why


def test_an_object_costs_what_its_parts_cost(parted: Contract) -> None:
    assert Judge(parted).mismatch(TWO_BLOCKS, size=56).expected == 64


def test_a_part_may_be_large(parted: Contract) -> None:
    """The items of 64 bytes lie outside."""
    judge = Judge(parted)
    judge(AllocateArray(5), size=96)
    assert judge.state.nursery_used_bytes == 32


def test_the_samples_of_each_part_are_those_that_a_pause_leaves_out(parted: Contract) -> None:
    judge = Judge(with_rule(parted, paused="counting"))
    judge(EnableSampling(24), PauseSampling(), answer(TWO_BLOCKS, size=64))
    assert judge.state.unrecorded == 2


def test_chance_samples_each_part(parted: Contract) -> None:
    """Nearly all blocks of 32 bytes are sampled with a period of 8."""
    random = with_rule(parted, distances="random")
    steps = EnableSampling(8), *[answer(TWO_BLOCKS, samples=2, size=64, order="ss")] * 200
    Judge(random)(*steps)
    wrong = answer(TWO_BLOCKS, samples=1, size=64, order="s")
    judge = Judge(random)
    judge(EnableSampling(8))
    with pytest.raises(Exception, match=r"^estimate: samples: "):
        judge(*[wrong] * 200)
