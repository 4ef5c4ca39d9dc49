"""The raw recording: a header line, then a line for each event of the recorder, in order.

    {"gcfuzz_profile": 1, "program": "gcbench", "period_bytes": 4096, …}
    ["frame", function, file, first_line, line]                   frame 0, and so on
    ["stack", caller or null, frame]                              stack 0, and so on
    ["sample", at_us, stack, hits, period_bytes, counted_bytes]   an object is pending from now on
    ["report", at_us, [entries]]                                  of what was pending, newest first
    ["dropped", at_us]                                            what is pending is not reported
    ["freed", at_us, [samples]]                                   a major collection freed these
    ["minor", at_us, began_us, memory_used_bytes, arena_bytes, resident_bytes]
    ["step", at_us, began_us, state, next_state]                  a step of a major collection
    ["time", at_us, stack]                                        the stack at that moment
    ["end", at_us, hits, hit_bytes]                               the totals of a whole recording

Invariants: the moments `at_us` never decrease, and a collection is written when it has ended. A
line is never changed, so a recording without its end is valid up to there. A forked process writes
nothing. If a process is killed while it writes, the last line has no line end, and is left out. The
entries are those of `gcmodel.memory.events.Report`.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Self, TypeVar
from weakref import WeakSet

import attrs
import cattrs
from cattrs.v import format_exception

from gcmodel.collector.major import State
from gcmodel.estimation.unbiased import chance_per_byte
from gcmodel.memory.errors import RecordingError
from gcmodel.profiling.profile import (
    NUMBERS,
    CollectionMark,
    Fate,
    Frame,
    Profile,
    ProfileHeader,
    ProfileSample,
    Stack,
    StateMark,
    TimeSample,
)
from gcmodel.sampling.sampler import REPORT_KIND_SHIFT, REPORT_OUTSIDE, REPORT_SURVIVED

T = TypeVar("T")

VERSION_KEY = "gcfuzz_profile"
VERSION = 1
BEGINNING = f'{{"{VERSION_KEY}":'.encode()
BUFFER_BYTES = 2**16
GOLDEN_RATIO = (5**0.5 - 1) / 2
LINE_CHARACTERS_MAX = 2**27
"""The longest line that is read. A report is one line, however many samples it has."""


class RecordingWriter:
    """Writes a recording of at most `max_bytes`. As a context it closes it.

    Raises OSError if the file cannot be created. A later problem must not interrupt a collector. It
    ends the recording, and `stopped_by` is then a sentence with the reason.
    """

    def __init__(self, path: Path, header: ProfileHeader, max_bytes: int) -> None:
        self.header = header
        self.stopped_by: str | None = None
        self.written_bytes = 0
        self._max_bytes = max_bytes
        self._file = path.open("w", encoding="ascii", buffering=BUFFER_BYTES)
        _open_writers.add(self)
        self.line(json.dumps({VERSION_KEY: VERSION, **attrs.asdict(header)}))
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _open_writers.discard(self)
        self._attempt(self._file.close)

    def line(self, text: str) -> None:
        """Write a line of ASCII, given without its end."""
        if self.written_bytes + len(text) >= self._max_bytes:
            self.stop(f"it would be larger than {self._max_bytes:,} bytes")
        if self.stopped_by is None:
            self.written_bytes += len(text) + 1
            self._attempt(partial(self._file.write, text + "\n"))

    def flush(self) -> None:
        """Make everything written so far survive the process."""
        self._attempt(self._file.flush)

    def write_nowhere(self) -> None:
        """Discard what is buffered and what follows, because another process owns the file."""
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), self._file.fileno())

    def stop(self, why: str) -> None:
        """End the recording here, for the reason in this sentence."""
        self.stopped_by = self.stopped_by or why

    def _attempt(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as problem:
            self.stop(f"it cannot be written: {problem.strerror}")


_open_writers: WeakSet[RecordingWriter] = WeakSet()


def _detach_writers() -> None:
    """In a forked child: leave the recordings to the process that started them."""
    for writer in _open_writers:
        writer.write_nowhere()


os.register_at_fork(after_in_child=_detach_writers)


def is_recording(path: Path) -> bool:
    """Whether a file starts like a recording. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        return file.read(len(BEGINNING)) == BEGINNING


