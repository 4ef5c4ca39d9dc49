"""What a clock predicts of an allocation: its samples, the reason, and where its object lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, overload

import attrs


class Request(NamedTuple):
    """An allocation, as a clock needs it."""

    size_bytes: int
    """The bytes that count."""
    outside: bool
    """Whether the object lies outside the nursery."""
    kind: str
    period_bytes: int | None
    """The period that new distances are drawn for; None if sampling is off."""
    is_predicted: bool = False
    """Whether no target performed the allocation, so that nothing is reported about it."""
    is_recorded: bool = True
    """Whether a sample is recorded; not while sampling is paused."""
    is_resized: bool = False
    """Whether it is a block that existed before, with another size."""


@attrs.frozen
class ExpectedSample:
    """One sample."""

    offset: int
    """The sampled byte of the allocation, from 0."""
    weight: int = 0


NONE: tuple[ExpectedSample, ...] = ()
ALIKE = ExpectedSample(0)
"""A sample whose byte no contract states."""


@attrs.frozen
class Alike(Sequence[ExpectedSample]):
    """Equal samples. There may be more than fit in a list.

    The first is of the byte `first_offset`, and each of the others `every_bytes` later.
    """

    samples: int
    first_offset: int = 0
    every_bytes: int = 0

    def __len__(self) -> int:
        return self.samples

    @overload
    def __getitem__(self, index: int) -> ExpectedSample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ExpectedSample]: ...
    def __getitem__(self, index: int | slice) -> ExpectedSample | Sequence[ExpectedSample]:
        chosen = range(self.samples)[index]
        if not isinstance(chosen, range):
            return ALIKE
        first_offset = self.first_offset + chosen.start * self.every_bytes
        return Alike(len(chosen), first_offset, self.every_bytes)

    def before(self, offset: int) -> int:
        """How many of them are of bytes before that one."""
        passed = -(-(offset - self.first_offset) // self.every_bytes)
        return min(max(passed, 0), self.samples)


def is_open(hits: Sequence[ExpectedSample]) -> bool:
    """Whether the contract does not state the sampled bytes."""
    return any(hit is ALIKE for hit in hits)


def samples_in(hits: Sequence[ExpectedSample], start: int, end: int) -> int:
    """How many of the samples are of the bytes from `start` up to `end`."""
    if isinstance(hits, Alike):
        return hits.before(end) - hits.before(start)
    return sum(start <= hit.offset < end for hit in hits)


def all_of(*parts: Sequence[ExpectedSample]) -> Sequence[ExpectedSample]:
    """The samples of several parts, one after another."""
    if any(isinstance(part, Alike) for part in parts):
        return Alike(sum(map(len, parts)))
    return [hit for part in parts for hit in part]


@attrs.frozen
class Place:
    """Where the object of an allocation must lie."""

    where: Literal["buffer", "new buffer", "outside", "page"]
    at: int | None
    """Its offset from the start of the nursery, of its buffer or page; None if it lies in none."""
    collections: int
    """How many collections came first, because the nursery had no room for it."""
    nursery_used_bytes: int | None
    """The used part of the nursery, buffers included; None if that is not predicted."""
    tlab: list[int] | None = None
    """The thread's buffer; see Observation."""


@attrs.frozen
class Sum:
    """What decides about the samples of one action."""

    period_bytes: int
    until_bytes: int | None
    """The bytes until the next sample before the action; None if the contract does not state it."""
    counted: str
    """What counts, as text: "the string takes 64"."""
    counted_bytes: int
    hits: Sequence[ExpectedSample]
    outside: bool = False
    """Whether the object lies outside the nursery."""
    free_bytes: int | None = None
    """What was left of the thread's own part of the nursery, if it has one."""
    has_own_distance: bool = False
    """Whether a new distance is drawn where that part ends."""
    has_more: bool = False
    """Whether more than the object counts. Then the hits are not bytes of the object."""
    reason: str = ""
    """What decides instead of the distance, as text."""
