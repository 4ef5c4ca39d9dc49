"""The history of failures over the nights, `failures.history` in a corpus: one JSON object a line.

A line names its kind: a failure, when it was first known; a night; what a night showed of a
failure; and what `gcfuzz triage` set. Invariants: lines are only added, one process at a time. The
order of the lines is the order of the nights, because a machine's clock may be wrong. A failure's
key has no path of a program, and no version, so it is the same for each build.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import attrs

from fuzz.failures.causes import Cause
from fuzz.failures.corpus import SavedFailure
from fuzz.files import alone_in, read_bytes, write_text, writing
from fuzz.former_names import first_name, target_named
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire

NAME = "failures.history"
VERSION = 1
HEAD = wire.to_line({"kind": "history", "version": VERSION})
COUNT_MAX = 2**53
DIGITS = 12
"""Of each half of an id: of 10,000 failures, two are alike with a chance below 1 in a million."""
EARLIEST = datetime.min.replace(tzinfo=UTC)
CLOCKS_DIFFER_MAX = timedelta(days=1)
"""A line may be this much later than this machine's clock.

A night with a wrong clock once spoiled all verdicts until that date."""
State: TypeAlias = Literal["open", "flaky", "muted", "not looked for", "fixed"]
STATES: tuple[State, ...] = get_args(State)
"""In the order of a page."""
OPEN, FLAKY, MUTED, NOT_LOOKED_FOR, FIXED = STATES
"""`fixed` only if its trace passed on that night's build; `flaky` if its runs differ; `not looked
for` if it was not replayed, and no session could have found it."""


@attrs.frozen
class KnownFailure:
    """A failure of a target."""

    target: str = attrs.field(converter=target_named)
    name: str
    """The session's `--name`, which distinguishes programs."""
    cause: Cause
    """Its likely cause; empty if its trace was not readable."""
    saved: SavedFailure
    options: tuple[str, ...] = ()
    """The arguments of a session that found it."""

    @property
    def identity(self) -> tuple[str, ...]:
        return self.saved.failure.identity

    @property
    def cause_id(self) -> str:
        """What failures with one likely cause in one target have in common.

        A failure that did not reproduce was not reduced, and the last steps of its trace are there
        by chance. So its identity alone is its cause.
        """
        cause = self.cause if self.has_cause else self.identity
        return _digest(self.target, self.name, *cause)

    @property
    def has_cause(self) -> bool:
        """Whether its trace shows its cause."""
        return self.saved.reproduced and bool(self.cause)

    @property
    def id(self) -> str:
        """The cause, and this identity among its failures."""
        return f"{self.cause_id}-{_digest(*self.identity)}"

    @property
    def earlier_ids(self) -> tuple[str, str]:
        """The ids of its cause and of itself in the histories of version 0.1.0."""
        cause = _checksum(self.target, self.name, *(self.cause or self.identity))
        return cause, f"{cause}-{_checksum(*self.identity)[:4]}"

    @property
    def ids(self) -> frozenset[str]:
        """All names of its cause and of itself, as they may be in a history."""
        return frozenset((self.cause_id, self.id, *self.earlier_ids))

    @property
    def order(self) -> tuple[object, ...]:
        """The order of traces with one id: the least one is the best to read."""
        saved = self.saved
        unsure = not saved.reproduced, saved.needs_earlier, not saved.is_saved
        return *unsure, saved.length, str(saved.path)


def _digest(*parts: str) -> str:
    import hashlib  # A replay of one file has no use for it.

    return hashlib.sha256(_key_of(parts)).hexdigest()[:DIGITS]


def _checksum(*parts: str) -> str:
    return f"{zlib.crc32(_key_of(parts)):08x}"


def _key_of(parts: Iterable[str]) -> bytes:
    return wire.to_line({"of": [*map(first_name, parts)]}).encode()


@attrs.frozen
class SessionRun:
    """A session that a night read."""

    id: str
    target: str = attrs.field(converter=target_named)
    name: str
    versions: tuple[str, ...]
    """The versions of its target, or the commits of its folder."""


@attrs.frozen
class FactsReached:
    """How many pairs and triples of facts a night reached on a target, and how many can hold."""

    target: str
    """With the `--name` of its sessions."""
    pairs: int
    pairs_possible: int
    triples: int
    triples_possible: int


@attrs.frozen
class NightDone:
    """The sums of a night."""

    at: str
    sessions: tuple[SessionRun, ...]
    """All that it read, also those of earlier nights."""
    actions: int
    probes: int
    open: int
    """This and the others are numbers of causes; a new one is open or flaky as well."""
    new: int
    fixed: int
    """Since the night before."""
    back: int = 0
    flaky: int = 0
    muted: int = 0
    combinations: tuple[FactsReached, ...] = ()
    """Of the sessions that counted them, one for each target."""


@attrs.frozen
class Shown:
    """What a night showed of a failure."""

    at: str
    """The night."""
    failure: str
    state: State
    """`open`, `flaky` or `fixed`."""
    sessions: tuple[str, ...] = ()
    """The sessions that found it, as they started."""
    versions: tuple[str, ...] = ()
    """The versions on which these sessions found it."""
    failed: int = 0
    runs: int = 0
    """How often its trace was replayed, and how often it failed."""
    version: str = ""
    """The version on which it was replayed."""
    is_looked_for: bool = True
    """Whether a session of this night could find it."""

    @property
    def bad_versions(self) -> tuple[str, ...]:
        """The versions on which it failed."""
        replayed = [self.version] if self.failed and self.version else []
        return tuple(dict.fromkeys([*self.versions, *replayed]))

    @property
    def is_flaky(self) -> bool:
        """Whether its runs differ, as this night saw."""
        return self.state == FLAKY or 0 < self.failed < self.runs


@attrs.frozen
class Triaged:
    """What a person set for a failure, or for all failures of a cause."""

    at: str
    failure: str
    failed: int = 0
    runs: int = 0
    """With runs: it is flaky, and failed in that many of them."""
    muted_until: str = ""
    because: str = ""
    issue: str = ""

    @property
    def is_flaky(self) -> bool:
        """Whether a person set that its runs differ."""
        return 0 < self.failed < self.runs


Told: TypeAlias = Shown | Triaged
Line: TypeAlias = KnownFailure | NightDone | Told
KINDS: dict[str, type[Line]] = {
    "failure": KnownFailure,
    "night": NightDone,
    "shown": Shown,
    "triaged": Triaged,
}
NAMES = {kind: name for name, kind in KINDS.items()}
T = TypeVar("T")


class Mute(NamedTuple):
    """What a person set."""

    until: str
    """The last day."""
    because: str

    def __str__(self) -> str:
        return f"muted until {self.until}{' because ' if self.because else ''}{self.because}"


class VersionBounds(NamedTuple):
    """Versions of a target; empty if not known. Only one on which the trace passed is good."""

    last_good: str = ""
    """The last one on which it passed before `first_bad`."""
    first_bad: str = ""
    """The first one on which it failed, or failed again after it was fixed."""
    fixed_in: str = ""
    """The first one on which it passed after `first_bad`."""


@attrs.frozen
class Life:
    """What is known of a failure before a night."""

    known: KnownFailure
    """Its trace that is best to read."""
    told: tuple[Told, ...] = ()
    """What nights showed and persons set, in the order of the history."""
    first: KnownFailure = attrs.field(
        default=attrs.Factory(lambda self: self.known, takes_self=True)
    )
    """The one of its traces that gives the failure its ids, which stay the same."""
    traces: tuple[KnownFailure, ...] = attrs.field(
        default=attrs.Factory(lambda self: (self.known,), takes_self=True)
    )

    @property
    def id(self) -> str:
        return self.first.id

    @property
    def cause_id(self) -> str:
        return self.first.cause_id

    @property
    def ids(self) -> frozenset[str]:
        """All names of its causes and of itself, as they may be in a history."""
        return frozenset(id_ for each in self.traces for id_ in each.ids)

    @property
    def shown(self) -> tuple[Shown, ...]:
        return tuple(each for each in self.told if isinstance(each, Shown))

    @property
    def triaged(self) -> tuple[Triaged, ...]:
        return tuple(each for each in self.told if isinstance(each, Triaged))

    @property
    def sessions(self) -> list[str]:
        """The sessions that found it, in the order of the nights.

        Only sessions of one night are in the order of their clocks, one of which may be wrong.
        """
        return [*dict.fromkeys(each for shown in self.shown for each in shown.sessions)]

    @property
    def first_seen(self) -> str:
        """When the first of them started, by its clock."""
        return next(iter(self.sessions), "").partition(" ")[0]

    @property
    def last_seen(self) -> str:
        return next(reversed(self.sessions), "").partition(" ")[0]

    @property
    def versions(self) -> list[str]:
        """The versions on which it failed, in the order of the nights."""
        return [*dict.fromkeys(each for shown in self.shown for each in shown.bad_versions)]

    @property
    def state(self) -> State | None:
        """The state of the last night; None if there was none."""
        return self.shown[-1].state if self.shown else None

    @property
    def runs(self) -> list[tuple[int, int]]:
        """How many of how many replays failed, in order, since it was last fixed."""
        runs: list[tuple[int, int]] = []
        for each in self.told:
            if isinstance(each, Shown) and each.state == FIXED:
                runs = []
            elif each.runs:
                runs.append((each.failed, each.runs))
        return runs

    @property
    def is_flaky(self) -> bool:
        """Whether its runs differ, as a night saw or a person set."""
        runs = self.runs
        is_mixed = len({failed == count for failed, count in runs}) > 1
        return self.state == FLAKY or is_mixed or any(0 < failed < count for failed, count in runs)

    def mute(self, today: date) -> Mute | None:
        """Whether and why it is muted."""
        until = next((each.muted_until for each in reversed(self.triaged) if each.muted_until), "")
        if not until or date.fromisoformat(until) < today:
            return None
        because = (each.because for each in reversed(self.triaged) if each.because)
        return Mute(until, next(because, ""))

    @property
    def issue(self) -> str:
        return next((each.issue for each in reversed(self.triaged) if each.issue), "")

    @property
    def bounds(self) -> VersionBounds:
        """Where it last began to fail, and where it was fixed."""
        bounds, passed, is_bad = VersionBounds(), "", False
        for each in self.shown:
            bad = each.bad_versions
            if each.state == FIXED:
                passed = each.version or passed
                bounds = bounds._replace(fixed_in=each.version) if is_bad else bounds
                is_bad = False
            elif bad and not is_bad:
                bounds, is_bad = VersionBounds(passed, bad[0]), True
        return bounds


def described(life: Life) -> str:
    """A failure in a line: its state today, and what it is."""
    known, mute = life.known, life.mute(datetime.now(UTC).date())
    state: str = FLAKY if life.state == OPEN and life.is_flaky else life.state or "not seen"
    state = str(mute) if mute and state != FIXED else state
    words = [life.id, state, known.target, known.name, life.issue, " / ".join(known.identity)]
    return " ".join(filter(None, words))


@attrs.frozen
class FailureHistory:
    """The lines of a history in their order, without those that are there twice."""

    lines: tuple[Line, ...] = ()

    @property
    def nights(self) -> list[NightDone]:
        """The nights, oldest first. Of those of the same sessions the last one counts."""
        done = _of_kind(self.lines, NightDone)
        last = {frozenset(run.id for run in each.sessions): each for each in done}
        return [each for each in done if each in last.values()]

    def before(self, sessions: Collection[str]) -> FailureHistory:
        """The history without the nights of exactly these sessions, which are made again."""
        nights = _of_kind(self.lines, NightDone)
        again = {each.at for each in nights if {run.id for run in each.sessions} == sessions}

        def is_kept(line: Line) -> bool:
            return not (isinstance(line, NightDone | Shown) and line.at in again)

        return FailureHistory(tuple(filter(is_kept, self.lines)))

    def lives(self, found: Iterable[KnownFailure] = ()) -> dict[str, Life]:
        """Each failure by its id, with those that were found now.

        What was set for a cause holds for each of its failures, also if it is first found now.
        """
        counting = {each.at for each in self.nights}
        told = [
            each
            for each in self.lines
            if isinstance(each, Triaged) or (isinstance(each, Shown) and each.at in counting)
        ]
        by_name: dict[str, list[int]] = defaultdict(list)
        for place, line in enumerate(told):
            by_name[line.failure].append(place)
        lives = {}
        for traces in _failures([*_of_kind(self.lines, KnownFailure), *found], told):
            best = min(traces, key=lambda each: each.order)
            life = Life(best, (), traces[0], tuple(traces))
            places = {place for id_ in life.ids & by_name.keys() for place in by_name[id_]}
            lives[life.id] = attrs.evolve(life, told=tuple(told[place] for place in sorted(places)))
        return lives


def _failures(known: Iterable[KnownFailure], told: Sequence[Told]) -> Iterator[list[KnownFailure]]:
    """The traces of each failure; the first one gives it its ids.

    The steps of a trace show a failure's cause only if it was reduced in runs that did not differ.
    So traces of one identity whose causes differ are one failure if one of them has no cause, or
    was flaky before the other one was found. What a night showed as a failure stays one. Its line
    has the id, so that the ids do not depend on later nights.
    """
    places: dict[str, int] = {}
    for place, line in enumerate(told):
        if isinstance(line, Shown):
            places.setdefault(line.failure, place)
    flaky = {each.failure for each in told if each.is_flaky}
    identities: dict[tuple[str, ...], dict[str, list[KnownFailure]]] = {}
    for each in known:
        identity = each.target, each.name, *each.identity
        identities.setdefault(identity, {}).setdefault(each.id, []).append(each)

    def place_of(traces: Sequence[KnownFailure]) -> int:
        """Where a night first showed them under their own id."""
        first = traces[0]
        return min(places.get(id_, len(told)) for id_ in (first.id, first.earlier_ids[1]))

    for same in identities.values():
        failures: list[list[KnownFailure]] = []
        for traces in sorted(
            same.values(), key=lambda it: (place_of(it), not it[0].has_cause, it[0].order)
        ):
            is_shown = place_of(traces) < len(told)
            unsure = [it for it in failures if not it[0].has_cause or it[0].ids & flaky]
            others = unsure or ([] if traces[0].has_cause else failures)
            if others and not is_shown:
                others[0].extend(traces)
            else:
                failures.append(traces)
        yield from failures


def muted_traces(folder: Path) -> dict[str, Mute]:
    """The names of the traces of failures that are muted today. Raises BadInputError."""
    today = datetime.now(UTC).date()
    return {
        each.saved.path.name: mute
        for life in read(folder / NAME).lives().values()
        if (mute := life.mute(today))
        for each in life.traces
        if each.saved.path is not None
    }


def _of_kind(lines: Iterable[Line], kind: type[T]) -> list[T]:
    return [each for each in lines if isinstance(each, kind)]


def now() -> str:
    """The moment, as in a history."""
    return datetime.now(UTC).isoformat()


# The file.


def read(path: Path) -> FailureHistory:
    """Read a history; it is empty if there is no such file. Raises BadInputError.

    A line from the future is bad input: its clock was wrong, or the clock of this machine is.
    """
    if not path.exists():
        return FailureHistory()
    lines: dict[str, Line] = {}
    for number, text in enumerate(read_bytes(path).splitlines(), 1):
        try:
            line = _line_of(wire.as_object(wire.from_line(text)))
        except ValueError as problem:
            raise BadInputError(
                f"{path}:{number}: is not a line of a history: {problem}; correct or remove it"
            ) from problem
        if line is not None:
            lines[text_of(line)] = line
    return FailureHistory(tuple(lines.values()))


def _line_of(data: dict[str, Any]) -> Line | None:
    """The line as an object; None for the first one. Raises ValueError."""
    kind = data.pop("kind", None)
    if kind == "history":
        if data != {"version": VERSION}:
            raise ValueError(f"this gcfuzz reads version {VERSION}")
        return None
    if kind not in [*KINDS]:
        raise ValueError(f"its kind is {wire.quoted(kind)}, not one of {', '.join(KINDS)}")
    line: Line = wire.structured(data, KINDS[kind])
    _check(line)
    return line


def _check(line: Line) -> None:
    """Raise ValueError if a date or a count is illegal."""
    if not isinstance(line, KnownFailure):
        at = datetime.fromisoformat(line.at)
        if at.tzinfo is None:
            raise ValueError(f"at is {wire.quoted(line.at)}, without a time zone")
        today = datetime.now(UTC)
        if at > today + CLOCKS_DIFFER_MAX:
            raise ValueError(
                f"at is {wire.quoted(line.at)}, in the future: a clock was wrong, or this "
                f"machine's is, which has {today:%Y-%m-%d}"
            )
    if isinstance(line, Triaged) and line.muted_until:
        date.fromisoformat(line.muted_until)
    if isinstance(line, Shown | Triaged) and not 0 <= line.failed <= line.runs <= COUNT_MAX:
        raise ValueError(f"failed is {line.failed} of {line.runs} runs")
    if isinstance(line, NightDone):
        figures: tuple[NightDone | FactsReached, ...] = (line, *line.combinations)
        counts = [n for each in figures for n in attrs.astuple(each) if isinstance(n, int)]
        if not all(0 <= each <= COUNT_MAX for each in counts):
            raise ValueError("a count is negative or too large")


def add(path: Path, lines: Iterable[Line]) -> None:
    """Add lines to a history, which is created if it is missing. Raises BadInputError."""
    new = "".join(f"{text_of(each)}\n" for each in lines)
    # Another process may add lines now.
    with writing(path), alone_in(Path(os.path.realpath(path)).parent):
        old = read_bytes(path).decode(errors="surrogateescape") if path.exists() else f"{HEAD}\n"
        ended = old if old.endswith("\n") else f"{old}\n"
        write_text(path, ended + new)


def text_of(line: Line) -> str:
    """A line of the file."""
    return wire.to_line({"kind": NAMES[type(line)], **wire.unstructured(line)})


def merged(histories: Iterable[FailureHistory]) -> list[Line]:
    """The lines of histories, each once, failures first, and the others in the order of nights.

    The order of each history stays: a line that is not later follows the one before it.
    """
    places: dict[str, tuple[datetime, int, str]] = {}
    lines: dict[str, Line] = {}
    for history in histories:
        latest, behind = EARLIEST, 0
        for line in history.lines:
            text = text_of(line)
            lines[text] = line
            at = EARLIEST if isinstance(line, KnownFailure) else datetime.fromisoformat(line.at)
            is_later = at > latest
            latest, behind = (at, 0) if is_later else (latest, behind + (at > EARLIEST))
            place = (
                (EARLIEST, 0, text) if isinstance(line, KnownFailure) else (latest, behind, text)
            )
            places[text] = min(place, places.get(text, place))
    return [lines[text] for text in sorted(lines, key=places.__getitem__)]
