"""The file that the Firefox Profiler opens: allocations, collections, memory and time.

    stack 0 … n - 1   the profile's stacks, under their own numbers
    stack n …         the sampled ones among them, with the object's type and fate on top

Invariant: each sample is one row with its own weight, so the viewer's totals are the recorder's.
The profile's frames and stacks keep their numbers, and added ones follow them.

The viewer upgrades older versions of the format and refuses newer ones. (Jung and Bolz-Tereick, Low
Overhead Allocation Sampling in a Garbage Collected Virtual Machine, section 4 and figure 1; the
Firefox Profiler's `src/types/profile.ts` and `docs-developer/CHANGELOG-formats.md`.)
"""

import gzip
import json
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

from gcmodel.profiling import firefox_look as look
from gcmodel.profiling.estimates import CONFIDENCE, estimates
from gcmodel.profiling.firefox_look import Json
from gcmodel.profiling.profile import CollectionMark, Fate, Numbers, Profile, StateMark

VERSION = 63
GECKO_VERSION = 33
"""The version of Firefox's own format, which every profile must have."""
GZIP_LEVEL = 6
"""The highest level takes four times as long, for files a hundredth smaller."""
DEFAULT_INTERVAL_MS = 1.0
"""The viewer divides by the interval of time samples, even if there are none."""
FATES = tuple(Fate)
"""The fates in the order of their resources. The viewer shows a resource's name as a library."""
INTERVAL_PHASE = 1
"""The phase of a marker with a start and an end."""
NO_RESOURCE = -1
NO_ADDRESS = -1

Kind = tuple[str, Fate]
"""A type and a fate."""
Mark = tuple[CollectionMark | StateMark, str, Json]
"""A collection, its name, and its data."""
Top = tuple[int, Kind]
"""A sampled stack, and the kind on top of it."""
Function = tuple[str, int, str, int]
"""Name, resource, file and line. The file is empty and the line 0 if there is none."""


def write(profile: Profile, path: Path) -> None:
    """Write a profile, compressed if the file's name ends in `.gz`. Raises OSError."""
    data = processed(profile)
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii")
    path.write_bytes(gzip.compress(text, GZIP_LEVEL, mtime=0) if path.suffix == ".gz" else text)


def processed(profile: Profile) -> Json:
    """The profile in the viewer's processed format, as parsed JSON."""
    strings: Numbers[str] = Numbers()
    tops: Numbers[Top] = Numbers()
    threads = [_allocation_thread(profile, tops, strings)]
    if profile.time_samples:
        threads.append(_time_thread(profile, strings))
    return {
        "meta": _meta(profile, len(threads)),
        "libs": [],
        "pages": [],
        "profilerOverhead": [],
        "counters": [_counter(profile, number) for number in range(len(look.TRACKS))]
        if profile.minor_collections
        else [],
        "shared": _shared(profile, list(tops), strings),
        "threads": threads,
    }


def _table(length: int, **columns: object) -> Json:
    """The viewer's form of a table: a list for each column. A single value fills its column."""
    lists = {
        name: column if isinstance(column, list) else [column] * length
        for name, column in columns.items()
    }
    return {**lists, "length": length}


def _ms(microseconds: int) -> float:
    return microseconds / 1000


# Metadata.


