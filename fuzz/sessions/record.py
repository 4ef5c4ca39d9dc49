"""The record of a session, `CORPUS/sessions/NAME.json`: what was done, beside the failures.

A record is replaced only by one that has all of it; else the new one is `NAME.2.json`, and so on.

`gcfuzz run --summary` writes the same, `--resume` continues from it, `gcfuzz merge` adds records
up, and `gcfuzz report` reads them. `gcfuzz_session` is the format's version; the other keys are
those of the classes here, of `PlanKey`, and of `SavedFailure`. Invariant: of one plan, all but
`timing` and `beyond` are functions of the chunks. So the same chunks give the same bytes, for any
number of workers or parts that ran them. For the stateful engine this needs the same Hypothesis.
"""

from __future__ import annotations

import glob
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import attrs

from fuzz.failures.corpus import SavedFailure
from fuzz.files import alone_in, read_bytes, write_text
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.sessions.plan import UNLIMITED, Plan, PlanKey, SessionTotals
from fuzz.version import HYPOTHESIS, versions_for

VERSION = 1
SECONDS_MAX = 10**9
"""No session takes longer, so that the date of its end can be represented."""
CHUNKS_MAX = 10**7
"""No session has more whole chunks: they would have 40 thousand million actions."""
FOLDER = "sessions"
BEYOND = "beyond"
"""The folder for failures in chunks that are not whole, or after such a chunk."""
Reason: TypeAlias = Literal["time", "actions", "failures", "interrupted", "workers died"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why a session stopped. A merged record has the last of its parts' reasons."""
TIME, ACTIONS, FAILURES, INTERRUPTED, WORKERS_DIED = REASONS


@attrs.frozen
class Point:
    """What was done up to a moment of a session."""

    seconds: float
    actions: int
    probes: int
    failures: int


@attrs.frozen
class Timing:
    """How one session went."""

    started: str
    """The time in UTC."""
    seconds: float
    workers: int
    actions: int
    """Including those of chunks that are not whole."""
    actions_per_second: int
    chunks: int
    """How many are whole."""
    canaries: int
    """How many workers found the planted bug that they had to find."""
    history: tuple[Point, ...]
    """At most a hundred points."""
    versions: dict[str, str]
    """The versions of what ran, and the commit of the current folder."""

    @property
    def ended(self) -> datetime:
        return self._after(self.seconds)

    @property
    def last_new(self) -> datetime:
        """When a probe was last reached, or a failure found, for the first time."""
        points = (Point(0, 0, 0, 0), *self.history)
        latest = points[-1].probes, points[-1].failures
        seconds = (each.seconds for each in points if (each.probes, each.failures) == latest)
        return self._after(next(seconds))

    def _after(self, seconds: float) -> datetime:
        started = datetime.fromisoformat(self.started).replace(tzinfo=UTC)
        return started + timedelta(seconds=seconds)


@attrs.frozen
class Piece:
    """Whole chunks of a plan, and their totals."""

    chunks: tuple[int, ...]
    """Start, stop and step of the range of their indices."""
    lost: tuple[int, ...]
    """The chunks among them that killed each worker that tried them."""
    totals: SessionTotals

    @property
    def indices(self) -> range:
        return range(*self.chunks)


def piece_of(indices: range, lost: tuple[int, ...], totals: SessionTotals) -> Piece:
    """A piece, whose range is written in the same way however it was made."""
    stop = indices[-1] + 1 if indices else indices.start
    return Piece((indices.start, stop, indices.step if len(indices) > 1 else 1), lost, totals)


@attrs.frozen
class SessionRecord:
    """What a session left, or several sessions of one plan."""

    plan: PlanKey
    pieces: tuple[Piece, ...]
    """One for each session, if their chunks together are not one range."""
    failures: tuple[SavedFailure, ...]
    """One for each identity, ordered by it."""
    stop_reason: Reason
    beyond: tuple[SavedFailure, ...]
    """Failures in chunks that are not whole, or after such a chunk."""
    timing: tuple[Timing, ...]

    @property
    def totals(self) -> SessionTotals:
        totals = SessionTotals()
        for piece in self.pieces:
            totals.add_all(piece.totals)
        return totals

    def to_data(self) -> dict[str, Any]:
        data = wire.unstructured(self)
        pieces = [
            data_of_piece | {"totals": _totals_data(piece.totals)}
            for data_of_piece, piece in zip(data["pieces"], self.pieces, strict=True)
        ]
        totals = _totals_data(self.totals)
        return {"gcfuzz_session": VERSION, "totals": totals, **data, "pieces": pieces}


def _totals_data(totals: SessionTotals) -> dict[str, Any]:
    """Totals as JSON, with the counts that are 0."""
    data = attrs.asdict(totals, filter=attrs.filters.exclude("held"))
    held = {"held": wire.unstructured(totals.held)} if totals.held else {}
    return data | held | {"changes": dict(sorted(totals.changes.items()))}


def versions_of(plan: Plan) -> dict[str, str]:
    """The versions of what draws, Python and the target, and the commit of the current folder."""
    import platform
    import subprocess

    found = {**versions_for(plan.engine), "python": platform.python_version()}
    if plan.options.contract is not None and plan.options.contract.version:
        found["target"] = plan.options.contract.version
    with suppress(OSError, subprocess.SubprocessError):
        git = ["git", "rev-parse", "HEAD"]
        ran = subprocess.run(git, capture_output=True, check=True, text=True)  # noqa: S603 - ours
        found["commit"] = ran.stdout.strip()
    return found


def path_for(plan: Plan) -> Path:
    """The record of a session. A part of a plan has a name of its own."""
    stop = "" if plan.chunks.stop >= UNLIMITED else plan.chunks.stop
    part = f"-{plan.chunks.start}-{stop}-{plan.chunks.step}"
    is_whole = plan.chunks == range(UNLIMITED)
    return plan.corpus / FOLDER / f"{name_of(plan.key)}{'' if is_whole else part}.json"


def part_in(path: Path, key: PlanKey) -> range | None:
    """The chunks of a part of a plan, by the name of its record; None if it is not one of N parts.

    A part that did nothing has a record without chunks.
    """
    stem = _without_number(path.stem)
    match = re.fullmatch(r"-(\d{1,15})--([1-9]\d{0,15})", stem.removeprefix(name_of(key)))
    return range(int(match[1]), UNLIMITED, int(match[2])) if match else None


def name_of(key: PlanKey) -> str:
    """The name of the record of a whole plan, without its number and suffix."""
    digest = zlib.crc32(json.dumps(wire.unstructured(key)).encode())
    name = f"{key.target}-{key.engine}-{key.seed}-{digest:08x}"
    return re.sub(r"[^\w.+-]+", "-", name)


def _without_number(stem: str) -> str:
    """The stem of a record's path, without the number that distinguishes it from older ones."""
    return re.sub(r"\.\d+$", "", stem)


def resumed(plan: Plan, any_seed: bool) -> tuple[Plan, SessionRecord]:
    """The plan of the newest session to resume, and its record.

    Raises BadInputError if there is none.
    """
    found = []
    for path, each in records_in(plan.corpus):
        same = attrs.evolve(plan, seed=each.plan.seed) if any_seed else plan
        if each.plan == same.key and _without_number(path.stem) == path_for(same).stem:
            started = max((timing.started for timing in each.timing), default="")
            found.append(((started, each.totals.actions, same.seed), same, each))
    if not found:
        raise BadInputError(
            f"{plan.corpus / FOLDER}: no such session to resume; leave out --resume"
        )
    _, same, earlier = max(found, key=lambda each: each[0])
    chunks = earlier.pieces[0].indices
    if len(earlier.pieces) > 1 or same.share[: len(chunks)] != chunks:
        raise BadInputError(f"{path_for(same)}: has parts of a session only; resume these")
    return same, earlier


def write(record: SessionRecord, path: Path) -> None:
    """Write a record. Raises BadInputError."""
    write_text(path, json.dumps(record.to_data(), indent=1) + "\n")


def save(record: SessionRecord, path: Path) -> Path:
    """Write a record in place of those that it has all of, or beside them with a number.

    `path` is without a number. Returns the record's path. Raises BadInputError and OSError.
    """
    with alone_in(path.parent):  # Other sessions may share the corpus.
        there = [path, *sorted(path.parent.glob(f"{glob.escape(path.stem)}.*.json"))]
        there = [each for each in there if _without_number(each.stem) == path.stem]
        replaced = [each for each in there if each.exists() and _is_part_of(each, record)]
        free = (each for each in numbered(path) if not each.exists())
        place = replaced[0] if replaced else next(free)
        write(record, place)
        for each in replaced[1:]:
            each.unlink(missing_ok=True)
    return place


def numbered(path: Path) -> Iterator[Path]:
    """The paths of a plan's records, in the order in which they are used."""
    stem = _without_number(path.stem)
    yield path.with_name(f"{stem}{path.suffix}")
    for number in count(2):
        yield path.with_name(f"{stem}.{number}{path.suffix}")


def _is_part_of(path: Path, record: SessionRecord) -> bool:
    """Whether a record has all of the one in a file. A file that cannot be read stays."""
    try:
        return has_all_of(record, read(path))
    except BadInputError:
        return False


def has_all_of(one: SessionRecord, other: SessionRecord) -> bool:
    """Whether a record has all chunks and failures of another one, of the same build.

    A failure that reproduced is not had by one that did not.
    """
    kept = {each.failure.identity: each for each in (*one.beyond, *one.failures)}
    return (
        one.plan == other.plan
        and (builds_of(one) == builds_of(other) or continues(one, other))
        and all(any(_is_in(piece, large) for large in one.pieces) for piece in other.pieces)
        and all(
            each.failure.identity in kept
            and kept[each.failure.identity].reproduced >= each.reproduced
            for each in (*other.failures, *other.beyond)
        )
    )


def _is_in(piece: Piece, large: Piece) -> bool:
    """Whether a piece's chunks are among those of another, and none was lost only there."""
    chunks = piece.indices
    is_lost_in_both = all(each not in chunks or each in piece.lost for each in large.lost)
    return is_within(chunks, large.indices) and is_lost_in_both


def is_within(some: range, others: range) -> bool:
    """Whether all numbers of a range are in another one. Both have positive steps."""
    is_in_step = len(some) <= 1 or some.step % others.step == 0
    return not some or (is_in_step and some[0] in others and some[-1] in others)


def builds_of(record: SessionRecord) -> frozenset[tuple[str, ...]]:
    """What its sessions ran: the versions of what draws and the target, and the commit, of each."""
    names = "gcfuzz", HYPOTHESIS, "target", "commit"
    return frozenset(tuple(each.versions.get(name, "") for name in names) for each in record.timing)


def continues(one: SessionRecord, other: SessionRecord) -> bool:
    """Whether a record has all sessions of another one, as one that was resumed has."""
    return all(timing in one.timing for timing in other.timing)


def records_in(corpus: Path) -> Iterator[tuple[Path, SessionRecord]]:
    """The records of the sessions that saved in a corpus. Raises BadInputError."""
    for path in sorted((corpus / FOLDER).glob("*.json")):
        yield path, read(path)


def read(path: Path) -> SessionRecord:
    """Read a record. Raises BadInputError."""
    try:
        data = wire.as_object(wire.from_line(read_bytes(path)))
        if data.pop("gcfuzz_session", None) != VERSION:
            raise BadInputError(
                f"{path}: is not a session's record of version {VERSION}, which this gcfuzz reads"
            )
        totals = data.pop("totals", None)
        record = wire.structured(data, SessionRecord)
        _check(record)
    except ValueError as problem:
        raise BadInputError(f"{path}: is not a record of a session: {problem}") from problem
    if totals != _totals_data(record.totals):
        raise BadInputError(f"{path}: its totals are not the sum of its pieces")
    return record


def _check(record: SessionRecord) -> None:
    """Raise ValueError if a range, a date, a duration or a trace's place is illegal."""
    for saved in (*record.failures, *record.beyond):
        if saved.path is not None and not is_inside(saved.path):
            raise ValueError(f"path is {wire.quoted(str(saved.path))}, which is not in the corpus")
    for piece in record.pieces:
        piece.totals.held.check()
        try:
            start, stop, step = piece.chunks
            indices = range(start, stop, step)
        except ValueError as problem:
            raise ValueError(f"chunks are {piece.chunks}, not start, stop and step") from problem
        if indices[CHUNKS_MAX:]:
            raise ValueError(f"chunks are {piece.chunks}; there must be at most {CHUNKS_MAX:,}")
    for timing in record.timing:
        try:
            datetime.fromisoformat(timing.started) + timedelta(seconds=SECONDS_MAX)
        except (OverflowError, ValueError) as problem:
            raise ValueError(f"started is {timing.started!r}, which is not a date") from problem
        for seconds in (timing.seconds, *(point.seconds for point in timing.history)):
            if not 0 <= seconds <= SECONDS_MAX:
                raise ValueError(f"seconds is {seconds}; it must be from 0 to {SECONDS_MAX}")


Rank: TypeAlias = Callable[[SavedFailure], int]
"""How bad the file of a failure's trace is; 0 if it is right."""


def same_rank(_: SavedFailure) -> int:
    """The rank if all files are right."""
    return 0


def is_inside(path: Path) -> bool:
    """Whether a trace's path in a record is one that a file of the record's corpus can have."""
    try:
        os.fsencode(path)  # JSON may have half of a surrogate pair.
    except UnicodeEncodeError:
        return False
    return not path.is_absolute() and ".." not in path.parts and "\0" not in str(path)


def least(failures: Iterable[SavedFailure], rank: Rank = same_rank) -> tuple[SavedFailure, ...]:
    """The least failure of each identity, by identity. Those with a right file come first."""
    kept: dict[tuple[str, ...], SavedFailure] = {}
    for each in sorted(failures, key=lambda each: (rank(each), each.sort_key)):
        kept.setdefault(each.failure.identity, each)
    return tuple(kept[identity] for identity in sorted(kept))
