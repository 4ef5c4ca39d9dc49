"""Traces: a header line and one action a line, as JSON Lines.

The corpus, the replay file and what goes over the wire are this one format. A recording also has
what a target said, a line after each action. Invariant: what is read and written again is the same
text, and whatever cannot be read is a BadInputError that names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from fuzz.files import read_bytes, replacing
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import FIELDS, Observation

T = TypeVar("T")

VERSION = 2
"""Another one, once what a file or a program of this one states would be read differently."""
VERSION_OF_DIGESTS = 1
"""The names of files last longer than a version."""
ACTIONS_MAX = 1_000_000
LINE_CHARACTERS_MAX = 2**24
"""As many as a program's answer may have."""
DIGEST_LENGTH = 8


@attrs.frozen
class Found:
    """How a failure was found: which oracle said what, on which engine, and how it was reduced."""

    oracle: str
    message: str
    engine: str
    reduced_from: int | None = None
    """Actions before reduction; None for a trace that was not reduced."""
    started_with: tuple[str, ...] = ()
    """The options with which the target was started, if it says so."""


@attrs.frozen
class EarlierTrace:
    """What a process has carried out from one header to the next."""

    config: dict[str, int] = attrs.Factory(dict)
    actions: tuple[Action, ...] = ()


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
    contract: Contract | None = None
    """The contract that it was made under, so that it is not replayed under another one."""
    fresh_process: bool = False
    """Whether a program is to have a process of its own for each run of it."""
    memory_bytes: int | None = None
    """The most that a program may have resident, where that is what it exceeds."""
    excluded: tuple[str, ...] = ()
    """The fields that no oracle judges in this trace: a comparison found them wrong before."""
    earlier: tuple[EarlierTrace, ...] = ()
    """The traces that a new process carries out before this one, in order."""


@attrs.frozen
class Trace:
    """A header and its actions."""

    header: Header
    actions: tuple[Action, ...]
    recorded: tuple[Observation, ...] | None = None
    """What the target said to each action, in a recording."""


def header_from_data(data: object) -> Header:
    """The header of a trace. Raises ValueError saying what is wrong with it."""
    if not isinstance(data, dict) or "gcfuzz" not in data:
        raise ValueError('the first line must be a header, {"gcfuzz": 2, "target": …}')
    if data["gcfuzz"] == 1:
        raise ValueError(f"version 1 is not read any more; {wire.HOW_TO_CONVERT}")
    if data["gcfuzz"] != VERSION:
        version = wire.quoted(data["gcfuzz"])
        raise ValueError(f"version {version} is unknown; this gcfuzz reads version {VERSION}")
    for key in ("found", "contract"):
        if not isinstance(data.get(key) or {}, dict):
            raise ValueError(f'"{key}" must be a JSON object')  # noqa: TRY004 - the caller's one error
    earlier = _earlier_from_data(data.get("earlier", []))
    header = wire.structured({**data, "earlier": []}, Header)
    header = attrs.evolve(header, earlier=earlier)
    for field in header.excluded:
        if field not in FIELDS:
            legal = ", ".join(FIELDS)
            raise ValueError(f"excluded lists {wire.quoted(field)}; it may list {legal}")
    if header.contract is not None:
        wire.check_contract(header.contract)
    return header


def _earlier_from_data(data: object) -> tuple[EarlierTrace, ...]:
    """The traces before this one. Raises ValueError saying which of them is wrong, and how."""
    if not isinstance(data, list):
        raise ValueError('"earlier" must be a list of {"config": {…}, "actions": […]}')  # noqa: TRY004 - the caller's one error
    if sum(_actions_count(each) for each in data) > ACTIONS_MAX:
        raise ValueError(f'"earlier" has more than {ACTIONS_MAX} actions; leave some traces out')
    return tuple(
        _within(f"earlier[{number}]", _earlier_trace_from_data, each)
        for number, each in enumerate(data)
    )


def _actions_count(data: object) -> int:
    actions = data.get("actions") if isinstance(data, dict) else None
    return len(actions) if isinstance(actions, list) else 0


def _earlier_trace_from_data(data: object) -> EarlierTrace:
    fields = dict(wire.as_object(data))
    actions = fields.pop("actions", [])
    if not isinstance(actions, list):
        raise ValueError("actions must be a list")  # noqa: TRY004 - the caller's one error
    converted = tuple(
        _within(f"actions[{number}]", wire.action_from_data, each)
        for number, each in enumerate(actions)
    )
    return attrs.evolve(wire.structured(fields, EarlierTrace), actions=converted)


