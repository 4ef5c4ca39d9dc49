"""The target `reference-groups`: one allocation of several objects, as compilers fold them.

One check reserves memory for all members of a group, and a sample names the member with the sampled
byte. With `fold` 0, each member is allocated by itself, as in code that is not compiled: the same
trace has the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from typing_extensions import override

from fuzz.protocol.actions import Action, AllocateGroup, Member
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.groups import Groups
from fuzz.protocol.observation import Observation
from fuzz.protocol.written import contents_of
from fuzz.targets.references.collector import SETTINGS, ReferenceTarget
from gcmodel import Heap, Kind
from gcmodel.collector.grouping import GroupingHeap, GroupingParts

LEAST_LARGE_BYTES = 73
"""Two nodes are small together."""
LARGER = {
    "nursery_bytes": Setting("nursery_bytes", 512, Range(128, 65536, 8)),
    "large_object_bytes": Setting(
        "large_object_bytes", 128, Range(LEAST_LARGE_BYTES, 65536), at_most="nursery_bytes"
    ),
}
FOLD = Setting("fold", 1, Range(0, 1), choices=(1, 1, 1, 0))
MEMBERS_MAX = 5
NAMED = "samples_by_member"
KINDS = {"node": Kind.NODE, "array": Kind.ARRAY, "string": Kind.STRING}


def _pair(member: Member) -> tuple[Kind, int]:
    return KINDS[member.kind], member.number if member.kind == "node" else member.length


def _allocate(heap: Heap, group: AllocateGroup) -> tuple[int, int]:
    assert isinstance(heap, GroupingHeap)
    return heap.allocate_group([*map(_pair, group.members)])


class GroupsTarget(ReferenceTarget):
    """A collector that allocates groups."""

    PARTS = GroupingParts()
    make_heap = GroupingHeap
    settings = (*(LARGER.get(each.name, each) for each in SETTINGS), FOLD)
    carry_out: Mapping[type[Action], Callable[[Heap, Any], Any]] = {
        **ReferenceTarget.carry_out,
        AllocateGroup: _allocate,
    }

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        self._folds = contract.groups is not None and contract.groups.counted == "as_one"
        return contract

    @override
    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        contract = attrs.evolve(super().contract_of(chosen), tier_setting=FOLD.name)
        bytes_max = (chosen["large_object_bytes"] - 1) // 8 * 8
        groups = Groups(bytes_max, MEMBERS_MAX, ("node", "array", "string"))
        if chosen["fold"]:
            return attrs.evolve(contract, groups=groups, observes=(*contract.observes, NAMED))
        return attrs.evolve(
            contract,
            groups=attrs.evolve(groups, counted="each"),
            observes=(*contract.observes, NAMED, "members"),
        )

    @override
    def _answer(self, action: Action, observation: Observation) -> None:
        if not (self._folds and isinstance(action, AllocateGroup)):
            super()._answer(action, observation)
        else:
            observation.size, at = self.carry_out[AllocateGroup](self._heap, action)
            observation.at, observation.outside = at, False
            observation.samples_by_member = self._named(at, len(action.members))
            self._fill(action)

    def _named(self, at: int, members: int) -> list[int]:
        """How many pending samples name each of the last members, the first of which lies there."""
        pending, address = self._heap.sampling.pending, self._heap.nursery.nursery_start + at
        named = []
        for obj in self._heap.roots[-members:]:
            named.append(pending.count(address))
            address += obj.size_bytes
        return named

    def _fill(self, action: AllocateGroup) -> None:
        """Write the contents of the strings among the last members."""
        members = action.members
        for slot, member in enumerate(members, len(self._heap.roots) - len(members)):
            if member.kind == "string":
                self._strings += 1
                self._heap.write_contents(slot, contents_of(self._strings, member.length))