def read(path: Path) -> Profile:
    """Read the profile in a recording, complete or not.

    Raises OSError if the file cannot be read, and RecordingError with the file and the line.
    """
    lines = _lines(path)
    reading = _Reading(_at(path, 1, _header, next(lines, "")))
    for number, line in enumerate(lines, 2):
        _at(path, number, reading.add, line)
    return reading.profile


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file that have a line end, without it."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        while line := file.readline(LINE_CHARACTERS_MAX):
            if line.endswith("\n"):
                yield line[:-1]
            elif len(line) == LINE_CHARACTERS_MAX:
                raise RecordingError(f"{path}: a line has more than {LINE_CHARACTERS_MAX:,} bytes")


def _at(path: Path, number: int, read_line: Callable[[str], T], line: str) -> T:
    try:
        return read_line(line)
    except json.JSONDecodeError as problem:
        what = f"not a line of JSON: {problem.msg} in column {problem.colno}"
        raise RecordingError(f"{path}:{number}: {what}") from problem
    except (ValueError, RecursionError) as problem:
        raise RecordingError(f"{path}:{number}: {problem}") from problem


def _header(line: str) -> ProfileHeader:
    data = json.loads(line) if line.startswith("{") else {}
    if VERSION_KEY not in data:
        raise ValueError(
            f'a recording begins with a header line, {{"{VERSION_KEY}": {VERSION}, …}}'
        )
    version = data.pop(VERSION_KEY)
    if version != VERSION:
        raise ValueError(f"version {version!r} is unknown; this gcfuzz reads version {VERSION}")
    try:
        return cattrs.Converter(forbid_extra_keys=True).structure(data, ProfileHeader)
    except cattrs.BaseValidationError as problem:
        what = "; ".join(cattrs.transform_error(problem, format_exception=_described))
        raise ValueError(f"the header is wrong: {what}") from problem


def _described(problem: BaseException, kind: type | None) -> str:
    """A validator's own message, which names the figure."""
    return str(problem) if isinstance(problem, ValueError) else format_exception(problem, kind)


def _check_numbers(fields: object) -> None:
    """Check that all numbers of a line, including a report's entries, are 0 or more, and small."""
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, list):
            _check_numbers(field)
        elif isinstance(field, bool) or (isinstance(field, int) and not 0 <= field < NUMBERS):
            raise ValueError(f"{str(field)[:20]} is not a number from 0 to below 2**52")


def _check_span(began_us: int, ended_us: int, before: Sequence[CollectionMark | StateMark]) -> None:
    """Check that a collection starts after the last one has ended, and before its own end."""
    earliest_us = before[-1].ended_us if before else 0
    if not earliest_us <= began_us <= ended_us:
        raise ValueError(f"a collection that ends at {ended_us} us began at {began_us} us")


