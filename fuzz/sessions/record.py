"""What a session leaves beside its finds: `CORPUS/sessions/NAME.json`, a record of what was done.

`gcfuzz run --summary` writes the same, `--resume` goes on from it, `gcfuzz merge` adds records up,
and whoever reports on sessions reads it. The keys, in this order:

- `gcfuzz_session`: the format's version, 1.
- `target`, `options` (the words of its command line), `without`, `before` (name and words of the
  target before a change, or null), `engine`, `seed`, `budget_actions` (null without such a budget):
  what tells one plan from another. Chunks of equal plans are the same chunks.
- `traces`, `actions`, `samples`, `minor_collections`, `probes` (how often each that can be reached;
  0 is never), and for comparisons `changes`: of all whole chunks.
- `failures`: one an identity, ordered by it: `oracle`, `field`, `action`, `direction`, for
  comparisons `change`; `message`, `expected`, `got`, `why`, `where`; `actions` (of its trace, as
  reduced), `reduced_from`, `reproduced`, `tries` (if it did not reproduce: how many runs in new
  targets passed; 0 if the session ended before the first), `chunk` (in which it was found), and
  `trace`, its file relative to the corpus, or null if none could be written.
- `stop_reason`: actions, time, failures, interrupted or workers died.
- `pieces`: what the totals are the sum of; each has `chunks` as [start, stop, step] of the indices,
  `lost` (those that killed each worker that tried them) and its own totals. A session has one.
- `beyond`: failures in what is no whole chunk, or comes after one that is not: cut off by the time,
  or interrupted. Their files are in the corpus's folder `beyond`.
- `timing`: of each session that contributed `started` (UTC), `seconds`, `workers`, `actions` (cut
  off or not), `actions_per_second`, `chunks` (how many are whole by then), `canaries` (how many
  workers found theirs), `history`, at most a hundred points of [seconds, actions, probes reached,
  failures found], and `versions`.

Invariant: of one plan, all but `timing` and `beyond` are functions of the chunks, so that the same
chunks give the same bytes, however many workers or parts they were run by.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs.validators import and_, deep_iterable, max_len, min_len

from fuzz.engines.engine import Tally
from fuzz.files import read_bytes, write_text
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.protocol import trace as traces
from fuzz.run import BROKE, Failure
from fuzz.sessions.compare import Difference
from fuzz.sessions.corpus import Find
from fuzz.sessions.plan import UNLIMITED, Plan, SessionTotals
from fuzz.version import __version__

VERSION = 1
SECONDS_MAX = 10**9
"""No session takes longer, and none started so late that a date after it has no name."""
FOLDER = "sessions"
REASONS = TIME, ACTIONS, FAILURES, INTERRUPTED, WORKERS_DIED = (
    *("time", "actions", "failures"),
    *("interrupted", "workers died"),
)
"""Why a session stopped; of several that are added up the last of these is told."""
COUNTS = [field.name for field in attrs.fields(Tally)]
WORDS = ("expected", "got", "why", "where")
Data = dict[str, Any]
T = TypeVar("T", bound=attrs.AttrsInstance)


@attrs.frozen
class Reported:
    """A failure, as a record has it."""

    oracle: str
    field: str
    action: str
    direction: str
    message: str
    expected: str
    got: str
    why: str
    where: str
    actions: int
    reduced_from: int
    reproduced: bool
    chunk: int
    trace: str | None
    """Its file, relative to the corpus."""
    change: str = BROKE
    tries: int = 0

    @property
    def identity(self) -> tuple[str, ...]:
        """As a failure's own."""
        kind = self.oracle, self.field, self.action, self.direction
        return kind if self.change == BROKE else (self.change, *kind)


def _is_time(timing: Timing, field: object, text: str) -> None:
    datetime.fromisoformat(text) + timedelta(seconds=SECONDS_MAX)


def _is_duration(timing: Timing, field: object, seconds: float) -> None:
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError


def _begins_with_duration(timing: Timing, field: object, point: tuple[float, ...]) -> None:
    _is_duration(timing, field, point[0])


@attrs.frozen
class Timing:
    """How a session went."""

    started: str = attrs.field(validator=_is_time)
    """In UTC."""
    seconds: float = attrs.field(validator=_is_duration)
    workers: int
    actions: int
    history: tuple[tuple[float, ...], ...] = attrs.field(
        validator=deep_iterable(and_(min_len(4), max_len(4), _begins_with_duration))
    )
    """Points of seconds, actions, probes reached and failures."""
    canaries: int = 0
    """So many workers found the planted bug that they had to find first."""
    versions: dict[str, str] = attrs.Factory(dict)
    """Of what ran, by name, and the commit of the folder that it was begun in."""

    @property
    def ended(self) -> datetime:
        """When it was over."""
        return self._after(self.seconds)

    @property
    def last_new(self) -> datetime:
        """When it last reached a probe, or found a failure, for its first time."""
        *_, (_, _, *latest) = points = ((0.0, 0.0, 0.0, 0.0), *self.history)
        return self._after(next(seconds for seconds, _, *news in points if news == latest))

    def _after(self, seconds: float) -> datetime:
        started = datetime.fromisoformat(self.started).replace(tzinfo=UTC)
        return started + timedelta(seconds=seconds)


