"""A clock: the bytes that one thread has left until its next sample, by arithmetic alone.

    until_bytes |-------------------->*  the byte that is sampled, `crosses` says which exactly
    room_bytes  |------------->|         where the thread allocates in contexts (.NET)

Invariant: what a clock says is a matter of the rule, of the thread's seed, and of the bytes that it
was told of. Addresses and collections are nothing to it, but that a collection ends a context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import attrs

from fuzz.contract import DRAWN, SamplingRule
from fuzz.oracles.distances import distances_of


@attrs.frozen
class Hit:
    """One sample: the byte of the allocation that was drawn, from 0, and what it stands for."""

    offset: int
    weight: int = 0


NONE: tuple[Hit, ...] = ()
UNTOLD = Hit(0)
"""One where the distances are all alike, of which no contract promises more."""


@attrs.frozen
class Untold(Sequence[Hit]):
    """So many of these, which may be more than a list has room for."""

    samples: int

    def __len__(self) -> int:
        return self.samples

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        chosen = range(self.samples)[index]
        return Untold(len(chosen)) if isinstance(chosen, range) else UNTOLD


class Clock:
    """One thread's. `until_bytes` means nothing while nothing is counted."""

    def __init__(self, rule: SamplingRule, thread: int) -> None:
        self._rule = rule
        self._distances = distances_of(rule.distances, rule.seeds[thread])
        self._first_bytes = rule.first_bytes[thread] if rule.first_bytes else None
        self._reseed = rule.reseeds[thread] if rule.reseeds else None
        # The period for which the present distance was drawn.
        self._drawn_for_bytes = 0
        self._due_at = int(rule.crosses == "beyond")
        self.until_bytes = 0
        self.room_bytes = 0

    def start(self, period_bytes: int) -> None:
        """Count from here on."""
        self._drawn_for_bytes = period_bytes
        if self._first_bytes is None:
            self.until_bytes = self._distances.draw(period_bytes)
        else:
            self.until_bytes, self._first_bytes = self._first_bytes, None

    def count(self, size_bytes: int, period_bytes: int) -> Sequence[Hit]:
        """So many bytes are allocated. `period_bytes` is what distances are drawn for now."""
        if size_bytes < self.until_bytes + self._due_at:
            self.until_bytes -= size_bytes
            return NONE
        if self._reseed is not None:
            return self._begin_anew(self._reseed, size_bytes, period_bytes)
        hits: Sequence[Hit]
        if self._rule.distances not in DRAWN:
            hits = self._divide(size_bytes, period_bytes)
        elif (self._rule.surplus, self._rule.samples_per_allocation) == ("dropped", "one"):
            hits = [self._hit(self.until_bytes, size_bytes)]
            self._draw(period_bytes)
        else:
            hits = self._pass_all(size_bytes, period_bytes)
        return hits[:1] if self._rule.samples_per_allocation == "one" else hits

    def uncount(self, size_bytes: int) -> None:
        """So many bytes that were counted are allocated later; their samples stay taken."""
        self.until_bytes += size_bytes

    def _begin_anew(self, seed: int, size_bytes: int, period_bytes: int) -> Sequence[Hit]:
        """The first time that a sample is due another generator decides about it."""
        self._distances, self._reseed = distances_of(self._rule.distances, seed), None
        self._draw(period_bytes)
        return self.count(size_bytes, period_bytes)

    def _divide(self, size_bytes: int, period_bytes: int) -> Sequence[Hit]:
        """Distances that are all alike need not be passed one by one."""
        samples = 1 + (size_bytes - self.until_bytes - self._due_at) // period_bytes
        if self._rule.surplus == "carried":
            self.until_bytes += samples * period_bytes - size_bytes
        else:
            self.until_bytes = period_bytes
        return Untold(samples)

    def _pass_all(self, size_bytes: int, period_bytes: int) -> list[Hit]:
        """An allocation passes as many sample points as lie in it."""
        hits = []
        sample_point = self.until_bytes
        while size_bytes >= sample_point + self._due_at:
            hits.append(self._hit(sample_point, size_bytes))
            self._draw(period_bytes)
            sample_point += self.until_bytes
        if self._rule.surplus == "carried":
            self.until_bytes = sample_point - size_bytes
        return hits

    def _hit(self, until_bytes: int, size_bytes: int) -> Hit:
        offset = until_bytes - 1 + self._due_at
        return Hit(offset, self._drawn_for_bytes + size_bytes - offset - 1)

    def _draw(self, period_bytes: int) -> None:
        self._drawn_for_bytes = period_bytes
        self.until_bytes = self._distances.draw(period_bytes)

    # Allocation contexts.

    def count_outside(self, size_bytes: int, period_bytes: int) -> Sequence[Hit]:
        """A large object lies outside all contexts, and has a distance of its own."""
        drawn_bytes = self._distances.draw(period_bytes)
        return [Hit(drawn_bytes)] if drawn_bytes < size_bytes else NONE

    def count_in_context(self, size_bytes: int, period_bytes: int) -> Sequence[Hit]:
        """An object in the present context, or else in the next. No period: sampling is off."""
        left_bytes = self.room_bytes
        if size_bytes <= left_bytes:
            self.room_bytes -= size_bytes
            return self.count(size_bytes, period_bytes) if period_bytes else NONE
        self.room_bytes = max(self._rule.context_bytes, size_bytes) - size_bytes
        return (
            self._count_overflowing(left_bytes, size_bytes, period_bytes) if period_bytes else NONE
        )

    def _count_overflowing(
        self, left_bytes: int, size_bytes: int, period_bytes: int
    ) -> Sequence[Hit]:
        """The old distance decides about what was left of its context, a new one about the rest."""
        offset = self.until_bytes
        if offset >= left_bytes:
            offset = left_bytes + self._distances.draw(period_bytes)
        self._draw(period_bytes)
        return [Hit(offset)] if offset < size_bytes else NONE
