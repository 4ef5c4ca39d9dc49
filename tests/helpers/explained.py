"""Pages of `gcfuzz explain`: short traces, the data of their pages, and the objects in a step."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict

import attrs

from fuzz.failures.trace_files import shipped_traces
from fuzz.protocol.trace import loads
from fuzz.replay import replay_steps
from fuzz.targets import make_target
from fuzz.terminal.explain_page import Page, make_page

TOP = 256
HEADER = '{"gcfuzz": 2, "target": "reference"}\n'
ENABLE = '{"do": "enable_sampling", "period_bytes": 128}'
ENABLE_BEYOND = '{"do": "enable_sampling", "period_bytes": 512}'
NODE = '{"do": "allocate_node", "number": 7}'
ARRAY = '{"do": "allocate_array", "length": 2}'
OUTSIDE = '{"do": "allocate_string", "length": 100}'
WEAKREF = '{"do": "allocate_weakref", "root": 0}'
FREE = '{"do": "free", "root": 0}'
COLLECT = '{"do": "collect_minor"}'
LOAD = '{"do": "load_prebuilt", "index": 0}'
NUMBER_LOST = (
    '{"do": "allocate_node", "number": 0}',
    '{"do": "take_identity", "root": 0}',
    '{"do": "write_number", "root": 0, "number": 1}',
    '{"do": "collect_step"}',
)
"""With shadow-keeps-number the node is 0 again after the collection."""
LOSES_NUMBER = "reference+shadow-keeps-number"
STALE_LIMIT = (
    '{"do": "enable_sampling", "period_bytes": 264}',
    '{"do": "allocate_string", "length": 208}',
    '{"do": "allocate_node", "number": 0, "nonmovable": true}',
)
HAS_STALE_LIMIT = "reference+stale-limit-after-large"
DEAF = (
    '{"do": "allocate_array", "length": 1}',
    '{"do": "enable_sampling", "period_bytes": 8}',
    '{"do": "allocate_array", "length": 0}',
)
"""With deaf-after-enable the end of the TLAB is not where the sample is due."""
IS_DEAF = "reference-hotspot+deaf-after-enable"
MALLOC = '{"do": "malloc", "size_bytes": 10, "thread": 1}'
REALLOC = '{"do": "realloc", "root": 0, "size_bytes": 17}'
BLOCKS = "reference-jemalloc"
OF_PLANTED_BUGS = {name: trace for name, trace in shipped_traces().items() if trace.header.kills}


def write(root: int, field: int, value: int | None) -> str:
    return json.dumps({"do": "write", "root": root, "field": field, "value": value})


def page_of(*actions: str, target: str = "reference", title: str = "a trace") -> Page:
    trace = loads(HEADER + "".join(action + "\n" for action in actions), "trace.jsonl")
    steps = replay_steps(make_target(target), trace, "trace.jsonl")
    return make_page(title, {}, steps)


@attrs.frozen
class Drawn:
    """An object of a step, as the page's script makes it from the changes."""

    name: str
    label: str
    note: str
    slots: tuple[int, ...]
    references: tuple[tuple[int, int], ...]
    weak: int | None


def heap_at(page: Page, step: int) -> list[Drawn]:
    """The objects that are drawn in a step, in the order of a walk."""
    boxes: dict[str, Page] = {}
    fields: defaultdict[str, dict[int, str]] = defaultdict(dict)
    roots: list[str] = []
    for each in page["steps"][: range(len(page["steps"]))[step] + 1]:
        boxes |= {box["name"]: box for box in each["changes"]["boxes"]}
        for name, field, to in each["changes"]["references"]:
            fields[name].pop(field, None)
            fields[name] |= {} if to is None else {field: to}
        start, gone, come = each["changes"]["roots"]
        roots[start : start + gone] = come
    order = list(dict.fromkeys([*roots, *page["prebuilt"]]))
    for name in order:  # The loop appends to it.
        for _, to in sorted(fields[name].items()):
            if to not in order:
                order.append(to)
    rows = {name: row for row, name in enumerate(order)}
    return [drawn(boxes[name], fields[name], roots, rows) for name in order]


def drawn(box: Page, fields: dict[int, str], roots: list[str], rows: dict[str, int]) -> Drawn:
    lost = ""
    if box["weak"] is not None and box["weak"] not in rows:
        lost = " → dead" if box["weak_is_dead"] else " → garbage"
    return Drawn(
        name=box["name"],
        label=box["label"] + lost,
        note=box["note"],
        slots=tuple(slot for slot, name in enumerate(roots) if name == box["name"]),
        references=tuple((field, rows[fields[field]]) for field in sorted(fields)),
        weak=None if box["weak"] is None else rows.get(box["weak"]),
    )


LIVE = 2000
ROOMY = HEADER.replace("}", ', "config": {"nursery_bytes": 65536}}')


def page_of_live_objects(*actions: str) -> Page:
    trace = loads(ROOMY + "".join(action + "\n" for action in actions), "trace.jsonl")
    return make_page("a trace", {}, replay_steps(make_target("reference"), trace, "trace.jsonl"))


HELD_BY_ONE = [
    f'{{"do": "allocate_array", "length": {LIVE}}}',
    *itertools.chain.from_iterable(
        (NODE, write(0, item, 1), '{"do": "free", "root": 1}') for item in range(LIVE)
    ),
]
