"""A profile in memory: what a recording says, with each sample joined to its fate.

Invariant: whatever has a number (frames, stacks) is numbered by its place in its list, and a
stack's caller comes before it. Times are microseconds since the recording began, and every list of
moments is sorted by them.
"""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import accumulate
from operator import neg
from pathlib import PurePath
from typing import Self, TypeVar

import attrs

from gcmodel.memory.layout import Kind

TYPES = "", *(kind.name.lower() for kind in sorted(Kind))
"""The names of the types, by type id. No type has the first."""

T = TypeVar("T")

NUMBERS = 2**52
"""All figures are below this one, so that a floating-point number carries each of them exactly."""

NO_END = "no end told"
LIFETIMES = (
    "0 collections",
    "1 collection",
    *(f"{1 << bits:,} to {(2 << bits) - 1:,} collections" for bits in range(1, 52)),
    NO_END,
)
"""The names of lifetimes: so many minor collections, in powers of two; the last has no end yet."""

UNKNOWN_TYPE = "unknown type"
"""The type of an object that no minor collection has reported: its header tells, not its sample."""


class Fate(StrEnum):
    """What became of a sampled object at the next minor collection (section 3.5), and later on."""

    DIED_YOUNG = "died young"
    DIED_OLD = "died old"
    SURVIVED = "survived"
    UNKNOWN = "fate not known yet"


class Numbers(dict[T, int]):
    """Things with their numbers, in the order in which they are first asked for: 0, 1, 2, …"""

    def __missing__(self, thing: T) -> int:
        number = self[thing] = len(self)
        return number


def _figure(least: int) -> Callable[[object, attrs.Attribute[int], int], object]:
    return attrs.validators.and_(attrs.validators.ge(least), attrs.validators.lt(NUMBERS))


@attrs.frozen(kw_only=True)
class ProfileHeader:
    """How a recording was made. Raises ValueError for a figure outside its range."""

    program: str
    """What was profiled: a workload, a script, or a trace."""
    period_bytes: int = attrs.field(validator=_figure(1))
    is_random: bool
    """Whether the distances between samples are random with the period as their mean."""
    time_period_us: int | None = attrs.field(validator=attrs.validators.optional(_figure(1)))
    """How often the stack was sampled by time; None for never."""
    began_unix_ms: int = attrs.field(validator=_figure(0))
    pid: int = attrs.field(validator=_figure(0))
    python: str
    nursery_bytes: int = attrs.field(validator=_figure(1))
    types: tuple[str, ...]
    """The names of the types, by type id."""

    @classmethod
    def of_now(
        cls,
        program: str,
        *,
        period_bytes: int,
        is_random: bool,
        nursery_bytes: int,
        time_period_us: int | None = None,
    ) -> Self:
        """The header of a recording that begins now, in this process."""
        return cls(
            program=program,
            period_bytes=period_bytes,
            is_random=is_random,
            time_period_us=time_period_us,
            began_unix_ms=time.time_ns() // 10**6,
            pid=os.getpid(),
            python=platform.python_version(),
            nursery_bytes=nursery_bytes,
            types=TYPES,
        )


@attrs.frozen
class Frame:
    """A place in a program: a function, its file and first line, and the line that it was at."""

    function: str
    file: str
    first_line: int
    line: int


@attrs.frozen
class Stack:
    """A frame and the stack of its caller, None at the outermost."""

    caller: int | None
    frame: int


