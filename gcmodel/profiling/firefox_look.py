"""How the Firefox Profiler is told to show a profile: colours, marks and tracks, as plain data.

Invariant: what looks different has different numbers here, and each fate has a colour of its own:
green for what died young and red for what survived, as in the paper's figure 1.
(Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine.)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import attrs

from gcmodel.profiling.profile import Fate, MinorCollection

Json = dict[str, object]

COLOURS = {
    "Other": "grey",  # The viewer looks for exactly this colour, and breaks without it.
    "Python": "yellow",
    "Garbage collector": "orange",
    Fate.DIED_YOUNG.capitalize(): "green",
    Fate.SURVIVED.capitalize(): "red",
    Fate.UNKNOWN.capitalize(): "lightblue",
}
"""The categories of frames and marks."""
CATEGORIES: list[Json] = [
    {"name": name, "color": colour, "subcategories": ["Other"]} for name, colour in COLOURS.items()
]
PYTHON_CATEGORY, COLLECTOR_CATEGORY = (
    list(COLOURS).index(name) for name in ("Python", "Garbage collector")
)
CATEGORY_OF_FATE = {fate: list(COLOURS).index(fate.capitalize()) for fate in Fate}

MINOR_MARKER = "MinorCollection"
MAJOR_MARKER = "MajorCollectionPhase"
# Marks lie above the allocations and phases above the memory, since they would cover each other.
MINOR_PLACES = ["marker-chart", "marker-table", "timeline-overview"]
MAJOR_PLACES = ["marker-chart", "marker-table", "timeline-memory"]

MINOR_SCHEMA: Json = {
    "name": MINOR_MARKER,
    "tooltipLabel": "{marker.name}",
    "tableLabel": "{marker.data.memoryUsed} used, {marker.data.arenas} in arenas, "
    "{marker.data.resident} resident",
    "chartLabel": "{marker.name}",
    "display": MINOR_PLACES,
    "description": "A minor collection, and the memory in use when it had ended.",
    "fields": [
        {"key": "memoryUsed", "label": "Memory used", "format": "bytes"},
        {"key": "arenas", "label": "Size of arenas", "format": "bytes"},
        {"key": "resident", "label": "Resident memory", "format": "bytes"},
    ],
}

MAJOR_SCHEMA: Json = {
    "name": MAJOR_MARKER,
    "tooltipLabel": "{marker.name}",
    "tableLabel": "steps: {marker.data.steps}, collecting: {marker.data.collecting}",
    "chartLabel": "{marker.name}",
    "display": MAJOR_PLACES,
    "description": "A phase of a major collection; the program runs between its steps.",
    "fields": [
        {"key": "steps", "label": "Steps", "format": "integer"},
        {"key": "collecting", "label": "Time spent collecting", "format": "duration"},
    ],
}


@attrs.frozen
class Track:
    """A curve of bytes over time, with a value after each minor collection."""

    name: str
    description: str
    colour: str
    value_bytes: Callable[[MinorCollection], int]


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
        "markerSchemaLocation": "timeline-memory",
        "sortWeight": number,
        "label": track.name,
        "tooltipRows": [
            {
                "type": "value",
                "source": source,
                "format": {"unit": "bytes"},
                "label": label,
            }
            for source, label in (
                ("accumulated", "at this time (in a zoomed view: above its lowest point)"),
                ("count-range", "range in graph"),
            )
        ],
    }
