"""Counting by allocation contexts: a distance ends where its context does (.NET).

(Nasarre and Falk, Randomized Allocation Sampling; .NET 10, gcheaputilities.h and gchelpers.cpp.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs

from fuzz.protocol.counting.limits import Positive
from fuzz.protocol.counting.way import DRAWN, ONE_DRAW, SAMPLES, StatedContract, Way


@attrs.frozen
class Contexts(Way):
    """Each thread allocates in contexts, which are parts of the nursery.

    An object that fits in its thread's context is sampled if its bytes exceed the distance, and
    another distance is drawn behind it. For an object that does not fit, the distance decides about
    the bytes that the context has left. If it ends behind them, a new distance decides about the
    rest of the object. Then a new context begins, and a new distance behind the object. A
    collection ends all contexts. If `enabling` is `keeps`, there is no distance before one is
    drawn, nor after one was passed while sampling was off.
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
    """How large a new context is.

    fixed: `context_bytes`, or the object for which it begins, if that is larger.
    reported: about as much; the observation's `buffer` has the bytes from that object on (.NET 10).
    """
    outside: Literal["apart", "in_turn"] = "apart"
    """Which distance decides about an object outside the nursery.

    apart: a distance of its own, which leaves the context's distance alone.
    in_turn: the context's distance, as if the object did not fit there. Behind the object another
        one is drawn for what the context has left (.NET 10).
    """

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