@attrs.frozen(kw_only=True)
class _Sums:
    """What chunks add up to, as it is written."""

    traces: int
    actions: int
    samples: int
    minor_collections: int
    probes: dict[str, int]
    changes: dict[str, int] = attrs.Factory(dict)

    @property
    def totals(self) -> SessionTotals:
        counts = {name: getattr(self, name) for name in COUNTS}
        return SessionTotals(**counts, probes=Counter(self.probes), changes=Counter(self.changes))


@attrs.frozen(kw_only=True)
class _PieceSums(_Sums):
    chunks: tuple[int, ...]
    lost: tuple[int, ...]

    @property
    def piece(self) -> Piece:
        """Raises TypeError or ValueError if the chunks are no range."""
        return Piece(range(*self.chunks), self.totals, self.lost)


@attrs.frozen
class _PlanWords:
    """What tells one plan from another, as it is written."""

    target: str
    options: tuple[str, ...]
    without: tuple[str, ...]
    before: tuple[str, ...] | None
    engine: str
    seed: int
    budget_actions: int | None


@attrs.frozen
class Piece:
    """Some chunks of a plan, all of them whole, and what they add up to."""

    chunks: range
    totals: SessionTotals
    lost: tuple[int, ...] = ()


@attrs.frozen
class SessionRecord:
    """What a session left, or several sessions of one plan."""

    plan: Data
    probes: tuple[str, ...]
    pieces: tuple[Piece, ...]
    failures: tuple[Data, ...]
    stop_reason: str
    beyond: tuple[Data, ...] = ()
    timing: tuple[Data, ...] = ()

    @property
    def totals(self) -> SessionTotals:
        """The sum of all pieces."""
        totals = SessionTotals()
        for piece in self.pieces:
            totals.add_all(piece.totals)
        return totals

    def to_data(self) -> Data:
        """The record as it is written."""
        return {
            "gcfuzz_session": VERSION,
            **self.plan,
            **self._totals_data(self.totals),
            "failures": [*self.failures],
            "stop_reason": self.stop_reason,
            "pieces": [
                {
                    "chunks": _span(piece.chunks),
                    "lost": [*piece.lost],
                    **self._totals_data(piece.totals),
                }
                for piece in self.pieces
            ],
            "beyond": [*self.beyond],
            "timing": [*self.timing],
        }

    def _totals_data(self, totals: SessionTotals) -> Data:
        changes = {"changes": dict(sorted(totals.changes.items()))} if totals.changes else {}
        return {
            **{name: getattr(totals, name) for name in COUNTS},
            "probes": {name: totals.probes[name] for name in self.probes},
            **changes,
        }


def _span(chunks: range) -> list[int]:
    """A range, written in one way however it was made."""
    stop = chunks[-1] + 1 if chunks else chunks.start
    return [chunks.start, stop, chunks.step if len(chunks) > 1 else 1]


def plan_data(plan: Plan) -> Data:
    """What tells one plan from another."""
    before = plan.before
    return {
        "target": plan.target,
        "options": plan.options.arguments,
        "without": [*plan.options.without],
        "before": None if before is None else [before.target, *before.options.arguments],
        "engine": plan.engine,
        "seed": plan.seed,
        "budget_actions": plan.actions,
    }


def versions_of(plan: Plan) -> dict[str, str]:
    """What runs: gcfuzz, Python, the target as it says of itself, the commit of this folder."""
    import platform
    import subprocess

    found = {"gcfuzz": __version__, "python": platform.python_version()}
    if plan.options.contract is not None and plan.options.contract.version:
        found["target"] = plan.options.contract.version
    with suppress(OSError, subprocess.SubprocessError):
        git = ["git", "rev-parse", "HEAD"]
        said = subprocess.run(git, capture_output=True, check=True, text=True)  # noqa: S603 - ours
        found["commit"] = said.stdout.strip()
    return found


def failure_data(find: Find, corpus: Path) -> Data:
    """A find as a record has it."""
    failure = find.failure
    change = {} if failure.change == BROKE else {"change": failure.change}
    return {
        **{name: getattr(failure, name) for name in ("oracle", "field", "action", "direction")},
        **change,
        **{name: getattr(failure, name) for name in ("message", *WORDS)},
        "actions": len(failure.actions),
        "reduced_from": find.actions_found,
        "reproduced": find.reproduced,
        **({} if find.reproduced else {"tries": find.tries}),
        "chunk": find.chunk,
        "trace": None if find.path is None else find.path.relative_to(corpus).as_posix(),
    }


