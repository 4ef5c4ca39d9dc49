"""A profile in memory: the content of a recording, with each sample joined to its fate.

Invariant: frames and stacks are numbered by their position in their lists, and a stack's caller
comes before it. Times are microseconds since the start of the recording, and lists are sorted by
them.
"""

import os
import platform
import time
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from itertools import accumulate
from operator import neg
from pathlib import PurePath
from typing import Self, TypeVar

import attrs
from attrs.validators import ge, lt, optional

from gcmodel.memory.layout import Kind

TYPES = "", *(kind.name.lower() for kind in sorted(Kind))
"""The names of the types, by type id. No type has id 0."""

T = TypeVar("T")

NUMBERS = 2**52
"""All figures are below this, so that a floating-point number represents each of them exactly."""

NOT_FREED = "not freed"
LIFETIMES = (
    "0 collections",
    "1 collection",
    *(f"{1 << bits:,} to {(2 << bits) - 1:,} collections" for bits in range(1, 52)),
    NOT_FREED,
)
"""The names of lifetimes: numbers of minor collections, in powers of two."""

UNKNOWN_TYPE = "unknown type"
"""The type of an object without a report: it is in the object's header, not in its sample."""


class Fate(StrEnum):
    """The fate of a sampled object at the next minor collection (section 3.5), and later."""

    DIED_YOUNG = "died young"
    DIED_OLD = "died old"
    SURVIVED = "survived"
    UNKNOWN = "fate not known yet"


class Numbers(dict[T, int]):
    """Numbers things in the order in which they are first looked up: 0, 1, 2, …"""

    def __missing__(self, thing: T) -> int:
        number = self[thing] = len(self)
        return number


FROM_0, FROM_1 = [ge(0), lt(NUMBERS)], [ge(1), lt(NUMBERS)]
"""The validators of figures."""


@attrs.frozen(kw_only=True)
class ProfileHeader:
    """How a recording was made. Raises ValueError for a figure outside its range."""

    program: str
    """The workload, script or trace."""
    period_bytes: int = attrs.field(validator=FROM_1)
    is_random: bool
    """Distances between samples are random with the period as their mean."""
    time_period_us: int | None = attrs.field(validator=optional(FROM_1))
    """The period of samples by time; None if there are none."""
    began_unix_ms: int = attrs.field(validator=FROM_0)
    pid: int = attrs.field(validator=FROM_0)
    python: str
    nursery_bytes: int = attrs.field(validator=FROM_1)
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
        """The header of a recording that starts now, in this process."""
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
    """A place in a program: a function, its file and first line, and the current line."""

    function: str
    file: str
    first_line: int
    line: int


@attrs.frozen
class Stack:
    """A frame and the stack of its caller, None for the outermost frame."""

    caller: int | None
    frame: int


@attrs.define
class ProfileSample:
    """An object that was sampled. `hits` is the number of sample points that it passed."""

    at_us: int
    stack: int
    hits: int
    period_bytes: int
    counted_bytes: int
    """The size that the sampler counts for the object."""
    type: str = UNKNOWN_TYPE
    is_outside: bool | None = None
    """Whether it lay outside the nursery; None while its fate is unknown."""
    fate: Fate = Fate.UNKNOWN
    judged_at_us: int | None = None
    """When a minor collection reported whether it survived."""
    weight_bytes: int = attrs.field(
        default=attrs.Factory(lambda self: self.hits * self.period_bytes, takes_self=True)
    )
    """The allocated bytes that it stands for. Random distances weight it by its chance."""
    collections_before: int = 0
    """The number of minor collections before its allocation."""
    freed_at_us: int | None = None
    """When a collection reported that a major collection had freed it."""
    lived_collections: int | None = None
    """How many minor collections it had lived through then."""

    @property
    def died_at_us(self) -> int | None:
        """When a minor or major collection reported that it is dead; None if none has."""
        return self.judged_at_us if self.fate is Fate.DIED_YOUNG else self.freed_at_us

    @property
    def lifetime(self) -> str:
        """The name of its lifetime, one of LIFETIMES."""
        if self.died_at_us is None:
            return NOT_FREED
        return LIFETIMES[(self.lived_collections or 0).bit_length()]


@attrs.frozen
class TimeSample:
    """The stack that ran at a moment."""

    at_us: int
    stack: int


@attrs.frozen
class CollectionMark:
    """A minor collection, and the state of the heap and the process after it. (Section 3.6.)"""

    began_us: int
    ended_us: int
    memory_used_bytes: int
    arena_bytes: int
    resident_bytes: int


@attrs.frozen
class StateMark:
    """A state of a major collection, from the start of its first step to the end of its last.

    The program runs between the steps; `collecting_us` is the time of the steps alone.
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
    states: list[StateMark] = attrs.Factory(list)
    ended_us: int = 0
    is_complete: bool = False
    """False if the recorder was killed, or stopped at its size limit."""

    @property
    def hits(self) -> int:
        """The number of samples, one or more for each sampled object."""
        return sum(sample.hits for sample in self.samples)

    @property
    def weight_bytes(self) -> int:
        """The allocated bytes that all samples stand for."""
        return sum(sample.weight_bytes for sample in self.samples)

    def live(self, at_us: int) -> list[ProfileSample]:
        """The samples of objects that were allocated, and not reported dead, at that moment."""
        return [
            each
            for each in self.samples
            if each.at_us <= at_us and (each.died_at_us is None or at_us < each.died_at_us)
        ]

    def peak_us(self) -> int:
        """The first moment at which the live samples stood for the most bytes."""
        changes = Counter[int]()
        for each in self.samples:
            changes[each.at_us] += each.weight_bytes
            if each.died_at_us is not None:
                changes[each.died_at_us] -= each.weight_bytes
        moments = sorted(changes)
        live_bytes = accumulate(changes[at_us] for at_us in moments)
        return max(zip(live_bytes, map(neg, moments), strict=True), default=(0, 0))[1] * -1

    def short_files(self) -> dict[str, str]:
        """The shortest end of each file's path that no other file's path has."""
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
        """The numbers of these frames."""
        number: int | None = stack
        while number is not None:
            yield self.stacks[number].frame
            number = self.stacks[number].caller