def _meta(profile: Profile, threads: int) -> Json:
    header, period_us = profile.header, profile.header.time_period_us
    return {
        "interval": DEFAULT_INTERVAL_MS if period_us is None else _ms(period_us),
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
        "categories": look.CATEGORIES,
        "markerSchema": [look.MINOR_SCHEMA, look.MAJOR_SCHEMA],
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


def _ended_ms(profile: Profile) -> float:
    """When the profile ends. The viewer leaves out samples at that very moment."""
    return _ms(profile.ended_us + 1)


def _recording_entries(profile: Profile) -> list[Json]:
    header = profile.header
    bounds = estimates(profile, (((), each) for each in profile.samples), keys=[()])[()].bounds
    range_of_total = "no bounds: the distances are equal"
    if bounds:
        range_of_total = f"{bounds.low_bytes:,} to {bounds.high_bytes:,} bytes"
    entries: list[tuple[str, str, object]] = [
        ("Program", "string", header.program),
        ("Sampling period", "bytes", header.period_bytes),
        ("Distances between samples", "string", "random" if header.is_random else "equal"),
        ("Sampled objects", "integer", len(profile.samples)),
        ("Samples", "integer", profile.hits),
        ("Estimated allocated bytes", "bytes", profile.weight_bytes),
        (f"With {CONFIDENCE:.0%} confidence", "string", range_of_total),
        ("Nursery", "bytes", header.nursery_bytes),
        ("Python", "string", header.python),
        ("Complete", "string", "yes" if profile.is_complete else "no"),
    ]
    return [{"label": label, "format": kind, "value": value} for label, kind, value in entries]


# Markers.


def _markers(marks: list[Mark], strings: Numbers[str]) -> Json:
    return _table(
        len(marks),
        data=[data for _, _, data in marks],
        name=[strings[name] for _, name, _ in marks],
        startTime=[_ms(when.began_us) for when, _, _ in marks],
        endTime=[_ms(when.ended_us) for when, _, _ in marks],
        phase=INTERVAL_PHASE,
        category=look.COLLECTOR_CATEGORY,
    )


def _collections(profile: Profile) -> list[Mark]:
    marks: list[Mark] = []
    for collection in profile.minor_collections:
        data: Json = {
            "type": look.MINOR_MARKER,
            "colour": look.MINOR_COLOUR,
            "memoryUsed": collection.memory_used_bytes,
            "arenas": collection.arena_bytes,
            "resident": collection.resident_bytes,
        }
        marks.append((collection, "minor collection", data))
    for state in profile.states:
        data = {
            "type": look.MAJOR_MARKER,
            "colour": look.STATE_COLOURS[state.name],
            "phase": state.name,
            "steps": state.steps,
            "collecting": _ms(state.collecting_us),
        }
        marks.append((state, "major collection", data))
    return sorted(marks, key=lambda mark: mark[0].began_us)


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


def _allocation_thread(profile: Profile, tops: Numbers[Top], strings: Numbers[str]) -> Json:
    samples = profile.samples
    first = len(profile.stacks)
    stacks = [first + tops[each.stack, (each.type, each.fate)] for each in samples]
    rows = _samples(stacks, [each.at_us for each in samples])
    weights = [each.weight_bytes for each in samples]
    tables: Json = {
        "samples": {**rows, "weight": weights, "weightType": "bytes"},
        "markers": _markers(_collections(profile), strings),
    }
    # The viewer takes the times of the first and the last row, so there must be no empty table.
    if samples:
        tables["nativeAllocations"] = _native_allocations(profile, stacks)
    return _thread(profile, 0, "Allocations", tables)


def _time_thread(profile: Profile, strings: Numbers[str]) -> Json:
    samples = profile.time_samples
    stacks, times_us = [each.stack for each in samples], [each.at_us for each in samples]
    tables: Json = {
        "samples": {**_samples(stacks, times_us), "weight": None, "weightType": "samples"},
        "markers": _markers([], strings),
    }
    return _thread(profile, 1, "Time", tables)


def _samples(stacks: list[int], times_us: list[int]) -> Json:
    return _table(len(stacks), stack=stacks, time=list(map(_ms, times_us)))


def _native_allocations(profile: Profile, stacks: list[int]) -> Json:
    """The allocations and deallocations, from which the viewer computes what is retained.

    An object's deallocation has the stack that allocated it, since no frame of the program frees
    objects.
    """
    rows = []
    for address, (sample, stack) in enumerate(zip(profile.samples, stacks, strict=True)):
        rows.append((sample.at_us, sample.weight_bytes, stack, address))
        if sample.died_at_us is not None:
            rows.append((sample.died_at_us, -sample.weight_bytes, stack, address))
    # The sort is stable, so an object that dies in the microsecond of its birth dies after it.
    rows.sort(key=itemgetter(0))
    times_us, weights, row_stacks, addresses = map(list, zip(*rows, strict=True))
    table = _table(
        len(rows),
        time=list(map(_ms, times_us)),
        weight=weights,
        stack=row_stacks,
        memoryAddress=addresses,
        threadId=0,
    )
    return {**table, "weightType": "bytes"}


def _counter(profile: Profile, number: int) -> Json:
    """A memory track.

    The viewer sets the first row to zero, so an extra row at the first known value starts it.
    """
    name, description, colour, field = look.TRACKS[number]
    collections = profile.minor_collections
    values = [0, *(getattr(each, field) for each in collections)]
    times_us = [collections[0].ended_us, *(each.ended_us for each in collections)]
    differences = [after - before for before, after in pairwise(values)]
    return {
        "name": name,
        "category": "Memory",
        "description": description,
        "pid": str(profile.header.pid),
        "mainThreadIndex": 0,
        "samples": _table(len(times_us), time=list(map(_ms, times_us)), count=[0, *differences]),
        "display": look.track_display(number, name, colour),
    }


# Stacks, frames, functions and files.


def _shared(profile: Profile, tops: list[Top], strings: Numbers[str]) -> Json:
    kinds: Numbers[Kind] = Numbers()
    stacks = profile.stacks
    # The kinds get their numbers here, and follow the frames of the program.
    frames_of_kinds = [len(profile.frames) + kinds[kind] for _, kind in tops]
    functions: Numbers[Function] = Numbers()
    frame_table = _frame_table(profile, kinds, functions)
    files: Numbers[str] = Numbers()
    return {
        "stackTable": _table(
            len(stacks) + len(tops),
            frame=[each.frame for each in stacks] + frames_of_kinds,
            prefix=[each.caller for each in stacks] + [stack for stack, _ in tops],
        ),
        "frameTable": frame_table,
        "funcTable": _table(
            len(functions),
            name=[strings[name] for name, _, _, _ in functions],
            resource=[resource for _, resource, _, _ in functions],
            source=[files[file] if file else None for _, _, file, _ in functions],
            lineNumber=[line or None for *_, line in functions],
            isJS=False,
            relevantForJS=False,
            columnNumber=None,
        ),
        "resourceTable": _table(
            len(FATES), lib=None, name=[strings[fate] for fate in FATES], host=None, type=0
        ),
        "nativeSymbols": _table(0, libIndex=None, address=None, name=None, functionSize=None),
        "sources": _table(
            len(files),
            id=None,
            filename=[strings[file] for file in files],
            startLine=1,
            startColumn=1,
            sourceMapURL=None,
        ),
        "stringArray": list(strings),
    }


def _frame_table(profile: Profile, kinds: Numbers[Kind], functions: Numbers[Function]) -> Json:
    """The frames of the program, then the kinds: a type, with its fate as the resource.

    The viewer shows the line of a function and not of a frame. So an allocating function is listed
    once for each line at which it allocates.
    """
    files = profile.short_files()
    allocating = {profile.stacks[each.stack].frame for each in profile.samples}
    outermost = {each.frame for each in profile.stacks if each.caller is None}
    frames = profile.frames
    categories = [look.category_of(each, n in outermost) for n, each in enumerate(frames)]
    lines = [each.line if n in allocating else each.first_line for n, each in enumerate(frames)]
    called = [
        functions[each.function, NO_RESOURCE, files[each.file], line]
        for each, line in zip(frames, lines, strict=True)
    ]
    return _table(
        len(frames) + len(kinds),
        category=categories + [look.CATEGORY_OF_FATE[fate] for _, fate in kinds],
        func=called + [functions[name, FATES.index(fate), "", 0] for name, fate in kinds],
        line=[each.line or None for each in frames] + [None] * len(kinds),
        address=NO_ADDRESS,
        inlineDepth=0,
        subcategory=0,
        nativeSymbol=None,
        innerWindowID=0,
        column=None,
    )