def finds_of(record: SessionRecord, corpus: Path) -> Iterator[Find]:
    """The finds of whole chunks, as far as their files are still there."""
    for data in record.failures:
        with suppress(BadInputError):
            trace = traces.read(corpus / (data["trace"] or ""))
            told = {name: data[name] for name in ("oracle", "field", "direction", *WORDS)}
            kind = Failure if data.get("change", BROKE) == BROKE else Difference
            failure = kind(
                configuration=trace.header.config,
                actions=trace.actions,
                change=data.get("change", BROKE),
                excluded=trace.header.excluded,
                **told,
            )
            yield Find(
                failure,
                trace,
                corpus / data["trace"],
                data["reduced_from"],
                data["reproduced"],
                data.get("tries", 0),
                chunk=data["chunk"],
            )


def identity_of(failure: Data) -> tuple[str, ...]:
    """The identity of a record's failure, in words."""
    change = failure.get("change", BROKE)
    kind = (*(failure[name] for name in ("oracle", "field", "action", "direction")),)
    return kind if change == BROKE else (change, *kind)


def path_for(plan: Plan) -> Path:
    """Where a session leaves its record; a part of a plan has a name of its own."""
    stop = "" if plan.chunks.stop >= UNLIMITED else plan.chunks.stop
    part = f"-{plan.chunks.start}-{stop}-{plan.chunks.step}"
    is_whole = plan.chunks == range(UNLIMITED)
    return plan.corpus / FOLDER / f"{name_of(plan_data(plan))}{'' if is_whole else part}.json"


def resumed(plan: Plan, any_seed: bool) -> tuple[Plan, SessionRecord]:
    """What a session goes on from: its plan, and the record of the last that had it.

    Raises BadInputError if there is none.
    """
    found = []
    for path, each in records_in(plan.corpus):
        same = attrs.evolve(plan, seed=each.plan["seed"]) if any_seed else plan
        if each.plan == plan_data(same) and path == path_for(same):
            started = max((one["started"] for one in each.timing), default="")
            found.append((started, same.seed, same, each))
    if not found:
        raise BadInputError(
            f"{plan.corpus / FOLDER}: no such session to resume; leave out --resume"
        )
    _, _, same, earlier = max(found, key=lambda each: each[:2])
    chunks = earlier.pieces[0].chunks
    if len(earlier.pieces) > 1 or same.share[: len(chunks)] != chunks:
        raise BadInputError(f"{path_for(same)}: has parts only; resume these")
    return same, earlier


def name_of(plan: Data) -> str:
    """The name of the record of a whole plan, without its suffix."""
    digest = zlib.crc32(json.dumps(plan).encode())
    name = f"{plan['target']}-{plan['engine']}-{plan['seed']}-{digest:08x}"
    return re.sub(r"[^\w.+-]+", "-", name)


def write(record: SessionRecord, path: Path) -> None:
    """Write a record. Raises BadInputError."""
    write_text(path, json.dumps(record.to_data(), indent=1) + "\n")


def records_in(corpus: Path) -> Iterator[tuple[Path, SessionRecord]]:
    """The records of the sessions that saved in a corpus. Raises BadInputError."""
    for path in sorted((corpus / FOLDER).glob("*.json")):
        yield path, read(path)


def read(path: Path) -> SessionRecord:
    """Read a record. Raises BadInputError."""
    try:
        data = wire.as_object(wire.from_line(read_bytes(path)))
        if data["gcfuzz_session"] != VERSION:
            raise BadInputError(f"{path}: a record of another version; this gcfuzz reads {VERSION}")
        plan = {field.name: data[field.name] for field in attrs.fields(_PlanWords)}
        wire.structured(plan, _PlanWords)
        pieces = tuple(wire.structured(each, _PieceSums).piece for each in data["pieces"])
        failures, beyond, timing = (tuple(data[key]) for key in ("failures", "beyond", "timing"))
        for failure in (*failures, *beyond):
            only(failure, Reported)
        for each in timing:
            only(each, Timing)
        probes = only(data, _Sums).probes
        stop_reason = REASONS[REASONS.index(data["stop_reason"])]
        return SessionRecord(plan, (*probes,), pieces, failures, stop_reason, beyond, timing)
    except (KeyError, TypeError, ValueError) as problem:
        what = f"{problem} is missing" if isinstance(problem, KeyError) else problem
        raise BadInputError(f"{path}: is no record of a session: {what}") from problem


def only(data: Data, kind: type[T]) -> T:
    """What a class knows of the data. Raises ValueError."""
    data = wire.as_object(data)
    names = [field.name for field in attrs.fields(kind)]
    return wire.structured({name: data[name] for name in names if name in data}, kind)


def least(failures: Iterable[Data]) -> tuple[Data, ...]:
    """Of each identity the least, in their order."""
    kept: dict[tuple[str, ...], Data] = {}
    for failure in sorted(failures, key=_sort_key):
        kept.setdefault(identity_of(failure), failure)
    return tuple(kept[identity] for identity in sorted(kept))


def _sort_key(failure: Data) -> tuple[bool, bool, int, int, str]:
    """As `Find.sort_key`."""
    trace = failure["trace"]
    return (
        not failure["reproduced"],
        trace is None,
        failure["chunk"],
        failure["actions"],
        trace or json.dumps(failure),
    )
