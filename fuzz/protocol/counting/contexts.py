"""Counting by allocation contexts: a distance ends where its context does (.NET).

(Nasarre and Falk, Randomized Allocation Sampling; .NET 10, gcheaputilities.h and gchelpers.cpp.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs

from fuzz.protocol.counting.limits import Positive
from fuzz.protocol.counting.way import DRAWN, ONE_DRAW, SAMPLES, StatedContract, Way, unknown_kinds


@attrs.frozen
class Contexts(Way):
    """Each thread allocates in contexts, which are parts of the nursery.

    For an object that does not fit in its context, the distance decides about what the context has
    left, and a new distance about the rest. Then a new context begins. docs/sampling-rules.md has
    the complete rule.
    """

    by = "contexts"
    has_local_buffers = True
    local_buffers_end_distances = True
    needs: ClassVar = {
        **DRAWN,
        **ONE_DRAW,
        "crosses": "beyond",
        "paused": "stopped",
        "weights": "none",
    }
    excludes = frozenset({"limit", "set_callback"})

    context_bytes: Positive
    """How large a context is, at most the nursery's size."""
    sizes: Literal["fixed", "reported"] = "fixed"
    """`fixed`: a new context has `context_bytes`, or the size of a larger object that begins it;
    `reported`: it has about as much, and the observation's `buffer` has its size (.NET 10)."""
    outside: Literal["apart", "in_turn"] = "apart"
    """`apart`: a separate distance decides about an object outside the nursery; `in_turn`: that of
    the context, as if the object did not fit there (.NET 10)."""

    slow_kinds: tuple[str, ...] = ()
    """The kinds for which the mutator calls the runtime even if the object fits: the distance
    decides, and then a new one is drawn (.NET, `MemberwiseClone` and `Array.CreateInstance`)."""

    @property
    def samples_before_collecting(self) -> bool:
        return self.outside == "in_turn"

    @property
    def predicts_places(self) -> bool:
        return self.sizes == "reported"

    @property
    def needs_observed(self) -> tuple[str, ...]:
        return ("samples", "minors", "at", "buffer") if self.predicts_places else ()

    def left_to_chance(self, has_births: bool) -> tuple[str, ...]:
        """The distances depend on where contexts end."""
        return (*SAMPLES, "buffer", "ended") if self.sizes == "reported" else ()

    def problems(self, contract: StatedContract) -> Iterator[str]:
        size_bytes, most = self.context_bytes, contract.nursery_bytes
        if size_bytes > most:
            yield f"counting.context_bytes is {size_bytes}; it must be from 1 to {most}"
        yield from unknown_kinds("slow_kinds", self.slow_kinds, contract)
