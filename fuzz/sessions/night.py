"""A night: what many sessions did and found, summed up on one page.

It is made from the records of sessions, and from the output of `gcfuzz bugs --json`. Invariants:
nothing that is read is changed; what is given twice, or also as part of a merged record, counts
once; the order of the inputs does not matter. Of the failures with one identity in one target the
least is kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import attrs

from fuzz.files import read_bytes
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.protocol import trace as traces
from fuzz.run import BROKE
from fuzz.sessions import record as records
from fuzz.sessions.causes import by_cause
from fuzz.sessions.corpus import SavedFailure, pages_like
from fuzz.sessions.merge import merged_record
from fuzz.sessions.plan import PlanKey
from fuzz.sessions.record import SessionRecord, Timing
from fuzz.targets import registry

VERSION = 1
"""The version of a night's JSON."""
Status: TypeAlias = Literal["new", "known", "vanished", "not looked for", "gone"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""What became of a failure since the night before, in the order of the page. It is `not looked for`
if no session had its target, and `vanished` if one had and did not find it; one night later it is
`gone`."""
Key: TypeAlias = tuple[str, ...]


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
    """The output of `gcfuzz bugs --json`."""

    engine: str
    seeds: int
    bugs: tuple[HuntedBug, ...]


@attrs.frozen
class NightFailure:
    """A failure of this night or of an earlier one."""

    target: str
    """With the option that distinguishes it from others of its name."""
    options: tuple[str, ...]
    """The arguments for its replay."""
    saved: SavedFailure
    status: Status
    pages: tuple[str, ...] = ()
    """The findings in docs/findings that it resembles."""

    @property
    def key(self) -> Key:
        """What it has in common with the same failure of another night."""
        return self.target, *self.saved.failure.identity

    @property
    def is_current(self) -> bool:
        """Whether a session of this night found it."""
        return self.status in {"new", "known"}


@attrs.frozen
class Night:
    """The sum. The next night is compared with its JSON, which is beside the page."""

    gcfuzz: str
    """The version of gcfuzz."""
    sessions: tuple[SessionRecord, ...]
    """One for each plan."""
    failures: tuple[NightFailure, ...]
    hunts: tuple[HuntedBugs, ...] = ()

    @property
    def timing(self) -> list[Timing]:
        return [timing for session in self.sessions for timing in session.timing]

    @property
    def quiet_seconds(self) -> float:
        """The time from the last new probe or failure to the end of the last session."""
        if not self.timing:
            return 0.0
        end = max(each.ended for each in self.timing)
        return max(0.0, (end - max(each.last_new for each in self.timing)).total_seconds())

    def counts(self) -> Counter[str]:
        return Counter(each.status for each in self.failures)

    def probes(self) -> dict[str, Counter[str]]:
        """How often each probe of a target was reached, by target."""
        sums: dict[str, Counter[str]] = {}
        for session in self.sessions:
            sums.setdefault(target_name(session.plan), Counter()).update(session.totals.probes)
        return sums

    def wrong_actions(self) -> dict[str, Counter[str]]:
        """The number of failures by oracle, and by the action with the first wrong answer."""
        sums: dict[str, Counter[str]] = {}
        for each in self.failures:
            failure = each.saved.failure
            if each.is_current and failure.change == BROKE:
                sums.setdefault(failure.oracle, Counter())[failure.action] += 1
        return sums

    def dumps(self) -> str:
        data = wire.unstructured(self) | {"sessions": [each.to_data() for each in self.sessions]}
        return json.dumps({"gcfuzz_night": VERSION, **data}, indent=1) + "\n"


def target_name(plan: PlanKey) -> str:
    """The target of a plan, with the option that distinguishes it from others of its name."""
    registered = registry().targets.get(plan.target)
    option = f"--{registered and registered.distinguished_by}"
    if option not in plan.options:
        return plan.target
    return f"{plan.target} {option} {plan.options[plan.options.index(option) + 1]}"


@attrs.define
class Material:
    """What was read, each thing once."""

    records: dict[str, SessionRecord] = attrs.Factory(dict)
    hunts: dict[str, HuntedBugs] = attrs.Factory(dict)
    corpora: list[Path] = attrs.Factory(list)
    """The folders that may have the traces of a record."""

    def path_of(self, failure: NightFailure) -> Path | None:
        """The trace of a failure, if it was given."""
        path = failure.saved.path
        names = [] if path is None else [path, Path(path.name)]  # A night's folder is flat.
        paths = (corpus / each for each in names for corpus in self.corpora)
        return next((path for path in paths if path.is_file()), None)


def read_material(places: Iterable[Path]) -> Material:
    """Read corpora, records of sessions, and the output of `gcfuzz bugs --json`.

    The traces of a record are looked for in the given corpora, and beside each record. Raises
    BadInputError.
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
    """The JSON files of a corpus, without nights. Raises BadInputError if there are none."""
    paths = sorted([*folder.glob("*.json"), *folder.glob(f"{records.FOLDER}/*.json")])
    found = [path for path in paths if "gcfuzz_night" not in _object_in(path)]
    if not found:
        raise BadInputError(
            f"{folder}: has no record of a session ({records.FOLDER}/*.json); run one with "
            "--corpus, or name another folder"
        )
    return found


def _object_in(path: Path) -> dict[str, Any]:
    try:
        return wire.as_object(wire.from_line(read_bytes(path)))
    except ValueError as problem:
        raise BadInputError(f"{path}: {problem}") from problem


def _take(material: Material, path: Path) -> None:
    data = _object_in(path)
    if "gcfuzz_night" in data:
        raise BadInputError(f"{path}: is an earlier night; name it with --before")
    if "bugs" not in data:
        material.records[wire.to_line(data)] = records.read(path)
        return
    try:
        material.hunts[wire.to_line(data)] = wire.structured(data, HuntedBugs)
    except ValueError as problem:
        raise BadInputError(
            f"{path}: is not what `gcfuzz bugs --json` prints: {problem}"
        ) from problem


def read_failures(path: Path) -> tuple[NightFailure, ...]:
    """The failures of an earlier night, from the JSON beside its page. Raises BadInputError."""
    data = _object_in(path)
    if data.get("gcfuzz_night") != VERSION:
        raise BadInputError(
            f"{path}: is not a night of version {VERSION}; name the JSON beside an earlier page"
        )
    try:
        return wire.structured(data.get("failures"), tuple[NightFailure, ...])
    except ValueError as problem:
        raise BadInputError(f"{path}: is not what this gcfuzz writes: {problem}") from problem


def sum_up(material: Material, before: Iterable[NightFailure], gcfuzz: str) -> Night:
    """The night, and what became of the failures of the one before. Raises BadInputError."""
    by_plan: dict[PlanKey, list[SessionRecord]] = {}
    for session in material.records.values():
        by_plan.setdefault(session.plan, []).append(session)
    sessions = tuple(merged_record(by_plan[plan]) for plan in sorted(by_plan, key=str))
    earlier = {each.key: each for each in before}
    found = {each.key: each for each in _found(sessions)}
    targets = {target_name(session.plan) for session in sessions}
    failures = [_with_status(each, material, earlier) for each in found.values()]
    for key, each in earlier.items():
        if key not in found:
            status: Status = "vanished" if each.target in targets else "not looked for"
            is_old = each.status in {"vanished", "gone"}
            failures.append(attrs.evolve(each, status="gone" if is_old else status))
    failures.sort(key=lambda each: (STATUSES.index(each.status), each.key))
    hunts = tuple(hunted for _, hunted in sorted(material.hunts.items()))
    return Night(gcfuzz, sessions, tuple(failures), hunts)


def _found(sessions: Iterable[SessionRecord]) -> Iterator[NightFailure]:
    """The failures of these sessions, the least of each identity in a target."""
    found: dict[Key, NightFailure] = {}
    for session in sessions:
        target, options = target_name(session.plan), session.plan.options
        for saved in (*session.failures, *session.beyond):
            each = NightFailure(target, options, saved, "new")
            other = found.setdefault(each.key, each)
            found[each.key] = min(other, each, key=lambda one: (one.saved.sort_key, one.options))
    yield from found.values()


def _with_status(
    failure: NightFailure, material: Material, earlier: Container[Key]
) -> NightFailure:
    """A failure of this night, new or known. Raises BadInputError if its trace is not readable."""
    path = material.path_of(failure)
    pages = []
    if path is not None:
        trace = traces.read(path)
        pages = pages_like(trace.header.target, failure.saved.with_trace(trace).failure)
    status: Status = "known" if pages or failure.key in earlier else "new"
    return attrs.evolve(failure, status=status, pages=tuple(pages))


def has_new_cause(night: Night, material: Material) -> bool:
    """Whether a new failure has no likely cause in common with a known one.

    Raises BadInputError if a trace is not readable.
    """
    current = [attrs.evolve(each, status="new") for each in night.failures if each.is_current]
    known = {each.key for each in night.failures if each.status == "known"}
    current.sort(key=lambda each: each.key)
    groups = by_likely_cause(current, material)
    return any(known.isdisjoint(each.key for each in group) for group in groups)


def by_likely_cause(
    failures: Iterable[NightFailure], material: Material
) -> Iterator[Sequence[NightFailure]]:
    """The failures in groups of one status, target and likely cause, the one to read first.

    A failure without a trace is alone. Raises BadInputError if a trace is not readable.
    """
    for _, several in groupby(failures, key=lambda each: (each.status, each.target)):
        whole: list[tuple[SavedFailure, NightFailure]] = []
        for each in several:
            path = material.path_of(each)
            if path is None:
                yield [each]
            else:
                whole.append((each.saved.with_trace(traces.read(path)), each))
        for group in by_cause(whole, lambda pair: pair[0]):
            yield [each for _, each in group]
