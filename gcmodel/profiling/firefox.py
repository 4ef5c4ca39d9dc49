"""A profile as the Firefox Profiler shows it: allocations, collections, memory and time.

    stack 0 … n - 1   the profile's stacks, under their own numbers
    stack n …         the sampled ones among them, with the object's type and fate on top

Invariant: each sample is one row whose weight is its own, so the viewer's totals are the
recorder's. The profile's frames and stacks keep their numbers; what is added comes after them.

The viewer upgrades what is older than itself and refuses what is newer, so the version is one that
it has known for a while. (Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage
Collected Virtual Machine, section 4 and figure 1; the Firefox Profiler's `src/types/profile.ts`
and `docs-developer/CHANGELOG-formats.md`.)
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from gcmodel.profiling.firefox_look import (
    CATEGORIES,
    CATEGORY_OF_FATE,
    COLLECTOR_CATEGORY,
    MAJOR_MARKER,
    MAJOR_SCHEMA,
    MINOR_COLOUR,
    MINOR_MARKER,
    MINOR_SCHEMA,
    OTHER_PHASE_COLOUR,
    PHASE_COLOURS,
    TRACKS,
    Track,
    category_of,
    track_display,
)
from gcmodel.profiling.profile import CollectionMark, Fate, Phase, Profile

VERSION = 63
GECKO_VERSION = 33
"""The version of what Firefox itself writes; a profile that it did not make must have one too."""

GZIP_LEVEL = 6
"""Files are a hundredth larger than at the highest level, in a quarter of its time."""

DEFAULT_INTERVAL_MS = 1.0
"""The viewer divides by the interval of time samples, whether there are any or not."""

FATES = tuple(Fate)
"""In the order of their resources, by whose names the viewer calls what others call libraries."""
INTERVAL_PHASE = 1
"""The phase of a marker with both a beginning and an end."""
NO_RESOURCE = -1
NO_ADDRESS = -1

T = TypeVar("T")
Json = dict[str, object]
Rows = Iterable[Sequence[object]]
Kind = tuple[str, Fate]
"""A type and a fate."""


class _Strings:
    """Numbers for texts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> list[str]:
        return list(self._numbers)


class _Tops:
    """What is put on top of the sampled stacks: the kinds in the profile, and stacks under them."""

    def __init__(self, profile: Profile) -> None:
        kinds = dict.fromkeys((sample.type, sample.fate) for sample in profile.samples)
        self.kinds: dict[Kind, int] = {kind: number for number, kind in enumerate(kinds)}
        pairs = [(each.stack, self.kinds[each.type, each.fate]) for each in profile.samples]
        first = len(profile.stacks)
        self.stacks = {pair: first + number for number, pair in enumerate(dict.fromkeys(pairs))}
        self.stack_of_sample = [self.stacks[pair] for pair in pairs]


def write(data: Json, path: Path) -> None:
    """Write a processed profile to a file; compressed if its name ends in `.gz`.

    Raises OSError where it cannot be written.
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii")
    path.write_bytes(gzip.compress(text, GZIP_LEVEL, mtime=0) if path.suffix == ".gz" else text)


def processed(profile: Profile) -> Json:
    """The profile in the viewer's processed format, as JSON would be parsed."""
    strings, tops = _Strings(), _Tops(profile)
    threads = [_allocation_thread(profile, tops, strings)]
    if profile.time_samples:
        threads.append(_time_thread(profile))
    return {
        "meta": _meta(profile, len(threads)),
        "libs": [],
        "pages": [],
        "profilerOverhead": [],
        "counters": [_counter(profile, *track) for track in enumerate(TRACKS)]
        if profile.minor_collections
        else [],
        "shared": _shared(profile, tops, strings),
        "threads": threads,
    }


# What is said of the whole.


def _meta(profile: Profile, threads: int) -> Json:
    header = profile.header
    return {
        "interval": _interval_ms(profile),
        "startTime": header.began_unix_ms,
        "profilingStartTime": 0.0,
        "profilingEndTime": _ended_ms(profile),
        "processType": 0,
        "stackwalk": 1,
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "product": f"gcfuzz: {header.program}",
        "importedFrom": "gcfuzz",
        "arguments": header.program,
        "categories": CATEGORIES,
        "markerSchema": [MINOR_SCHEMA, MAJOR_SCHEMA],
        "symbolicated": True,
        "symbolicationNotSupported": True,
        "usesOnlyOneStackType": True,
        "sourceCodeIsNotOnSearchfox": True,
        "initialVisibleThreads": list(range(threads)),
        "initialSelectedThreads": [0],
        "keepProfileThreadOrder": True,
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "extra": [{"label": "Recording", "entries": _recording_entries(profile)}],
    }


