"""Whether a trace means the same under another contract: only what it uses matters."""

from typing import Any

import attrs
import pytest

from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.agreement import BLOCK_FIELDS, RULE_FIELDS, disagreement
from fuzz.protocol.contract import Contract, Prebuilt, SamplingRule
from fuzz.protocol.counting import Contexts
from fuzz.protocol.groups import Groups
from fuzz.protocol.layout import KindLayout
from fuzz.protocol.trace import VERSION, Header, Trace

OTHER: dict[str, Any] = {
    "counts": "requested",
    "crosses": "at",
    "surplus": "carried",
    "samples_per_allocation": "all",
    "counting": Contexts(64),
    "paused": "counting",
    "distances": "tcmalloc",
    "enabling": "keeps",
    "seeds": (1, 2, 4),
    "initial_period_bytes": 200,
    "first_bytes": (50, 60, 71),
}
"""Another value for each field of the allocator's rule that says when an allocation is sampled."""


def recorded_contract(contract: Contract, *actions: Action) -> Trace:
    return Trace(Header(VERSION, "reference", contract=contract), actions)


def with_rule(contract: Contract, **changes: Any) -> Contract:
    return attrs.evolve(contract, sampling=attrs.evolve(contract.sampling, **changes))


def with_layout(contract: Contract, **changes: Any) -> Contract:
    return attrs.evolve(contract, layout=attrs.evolve(contract.layout, **changes))


def test_a_trace_that_says_nothing_of_its_contract_means_the_same(blocks: Contract) -> None:
    trace = Trace(Header(VERSION, "reference"), (do.Malloc(9),))
    assert disagreement(trace, blocks) is None


def test_under_its_own_contract_a_trace_means_the_same(blocks: Contract) -> None:
    assert disagreement(recorded_contract(blocks, do.Malloc(9)), blocks) is None


def test_the_difference_is_reported(blocks: Contract) -> None:
    other = with_rule(blocks, counts="requested")
    assert disagreement(recorded_contract(blocks, do.Malloc(9)), other) == (
        'the trace was made under a contract with counts "size"; here it is "requested"'
    )


@pytest.mark.parametrize("field", RULE_FIELDS)
def test_where_sampling_is_on_from_the_start_each_part_of_its_rule_matters(
    blocks: Contract, field: str
) -> None:
    problem = disagreement(recorded_contract(blocks), with_rule(blocks, **{field: OTHER[field]}))
    assert problem is not None
    assert f"with {field} " in problem


OF_JUDGING = {"estimates", "weights", "own_bytes", "setting_period"}
OF_ROOMS = {"realloc"}
OF_LEGALITY = {"period_bytes", "periods", "disabling", "pinning"}


def test_every_part_of_a_rule_matters_or_is_one_of_what_may_be_asked_or_is_said() -> None:
    fields = {field.name for field in attrs.fields(SamplingRule)}
    assert {*RULE_FIELDS} | OF_JUDGING | OF_ROOMS | OF_LEGALITY == fields


def test_how_blocks_are_resized_matters_where_one_is_and_sampling_or_not(blocks: Contract) -> None:
    off = with_rule(blocks, initial_period_bytes=0)
    other = with_rule(off, realloc="when_moved")
    problem = disagreement(recorded_contract(off, do.Malloc(9), do.Realloc(0, 8)), other)
    assert problem is not None
    assert "with realloc " in problem
    assert disagreement(recorded_contract(off, do.Malloc(9)), other) is None


def test_where_sampling_is_on_from_the_start_only_here_it_matters(blocks: Contract) -> None:
    off = with_rule(blocks, initial_period_bytes=0)
    problem = disagreement(recorded_contract(off, do.Malloc(9)), blocks)
    assert problem is not None
    assert "initial_period_bytes 0; here it is 100" in problem


