"""Traces: a header line and one action a line, as JSON Lines.

The corpus, the replay file and what goes over the wire are this one format. Invariant: what is
read and written again is the same text, and whatever cannot be read is a BadInputError that
names the file and the line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import attrs
import cattrs

from fuzz.actions import ACTIONS, NAMES, Action
from fuzz.problems import BadInputError

T = TypeVar("T")

VERSION = 1
ACTIONS_MAX = 1_000_000
DIGEST_LENGTH = 8
WORDS_MAX = 40
"""So much of what cannot be read is repeated in a message."""


@attrs.frozen
class Found:
    """How a failure was found: which oracle said what, on which engine, and how it was reduced."""

    oracle: str
    message: str
    engine: str
    reduced_from: int | None = None
    """Actions before reduction; None for a trace that was not reduced."""


@attrs.frozen
class Header:
    """The first line: forget everything, and start anew on this target and configuration."""

    gcfuzz: int
    target: str
    config: dict[str, int] = attrs.Factory(dict)
    seed: int | None = None
    found: Found | None = None
    kills: tuple[str, ...] = ()
    """The known bugs that this trace finds when they are planted."""


@attrs.frozen
class Trace:
    """A header and its actions."""

    header: Header
    actions: tuple[Action, ...]


def _exactly(kind: type) -> Callable[[object, object], object]:
    """A structuring hook that takes a JSON value as it is: 1.5 is no int, and neither is true."""

    def structure(value: object, _: object) -> object:
        if type(value) is not kind:
            raise TypeError(f"{json.dumps(value)} is not of type {kind.__name__}")
        return value

    return structure


_converter = cattrs.Converter(
    forbid_extra_keys=True, omit_if_default=True, unstruct_collection_overrides={tuple: list}
)
for _kind in (int, bool, str):
    _converter.register_structure_hook(_kind, _exactly(_kind))


def _structure_strings(value: object, _: object) -> tuple[str, ...]:
    """A list of strings; a string alone is not one, although it can be iterated."""
    if not isinstance(value, list):
        raise TypeError(f"{json.dumps(value)} is not a list")
    return tuple(_converter.structure(each, str) for each in value)


_converter.register_structure_hook_func(lambda kind: kind == tuple[str, ...], _structure_strings)


def to_json(data: Mapping[str, Any]) -> str:
    """One line of JSON."""
    return json.dumps(data, separators=(", ", ": "))


def action_to_data(action: Action) -> dict[str, Any]:
    """An action as its line in a trace, `do` first."""
    return {"do": NAMES[type(action)], **_converter.unstructure(action)}


def action_from_data(data: object) -> Action:
    """The action of one line. Raises ValueError saying what is wrong with it."""
    if not isinstance(data, dict):
        raise ValueError("a line must be a JSON object")  # noqa: TRY004 - the caller's one error
    fields = dict(data)
    name = fields.pop("do", None)
    if not isinstance(name, str) or name not in ACTIONS:
        raise ValueError(f'"do" must name an action, and {json.dumps(name)} is none')
    return _structure(fields, ACTIONS[name])


def _structure(data: object, kind: type[T]) -> T:
    try:
        return _converter.structure(data, kind)
    except Exception as problem:
        raise ValueError("; ".join(cattrs.transform_error(problem))) from problem


def header_from_data(data: object) -> Header:
    """The header of a trace. Raises ValueError saying what is wrong with it."""
    if not isinstance(data, dict) or "gcfuzz" not in data:
        raise ValueError('the first line must be a header, {"gcfuzz": 1, "target": …}')
    if data["gcfuzz"] != VERSION:
        version = json.dumps(data["gcfuzz"])[:WORDS_MAX]
        raise ValueError(f"version {version} is unknown; this gcfuzz reads version {VERSION}")
    if not isinstance(data.get("found") or {}, dict):
        raise ValueError('"found" must be a JSON object')  # noqa: TRY004 - the caller's one error
    return _structure(data, Header)


def dumps(trace: Trace) -> str:
    """The trace as text."""
    lines = [_converter.unstructure(trace.header), *map(action_to_data, trace.actions)]
    return "".join(to_json(line) + "\n" for line in lines)


def loads(text: str, source: str) -> Trace:
    """The trace in `text`. Raises BadInputError naming `source` and the line."""
    if not text:
        raise BadInputError(f"{source}: the file is empty; a trace starts with a header line")
    if not text.endswith("\n"):
        last = text.count("\n") + 1
        raise BadInputError(f"{source}:{last}: the last line is truncated; it has no line end")
    lines = text.split("\n")[:-1]
    if len(lines) > ACTIONS_MAX:
        raise BadInputError(f"{source}: more than {ACTIONS_MAX} lines; split the trace")
    parsed = [_parse(line, f"{source}:{number}") for number, line in enumerate(lines, 1)]
    header = _at(f"{source}:1", header_from_data, parsed[0])
    actions = [
        _at(f"{source}:{number}", action_from_data, data)
        for number, data in enumerate(parsed[1:], 2)
    ]
    return Trace(header, tuple(actions))


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object. One that says a thing twice cannot be meant."""
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key stands there twice")
    return data


def _parse(line: str, place: str) -> object:
    try:
        return json.loads(line, object_pairs_hook=_object)
    except (ValueError, RecursionError) as problem:
        raise BadInputError(f"{place}: not a line of JSON: {problem}") from problem


def _at(place: str, convert: Callable[[object], T], data: object) -> T:
    try:
        return convert(data)
    except ValueError as problem:
        raise BadInputError(f"{place}: {problem}") from problem


def read(path: Path) -> Trace:
    """The trace in a file. Raises BadInputError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise BadInputError(f"{path}: cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise BadInputError(f"{path}: not a text file: {problem}") from problem
    return loads(text, str(path))


def digest_of(trace: Trace) -> str:
    """Eight hex digits of what is replayed, which how it was found and by which seed is not."""
    header = attrs.evolve(trace.header, found=None, seed=None)
    replayed = dumps(attrs.evolve(trace, header=header))
    return hashlib.sha256(replayed.encode()).hexdigest()[:DIGEST_LENGTH]


def write(trace: Trace, folder: Path, stem: str) -> Path:
    """Save a trace as `<stem>-<8 hex digits of its content>.jsonl`; returns its path."""
    path, _ = write_new(trace, folder, stem)
    return path


def write_new(trace: Trace, folder: Path, stem: str) -> tuple[Path, bool]:
    """The same, and whether the file is new. One that is there already stays as it is.

    It is written whole and then named, so that nobody ever reads half a trace.
    """
    path = folder / f"{stem}-{digest_of(trace)}.jsonl"
    partial = _write_partial(trace, path)
    try:
        path.hardlink_to(partial)  # Unlike a rename, it fails where there is such a file.
    except FileExistsError:
        return path, False
    finally:
        partial.unlink()
    return path, True


def write_to(trace: Trace, path: Path) -> None:
    """Save a trace under that name, in place of what is there."""
    _write_partial(trace, path).replace(path)


def _write_partial(trace: Trace, path: Path) -> Path:
    """Write a trace beside `path`, under a name of its own: others may be saving the same."""
    partial = path.with_suffix(f".{uuid4().hex}.partial")
    partial.write_text(dumps(trace), encoding="utf-8")
    return partial