def _interval_ms(profile: Profile) -> float:
    period_us = profile.header.time_period_us
    return DEFAULT_INTERVAL_MS if period_us is None else _ms(period_us)


def _ended_ms(profile: Profile) -> float:
    """When the profile ends. What is at that very moment, the viewer leaves out."""
    return _ms(profile.ended_us + 1)


def _recording_entries(profile: Profile) -> list[Json]:
    header = profile.header
    entries: list[tuple[str, str, object]] = [
        ("Program", "string", header.program),
        ("Sampling period", "bytes", header.period_bytes),
        ("Distances between samples", "string", "random" if header.is_random else "equal"),
        ("Sampled objects", "integer", len(profile.samples)),
        ("Samples", "integer", sum(sample.hits for sample in profile.samples)),
        ("Allocated bytes that they stand for", "bytes", profile.weight_bytes),
        ("Nursery", "bytes", header.nursery_bytes),
        ("Python", "string", header.python),
        ("Came to its end", "string", "yes" if profile.is_complete else "no"),
    ]
    return [{"label": label, "format": kind, "value": value} for label, kind, value in entries]


# Markers.


def _markers(profile: Profile, strings: _Strings) -> Json:
    spans: list[tuple[CollectionMark | Phase, str, Json]] = [
        *((each, "minor collection", _minor_data(each)) for each in profile.minor_collections),
        *((each, "major collection", _major_data(each)) for each in profile.phases),
    ]
    spans.sort(key=lambda span: span[0].began_us)
    return _table(
        ("data", "name", "startTime", "endTime", "phase", "category"),
        (
            (
                data,
                strings.number(name),
                _ms(when.began_us),
                _ms(when.ended_us),
                INTERVAL_PHASE,
                COLLECTOR_CATEGORY,
            )
            for when, name, data in spans
        ),
    )


def _minor_data(collection: CollectionMark) -> Json:
    return {
        "type": MINOR_MARKER,
        "colour": MINOR_COLOUR,
        "memoryUsed": collection.memory_used_bytes,
        "arenas": collection.arena_bytes,
        "resident": collection.resident_bytes,
    }


def _major_data(phase: Phase) -> Json:
    return {
        "type": MAJOR_MARKER,
        "colour": PHASE_COLOURS.get(phase.name, OTHER_PHASE_COLOUR),
        "phase": phase.name,
        "steps": phase.steps,
        "collecting": _ms(phase.collecting_us),
    }


# Threads.


def _thread(profile: Profile, number: int, name: str, tables: Json) -> Json:
    ended_ms = _ended_ms(profile)
    return {
        "processType": "default",
        "processName": profile.header.program,
        "processStartupTime": 0.0,
        "processShutdownTime": ended_ms,
        "registerTime": 0.0,
        "unregisterTime": ended_ms,
        "pausedRanges": [],
        "showMarkersInTimeline": True,
        "name": name,
        "isMainThread": number == 0,
        "pid": str(profile.header.pid),
        "tid": number,
        **tables,
    }


def _allocation_thread(profile: Profile, tops: _Tops, strings: _Strings) -> Json:
    tables: Json = {
        "samples": _samples(
            tops.stack_of_sample,
            [sample.at_us for sample in profile.samples],
            "bytes",
            [sample.weight_bytes for sample in profile.samples],
        ),
        "markers": _markers(profile, strings),
    }
    # The viewer takes the first and the last row's time, so a table without rows must not be there.
    if profile.samples:
        tables["nativeAllocations"] = _native_allocations(profile, tops)
    return _thread(profile, 0, "Allocations", tables)


def _time_thread(profile: Profile) -> Json:
    samples = profile.time_samples
    stacks, times_us = [each.stack for each in samples], [each.at_us for each in samples]
    tables: Json = {
        "samples": _samples(stacks, times_us, "samples", None),
        "markers": _table(("data", "name", "startTime", "endTime", "phase", "category"), ()),
    }
    return _thread(profile, 1, "Time", tables)


def _samples(
    stacks: list[int], times_us: list[int], weight_type: str, weights: list[int] | None
) -> Json:
    return {
        "stack": stacks,
        "time": list(map(_ms, times_us)),
        "weight": weights,
        "weightType": weight_type,
        "length": len(stacks),
    }


def _native_allocations(profile: Profile, tops: _Tops) -> Json:
    """What came and what went, for the view of what is retained.

    An object that died young is gone when its fate is known, with the stack that made it, since no
    frame of the program frees objects. One that survived is never heard of again, and so retained.
    """
    rows = []
    for address, (sample, stack) in enumerate(
        zip(profile.samples, tops.stack_of_sample, strict=True)
    ):
        rows.append((sample.at_us, sample.weight_bytes, stack, address))
        if sample.fate is Fate.DIED_YOUNG and sample.judged_at_us is not None:
            rows.append((sample.judged_at_us, -sample.weight_bytes, stack, address))
    # The sort is stable, so an object that dies in the microsecond of its birth dies after it.
    rows.sort(key=lambda row: row[0])
    table = _table(
        ("time", "weight", "stack", "memoryAddress", "threadId"),
        ((_ms(at_us), *rest, 0) for at_us, *rest in rows),
    )
    return {**table, "weightType": "bytes"}


