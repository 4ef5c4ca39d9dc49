"""How the Firefox Profiler shows a profile: colours, marks and tracks, as plain data.

Invariant: each fate has a colour of its own: green if the object died young, red if it survived, as
in the paper's figure 1, and light red if it died later. An outermost frame has a category; any
other frame has one too, or its caller's. (Jung and Bolz-Tereick, Low Overhead Allocation Sampling
in a Garbage Collected Virtual Machine.)
"""

from pathlib import PurePath

from gcmodel.profiling.profile import Fate, Frame

Json = dict[str, object]

COLOURS = {
    "Other": "grey",  # The viewer needs a category of exactly this colour.
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
"""The category of a frame, and of all that it calls, by the end of its file's path."""
CALLED_BACK = frozenset({"Heap.place_old", "Heap.statistics", "Heap.memory_used_bytes"})
"""The methods of the heap that the collector and the sampler call. They have no category."""


def category_of(frame: Frame, is_outermost: bool) -> int | None:
    """The category of a frame; None for its caller's, so that a helper belongs to its caller.

    Any other outermost frame belongs to the program.
    """
    if frame.function not in CALLED_BACK:
        path = PurePath(frame.file)
        for pattern, category in CATEGORY_OF_FILE.items():
            if path.match(pattern):
                return category
    return CATEGORY_NUMBERS["Python"] if is_outermost else None


MINOR_MARKER = "MinorCollection"
MAJOR_MARKER = "GC Interrupt"
"""The viewer draws markers of this name in orange, in a row below the black ones."""
MINOR_COLOUR = "grey"
STATE_COLOURS = {
    "scanning": "purple",
    "marking": "orange",
    "sweeping": "blue",
    "finalizing": "magenta",
}


def _schema(name: str, description: str, fields: dict[str, tuple[str, str]], **labels: str) -> Json:
    """How markers of one type are shown; `fields` has the label and format of each key."""
    shown: list[Json] = [
        {"key": key, "label": label, "format": kind} for key, (label, kind) in fields.items()
    ]
    # The marker chart takes the colour from a field that no user needs to read.
    colour: Json = {"key": "colour", "label": "Colour", "format": "string", "hidden": True}
    return {
        "name": name,
        **labels,
        "colorField": "colour",
        # Not above the memory tracks, as in the paper's figure 1.
        "display": ["marker-chart", "marker-table", "timeline-overview"],
        "description": description,
        "fields": [*shown, colour],
    }


MINOR_SCHEMA = _schema(
    MINOR_MARKER,
    "A minor collection, and the memory in use when it had ended.",
    {
        "memoryUsed": ("Memory used", "bytes"),
        "arenas": ("Size of arenas", "bytes"),
        "resident": ("Resident memory", "bytes"),
    },
    tooltipLabel="{marker.name}",
    tableLabel="{marker.data.memoryUsed} used, {marker.data.arenas} in arenas, "
    "{marker.data.resident} resident",
    chartLabel="{marker.data.memoryUsed}",
)
MAJOR_SCHEMA = _schema(
    MAJOR_MARKER,
    "A phase of a major collection; the program runs between its steps.",
    {
        "phase": ("Phase", "string"),
        "steps": ("Steps", "integer"),
        "collecting": ("Time spent collecting", "duration"),
    },
    tooltipLabel="{marker.name}: {marker.data.phase}",
    tableLabel="{marker.data.phase}, steps: {marker.data.steps}, "
    "collecting: {marker.data.collecting}",
    chartLabel="{marker.data.phase}",
)

TRACKS = (
    ("total_size_of_arenas", "Bytes in the arenas of the old space", "blue", "arena_bytes"),
    ("total_memory_used", "Bytes of all objects outside the nursery", "green", "memory_used_bytes"),
    ("vmRSS", "Resident bytes of the process", "orange", "resident_bytes"),
)
"""The curves of bytes, the uppermost first: name, description, colour, and the collection's field
whose value it has after each minor collection."""


def track_display(number: int, name: str, colour: str) -> Json:
    """How the viewer draws a track."""
    labels = {
        "accumulated": f"{name} above the lowest in view",
        "count": "change since the collection before",
        "count-range": "from the lowest to the highest in view",
    }
    return {
        "graphType": "line-accumulated",
        "unit": "bytes",
        "color": colour,
        "markerSchemaLocation": None,
        "sortWeight": number,
        "label": name,
        "tooltipRows": [
            {"type": "value", "source": source, "format": {"unit": "bytes"}, "label": label}
            for source, label in labels.items()
        ],
    }
