"""What a target promises about one allocation of several objects, a group.

Compilers fold neighbouring allocations into one reservation: one check against the limit, and one
size that the sampler counts. The members lie side by side. Invariant: a group is never divided. It
takes at most `bytes_max`, and a collection comes before its first member. But a system that does
not fold counts and answers each member as if it had been allocated by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import attrs

from fuzz.protocol.counting.limits import Limits
from fuzz.protocol.counting.way import StatedContract

MEMBERS = Limits(1, 64)
"""How many members a group may have."""
BYTES = Limits(1, 2**20)
"""What all members may take. The shadow heap has each item of an array."""
MemberKind = Literal["node", "string", "array"]
"""The kinds of objects that a group may have: those without references to others."""


@attrs.frozen
class Groups:
    """How large a group may be, how it counts, and which of its objects a sample names."""

    bytes_max: Annotated[int, BYTES]
    """What all members may take, each rounded up to words."""
    members_max: Annotated[int, MEMBERS] = 2
    kinds: tuple[MemberKind, ...] = ("node",)
    counted: Literal["as_one", "each"] = "as_one"
    """A group counts `as_one` allocation of all its bytes. Or `each` member is an allocation of its
    own, with an answer of its own in `members`, as in a system that does not fold."""
    sampled: Literal["containing", "first"] = "containing"
    """A sample names the member `containing` the sampled byte (Jung and Bolz-Tereick, Low Overhead
    Allocation Sampling in a Garbage Collected Virtual Machine, section 3.5), or always the `first`
    one (PyPy's sampling branch under its JIT, V8's TurboFan). The named member decides what is
    reported: its type, and whether it survived."""

    def problems(self, contract: StatedContract) -> Iterator[str]:
        """What is wrong with a contract that has it, each in a sentence."""
        layout = contract.layout
        if not self.kinds:
            yield "groups.kinds is empty"
        for kind in self.kinds:
            if kind not in layout.kinds:
                yield f"groups.kinds lists {kind}, but layout has no kind {kind!r}"
            elif (least_bytes := layout.cost(kind, 0, nonmovable=False)[0]) > self.bytes_max:
                most = f"groups.bytes_max is {self.bytes_max}"
                yield f"{most}, but the least {kind} takes {least_bytes}"
            if self.counted == "as_one" and kind in layout.kinds and layout.kinds[kind].parts:
                yield f"groups.kinds lists {kind}, which has parts, so it is never counted as_one"
        if self.bytes_max >= layout.large_object_bytes:
            yield (
                f"groups.bytes_max is {self.bytes_max}; it must be below large_object_bytes, "
                f"{layout.large_object_bytes}, since a group lies in the nursery"
            )
        if self.counted == "as_one" and self.bytes_max > contract.nursery_bytes:
            yield (
                f"groups.bytes_max is {self.bytes_max}; it must be at most nursery_bytes, "
                f"{contract.nursery_bytes}, where a group counts as_one"
            )
        if self.counted == "each" and self.sampled == "first":
            yield "groups counted each are sampled containing, since no member counts for another"
