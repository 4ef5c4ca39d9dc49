"""What a target promises about a heap that is full.

An action that fails for lack of memory answers `exhausted`. It has collected, and nothing else: it
appends no slot, and takes no sample for an object that was not allocated, except one that was taken
before it collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import attrs

from fuzz.protocol.counting.limits import Count, Limits, Positive
from fuzz.protocol.counting.way import StatedContract


@attrs.frozen
class Exhaustion:
    """When an action may be exhausted, when it must be, and how often."""

    heap_bytes_max: Positive
    """An action may be exhausted only if living objects take more, with the object that it
    allocates. Objects that died since the last full collection count too, if it does not collect
    fully."""
    overshoot_bytes: Count = 0
    """Living objects never take more than `heap_bytes_max` and this."""
    found_by: Literal["allocations", "major_collections"] = "allocations"
    """`allocations`: if there is no room for an object, its allocation collects fully, and is
    exhausted if there is still none. `major_collections`: the end of each major collection compares
    what is used, so that a collection may be exhausted too, and an allocation may overshoot until a
    full collection. After an action that was exhausted none is in progress."""
    survivable: Annotated[int | None, Limits(0)] = None
    """How often a trace may be exhausted before the target ends; None: any number of times."""
    soft: bool = False
    """Whether weak references may keep their objects alive until an action is exhausted."""

    def problems(self, contract: StatedContract) -> Iterator[str]:
        """What is wrong with a contract that has it, each in a sentence."""
        if "block" in contract.layout.kinds:
            yield "exhaustion cannot be stated for blocks"
        if contract.batch:
            yield "batch cannot be true with exhaustion, since legality depends on answers"
