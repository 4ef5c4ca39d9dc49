"""Counting by thread-local allocation buffers: a sample's place is a buffer's end (HotSpot).

(OpenJDK, memAllocator.cpp, threadLocalAllocBuffer.cpp, threadHeapSampler.cpp; JEP 331.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Literal

import attrs
from typing_extensions import override

from fuzz.protocol.counting.way import SAMPLES, Way

if TYPE_CHECKING:
    from fuzz.protocol.contract import Contract, Layout, SamplingRule

SIZES = (
    *("desired_bytes", "least_bytes", "reserve_bytes", "waste_bytes", "waste_increment_bytes"),
    *("birth_bytes", "callback_bytes"),
)
"""The keys that are sizes of words."""


@attrs.frozen
class Buffers(Way):
    """Each thread allocates in a buffer, which is taken from what is left of the nursery.

    What does not fit in a thread's buffer is placed outside it, in the nursery, where the buffer
    has more left than the thread's limit, which grows by `waste_increment_bytes` then. Otherwise a
    new buffer is taken: of `desired_bytes` and the object's, or of what the nursery has left, if
    that is `least_bytes` or more and has room for `reserve_bytes` behind the object. The limit is
    `waste_bytes` again. If an object outside has no room in the nursery, a collection empties that
    first, and every thread is without a buffer.

    While sampling is on, a buffer's end is where the thread's next sample is due, if that comes
    sooner. The end is the true one again once something does not fit.
    """

    by = "buffers"
    has_local_buffers = True
    shows_local_buffers = True

    desired_bytes: int
    least_bytes: int
    reserve_bytes: int
    waste_bytes: int
    waste_increment_bytes: int
    charges: Literal["ahead", "allocated"]
    """What counts.

    ahead: what does not fit before the end, while sampling is on, and whatever is allocated
        between two of these, as it was when the end was put there: all that was left up to it,
        whether it is allocated or not (HotSpot 11 to 24).
    allocated: what is allocated, also while sampling is off (25).
    """
    birth_bytes: int = 0
    """What a thread that begins allocates by itself, while nothing is sampled."""
    callback_bytes: int = 0
    """What the receiver of an event allocates in the sampled thread. No event follows from a sample
    that this takes."""
    taken: Literal["in order", "anywhere"] = "in order"
    """Where a new buffer lies, and an object outside.

    in order: behind all that was taken of the nursery since the last collection.
    anywhere: an observation's `buffer` has the size of the new one, and the contract promises
        nothing of where an object outside lies, nor of collections. The first three sizes mean
        nothing.
    """
    generators: Literal["each", "shared"] = "each"
    """Which generator a thread draws its distances from.

    each: its own.
    shared: the first thread's.
    """
    births: Literal["draws", "reseeds"] = "draws"
    """What a thread that begins does, for the period that was set last, also while sampling is off.

    draws: it draws a distance.
    reseeds: before that, the generator starts from the observation's `seed`.
    """
    resting_period_bytes: int = 0
    """Period in force until the first `set_period` or `enable_sampling`; 0 if there is none."""

    @property
    @override
    def predicts_places(self) -> bool:
        return True

    @property
    @override
    def births_reseed(self) -> bool:
        return self.births == "reseeds"

    @override
    def left_to_chance(self, has_births: bool) -> tuple[str, ...]:
        """A buffer that is taken anywhere may have another size, a birth another seed."""
        buffer = ("buffer",) if self.taken == "anywhere" else ()
        return (*SAMPLES, "seed", *buffer) if has_births and self.births_reseed else buffer

    @override
    def problems(self, contract: Contract) -> Iterator[str]:
        yield from self._problems_of_sizes(contract.layout)
        if contract.layout.object_bytes_max > contract.nursery_bytes:
            yield "buffers mean nothing where an object may be larger than the nursery"
        yield from self._problems_of_fields(contract.observes)
        if "set_callback" in contract.actions:
            yield "set_callback means nothing with buffers"
        yield from self._problems_of_rule(contract.sampling)

    def _problems_of_sizes(self, layout: Layout) -> Iterator[str]:
        sizes = {name: each for name, each in attrs.asdict(self).items() if name in SIZES}
        for name, size_bytes in sizes.items():
            if size_bytes < 0 or size_bytes % max(layout.word_bytes, 1):
                yield f"{name} is {size_bytes}; it must be a multiple of word_bytes, and at least 0"
        if layout.nonmovable == "outside" or layout.large_object_bytes <= layout.object_bytes_max:
            yield "buffers mean nothing where an object may lie outside the nursery"

    def _problems_of_fields(self, observes: Collection[str]) -> Iterator[str]:
        is_in_order = self.taken == "in order"
        for field in ("samples", "minors", "at", *(() if is_in_order else ("buffer",))):
            if field not in observes:
                yield f"buffers mean nothing without {field} in observes"
        if not {"limit", "offsets", "weights"}.isdisjoint(observes):
            yield "limit, offsets and weights mean nothing with buffers"
        if "tlab" in observes and not is_in_order:
            yield "tlab means nothing without buffers that are taken in order"
        if self.callback_bytes and not is_in_order:
            yield "callback_bytes mean nothing where buffers are taken anywhere"
        if self.births_reseed and "seed" not in observes:
            yield "births is reseeds, which no oracle can judge without seed in observes"

    def _problems_of_rule(self, rule: SamplingRule) -> Iterator[str]:
        if rule.samples_per_allocation != "one" or not rule.is_drawn:
            yield "buffers mean nothing unless distances are drawn, for one sample an allocation"
        if rule.enabling != "keeps" or rule.paused != "stopped":
            yield "buffers mean nothing unless enabling is keeps, and paused stopped"
        if self.generators == "shared" and len(set(rule.seeds)) > 1:
            yield "generators is shared, but seeds differ"
