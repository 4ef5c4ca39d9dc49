"""What a clock predicts of an allocation: its samples, why, and where its object lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, overload

import attrs


class Request(NamedTuple):
    """An allocation, as a clock has to know it."""

    size_bytes: int
    """What counts of it."""
    outside: bool
    """Whether its object lies outside the nursery."""
    kind: str
    minors: int
    """How many minor collections it caused."""
    period_bytes: int | None
    """What distances are drawn for now; None if sampling is off."""


@attrs.frozen
class ExpectedSample:
    """One sample: the byte of the allocation that was drawn, from 0, and what it stands for."""

    offset: int
    weight: int = 0


NONE: tuple[ExpectedSample, ...] = ()
ALIKE = ExpectedSample(0)
"""A sample where distances are all alike, of which no contract promises more."""


@attrs.frozen
class Alike(Sequence[ExpectedSample]):
    """Samples that are all alike, which may be more than a list has room for."""

    samples: int

    def __len__(self) -> int:
        return self.samples

    @overload
    def __getitem__(self, index: int) -> ExpectedSample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ExpectedSample]: ...
    def __getitem__(self, index: int | slice) -> ExpectedSample | Sequence[ExpectedSample]:
        chosen = range(self.samples)[index]
        return Alike(len(chosen)) if isinstance(chosen, range) else ALIKE


def is_open(hits: Sequence[ExpectedSample]) -> bool:
    """Whether the contract leaves open at which bytes the samples are."""
    return any(hit is ALIKE for hit in hits)


def all_of(*parts: Sequence[ExpectedSample]) -> Sequence[ExpectedSample]:
    """The samples of several parts, one after another."""
    if any(isinstance(part, Alike) for part in parts):
        return Alike(sum(map(len, parts)))
    return [hit for part in parts for hit in part]


@attrs.frozen
class Place:
    """Where the object of an allocation must lie."""

    where: Literal["buffer", "new buffer", "outside"]
    at: int | None
    """Its offset from the start of the nursery, or of its buffer; None outside of that."""
    collections: int
    """How many came first, because the nursery had no room for it."""
    nursery_used_bytes: int | None
    """What is taken of the nursery then, by buffers too; None if that is not predicted."""
    tlab: list[int] | None = None
    """The thread's buffer; see Observation."""


@attrs.frozen
class Sum:
    """What decides about the samples of one action."""

    period_bytes: int
    until_bytes: int | None
    """What was left until the next sample; None if the contract leaves that open."""
    counted: str
    """What counts, in words: "the string takes 64"."""
    counted_bytes: int
    hits: Sequence[ExpectedSample]
    outside: bool = False
    """Whether its object lies outside the nursery."""
    room_bytes: int | None = None
    """What was left of the thread's part of the nursery, if it has one."""
    has_own_distance: bool = False
    """Whether a distance is drawn for it where that ends."""
    has_more: bool = False
    """Whether more than the object counts, so that the hits are not bytes of it."""
    reason: str = ""
    """What decides instead of the distance, in words, if something does."""