@pytest.mark.parametrize("field", sorted({*RULE_FIELDS} - {"initial_period_bytes"}))
def test_where_sampling_is_never_on_its_rule_does_not_matter(blocks: Contract, field: str) -> None:
    off = with_rule(blocks, initial_period_bytes=0)
    other = with_rule(off, **{field: OTHER[field]})
    assert disagreement(recorded_contract(off, do.Malloc(9)), other) is None
    assert disagreement(recorded_contract(off, do.EnableSampling(8)), other) is not None


@pytest.mark.parametrize(
    ("field", "other"), [*zip(BLOCK_FIELDS, [(8, 16), 4096, 8, True], strict=True)]
)
def test_the_room_of_blocks_matters_where_there_are_some(
    blocks: Contract, field: str, other: object
) -> None:
    changed = with_layout(blocks, **{field: other})
    problem = disagreement(recorded_contract(blocks, do.Malloc(9), do.Free(0)), changed)
    assert problem is not None
    assert f"with {field} " in problem
    assert disagreement(recorded_contract(blocks), changed) is None


@pytest.mark.parametrize(
    ("action", "kind"),
    [(do.AllocateString(1), "string"), (do.SetCallback(1), "string"), (do.AllocateNode(1), "node")],
    ids=str,
)
def test_what_a_kind_costs_matters_where_there_are_objects_of_it(
    contract: Contract, action: Action, kind: str
) -> None:
    kinds = {**contract.layout.kinds, kind: KindLayout(4, 8, 1)}
    changed = with_layout(contract, kinds=kinds)
    problem = disagreement(recorded_contract(contract, action), changed)
    assert problem is not None
    assert f"with {kind} " in problem
    assert disagreement(recorded_contract(contract, do.Free(0)), changed) is None


def test_what_is_prebuilt_always_matters(contract: Contract) -> None:
    assert (
        disagreement(recorded_contract(contract), attrs.evolve(contract, prebuilt=())) is not None
    )
    changed = attrs.evolve(contract, prebuilt=(Prebuilt("node"), Prebuilt("array", 5)))
    assert disagreement(recorded_contract(contract), changed) is not None


def test_the_size_of_the_nursery_does_not_matter(contract: Contract) -> None:
    changed = attrs.evolve(contract, nursery_bytes=512)
    assert (
        disagreement(recorded_contract(contract, do.AllocateNode(1), do.EnableSampling(8)), changed)
        is None
    )


# Groups.

GROUP = do.AllocateGroup((do.Member("node"), do.Member("array")))


@pytest.mark.parametrize("kind", ["node", "array"])
def test_what_the_members_of_a_group_cost_matters(contract: Contract, kind: str) -> None:
    kinds = {**contract.layout.kinds, kind: KindLayout(1, 80, 8)}
    problem = disagreement(recorded_contract(contract, GROUP), with_layout(contract, kinds=kinds))
    assert problem is not None
    assert f"with {kind} " in problem


def test_whom_a_sample_names_matters_where_a_group_is_sampled(contract: Contract) -> None:
    then = attrs.evolve(contract, groups=Groups(56))
    now = attrs.evolve(contract, groups=Groups(56, sampled="first"))
    assert disagreement(recorded_contract(then, do.EnableSampling(8), GROUP), now) == (
        'the trace was made under a contract with groups.sampled "containing"; here it is "first"'
    )
    assert disagreement(recorded_contract(then, do.EnableSampling(8)), now) is None
    assert disagreement(recorded_contract(then, GROUP), now) is None


@pytest.mark.parametrize(
    ("rule", "matters"), [({}, False), ({"surplus": "dropped"}, True)], ids=str
)
def test_how_a_group_counts_matters_where_a_sample_drops_the_surplus(
    contract: Contract, rule: dict[str, Any], matters: bool
) -> None:
    then = with_rule(attrs.evolve(contract, groups=Groups(56)), **rule)
    now = attrs.evolve(then, groups=Groups(56, counted="each"))
    problem = disagreement(recorded_contract(then, do.EnableSampling(8), GROUP), now)
    assert (problem is not None) is matters
