"""Counting by retired buffers: the object that begins a buffer is a sample (JFR).

(OpenJDK, jfrObjectAllocationSample.cpp, memAllocator.cpp, threadLocalAllocBuffer.cpp.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs

from fuzz.protocol.counting.buffers import ThreadBuffers
from fuzz.protocol.counting.limits import Count
from fuzz.protocol.counting.way import ONE_DRAW, SAMPLES, StatedContract


@attrs.frozen
class RetiredBuffers(ThreadBuffers):
    """Each thread allocates in a buffer of the nursery, which counts when it is retired.

    The object that begins the next buffer is a sample with all bytes since the last one as its
    weight. An object outside is one if these reach the period. docs/sampling-rules.md has the
    complete rule.
    """

    by = "retired_buffers"
    needs: ClassVar = {
        "distances": "period",
        "crosses": "at",
        "weights": "since",
        "enabling": "draws",
        "paused": "stopped",
        **ONE_DRAW,
    }
    excludes = frozenset({"limit", "offsets", "set_callback"})

    birth_bytes: Count = 0
    """What a new thread allocates by itself. It counts, but is never a sample."""
    sizes: Literal["stated", "reported"] = "stated"
    """`stated`: a new buffer has `desired_bytes` and the object that begins it; `reported`: the
    observation's `buffer` has its size, up to the reserve."""
    enabling_counts: Literal["rest", "all"] = "rest"
    """`rest`: enabling leaves the count alone; `all`: it counts all bytes since the thread began,
    as if there had been no sample."""

    @property
    def needs_observed(self) -> tuple[str, ...]:
        buffer = ("buffer",) if self.sizes == "reported" else ()
        return ("samples", "weights", "minors", *buffer)

    def left_to_chance(self, has_births: bool) -> tuple[str, ...]:
        """A buffer whose size is reported may have another one the next time."""
        return (*SAMPLES, "buffer") if self.sizes == "reported" else ()

    def problems(self, contract: StatedContract) -> Iterator[str]:
        layout = contract.layout
        if layout.object_bytes_max >= layout.large_object_bytes or layout.nonmovable == "outside":
            yield (
                "counting by retired_buffers needs objects that all lie in the nursery: nonmovable"
                " ignored, and object_bytes_max below large_object_bytes"
            )