class _Reading:
    """Reads a profile, line by line."""

    def __init__(self, header: ProfileHeader) -> None:
        self.profile = Profile(header=header)
        self._pending: list[ProfileSample] = []
        self._hit_bytes = 0
        self._rounding = 0.0
        self._is_in_state = False

    def add(self, line: str) -> None:
        """Read a line after the header. Raises ValueError unless it is one of those above."""
        if self.profile.is_complete:
            raise ValueError("nothing may follow the end")
        fields = json.loads(line)
        _check_numbers(fields)
        match fields:
            case ["sample", int(at), int(stack), int(hits), int(period), int(counted)]:
                self._sample(ProfileSample(self._at(at), self._stack(stack), hits, period, counted))
            case ["report", int(at), [*entries]] if all(type(each) is int for each in entries):
                self._report(self._at(at), entries)
            case ["freed", int(at), [*numbers]] if all(type(each) is int for each in numbers):
                self._freed(self._at(at), numbers)
            case ["dropped", int(at)]:
                self._at(at)
                self._pending.clear()
            case ["time", int(at), int(stack)]:
                self.profile.time_samples.append(TimeSample(self._at(at), self._stack(stack)))
            case other:
                self._add_rare(other)

    def _add_rare(self, fields: object) -> None:
        profile = self.profile
        match fields:
            case ["minor", int(at), int(began), int(used), int(arenas), int(resident)]:
                _check_span(began, self._at(at), profile.minor_collections)
                mark = CollectionMark(began, at, used, arenas, resident)
                profile.minor_collections.append(mark)
            case ["step", int(at), int(began), int(state), int(after)]:
                _check_span(began, self._at(at), profile.states)
                self._step(began, at, State(state), State(after))
            case ["stack", int() | None as caller, int(frame)]:
                is_frame = frame < len(profile.frames)
                if not is_frame or (caller is not None and caller >= len(profile.stacks)):
                    raise ValueError("a stack's frame and its caller come before it")
                profile.stacks.append(Stack(caller, frame))
            case ["frame", str(function), str(file), int(first_line), int(line_number)]:
                profile.frames.append(Frame(function, file, first_line, line_number))
            case ["end", int(at), int(hits), int(weight)]:
                self._at(at)
                found = profile.hits, self._hit_bytes
                if found != (hits, weight):
                    raise ValueError(
                        f"the end has {hits} hits of {weight} bytes, and the samples have "
                        f"{found[0]} of {found[1]}"
                    )
                profile.is_complete = True
            case _:
                raise ValueError(f"not a line of a recording: {json.dumps(fields)[:60]}")

    def _at(self, at_us: int) -> int:
        last_us = self.profile.ended_us
        if at_us < last_us:
            raise ValueError(f"{at_us} us is before {last_us} us, the line before it")
        self.profile.ended_us = at_us
        return at_us

    def _stack(self, stack: int) -> int:
        if stack >= len(self.profile.stacks):
            raise ValueError(f"there is no stack {stack}")
        return stack

    def _sample(self, sample: ProfileSample) -> None:
        if min(sample.hits, sample.period_bytes, sample.counted_bytes) < 1:
            raise ValueError("a sample's hits, period and size must be 1 or more")
        self._hit_bytes += sample.hits * sample.period_bytes
        sample.collections_before = len(self.profile.minor_collections)
        if self.profile.header.is_random:
            # Rounding each weight by itself would distort a sum of many equal ones. So it is
            # rounded up as often as its fraction requires, in a sequence that no loop falls in step
            # with: multiples of the golden ratio.
            chance = chance_per_byte(sample.counted_bytes, sample.period_bytes)
            self._rounding = (self._rounding + GOLDEN_RATIO) % 1
            sample.weight_bytes = int(sample.counted_bytes / chance + self._rounding)
        self.profile.samples.append(sample)
        self._pending.append(sample)

    def _report(self, at_us: int, entries: list[int]) -> None:
        if sum(sample.hits for sample in self._pending) != len(entries):
            raise ValueError(f"{len(entries)} entries do not match the pending samples")
        types = self.profile.header.types
        for sample in self._pending:
            entry = entries[-1]
            del entries[-sample.hits :]
            kind = entry >> REPORT_KIND_SHIFT
            if kind >= len(types):
                raise ValueError(f"there is no type {kind}")
            sample.type = types[kind]
            sample.is_outside = bool(entry & REPORT_OUTSIDE)
            sample.fate = Fate.SURVIVED if entry & REPORT_SURVIVED else Fate.DIED_YOUNG
            sample.judged_at_us = at_us
        self._pending.clear()

    def _freed(self, at_us: int, numbers: list[int]) -> None:
        samples = self.profile.samples
        for number in numbers:
            if number >= len(samples) or samples[number].fate is not Fate.SURVIVED:
                raise ValueError(f"sample {number} did not survive, or is freed already")
            freed, collections = samples[number], len(self.profile.minor_collections)
            freed.fate, freed.freed_at_us = Fate.DIED_OLD, at_us
            freed.lived_collections = collections - freed.collections_before

    def _step(self, began_us: int, ended_us: int, state: State, after: State) -> None:
        steps, collecting_us = 1, ended_us - began_us
        if self._is_in_state:
            before = self.profile.states.pop()
            began_us, steps = before.began_us, before.steps + 1
            collecting_us += before.collecting_us
        step = StateMark(state.name.lower(), began_us, ended_us, steps, collecting_us)
        self.profile.states.append(step)
        self._is_in_state = after is state
