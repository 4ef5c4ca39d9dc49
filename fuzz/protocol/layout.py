"""What each allocation costs: the layout of a contract, by the kinds of objects.

Invariant: a size follows from the kind, the length, and whether the object may move.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import attrs

from fuzz.protocol.counting.limits import Count, Limits, Positive

KINDS_WITH_LENGTH = ("string", "array", "block")


def rounded_up(number: int, multiple: int) -> int:
    """The least multiple that is not below `number`."""
    return -(-number // multiple) * multiple


@attrs.frozen
class PartLayout:
    """What one of the blocks costs that an object consists of."""

    fixed_bytes: Count
    item_bytes: Count = 0


@attrs.frozen
class KindLayout:
    """What an object of one kind costs: `fixed_bytes`, and `item_bytes` for each of its length."""

    type_index: int
    """The number by which reports and graphs name the kind."""
    fixed_bytes: Count
    item_bytes: int = 0
    parts: tuple[PartLayout, ...] = ()
    """The blocks that are allocated one after another for an object, if it is not one block: those
    that it refers to, and itself at last. Each has its own check, and counts by itself (V8's
    `new Array(n)`)."""

    def problems(self, kind: str) -> Iterator[str]:
        """What is wrong with the layout of that kind, each in a sentence."""
        yield from Limits(int(kind in KINDS_WITH_LENGTH)).problems(
            f"item_bytes of a {kind}", self.item_bytes
        )
        if self.parts and kind == "block":
            yield "parts of a block: a block has none"
        for key in ("fixed_bytes", "item_bytes") if self.parts else ():
            total, sum_bytes = getattr(self, key), sum(getattr(part, key) for part in self.parts)
            if sum_bytes != total:
                yield f"{key} of a {kind} is {total}; it must be that of its parts, {sum_bytes}"


@attrs.frozen
class Layout:
    """What each allocation costs."""

    kinds: Mapping[str, KindLayout] = attrs.field(eq=lambda kinds: frozenset(kinds.items()))
    large_object_bytes: Positive
    """An object of this unrounded size or more lies outside the nursery."""
    word_bytes: Positive
    """An object in the nursery is rounded up to a multiple; one outside counts unrounded."""
    object_bytes_max: Positive
    """No object may be larger, unrounded."""
    size_classes: tuple[int, ...] = ()
    """A block gets the room of the least class that holds it. They rise."""
    page_bytes: Positive = 1
    """A block that is larger than all classes gets whole pages."""
    shared_bytes: Count = 0
    """Smaller blocks share one block of this size, of which only the first counts (Go)."""
    shared_rounded: bool = False
    """Whether a small block takes its size class of a shared block, and not only what was requested
    (append of Go)."""
    nonmovable: Literal["outside", "ignored"] = "outside"
    """An object that must not move lies `outside` the nursery, or `ignored`: like any other."""

    def class_bytes(self, requested_bytes: int) -> int | None:
        """The size class of a block; None if it is larger than all."""
        index = bisect.bisect_left(self.size_classes, requested_bytes)
        return self.size_classes[index] if index < len(self.size_classes) else None

    def capacity_bytes(self, requested_bytes: int) -> int:
        """How much a block has room for."""
        block = self.kinds.get("block")
        requested_bytes += block.fixed_bytes if block else 0
        class_bytes = self.class_bytes(max(requested_bytes, self.shared_bytes))
        return class_bytes or rounded_up(requested_bytes, self.page_bytes)

    def placed_bytes(self, requested_bytes: int) -> int:
        """How much of a shared block a small one takes."""
        if self.shared_rounded and requested_bytes:
            return self.class_bytes(requested_bytes) or requested_bytes
        return requested_bytes

    def cost(self, kind: str, length: int, nonmovable: bool) -> tuple[int, bool]:
        """The bytes that the sampler counts for an object, and whether it lies outside."""
        layout = self.kinds[kind]
        if layout.parts:
            sizes = self.costs_of_parts(kind, length, nonmovable)
            return sum(size_bytes for size_bytes, _ in sizes), sizes[-1][1]
        return self._cost(layout, length, nonmovable)

    def costs_of_parts(
        self, kind: str, length: int, nonmovable: bool
    ) -> Sequence[tuple[int, bool]]:
        """The same for each part of an object; nothing if it is one block."""
        return [self._cost(part, length, nonmovable) for part in self.kinds[kind].parts]

    def _cost(
        self, layout: KindLayout | PartLayout, length: int, nonmovable: bool
    ) -> tuple[int, bool]:
        raw_bytes = layout.fixed_bytes + layout.item_bytes * length
        is_outside = nonmovable and self.nonmovable == "outside"
        if is_outside or raw_bytes >= self.large_object_bytes:
            return raw_bytes, True
        return rounded_up(raw_bytes, self.word_bytes), False

    def problems(self) -> Iterator[str]:
        """What is wrong with it, each in a sentence."""
        legal = Limits(0, max(self.size_classes, default=0))
        yield from legal.problems("layout.shared_bytes", self.shared_bytes)
        if self.shared_rounded and not self.shared_bytes:
            yield "layout.shared_rounded needs shared_bytes"
        for kind, sizes in self.kinds.items():
            legal = Limits(0, self.object_bytes_max)
            yield from legal.problems(f"fixed_bytes of a {kind}", sizes.fixed_bytes)
            yield from sizes.problems(kind)
        if any(high <= low for low, high in pairwise((0, *self.size_classes))):
            yield "layout.size_classes must rise, from at least 1"
        if "block" in self.kinds and len(self.kinds) > 1:
            yield "layout has blocks beside other kinds, which could refer to one that was freed"


def layout_of_blocks(
    object_bytes_max: int,
    size_classes: tuple[int, ...] = (),
    page_bytes: int = 1,
    header_bytes: int = 0,
) -> Layout:
    """The layout of an allocator, which has only blocks."""
    return Layout(
        kinds={"block": KindLayout(type_index=1, fixed_bytes=header_bytes, item_bytes=1)},
        large_object_bytes=1,
        word_bytes=1,
        object_bytes_max=object_bytes_max,
        size_classes=size_classes,
        page_bytes=page_bytes,
    )
