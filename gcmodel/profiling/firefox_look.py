"""How the Firefox Profiler is told to show a profile: colours, marks and tracks, as plain data.

Invariant: what looks different has different numbers here, and each fate has a colour of its own:
green for what died young and red for what survived, as in the paper's figure 1,
a lighter red if it died later on. An outermost frame
has a category; any other has one too, or its caller's.
(Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine.)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from pathlib import PurePath

import attrs

from gcmodel.profiling.profile import CollectionMark, Fate, Frame

Json = dict[str, object]

COLOURS = {
    "Other": "grey",  # The viewer looks for exactly this colour, and breaks without it.
    "Python": "yellow",
    "Heap": "blue",
    "Garbage collector": "orange",
    "Sampling": "purple",
    Fate.DIED_YOUNG.capitalize(): "green",
    Fate.DIED_OLD.capitalize(): "lightred",
    Fate.SURVIVED.capitalize(): "red",
    Fate.UNKNOWN.capitalize(): "lightblue",
}
"""The categories of frames and marks."""
CATEGORIES: list[Json] = [
    {"name": name, "color": colour, "subcategories": ["Other"]} for name, colour in COLOURS.items()
]
CATEGORY_NUMBERS = {name: number for number, name in enumerate(COLOURS)}
COLLECTOR_CATEGORY = CATEGORY_NUMBERS["Garbage collector"]
CATEGORY_OF_FATE = {fate: CATEGORY_NUMBERS[fate.capitalize()] for fate in Fate}
CATEGORY_OF_FILE = {
    "gcmodel/collector/heap.py": CATEGORY_NUMBERS["Heap"],
    "gcmodel/collector/minor.py": COLLECTOR_CATEGORY,
    "gcmodel/collector/major.py": COLLECTOR_CATEGORY,
    "gcmodel/sampling/sampler.py": CATEGORY_NUMBERS["Sampling"],
    "gcmodel/sampling/sample_point.py": CATEGORY_NUMBERS["Sampling"],
    "gcmodel/profiling/*.py": CATEGORY_NUMBERS["Sampling"],
}
"""What says where time goes, by the end of a path; whatever it calls belongs to it."""
CALLED_BACK = frozenset({"Heap.place_old", "Heap.statistics", "Heap.memory_used_bytes"})
"""What the collector and the sampler call in the heap: time in it is theirs."""


def category_of(frame: Frame, is_outermost: bool) -> int | None:
    """The category of a frame; None for its caller's, so a helper belongs to what called it.

    Whoever else has no caller is the program; without a category, the viewer would show it grey.
    """
    if frame.function not in CALLED_BACK:
        path = PurePath(frame.file)
        for pattern, category in CATEGORY_OF_FILE.items():
            if path.match(pattern):
                return category
    return CATEGORY_NUMBERS["Python"] if is_outermost else None


MINOR_MARKER = "MinorCollection"
MAJOR_MARKER = "GC Interrupt"
"""The viewer knows this name: it paints such marks orange, in a row below the black ones."""
# Not above the memory, where the paper's figure 1 has no marks.
MARKER_PLACES = ["marker-chart", "marker-table", "timeline-overview"]
MINOR_COLOUR = "grey"
PHASE_COLOURS = {
    "scanning": "purple",
    "marking": "orange",
    "sweeping": "blue",
    "finalizing": "magenta",
}
OTHER_PHASE_COLOUR = "teal"
COLOUR_FIELD: Json = {"key": "colour", "label": "Colour", "format": "string", "hidden": True}
"""It is there for the marker chart to paint with, and not to be read."""

MINOR_SCHEMA: Json = {
    "name": MINOR_MARKER,
    "tooltipLabel": "{marker.name}",
    "tableLabel": "{marker.data.memoryUsed} used, {marker.data.arenas} in arenas, "
    "{marker.data.resident} resident",
    "chartLabel": "{marker.data.memoryUsed}",
    "colorField": "colour",
    "display": MARKER_PLACES,
    "description": "A minor collection, and the memory in use when it had ended.",
    "fields": [
        {"key": "memoryUsed", "label": "Memory used", "format": "bytes"},
        {"key": "arenas", "label": "Size of arenas", "format": "bytes"},
        {"key": "resident", "label": "Resident memory", "format": "bytes"},
        COLOUR_FIELD,
    ],
}

MAJOR_SCHEMA: Json = {
    "name": MAJOR_MARKER,
    "tooltipLabel": "{marker.name}: {marker.data.phase}",
    "tableLabel": "{marker.data.phase}, steps: {marker.data.steps}, "
    "collecting: {marker.data.collecting}",
    "chartLabel": "{marker.data.phase}",
    "colorField": "colour",
    "display": MARKER_PLACES,
    "description": "A phase of a major collection; the program runs between its steps.",
    "fields": [
        {"key": "phase", "label": "Phase", "format": "string"},
        {"key": "steps", "label": "Steps", "format": "integer"},
        {"key": "collecting", "label": "Time spent collecting", "format": "duration"},
        COLOUR_FIELD,
    ],
}


@attrs.frozen
class Track:
    """A curve of bytes over time, with a value after each minor collection."""

    name: str
    description: str
    colour: str
    value_bytes: Callable[[CollectionMark], int]


TRACKS = (
    Track(
        "total_size_of_arenas",
        "Bytes in the arenas of the old space",
        "blue",
        attrgetter("arena_bytes"),
    ),
    Track(
        "total_memory_used",
        "Bytes of all objects outside the nursery",
        "green",
        attrgetter("memory_used_bytes"),
    ),
    Track("vmRSS", "Resident bytes of the process", "orange", attrgetter("resident_bytes")),
)


def track_display(number: int, track: Track) -> Json:
    """How the viewer draws a track: the first one has the number 0, and is the uppermost."""
    return {
        "graphType": "line-accumulated",
        "unit": "bytes",
        "color": track.colour,
        "markerSchemaLocation": None,
        "sortWeight": number,
        "label": track.name,
        "tooltipRows": [
            {"type": "value", "source": source, "format": {"unit": "bytes"}, "label": label}
            for source, label in (
                ("accumulated", f"{track.name} above the lowest in view"),
                ("count", "change since the collection before"),
                ("count-range", "from the lowest to the highest in view"),
            )
        ],
    }
