"""The tiers of v8: the interpreter and each compiler allocate the same trace."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from night import fresh, part_of
from target_helpers import Changed, changed, first_failure
from v8_targets import changed_target, node_program

from fuzz.protocol import actions as do
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import KindLayout
from fuzz.protocol.target import FullTarget, full
from fuzz.run import Run, run_actions
from fuzz.targets import TargetOptions, make_target

pytestmark = pytest.mark.slow
IGNITION, SPARKPLUG, _, TURBOFAN = range(4)
IN_NODE_20 = IGNITION, SPARKPLUG, TURBOFAN
COMPILE = "  if (ask) functions.forEach((maker) => ask(maker));\n"
MAKE_NODE = "case NODE: place(makers.node(a)); break;"
DEOPTIMIZE = f"""{MAKE_NODE.removesuffix("break;")}
  if (numbers[a] === "77") new Function("f", "%DeoptimizeFunction(f)")(makers.array);
  break;"""


@cache
def target() -> FullTarget:
    """It keeps its processes from test to test."""
    return full(make_target("v8", TargetOptions(paths={"node": Path(node_program())})))


@pytest.mark.parametrize("tier", IN_NODE_20)
def test_a_session_in_each_tier_has_no_failure(tier: int) -> None:
    in_tier = Changed(target(), tier=tier)
    assert first_failure(in_tier, part_of(3000), fresh("1")) is None
    assert in_tier.samples > part_of(300)


# The tier is proved.


@pytest.mark.parametrize("tier", [SPARKPLUG, TURBOFAN])
def test_a_trace_fails_if_a_function_is_not_compiled(tier: int, tmp_path: Path) -> None:
    mistaken = changed_target(tmp_path, node_program(), COMPILE, "")
    failure = run_actions(mistaken, {"tier": tier}, [do.AllocateNode(1), do.AllocateNode(2)])
    assert failure is not None
    assert "node did not run in" in failure.message
    assert run_actions(mistaken, {"tier": IGNITION}, [do.AllocateNode(1)]) is None


def test_machine_code_that_becomes_invalid_is_an_error(tmp_path: Path) -> None:
    mistaken = changed_target(tmp_path, node_program(), MAKE_NODE, DEOPTIMIZE)
    assert run_actions(mistaken, {"tier": TURBOFAN}, [do.AllocateNode(1)]) is None
    failure = run_actions(mistaken, {"tier": TURBOFAN}, [do.AllocateNode(77)])
    assert failure is not None
    assert failure.message.endswith("array did not run in Turbofan")


# Where tiers differ.


def samples_of(tier: int, *actions: do.Action) -> list[int]:
    """The samples of the actions, as the oracles predict them."""
    run = Run(target(), {"tier": tier})
    run.announce(actions)
    return [run.step(action).samples for action in actions]


@pytest.mark.parametrize(("tier", "blocks"), [(IGNITION, 1), (SPARKPLUG, 1), (TURBOFAN, 2)])
def test_machine_code_allocates_an_array_as_two_blocks(tier: int, blocks: int) -> None:
    assert samples_of(tier, do.EnableSampling(8), do.AllocateArray(50))[1] == blocks


PAIR = do.AllocateGroup((do.Member("node", 1), do.Member("node", 2)))
TRIPLE = do.AllocateGroup((*PAIR.members, do.Member("node", 3)))


@pytest.mark.parametrize(("tier", "pair", "triple"), [(IGNITION, 2, 3), (TURBOFAN, 1, 1)])
def test_turbofan_folds_neighbours(tier: int, pair: int, triple: int) -> None:
    assert samples_of(tier, do.EnableSampling(8), PAIR, TRIPLE)[1:] == [pair, triple]


def test_the_members_of_a_group_are_read_and_written() -> None:
    long = do.AllocateGroup((do.Member("node"), do.Member("node", 2**62 + 1)))
    trace = (long, do.Write(0, 1, 1), do.ReadNumber(0), do.ReadNumber(1), do.Read(0, 1))
    for tier in IN_NODE_20:
        run = Run(target(), {"tier": tier})
        run.announce(trace)
        assert [run.step(action).value for action in trace] == [None, None, 0, 2**62 + 1, 1]


# Who lives on: docs/findings/v8/folded-objects.md.


@cache
def documented() -> FullTarget:
    options = TargetOptions(paths={"node": Path(node_program())})
    return full(make_target("v8-as-documented", options))


def pairs(count: int) -> list[do.Action]:
    """A sample of these names a node that lives as long as the sample does."""
    return [do.EnableSampling(64), *[PAIR] * count]


def test_a_folded_object_that_is_reported_by_the_first_one_is_found() -> None:
    failure = run_actions(documented(), {"tier": TURBOFAN}, pairs(20))
    assert failure is not None
    assert failure.message.startswith("members: samples_by_member: expected [0, 1], got [1, 0]")
    assert run_actions(documented(), {"tier": SPARKPLUG}, pairs(20)) is None


def _by_chance(contract: Contract) -> Contract:
    """Nothing states which byte is sampled, so only the estimate oracle can judge lifetimes."""
    observes = ("samples", "members" if contract.counts_members else "samples_by_member")
    return changed(
        contract, distances="random", enabling="draws", weights="none", observes=observes
    )


def test_lifetimes_alone_show_that_samples_live_with_the_first_object() -> None:
    trace = pairs(400)
    failure = run_actions(Changed(documented(), _by_chance), {"tier": TURBOFAN}, trace)
    assert failure is not None
    assert (failure.oracle, failure.got) == ("estimate", "0")
    assert "of every node of 48 bytes in place 2 of a group" in failure.message


def test_lifetimes_are_right_where_the_first_is_stated_or_nothing_is_folded() -> None:
    first = Changed(target(), _by_chance)
    assert run_actions(first, {"tier": TURBOFAN}, pairs(400)) is None
    for tier in (IGNITION, SPARKPLUG):
        unfolded = Changed(documented(), _by_chance)
        assert run_actions(unfolded, {"tier": tier}, pairs(400)) is None


def _with(contract: Contract, **kinds: KindLayout) -> Contract:
    return changed(contract, kinds={**contract.layout.kinds, **kinds})


def _one_block(contract: Contract) -> Contract:
    return _with(contract, array=attrs.evolve(contract.layout.kinds["array"], parts=()))


def _object_first(contract: Contract) -> Contract:
    array = contract.layout.kinds["array"]
    return _with(contract, array=attrs.evolve(array, parts=array.parts[::-1]))


def _no_header_of_items(contract: Contract) -> Contract:
    array = contract.layout.kinds["array"]
    items, itself = array.parts
    parts = attrs.evolve(items, fixed_bytes=16), attrs.evolve(itself, fixed_bytes=40)
    return _with(contract, array=attrs.evolve(array, parts=parts))


def _node_of(size_bytes: int, contract: Contract) -> Contract:
    return _with(contract, node=attrs.evolve(contract.layout.kinds["node"], fixed_bytes=size_bytes))


def _groups(contract: Contract, **keys: Any) -> Contract:
    assert contract.groups is not None
    return changed(contract, groups=attrs.evolve(contract.groups, **keys))


MISTAKES = {
    "folded, but counted each": (TURBOFAN, lambda contract: _groups(contract, counted="each")),
    "not folded, but as one": (SPARKPLUG, lambda contract: _groups(contract, counted="as_one")),
    "not the first": (TURBOFAN, lambda contract: _groups(contract, sampled="containing")),
    "one block": (TURBOFAN, _one_block),
    "the object before its items": (TURBOFAN, _object_first),
    "parts of other sizes": (TURBOFAN, _no_header_of_items),
    "nodes as in the interpreter": (TURBOFAN, lambda contract: _node_of(64, contract)),
    "nodes as in machine code": (SPARKPLUG, lambda contract: _node_of(48, contract)),
    "four members": (TURBOFAN, lambda each: _groups(each, members_max=4, bytes_max=192)),
    "arrays as members": (TURBOFAN, lambda each: _groups(each, kinds=("node", "array"))),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_contract_of_a_tier_is_found(mistake: str) -> None:
    tier, change = MISTAKES[mistake]
    failure = first_failure(Changed(target(), change, tier=tier), 3000)
    assert failure is not None
    # The mutator has no function for four.
    oracles = {"heap"} if mistake == "four members" else {"sampling", "members"}
    assert failure.oracle in oracles
