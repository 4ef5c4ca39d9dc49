"""Counting by thread-local allocation buffers: a sample's place is a buffer's end (HotSpot).

(OpenJDK, memAllocator.cpp, threadLocalAllocBuffer.cpp, threadHeapSampler.cpp; JEP 331.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs

from fuzz.protocol.counting.limits import Count
from fuzz.protocol.counting.way import (
    DRAWN,
    ONE_SAMPLE,
    SAMPLES,
    StatedContract,
    Way,
    unknown_kinds,
)

SIZES = (
    *("desired_bytes", "least_bytes", "reserve_bytes", "waste_bytes", "waste_increment_bytes"),
    *("birth_bytes", "callback_bytes", "inline_spare_bytes"),
)
"""The keys that are multiples of `word_bytes`."""


@attrs.frozen
class ThreadBuffers(Way):
    """What the ways have in common whose threads allocate in buffers of the nursery."""

    has_local_buffers = True
    predicts_places = True

    desired_bytes: Count
    least_bytes: Count
    reserve_bytes: Count
    waste_bytes: Count
    waste_increment_bytes: Count


@attrs.frozen
class Buffers(ThreadBuffers):
    """Each thread allocates in a buffer of the nursery, whose end is where its next sample is due.

    An object that does not fit lies outside the buffer, if that has more left than the thread's
    limit. Otherwise a new buffer begins. docs/sampling-rules.md has the complete rule.
    """

    by = "buffers"
    shows_local_buffers = True
    needs: ClassVar = {**DRAWN, **ONE_SAMPLE, "enabling": "keeps", "paused": "stopped"}
    excludes = frozenset({"limit", "offsets", "weights", "set_callback"})

    charges: Literal["ahead", "allocated"]
    """`ahead`: what does not fit before the end counts, and what was left up to the end, even if it
    is never allocated (HotSpot 11 to 24). `allocated`: what is allocated counts, also while
    sampling is off (25)."""
    birth_bytes: Count = 0
    """What a new thread allocates by itself, while nothing is sampled."""
    callback_bytes: Count = 0
    """What the receiver of a sample allocates in the sampled thread, without being called again."""
    taken: Literal["in order", "anywhere"] = "in order"
    """`in order`: a new buffer, or an object outside, lies behind all that was taken of the nursery
    since the last collection; `anywhere`: the observation's `buffer` has the size of a new one."""
    generators: Literal["each", "shared"] = "each"
    """`each`: every thread has its own generator; `shared`: all use the first one."""
    births: Literal["draws", "reseeds"] = "draws"
    """`draws`: a new thread draws a distance for the period set last; `reseeds`: before that, the
    generator restarts from the observation's `seed`."""
    resting_period_bytes: Count = 0
    """Period in force until the first `set_period` or `enable_sampling`; 0 if there is none."""
    inline_kinds: tuple[str, ...] = ()
    """The kinds that an interpreter or compiled code allocates without a call of the runtime, if
    the object fits before the end. It then counts, but is no sample even if one is overdue."""
    inline_spare_bytes: Count = 0
    """What must be left between such an object and the end (C2: a word)."""
    inline_outside: Literal["looked at", "unseen"] = "looked at"
    """`unseen`: outside a buffer they do not count and are not sampled, unless they collect."""

    @property
    def births_reseed(self) -> bool:
        return self.births == "reseeds"

    @property
    def needs_observed(self) -> tuple[str, ...]:
        buffer = ("buffer",) if self.taken == "anywhere" else ()
        seed = ("seed",) if self.births_reseed else ()
        return ("samples", "minors", "at", *buffer, *seed)

    def left_to_chance(self, has_births: bool) -> tuple[str, ...]:
        """A buffer that is taken anywhere may have another size, a birth another seed."""
        buffer = ("buffer",) if self.taken == "anywhere" else ()
        return (*SAMPLES, "seed", *buffer) if has_births and self.births_reseed else buffer

    def problems(self, contract: StatedContract) -> Iterator[str]:
        layout, is_in_order = contract.layout, self.taken == "in order"
        for name in SIZES:
            size_bytes, word_bytes = getattr(self, name), layout.word_bytes
            if size_bytes % word_bytes:
                multiple = f"it must be a multiple of word_bytes, {word_bytes}"
                yield f"counting.{name} is {size_bytes}; {multiple}"
        yield from unknown_kinds("inline_kinds", self.inline_kinds, contract)
        most = min(layout.large_object_bytes - 1, contract.nursery_bytes)
        if layout.nonmovable == "outside" or layout.object_bytes_max > most:
            yield (
                "counting by buffers needs objects that all lie in the nursery: nonmovable ignored,"
                f" and object_bytes_max at most {most}"
            )
        for name, value in {
            "tlab in observes": "tlab" in contract.observes,
            "counting.callback_bytes": self.callback_bytes,
        }.items():
            if value and not is_in_order:
                yield f"{name} needs buffers that are taken in order"
        if self.generators == "shared" and len(set(contract.sampling.seeds)) > 1:
            yield "counting.generators shared needs seeds that are equal"
