"""A night: what many sessions did and found, summed up for one look.

It is made of the records that sessions leave, and of what `gcfuzz bugs --json` printed. Invariants:
nothing that is read is changed; what is given twice counts once, also apart from what it was merged
into, and the order in which it is given makes no difference. Of the finds with one identity in one
target the least is kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import attrs

from fuzz.files import read_bytes
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.protocol import trace as traces
from fuzz.protocol.trace import Trace
from fuzz.run import BROKE, Failure
from fuzz.sessions import record as records
from fuzz.sessions.causes import by_cause
from fuzz.sessions.corpus import Find, pages_like
from fuzz.sessions.merge import merged_record
from fuzz.sessions.record import Data, Reported, SessionRecord, Timing, least, only
from fuzz.targets import registry

T = TypeVar("T", bound=attrs.AttrsInstance)

VERSION = 1
"""Of a night's JSON."""
Status: TypeAlias = Literal["new", "known", "vanished", "not looked for", "gone"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""What became of a find since the night before, in the order in which they are told. It was not
looked for if no session had its target, and vanished if one had and did not find it; the night
after that it is gone."""
Key: TypeAlias = tuple[str, ...]


@attrs.frozen
class Fuzzed:
    """What was fuzzed, and how, of what tells one plan from another."""

    target: str
    options: tuple[str, ...]
    engine: str
    seed: int

    @property
    def name(self) -> str:
        """The target, with the program or library that tells it apart from others of its name."""
        registered = registry().targets.get(self.target)
        option = f"--{registered and registered.distinguished_by}"
        if option not in self.options:
            return self.target
        return f"{self.target} {option} {self.options[self.options.index(option) + 1]}"


@attrs.frozen
class HuntedBug:
    """A known bug, and how it was found: a row of the kill matrix."""

    id: str
    seen_in: str
    found: bool
    oracle: str | None
    oracles: tuple[str, ...]
    actions_median: float | None
    actions_worst: int | None
    reduced: int | None
    shortest: int


@attrs.frozen
class HuntedBugs:
    """What `gcfuzz bugs --json` prints."""

    engine: str
    seeds: int
    bugs: tuple[HuntedBug, ...]


@attrs.frozen
class NightFind:
    """A find of this night or of an earlier one."""

    target: str
    """With what tells it apart from others of its name."""
    options: tuple[str, ...]
    """The words that its replay needs."""
    status: Status
    failure: Reported
    pages: tuple[str, ...] = ()
    """The findings that it is like, in docs/findings."""

    @property
    def key(self) -> Key:
        """What makes it the same find the night after."""
        return self.target, *self.failure.identity

    @property
    def is_tonight_s(self) -> bool:
        """Whether a session of this night found it."""
        return self.status in {"new", "known"}


@attrs.frozen
class Night:
    """The sum. Its JSON lies beside the page, and is what the next night is compared with."""

    gcfuzz: str
    """The version that summed it up."""
    sessions: tuple[SessionRecord, ...]
    """One for each plan."""
    finds: tuple[NightFind, ...]
    hunts: tuple[HuntedBugs, ...] = ()

    @property
    def timing(self) -> list[Timing]:
        """How each session went."""
        return [timing for session in self.sessions for timing in timing_of(session)]

    @property
    def quiet_seconds(self) -> float:
        """How long before the end of the last session something was new to one of them."""
        if not self.timing:
            return 0.0
        end = max(each.ended for each in self.timing)
        return max(0.0, (end - max(each.last_new for each in self.timing)).total_seconds())

    def counts(self) -> Counter[str]:
        """How many finds have each status."""
        return Counter(find.status for find in self.finds)

    def probes(self) -> dict[str, Counter[str]]:
        """How often each probe that a target can reach was reached, by target."""
        sums: dict[str, Counter[str]] = {}
        for session in self.sessions:
            reached = session.totals.probes
            sums.setdefault(fuzzed_by(session).name, Counter()).update(
                {name: reached[name] for name in session.probes}
            )
        return sums

    def wrong_actions(self) -> dict[str, Counter[str]]:
        """How many finds each oracle has, by the action whose answer was the first wrong one."""
        sums: dict[str, Counter[str]] = {}
        for find in self.finds:
            if find.is_tonight_s and find.failure.change == BROKE:
                sums.setdefault(find.failure.oracle, Counter())[find.failure.action] += 1
        return sums

    def dumps(self) -> str:
        """The night as JSON."""
        data = {
            "gcfuzz_night": VERSION,
            "gcfuzz": self.gcfuzz,
            "finds": wire.unstructured(self.finds),
            "sessions": [session.to_data() for session in self.sessions],
            "hunts": wire.unstructured(self.hunts),
        }
        return json.dumps(data, indent=1) + "\n"


def fuzzed_by(session: SessionRecord) -> Fuzzed:
    """What a session fuzzed."""
    return only(session.plan, Fuzzed)


def timing_of(session: SessionRecord) -> list[Timing]:
    """How the sessions of one plan went."""
    return [only(each, Timing) for each in session.timing]


@attrs.define
class Material:
    """What was read, before it is summed up: each thing once."""

    records: dict[str, SessionRecord] = attrs.Factory(dict)
    hunts: dict[str, HuntedBugs] = attrs.Factory(dict)
    corpora: list[Path] = attrs.Factory(list)
    """The folders in which a record's traces may be."""

    def path_of(self, find: NightFind) -> Path | None:
        """Where a find's trace is, if it was given."""
        name = find.failure.trace
        names = [] if name is None else [name, Path(name).name]  # In a night's folder all are flat.
        paths = (corpus / each for each in names for corpus in self.corpora)
        return next((path for path in paths if path.is_file()), None)


def read_material(places: Iterable[Path]) -> Material:
    """Read corpora, records of sessions, and what `gcfuzz bugs --json` printed.

    The traces of a record are looked for in the corpora that are given, and beside each record.
    Raises BadInputError.
    """
    material = Material()
    for place in sorted(set(places)):
        for path in _records_in(place) if place.is_dir() else [place]:
            _take(material, path)
        material.corpora += [place] if place.is_dir() else [place.parent, place.parent.parent]
    if not material.records:
        raise BadInputError("there is no record of a session; name a corpus or a summary as well")
    return material


def _records_in(folder: Path) -> list[Path]:
    """The JSON files of a corpus, but for nights. Raises BadInputError if there are none."""
    paths = sorted([*folder.glob("*.json"), *folder.glob(f"{records.FOLDER}/*.json")])
    found = [path for path in paths if "gcfuzz_night" not in _object_in(path)]
    if not found:
        raise BadInputError(
            f"{folder}: no session has left a record there ({records.FOLDER}/*.json)"
        )
    return found


def _object_in(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises BadInputError."""
    try:
        return wire.as_object(wire.from_line(read_bytes(path)))
    except ValueError as problem:
        raise BadInputError(f"{path}: {problem}") from problem


def _take(material: Material, path: Path) -> None:
    """Add what a file has. Raises BadInputError."""
    data = _object_in(path)
    if "gcfuzz_night" in data:
        raise BadInputError(f"{path}: is an earlier night; --before compares with it")
    try:
        if "bugs" in data:
            material.hunts[wire.to_line(data)] = wire.structured(data, HuntedBugs)
            return
        record = material.records[wire.to_line(data)] = records.read(path)
        fuzzed_by(record)
    except ValueError as problem:
        raise BadInputError(f"{path}: is not what this gcfuzz writes: {problem}") from problem


def read_finds(path: Path) -> tuple[NightFind, ...]:
    """The finds of an earlier night, from the JSON beside its page. Raises BadInputError."""
    data = _object_in(path)
    if data.get("gcfuzz_night") != VERSION:
        raise BadInputError(
            f"{path}: is no night of version {VERSION}; name the JSON beside an earlier page"
        )
    try:
        return wire.structured(data.get("finds"), tuple[NightFind, ...])
    except ValueError as problem:
        raise BadInputError(f"{path}: is not what this gcfuzz writes: {problem}") from problem


def sum_up(material: Material, before: Iterable[NightFind], gcfuzz: str) -> Night:
    """The night, and what became of the finds of the one before. Raises BadInputError."""
    by_plan: dict[str, list[SessionRecord]] = {}
    for session in material.records.values():
        by_plan.setdefault(json.dumps(session.plan), []).append(session)
    sessions = tuple(merged_record(by_plan[plan]) for plan in sorted(by_plan))
    earlier = {find.key: find for find in before}
    found = {find.key: find for find in _found(sessions)}
    targets = {fuzzed_by(session).name for session in sessions}
    finds = [_told_apart(find, material, earlier) for find in found.values()]
    finds += [_not_found(find, targets) for key, find in earlier.items() if key not in found]
    finds.sort(key=lambda find: (STATUSES.index(find.status), find.key))
    hunts = tuple(hunted for _, hunted in sorted(material.hunts.items()))
    return Night(gcfuzz, sessions, tuple(finds), hunts)


def _found(sessions: Iterable[SessionRecord]) -> Iterator[NightFind]:
    """The finds of these sessions, the least of each identity in a target."""
    failures: dict[str, list[Data]] = {}
    for session in sessions:
        fuzzed = fuzzed_by(session)
        options = {"options": fuzzed.options}
        failures.setdefault(fuzzed.name, []).extend(
            failure | options for failure in (*session.failures, *session.beyond)
        )
    for target, of_target in sorted(failures.items()):
        for failure in least(of_target):
            reported = only(failure, Reported)
            yield NightFind(target, failure["options"], "new", reported)


def _told_apart(find: NightFind, material: Material, earlier: Container[Key]) -> NightFind:
    """Whether a find of this night is new. Raises BadInputError if its trace cannot be read."""
    path = material.path_of(find)
    pages = [] if path is None else pages_like(_as_in_session(find.failure, traces.read(path)))
    status: Status = "known" if pages or find.key in earlier else "new"
    return attrs.evolve(find, status=status, pages=tuple(pages))


def by_likely_cause(
    finds: Iterable[NightFind], material: Material
) -> Iterator[Sequence[NightFind]]:
    """The finds in groups of one status, target and likely cause; the first is the one to read.

    One whose trace is not there is alone. Raises BadInputError if a trace cannot be read.
    """
    for _, several in groupby(finds, key=lambda find: (find.status, find.target)):
        whole: list[tuple[Find, NightFind]] = []
        for find in several:
            path = material.path_of(find)
            if path is None:
                yield [find]
            else:
                whole.append((_as_in_session(find.failure, traces.read(path)), find))
        of = {id(in_session): find for in_session, find in whole}
        for group in by_cause(in_session for in_session, _ in whole):
            yield [of[id(in_session)] for in_session in group]


def _as_in_session(reported: Reported, trace: Trace) -> Find:
    kind = reported.oracle, reported.field, reported.direction
    said = reported.expected, reported.got, reported.why, reported.where, reported.change
    failure = Failure(trace.header.config, trace.actions, *kind, *said)
    return Find(failure, trace, None, reported.reduced_from, reported.reproduced, reported.tries)


def _not_found(find: NightFind, targets: Container[str]) -> NightFind:
    """A find of an earlier night that is none of this one."""
    if find.status in {"vanished", "gone"}:
        return attrs.evolve(find, status="gone")
    return attrs.evolve(find, status="vanished" if find.target in targets else "not looked for")
