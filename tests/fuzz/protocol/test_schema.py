"""The JSON Schema takes each line that gcfuzz writes, and refuses what a line must not be.

tests/examples has the same of the lines between gcfuzz and each example.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Gcfuzz
from jsonschema import Draft202012Validator

from fuzz.protocol import trace as traces
from fuzz.protocol.lines import action_from_data, contract_from_data, observation_from_data
from fuzz.protocol.schema import schema
from fuzz.protocol.trace import header_from_data
from fuzz.replay import record
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES

CORPUS = Path(__file__).parents[3] / "corpus"
ANY_LINE = Draft202012Validator(schema())
READERS: dict[str, Callable[[object], object]] = {
    "Header": header_from_data,
    "Contract": contract_from_data,
    "Action": action_from_data,
    "Observation": observation_from_data,
}
LAYOUT_WITHOUT_WORDS = {"kinds": {}, "large_object_bytes": 1, "object_bytes_max": 1}
LAYOUT = LAYOUT_WITHOUT_WORDS | {"word_bytes": 1}
CONTRACT = {"nursery_bytes": 64, "layout": LAYOUT, "actions": ["check_heap"], "observes": ["graph"]}
RULE = {"period_bytes": {"minimum": 1, "maximum": 8}}
RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("Header", {"gcfuzz": 2, "target": "mine"}),
    ("Contract", CONTRACT | {"sampling": RULE}),
    ("Action", {"do": "write", "root": 0, "field": 1, "value": None}),
    ("Observation", {}),
]
UNREADABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "version 1 is unknown": ("Header", {"gcfuzz": 1, "target": "mine"}),
    "must be a header": ("Header", {"target": "mine"}),
    "unknown key settings": ("Header", {"gcfuzz": 2, "target": "mine", "settings": {}}),
    "threads'] must be": ("Header", {"gcfuzz": 2, "target": "mine", "config": {"threads": "2"}}),
    "excluded lists": ("Header", {"gcfuzz": 2, "target": "mine", "excluded": ["sample"]}),
    "nursery_bytes is -1": ("Contract", CONTRACT | {"nursery_bytes": -1}),
    "actions is empty": ("Contract", CONTRACT | {"actions": []}),
    "actions lists 'allocate'": ("Contract", CONTRACT | {"actions": ["allocate"]}),
    "observes lists 'time'": ("Contract", CONTRACT | {"observes": ["time"]}),
    'promises.* is "speed"': ("Contract", CONTRACT | {"promises": ["speed"]}),
    "layout.kinds lists 'tuple'": (
        "Contract",
        CONTRACT | {"layout": LAYOUT | {"kinds": {"tuple": {"type_index": 1, "fixed_bytes": 8}}}},
    ),
    "word_bytes is missing": ("Contract", CONTRACT | {"layout": LAYOUT_WITHOUT_WORDS}),
    "boundary_bytes.* is 0": ("Contract", CONTRACT | {"boundary_bytes": [0]}),
    'is by "objects"': (
        "Contract",
        CONTRACT | {"sampling": RULE | {"counting": {"by": "objects"}}},
    ),
    "context_bytes is missing": (
        "Contract",
        CONTRACT | {"sampling": RULE | {"counting": {"by": "contexts"}}},
    ),
    "is by null": ("Contract", CONTRACT | {"sampling": RULE | {"counting": {}}}),
    'distances is "normal"': ("Contract", CONTRACT | {"sampling": RULE | {"distances": "normal"}}),
    '"collect" is none': ("Action", {"do": "collect"}),
    '"do" must name an action': ("Action", {"root": 0}),
    "root is missing": ("Action", {"do": "free"}),
    "root must be an integer": ("Action", {"do": "free", "root": None}),
    "unknown key slot": ("Action", {"do": "free", "root": 0, "slot": 0}),
    'is "64"': ("Action", {"do": "enable_sampling", "period_bytes": "64"}),
    "is 1.5": ("Action", {"do": "enable_sampling", "period_bytes": 1.5}),
    "report must be true or false": ("Action", {"do": "disable_sampling", "report": 1}),
    "unknown key sample": ("Observation", {"sample": 1}),
    "samples is -1": ("Observation", {"samples": -1}),
    "samples must be an integer": ("Observation", {"samples": True}),
    "outside must be true or false": ("Observation", {"outside": 1}),
    "graph.* must be a list": ("Observation", {"graph": [0]}),
    "memory_used_bytes is missing": ("Observation", {"reports": [{"entries": []}]}),
}
"""Lines that cannot be read, by a part of what gcfuzz says of each."""
ILLEGAL: list[dict[str, Any]] = [
    {"do": "enable_sampling", "period_bytes": -8},
    {"do": "free", "root": -1},
    {"do": "realloc", "root": 0, "size_bytes": 0},
    {"do": "allocate_node", "number": 2**63},
    {"do": "add_memory_pressure", "extra_bytes": 0},
]
"""Actions that can be read, and that are illegal under each contract."""


def accepts(kind: str, data: object) -> bool:
    one = {"$ref": f"#/$defs/{kind}", "$defs": schema()["$defs"]}
    return Draft202012Validator(one).is_valid(data)


def refused(text: str) -> Iterator[str]:
    for line in text.splitlines():
        for error in ANY_LINE.iter_errors(json.loads(line)):
            yield f"{error.message}: {line}"


@pytest.mark.slow
def test_it_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(schema())


def test_the_command_prints_it(gcfuzz: Gcfuzz) -> None:
    assert gcfuzz(0, "schema").out == f"{json.dumps(schema(), indent=1)}\n"


@pytest.mark.parametrize("path", sorted(CORPUS.rglob("*.jsonl")), ids=lambda path: path.name)
def test_it_takes_each_line_of_the_corpus(path: Path) -> None:
    assert [*refused(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.jsonl")), ids=lambda path: path.name)
def test_it_takes_each_line_of_a_reference_s_recording(path: Path) -> None:
    trace = traces.read(path)
    assert trace.header.target in REFERENCES
    recording, _ = record(make_target(trace.header.target), trace, str(path))
    assert [*refused(traces.dumps(recording))] == []


@pytest.mark.parametrize(("kind", "data"), RIGHT)
def test_both_take_a_line_without_mistakes(kind: str, data: object) -> None:
    READERS[kind](data)
    assert accepts(kind, data)


@pytest.mark.parametrize("message", UNREADABLE)
def test_both_refuse_a_wrong_line(message: str) -> None:
    kind, data = UNREADABLE[message]
    with pytest.raises(ValueError, match=message):
        READERS[kind](data)
    assert not accepts(kind, data)


def test_what_is_wrong_with_a_line_is_one_error_at_its_place() -> None:
    line = {"do": "enable_sampling", "period_bytes": -8}
    [error] = ANY_LINE.iter_errors(line)
    assert error.json_path == "$.period_bytes"


@pytest.mark.parametrize("action", ILLEGAL, ids=lambda action: action["do"])
def test_it_refuses_numbers_that_no_contract_allows(action: dict[str, Any]) -> None:
    action_from_data(action)
    assert not accepts("Action", action)
