"""Traces: a header line, and then one line for each action, as JSON Lines.

The corpus, saved failures and pipes use this format. A recording also has a line with the target's
answer after each action. Invariant: a trace that is read and written again is the same text. What
cannot be read is a BadInputError that names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import attrs

from fuzz.files import read_bytes, replacing
from fuzz.former_names import first_name
from fuzz.problems import BadInputError, noted, notes_of
from fuzz.protocol import lines as wire
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.counting.limits import Limits
from fuzz.protocol.observation import FIELDS, Observation

T = TypeVar("T")

VERSION = 2
"""It changes when files or programs of the present version would be read differently."""
VERSION_OF_DIGESTS = 1
"""It never changes, since it is part of the names of files."""
ACTIONS_MAX = 1_000_000
LINE_CHARACTERS_MAX = 2**24
"""The same limit as for a program's answer."""
DIGEST_LENGTH = 8


@attrs.frozen
class Found:
    """How a failure was found."""

    oracle: str
    message: str
    engine: str
    reduced_from: int | None = None
    """The number of actions before reduction; None if the trace was not reduced."""
    started_with: tuple[str, ...] = ()
    """The options with which the target was started, if the contract states them."""
    hypothesis: str | None = None
    """The version of Hypothesis that drew the trace, if the engine is stateful."""


@attrs.frozen
class EarlierTrace:
    """A trace that a process performed before the present one."""

    config: dict[str, int] = attrs.Factory(dict)
    actions: tuple[Action, ...] = ()


@attrs.frozen
class Header:
    """The first line: start again, with this target and configuration."""

    gcfuzz: Annotated[int, Limits(VERSION, VERSION)]
    """The version of the format."""
    target: str
    config: dict[str, int] = attrs.Factory(dict)
    """The values of the contract's settings, by name."""
    seed: int | None = None
    found: Found | None = None
    kills: tuple[str, ...] = ()
    """The known bugs that this trace finds if they are planted."""
    contract: Contract | None = None
    """The contract of a recording, so that it is not replayed under a different one."""
    fresh_process: bool = False
    """Whether each run of the trace needs a new process."""
    memory_bytes: int | None = None
    """The resident memory that a program may use, if the failure is that it uses more."""
    excluded: tuple[str, ...] = ()
    """The fields that no oracle judges, because a comparison found them wrong before the change."""
    earlier: tuple[EarlierTrace, ...] = ()
    """The traces that a new process performs before this one, in order."""


@attrs.frozen
class Trace:
    """A header and its actions."""

    header: Header
    actions: tuple[Action, ...]
    recorded: tuple[Observation, ...] | None = None
    """The answers to the actions, in a recording."""


def header_from_data(data: object) -> Header:
    """The header of a trace. Raises ValueError saying what is wrong with it."""
    if not isinstance(data, dict) or "gcfuzz" not in data:
        raise ValueError('the first line must be a header, {"gcfuzz": 2, "target": …}')
    if data["gcfuzz"] != VERSION:
        version = wire.quoted(data["gcfuzz"])
        raise ValueError(f"version {version} is unknown; this gcfuzz reads version {VERSION}")
    for key in ("found", "contract"):
        if not isinstance(data.get(key) or {}, dict):
            raise ValueError(f'"{key}" must be a JSON object')  # noqa: TRY004 - the caller's one error
    header = wire.structured(data, Header)
    if sum(len(trace.actions) for trace in header.earlier) > ACTIONS_MAX:
        raise ValueError(f"earlier has more than {ACTIONS_MAX} actions; leave some traces out")
    for field in header.excluded:
        if field not in FIELDS:
            legal = ", ".join(FIELDS)
            raise ValueError(f"excluded lists {wire.quoted(field)}; it may list {legal}")
    if header.contract is not None:
        wire.check_contract(header.contract)
    return header


def dumps(trace: Trace) -> str:
    """The trace as text."""
    lines = [wire.unstructured(trace.header)]
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
    # In a recording, actions and observations alternate.
    is_recording = header.contract is not None and any(
        "do" not in _at(f"{where}:3", wire.as_object, line) for line in lines[2:3]
    )
    if not is_recording:
        return Trace(header, _converted(wire.action_from_data, lines, where, slice(1, None)))
    actions = _converted(wire.action_from_data, lines, where, slice(1, None, 2))
    observations = _converted(wire.observation_from_data, lines, where, slice(2, None, 2))
    if len(observations) < len(actions):
        raise BadInputError(f"{where}:{len(lines)}: the last action has no observation")
    return Trace(header, actions, observations)


def _converted(
    convert: Callable[[object], T], lines: Sequence[str], where: str, chosen: slice
) -> tuple[T, ...]:
    """Convert some of the lines."""
    numbers = range(1, len(lines) + 1)[chosen]
    return tuple(_at(f"{where}:{number}", convert, lines[number - 1]) for number in numbers)


def _at(place: str, convert: Callable[[object], T], line: str) -> T:
    """Convert a line. Raises BadInputError naming the place."""
    if len(line) > LINE_CHARACTERS_MAX:
        raise BadInputError(f"{place}: has more than {LINE_CHARACTERS_MAX:,} characters")
    try:
        return convert(wire.from_line(line))
    except ValueError as problem:
        raise noted(BadInputError(f"{place}: {problem}"), notes_of(problem)) from problem


def read(path: Path) -> Trace:
    """The trace in a file. Raises BadInputError."""
    return decoded(read_bytes(path), str(path))


def decoded(content: bytes, where: str) -> Trace:
    """The trace with this content. Raises BadInputError naming `where` and the line."""
    try:
        text = content.decode()
    except UnicodeDecodeError as problem:
        raise BadInputError(f"{where}: not a text file: {problem}") from problem
    return loads(text, where)


def digest_of(trace: Trace) -> str:
    """Eight hex digits that depend on what is replayed, and not on how it was found."""
    import hashlib  # Few sessions find a failure.

    target = first_name(trace.header.target)
    header = attrs.evolve(
        trace.header, found=None, seed=None, gcfuzz=VERSION_OF_DIGESTS, target=target
    )
    replayed = dumps(attrs.evolve(trace, header=header))
    return hashlib.sha256(replayed.encode()).hexdigest()[:DIGEST_LENGTH]


def write_to(trace: Trace, path: Path) -> None:
    """Save a trace, in place of an existing file. Raises OSError."""
    with replacing(path) as place:
        place.write_text(dumps(trace), encoding="utf-8")