@attrs.define
class ProfileSample:
    """An object that was sampled, `hits` times because it passed so many sample points."""

    at_us: int
    stack: int
    hits: int
    period_bytes: int
    counted_bytes: int
    """The size that the sampler counts for the object."""
    type: str = UNKNOWN_TYPE
    is_outside: bool | None = None
    """Whether it lay outside the nursery; None as long as its fate is unknown."""
    fate: Fate = Fate.UNKNOWN
    judged_at_us: int | None = None
    """When it became known whether it survived."""
    weight_bytes: int = attrs.field(
        default=attrs.Factory(lambda self: self.hits * self.period_bytes, takes_self=True)
    )
    """The allocated bytes that it stands for: where distances are random, by its chance."""
    collections_before: int = 0
    """How many minor collections there were when it was allocated."""
    freed_at_us: int | None = None
    """When a collection told that a major one had freed it, if it survived and one has."""
    lived_collections: int | None = None
    """How many minor collections it had lived through then."""

    @property
    def died_at_us(self) -> int | None:
        """When a collection, minor or major, has told that it is dead; None if none has."""
        return self.judged_at_us if self.fate is Fate.DIED_YOUNG else self.freed_at_us

    @property
    def lifetime(self) -> str:
        """How many minor collections it lived through, from a power of two to below the next."""
        if self.died_at_us is None:
            return NO_END
        return LIFETIMES[(self.lived_collections or 0).bit_length()]


@attrs.frozen
class TimeSample:
    """What ran at a moment."""

    at_us: int
    stack: int


@attrs.frozen
class CollectionMark:
    """A minor collection, and the state in which it left heap and process. (Section 3.6.)"""

    began_us: int
    ended_us: int
    memory_used_bytes: int
    arena_bytes: int
    resident_bytes: int


@attrs.frozen
class Phase:
    """A phase of a major collection, from its first step's beginning to its last step's end.

    The program runs between the steps; `collecting_us` is the time that the steps took.
    """

    name: str
    began_us: int
    ended_us: int
    steps: int
    collecting_us: int


@attrs.define(kw_only=True)
class Profile:
    """A recording, as far as it was read."""

    header: ProfileHeader
    frames: list[Frame] = attrs.Factory(list)
    stacks: list[Stack] = attrs.Factory(list)
    samples: list[ProfileSample] = attrs.Factory(list)
    time_samples: list[TimeSample] = attrs.Factory(list)
    minor_collections: list[CollectionMark] = attrs.Factory(list)
    phases: list[Phase] = attrs.Factory(list)
    ended_us: int = 0
    is_complete: bool = False
    """Whether the recorder came to its end; otherwise it was killed, or stopped at its limit."""

    @property
    def hits(self) -> int:
        """How many samples there are; an object that was sampled has one or more."""
        return sum(sample.hits for sample in self.samples)

    @property
    def weight_bytes(self) -> int:
        """The allocated bytes that all samples stand for."""
        return sum(sample.weight_bytes for sample in self.samples)

    def live(self, at_us: int) -> list[ProfileSample]:
        """The samples of objects that were there then, and not told to be dead."""
        return [
            each
            for each in self.samples
            if each.at_us <= at_us and (each.died_at_us is None or at_us < each.died_at_us)
        ]

    def peak_us(self) -> int:
        """The first moment at which what was live stood for most bytes."""
        changes = Counter[int]()
        for each in self.samples:
            changes[each.at_us] += each.weight_bytes
            if each.died_at_us is not None:
                changes[each.died_at_us] -= each.weight_bytes
        moments = sorted(changes)
        live_bytes = accumulate(changes[at_us] for at_us in moments)
        return max(zip(live_bytes, map(neg, moments), strict=True), default=(0, 0))[1] * -1

    def short_files(self) -> dict[str, str]:
        """The end of each file's path, long enough to tell it from the others'."""
        names: dict[str, str] = {}
        alike = {frame.file: PurePath(frame.file).parts for frame in self.frames}
        length = 1
        while alike:
            ends = Counter(parts[-length:] for parts in alike.values())
            for file, parts in alike.items():
                if ends[parts[-length:]] == 1 or length >= len(parts):
                    names[file] = str(PurePath(*parts[-length:])) if file else ""
            alike = {file: parts for file, parts in alike.items() if file not in names}
            length += 1
        return names

    def frames_of(self, stack: int) -> list[Frame]:
        """The frames of a stack, the innermost first."""
        return [self.frames[number] for number in self.frame_numbers_of(stack)]

    def frame_numbers_of(self, stack: int) -> Iterator[int]:
        """The same, as numbers."""
        number: int | None = stack
        while number is not None:
            yield self.stacks[number].frame
            number = self.stacks[number].caller
