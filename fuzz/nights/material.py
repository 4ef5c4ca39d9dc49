"""What a night is made from: records of sessions, their traces, and hunts for known bugs.

Invariant: a file that is given twice counts once, and a broken one costs a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from fuzz.failures.corpus import SavedFailure
from fuzz.files import read_bytes
from fuzz.nights.corpora import find_trace, noting
from fuzz.nights.merge import NO_TRACE
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.protocol.trace import Trace
from fuzz.sessions import record as records
from fuzz.sessions.hunt import HuntedBugs
from fuzz.sessions.record import SessionRecord


@attrs.define
class Material:
    """What was read, each thing once."""

    records: dict[str, SessionRecord] = attrs.Factory(dict)
    hunts: dict[str, HuntedBugs] = attrs.Factory(dict)
    corpora: list[Path] = attrs.Factory(list)
    """The folders that may have the traces of a record."""
    folders: list[Path] = attrs.Factory(list)
    """The corpora that were named."""
    left_out: list[str] = attrs.Factory(list)
    """What is wrong with files that could not be read."""
    _traces: dict[Path, tuple[Path, Trace] | None] = attrs.Factory(dict)
    """By the path in a record."""

    def trace_of(self, saved: SavedFailure) -> tuple[Path, Trace] | None:
        """The file and the trace of a failure, if it was given and can be read."""
        if saved.path is None:
            return None
        if saved.path not in self._traces:
            self._traces[saved.path] = None
            with noting(self.left_out):
                self._traces[saved.path] = find_trace(self.corpora, saved.path)
        return self._traces[saved.path]

    def rank(self, saved: SavedFailure) -> int:
        """How bad the file of a failure's trace is: 0 if it can be read."""
        return NO_TRACE if self.trace_of(saved) is None else 0


def read_material(places: Iterable[Path]) -> Material:
    """Read corpora, records of sessions, and the output of `gcfuzz bugs --json`.

    The traces of a record are looked for in the given corpora, and beside each record. Raises
    BadInputError if there is no record that can be read.
    """
    material = Material()
    for place in sorted(set(places)):
        for path in _records_in(place) if place.is_dir() else [place]:
            with noting(material.left_out):
                _take(material, path)
        material.corpora += [place] if place.is_dir() else [place.parent, place.parent.parent]
        material.folders += [place] if place.is_dir() else []
    if not material.records:
        missing = "there is no record of a session; name a corpus or a summary as well"
        raise BadInputError(next(iter(material.left_out), missing))
    return material


def _records_in(folder: Path) -> list[Path]:
    """The JSON files of a corpus. Raises BadInputError if there are none."""
    paths = sorted([*folder.glob("*.json"), *folder.glob(f"{records.FOLDER}/*.json")])
    found = [path for path in paths if not _is_night(path)]
    if not found:
        raise BadInputError(
            f"{folder}: has no record of a session ({records.FOLDER}/*.json); run one with "
            "--corpus, or name another folder"
        )
    return found


def _is_night(path: Path) -> bool:
    try:
        return "gcfuzz_night" in _object_in(path)
    except BadInputError:
        return False


def _object_in(path: Path) -> dict[str, Any]:
    try:
        return wire.as_object(wire.from_line(read_bytes(path)))
    except ValueError as problem:
        raise BadInputError(f"{path}: {problem}") from problem


def _take(material: Material, path: Path) -> None:
    data = _object_in(path)
    if "gcfuzz_night" in data:
        raise BadInputError(f"{path}: is the JSON of a night, and not the record of a session")
    if "bugs" not in data:
        material.records[wire.to_line(data)] = records.read(path)
        return
    try:
        material.hunts[wire.to_line(data)] = wire.structured(data, HuntedBugs)
    except ValueError as problem:
        raise BadInputError(
            f"{path}: is not what `gcfuzz bugs --json` prints: {problem}"
        ) from problem
