"""Groups are drawn within the limits that a contract states, whatever they are."""

from __future__ import annotations

import attrs
import pytest
from changed_contracts import with_layout

from fuzz.drawing.members_drawn import allocate_group
from fuzz.drawing.situation import Situation
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.oracles import Bench
from fuzz.protocol.contract import Contract
from fuzz.protocol.groups import Groups

DRAWS = 300


@pytest.mark.parametrize(
    ("groups", "changed"),
    [
        pytest.param(Groups(64, 1, ("node", "array")), {}, id="one member"),
        pytest.param(Groups(100, 3, ("node", "array", "string")), {}, id="no whole words"),
        pytest.param(Groups(120, 3, ("array", "string")), {"object_bytes_max": 32}, id="small"),
        pytest.param(Groups(2**20, 64, ("array",)), {"large_object_bytes": 2**21}, id="many"),
    ],
)
def test_each_group_is_legal(groups: Groups, changed: dict[str, int], contract: Contract) -> None:
    layout = {"large_object_bytes": 128, **changed}
    grouping = attrs.evolve(
        with_layout(contract, **layout),
        groups=groups,
        actions=(*contract.actions, "allocate_group"),
        boundary_bytes=(groups.bytes_max,),
    )
    situation = Situation(grouping, Bench(grouping))
    for seed in range(DRAWS):
        group = allocate_group(situation, RandomChoices(str(seed)))
        assert why_illegal(group, grouping, situation.bench.shadow) is None
        assert all(member.length <= 2**20 for member in group.members)
