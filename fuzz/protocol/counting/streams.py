"""Counting by streams: objects in the nursery and outside it have distances of their own (OCaml).

(OCaml 4.13, memprof.c.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import attrs
from typing_extensions import override

from fuzz.problems import did_you_mean
from fuzz.protocol.counting.way import Way

if TYPE_CHECKING:
    from fuzz.protocol.contract import Contract


@attrs.frozen
class Streams(Way):
    """The one thread has two distances, drawn from one generator.

    One counts down for what lies in the nursery, the other for what lies outside. Enabling draws
    the one outside first. An object takes a sample for each distance that ends in it.
    """

    by = "streams"

    postponed: tuple[str, ...] = ()
    """The kinds of objects that the runtime makes, and not compiled code. If the nursery's distance
    ends in such an object in the nursery, the bytes behind it count for the distance outside, and
    the nursery's is drawn again, before the callback runs."""
    renewed_by: tuple[Literal["collections", "callbacks"], ...] = ()
    """What the nursery's distance is drawn again after.

    collections: each minor collection, which comes before an object in the nursery and after one
        outside.
    callbacks: the callback of an object that was sampled.
    """

    @override
    def problems(self, contract: Contract) -> Iterator[str]:
        rule, kinds = contract.sampling, contract.layout.kinds
        for kind in self.postponed:
            if kind not in kinds:
                yield f"postponed lists {kind!r}, which is unknown{did_you_mean(kind, kinds)}"
        if not rule.is_drawn or rule.samples_once or contract.threads > 1:
            yield "streams mean nothing unless one thread draws distances, and takes all samples"
        if rule.enabling != "draws" or rule.initial_period_bytes or rule.first_bytes:
            yield "streams mean nothing unless enabling draws the first, and sampling is off before"
        if rule.paused != "stopped" or "set_callback" in contract.actions:
            yield "streams mean nothing with set_callback, or unless paused is stopped"
        if not {"limit", "offsets", "weights"}.isdisjoint(contract.observes):
            yield "limit, offsets and weights mean nothing with streams"
        for field in ("samples", "minors"):
            if field not in contract.observes:
                yield f"streams mean nothing without {field} in observes"