# Memory.


def _counter(profile: Profile, number: int, track: Track) -> Json:
    """A track. The viewer sets the first row to zero, so that one only says where it begins.

    That is where the first value is known: from an earlier moment, the curve would climb to it.
    """
    values = [0, *map(track.value_bytes, profile.minor_collections)]
    collections = profile.minor_collections
    times_us = [collections[0].ended_us, *(each.ended_us for each in collections)]
    differences = [after - before for before, after in pairwise(values)]
    return {
        "name": track.name,
        "category": "Memory",
        "description": track.description,
        "pid": str(profile.header.pid),
        "mainThreadIndex": 0,
        "samples": {
            "time": list(map(_ms, times_us)),
            "count": [0, *differences],
            "length": len(times_us),
        },
        "display": track_display(number, track),
    }


# Stacks, frames, functions and files.


def _shared(profile: Profile, tops: _Tops, strings: _Strings) -> Json:
    functions = _numbered((each.function, each.file, each.first_line) for each in profile.frames)
    files = _numbered(each.file for each in profile.frames if each.file)
    return {
        "stackTable": _stack_table(profile, tops),
        "frameTable": _frame_table(profile, tops, functions),
        "funcTable": _func_table(functions, files, tops, strings),
        "resourceTable": _table(
            ("lib", "name", "host", "type"),
            ((None, strings.number(fate), None, 0) for fate in FATES),
        ),
        "nativeSymbols": _table(("libIndex", "address", "name", "functionSize"), ()),
        "sources": _table(
            ("id", "filename", "startLine", "startColumn", "sourceMapURL"),
            ((None, strings.number(file), 1, 1, None) for file in files),
        ),
        "stringArray": strings.all(),
    }


def _stack_table(profile: Profile, tops: _Tops) -> Json:
    frames = [each.frame for each in profile.stacks]
    on_top = [len(profile.frames) + kind for _, kind in tops.stacks]
    prefixes = [each.caller for each in profile.stacks]
    return {
        "frame": frames + on_top,
        "prefix": prefixes + [stack for stack, _ in tops.stacks],
        "length": len(frames) + len(on_top),
    }


def _frame_table(profile: Profile, tops: _Tops, functions: dict[tuple[str, str, int], int]) -> Json:
    """The lines at which the program was, and each kind."""
    outermost = {each.frame for each in profile.stacks if each.caller is None}
    places: list[tuple[int | None, int, int | None]] = [
        (
            category_of(each, number in outermost),
            functions[each.function, each.file, each.first_line],
            each.line or None,
        )
        for number, each in enumerate(profile.frames)
    ]
    places += [
        (CATEGORY_OF_FATE[fate], len(functions) + number, None)
        for (_, fate), number in tops.kinds.items()
    ]
    table = _table(("category", "func", "line"), places)
    count = len(places)
    return {
        **table,
        "address": [NO_ADDRESS] * count,
        "inlineDepth": [0] * count,
        "subcategory": [0] * count,
        "nativeSymbol": [None] * count,
        "innerWindowID": [0] * count,
        "column": [None] * count,
    }


def _func_table(
    functions: dict[tuple[str, str, int], int],
    files: dict[str, int],
    tops: _Tops,
    strings: _Strings,
) -> Json:
    """The program's functions, and each kind: named by its type, from the resource of its fate."""
    rows: list[tuple[int, int, int | None, int | None]] = [
        (strings.number(name), NO_RESOURCE, files.get(file), first_line or None)
        for name, file, first_line in functions
    ]
    rows += [
        (strings.number(type_name), FATES.index(fate), None, None) for type_name, fate in tops.kinds
    ]
    table = _table(("name", "resource", "source", "lineNumber"), rows)
    count = len(rows)
    return {
        **table,
        "isJS": [False] * count,
        "relevantForJS": [False] * count,
        "columnNumber": [None] * count,
    }


def _numbered(things: Iterable[T]) -> dict[T, int]:
    return {thing: number for number, thing in enumerate(dict.fromkeys(things))}


def _table(columns: Sequence[str], rows: Rows) -> Json:
    """A table as the viewer has it: a list for each column, and how long they all are."""
    listed = list(rows)
    values = map(list, zip(*listed, strict=True)) if listed else ([] for _ in columns)
    return {**dict(zip(columns, values, strict=True)), "length": len(listed)}


def _ms(microseconds: int) -> float:
    return microseconds / 1000
