"""What all ways to count have in common: what the generic parts may ask of one.

Invariant: no generic part names a way, or a key of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import attrs

if TYPE_CHECKING:
    from fuzz.protocol.contract import Contract

ONE_DRAW = "surplus must be dropped, samples_per_allocation one"
SAMPLES = ("samples", "profile", "offsets", "weights")
"""The fields of observations that depend on which distances are drawn."""


@attrs.frozen
class Way:
    """A way to count bytes. Its class attributes and methods hold for most ways."""

    by: ClassVar[str]
    """Its name in contracts, of its module, and of its clock's module."""
    has_local_buffers: ClassVar[bool] = False
    """Whether each thread allocates in a part of the nursery of its own."""

    local_buffers_end_distances: ClassVar[bool] = False
    """Whether a distance ends where its thread's part of the nursery does, and begins with it."""

    shows_local_buffers: ClassVar[bool] = False
    """Whether an observation's `tlab` can show that part."""

    counts_frees: ClassVar[bool] = False
    """Whether what is freed counts."""

    @property
    def edge_bytes(self) -> tuple[int, ...]:
        """The counted bytes of allocations at which it behaves differently."""
        return ()

    @property
    def samples_before_collecting(self) -> bool:
        """Whether an allocation that collects is sampled before it does."""
        return False

    @property
    def predicts_places(self) -> bool:
        """Whether it follows where an object lies in its thread's part of the nursery."""
        return False

    @property
    def births_reseed(self) -> bool:
        """Whether a thread that begins starts a generator from the observation's `seed`."""
        return False

    def left_to_chance(self, has_births: bool) -> tuple[str, ...]:
        """The fields in which the same actions may be answered differently the next time."""
        return ()

    def problems(self, contract: Contract) -> Iterator[str]:
        """What is wrong with a contract that counts so, each in a sentence."""
        yield from ()
