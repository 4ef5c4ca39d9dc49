"""Counting by streams: objects in the nursery and outside it have separate distances (OCaml).

(OCaml 4.13, 4.14 and 5.3, memprof.c.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs

from fuzz.problems import did_you_mean
from fuzz.protocol.counting.way import DRAWN, StatedContract, Way


@attrs.frozen
class Streams(Way):
    """The one thread has two distances, drawn from one generator.

    One counts down for objects in the nursery, the other for those outside. Enabling draws the one
    outside first. An object takes a sample for each distance that ends in it.
    """

    by = "streams"
    needs: ClassVar = {
        **DRAWN,
        "samples_once": False,
        "enabling": "draws",
        "paused": "stopped",
        "initial_period_bytes": 0,
        "first_bytes": (),
    }
    needs_observed = ("samples", "minors")
    excludes = frozenset({"limit", "offsets", "weights", "set_callback"})

    postponed: tuple[str, ...] = ()
    """The kinds of objects that the runtime makes, and not compiled code. If the nursery's distance
    ends in such an object, the bytes after it count for the distance outside, and the nursery's is
    drawn again."""
    renewed_by: tuple[Literal["collections", "callbacks"], ...] = ()
    """The nursery's distance is drawn again after each of the `collections`, which come before an
    object in the nursery and after one outside, or after the `callbacks` of sampled objects."""

    @property
    def depends_on_collections(self) -> bool:
        return "collections" in self.renewed_by

    def problems(self, contract: StatedContract) -> Iterator[str]:
        kinds = contract.layout.kinds
        for kind in self.postponed:
            if kind not in kinds:
                like = did_you_mean(kind, kinds)
                yield f"counting.postponed lists {kind!r}, which is unknown{like}"
            if contract.groups is not None and kind in contract.groups.kinds:
                yield f"groups.kinds lists {kind}, which is postponed: compiled code makes none"
        if contract.threads > 1:
            yield "counting by streams needs one number in seeds, for one thread"