def _within(place: str, convert: Callable[[object], T], data: object) -> T:
    """What stands at a place in the header. Raises ValueError naming the place."""
    try:
        return convert(data)
    except ValueError as problem:
        raise ValueError(f"{place}: {problem}") from problem


def _header_to_data(header: Header) -> Mapping[str, Any]:
    data: dict[str, Any] = wire.unstructured(attrs.evolve(header, earlier=()))
    if header.earlier:
        data["earlier"] = [_earlier_trace_to_data(each) for each in header.earlier]
    return data


def _earlier_trace_to_data(trace: EarlierTrace) -> dict[str, Any]:
    return {"config": trace.config, "actions": [*map(wire.action_to_data, trace.actions)]}


def dumps(trace: Trace) -> str:
    """The trace as text."""
    lines = [_header_to_data(trace.header)]
    if trace.recorded is None:
        lines += map(wire.action_to_data, trace.actions)
    else:
        for action, observation in zip(trace.actions, trace.recorded, strict=True):
            lines += wire.action_to_data(action), wire.unstructured(observation)
    return "".join(wire.to_line(line) + "\n" for line in lines)


def loads(text: str, where: str) -> Trace:
    """The trace in `text`. Raises BadInputError naming `where` and the line."""
    if not text:
        raise BadInputError(f"{where}: the file is empty; a trace starts with a header line")
    if not text.endswith("\n"):
        last = text.count("\n") + 1
        raise BadInputError(f"{where}:{last}: the last line is truncated; it has no line end")
    lines = text.split("\n")[:-1]
    if len(lines) > ACTIONS_MAX:
        raise BadInputError(f"{where}: more than {ACTIONS_MAX} lines; split the trace")
    header = _at(f"{where}:1", header_from_data, lines[0])
    if header.contract is not None and _is_recording(lines, where):
        return Trace(header, *_recording(lines, where))
    return Trace(header, tuple(_converted(wire.action_from_data, lines, where, slice(1, None))))


def _is_recording(lines: Sequence[str], where: str) -> bool:
    """Whether the second line after the header is an observation, which asks for nothing."""
    return any("do" not in _at(f"{where}:3", wire.as_object, line) for line in lines[2:3])


def _recording(
    lines: Sequence[str], where: str
) -> tuple[tuple[Action, ...], tuple[Observation, ...]]:
    """The actions and observations of a recording, in turn."""
    actions = _converted(wire.action_from_data, lines, where, slice(1, None, 2))
    observations = _converted(wire.observation_from_data, lines, where, slice(2, None, 2))
    if len(observations) < len(actions):
        raise BadInputError(f"{where}:{len(lines)}: the last action has no observation")
    return tuple(actions), tuple(observations)


def _converted(
    convert: Callable[[object], T], lines: Sequence[str], where: str, chosen: slice
) -> list[T]:
    """Some of the lines, converted."""
    numbers = range(1, len(lines) + 1)[chosen]
    return [_at(f"{where}:{number}", convert, lines[number - 1]) for number in numbers]


def _at(place: str, convert: Callable[[object], T], line: str) -> T:
    """What stands in a line. Raises BadInputError naming the place."""
    if len(line) > LINE_CHARACTERS_MAX:
        raise BadInputError(f"{place}: has more than {LINE_CHARACTERS_MAX:,} characters")
    try:
        return convert(wire.from_line(line))
    except ValueError as problem:
        raise BadInputError(f"{place}: {problem}") from problem


def read(path: Path) -> Trace:
    """The trace in a file. Raises BadInputError."""
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as problem:
        raise BadInputError(f"{path}: not a text file: {problem}") from problem
    return loads(text, str(path))


def digest_of(trace: Trace) -> str:
    """Eight hex digits of what is replayed, which how it was found and by which seed is not."""
    import hashlib  # Few sessions find anything.

    header = attrs.evolve(trace.header, found=None, seed=None, gcfuzz=VERSION_OF_DIGESTS)
    replayed = dumps(attrs.evolve(trace, header=header))
    return hashlib.sha256(replayed.encode()).hexdigest()[:DIGEST_LENGTH]


def write_to(trace: Trace, path: Path) -> None:
    """Save a trace under that name, in place of what is there. Raises OSError."""
    with replacing(path) as place:
        place.write_text(dumps(trace), encoding="utf-8")
