"""Merges what several sessions left into one corpus with one record for each plan and build.

Parts of one plan add up to what one session would have left, byte for byte. Invariants: the order
of the folders does not matter, and neither does a folder that is given twice or was merged before.
Each identity in one of them, in whole chunks or beyond, is in the result. If a folder has a trace
that can be read and is of that failure, the result has one. Folders may come from
anywhere: only regular files that are traces, records or histories are copied, and the logs of
these traces.
"""

from __future__ import annotations

import math
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple

import attrs

from fuzz.failures.corpus import COMPLAINT_SUFFIX, SavedFailure
from fuzz.failures.trace_files import PARTIAL, SUFFIX
from fuzz.files import read_bytes, writing
from fuzz.former_names import oracle_named, target_named
from fuzz.nights import failure_history
from fuzz.nights.corpora import noting
from fuzz.nights.failure_history import FailureHistory
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import NAMES
from fuzz.sessions import record
from fuzz.sessions.plan import PlanKey, SessionTotals
from fuzz.sessions.record import Piece, Rank, SessionRecord, same_rank

PARTS_MAX = 10_000
"""Missing ones of more parts are not looked for."""
SHOWN_MAX = 10
OTHERS_TRACE, NO_TRACE = 2, 3
"""The ranks of a failure whose file is of another failure, or is not there."""
Named = set[tuple[Path, str]]
"""Files, by their folder, and by their name in it."""


class Merged(NamedTuple):
    """What a merge made."""

    records: list[SessionRecord]
    """Those of the new corpus."""
    left_out: list[str]
    """A line for each file that was left out."""
    missing: list[str]
    """A line for each plan that lacks parts, and for each failure that lacks its trace."""


def merge(folders: Sequence[Path], out: Path) -> Merged:
    """Merge corpora into a new one. Raises BadInputError."""
    for folder in folders:
        if not folder.is_dir():
            raise BadInputError(f"{folder}: there is no such folder to merge")
    with writing(out, "made"):
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise BadInputError(f"{out}: is not empty; merge into a new folder")
    left_out: list[str] = []
    found = _records_in(folders, left_out)
    there = _traces_in(folders, left_out)
    ranks = {
        id(saved): _rank(each.record.plan, saved, there.get((each.folder, str(saved.path))))
        for each in chain.from_iterable(found.values())
        for saved in (*each.record.failures, *each.record.beyond)
    }
    merged = {
        plan: merged_records([each.record for each in found[plan]], lambda it: ranks[id(it)])
        for plan in found
    }
    known: Named = set()
    kept: Named = set()
    for plan, records in found.items():
        chosen = {id(it) for each in merged[plan] for it in (*each.failures, *each.beyond)}
        for folder, _, each in records:
            known |= _names(folder, (*each.failures, *each.beyond))
            kept |= _names(folder, (it for it in each.failures if id(it) in chosen))
            kept |= _names(folder, (it for it in each.beyond if id(it) in chosen))
    with writing(out):
        copied = _copy({name: there[name] for name in there if name not in known - kept}, kept, out)
        (out / record.FOLDER).mkdir()
    if lines := failure_history.merged(_histories_in(folders, left_out)):
        failure_history.add(out / failure_history.NAME, lines)
    plans = sorted(merged, key=record.name_of)
    for plan in plans:
        for each in merged[plan]:
            record.save(each, out / record.FOLDER / f"{record.name_of(plan)}.json")
    missing = [line for plan in plans for line in _missing_parts(plan, found[plan])]
    made = [each for plan in plans for each in merged[plan]]
    missing += [line for each in made for line in _missing_traces(each, copied)]
    return Merged(made, left_out, missing)


class _TraceFile(NamedTuple):
    """A trace in one of the folders, and what distinguishes it from that of another failure."""

    content: bytes
    complaint: bytes | None
    target: str
    oracle: str
    """Empty if the file does not say that it is of a failure."""
    message: str
    last_action: str
    length: int


def _traces_in(folders: Iterable[Path], left_out: list[str]) -> dict[tuple[Path, str], _TraceFile]:
    """The traces of the folders, by folder and by name in it, without unfinished files."""
    found = {}
    for folder in dict.fromkeys(folders):
        complaints = {*_files_in(folder, COMPLAINT_SUFFIX, left_out)}
        for path in _files_in(folder, SUFFIX, left_out):
            if PARTIAL in path.suffixes:
                continue
            with noting(left_out):
                content = read_bytes(path)
                trace = traces.decoded(content, str(path))
                complaint = path.with_suffix(COMPLAINT_SUFFIX)
                found[folder, path.relative_to(folder).as_posix()] = _TraceFile(
                    content,
                    read_bytes(complaint) if complaint in complaints else None,
                    target_named(trace.header.target),
                    *(oracle_named(trace.header.found.oracle), trace.header.found.message)
                    if trace.header.found is not None
                    else ("", ""),
                    last_action=NAMES[type(trace.actions[-1])] if trace.actions else "",
                    length=len(trace.actions),
                )
    return found


def _rank(plan: PlanKey, saved: SavedFailure, trace: _TraceFile | None) -> int:
    """How bad a failure's file is: 0 is right, OTHERS_TRACE and NO_TRACE are not of the failure."""
    if trace is None:
        return NO_TRACE
    failure = saved.failure
    known = plan.target, failure.oracle, failure.action, saved.length
    if known != (trace.target, trace.oracle, trace.last_action, trace.length):
        return OTHERS_TRACE
    # Another version of gcfuzz may word a message differently.
    return int(trace.message != failure.message)


def _missing_traces(merged: SessionRecord, copied: Mapping[str, _TraceFile]) -> Iterator[str]:
    """A line about each failure whose file is not copied, or is that of another failure."""
    for saved in (*merged.failures, *merged.beyond):
        rank = _rank(merged.plan, saved, copied.get(str(saved.path)))
        if saved.path is not None and rank >= OTHERS_TRACE:
            what = "is missing or left out" if rank == NO_TRACE else "is of another failure"
            again = f"--seed {merged.plan.seed} --chunks {saved.chunk}:{saved.chunk + 1}"
            yield (
                f"the trace {saved.path} of {' / '.join(saved.failure.identity)} {what}; "
                f"run its chunk again: `gcfuzz run {again}` with its target and options"
            )


class _Found(NamedTuple):
    """A record in a folder."""

    folder: Path
    path: Path
    record: SessionRecord


def _missing_parts(plan: PlanKey, found: Sequence[_Found]) -> Iterator[str]:
    """A line about the parts of a plan that are in no record, if there are such parts.

    A record that is not of one part was merged before, when this was said, or is whole.
    """
    parts = [record.part_in(each.path, plan) for each in found]
    shares = [each for each in parts if each is not None]
    count = math.lcm(*(share.step for share in shares))
    if None in parts or count > PARTS_MAX or any(share.start >= share.step for share in shares):
        return
    there = {part for each in shares for part in range(each.start % each.step, count)[:: each.step]}
    missing = [f"{part + 1}/{count}" for part in range(count) if part not in there]
    if missing:
        shown = ", ".join(missing[:SHOWN_MAX])
        more = f" and {len(missing) - SHOWN_MAX} more" if missing[SHOWN_MAX:] else ""
        yield (
            f"no record has part {shown}{more} of {plan.target} with seed {plan.seed}; run what is "
            "missing with this seed, and merge all parts"
        )


def _records_in(folders: Iterable[Path], left_out: list[str]) -> dict[PlanKey, list[_Found]]:
    """The records of each plan."""
    found: dict[PlanKey, list[_Found]] = defaultdict(list)
    for folder in folders:
        for path in _files_in(folder / record.FOLDER, ".json", left_out):
            with noting(left_out):
                each = record.read(path)
                found[each.plan].append(_Found(folder, path, each))
    return found


def _histories_in(folders: Iterable[Path], left_out: list[str]) -> Iterator[FailureHistory]:
    for folder in folders:
        for path in _files_in(folder, failure_history.NAME, left_out):
            with noting(left_out):
                yield failure_history.read(path)


def _files_in(folder: Path, suffix: str, left_out: list[str]) -> Iterator[Path]:
    """The regular files with this suffix, also in folders of the folder, in a fixed order."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(each for each in names if each.endswith(suffix)):
            path = Path(place, name)
            try:
                mode = path.lstat().st_mode
            except OSError as problem:  # A session that still runs may have renamed it.
                left_out.append(f"{path}: cannot be read: {problem.strerror}")
                continue
            if stat.S_ISREG(mode):
                yield path
            else:
                left_out.append(f"{path}: is not a regular file")


def _names(folder: Path, failures: Iterable[SavedFailure]) -> Named:
    return {(folder, each.path.as_posix()) for each in failures if each.path is not None}


def _copy(
    found: Mapping[tuple[Path, str], _TraceFile], kept: Named, out: Path
) -> dict[str, _TraceFile]:
    """Copy traces, each with its complaint. Returns them by name.

    Of files with the same name, those kept come first.
    """
    candidates: dict[str, list[tuple[bool, bytes, _TraceFile]]] = defaultdict(list)
    for trace, file in found.items():
        candidates[trace[1]].append((trace not in kept, file.content, file))
    copied = {name: min(files, key=lambda it: it[:2])[2] for name, files in candidates.items()}
    for parent in {name.rpartition("/")[0] for name in copied}:
        (out / parent).mkdir(parents=True, exist_ok=True)
    for name, file in copied.items():
        (out / name).write_bytes(file.content)
        if file.complaint is not None:
            (out / name).with_suffix(COMPLAINT_SUFFIX).write_bytes(file.complaint)
    return copied


def merged_records(records: Sequence[SessionRecord], rank: Rank = same_rank) -> list[SessionRecord]:
    """The sums of records of one plan, one for each build. Raises BadInputError.

    So a chunk counts once for each build. A record belongs to the one that continues it.
    """
    groups: dict[frozenset[tuple[str, ...]], list[SessionRecord]] = defaultdict(list)
    for each in records:
        groups[record.builds_of(each)].append(each)
    for builds in sorted(groups, key=len):
        for each in [*groups[builds]]:
            larger = (it for it in groups if it > builds)
            later = [it for it in larger if any(record.continues(x, each) for x in groups[it])]
            if later:
                groups[builds].remove(each)
                groups[min(later, key=sorted)].append(each)
    return [merged_record(groups[it], rank) for it in sorted(groups, key=sorted) if groups[it]]


def merged_record(records: Sequence[SessionRecord], rank: Rank = same_rank) -> SessionRecord:
    """The sum of records of one plan and build. Raises BadInputError if they do not add up.

    Of the failures of one identity, one whose file is not that of the failure comes last.
    """
    pieces = _largest([piece for each in records for piece in each.pieces])
    reasons = [each.stop_reason for each in records if any(it in pieces for it in each.pieces)]
    failures = record.least(chain.from_iterable(each.failures for each in records), rank)
    usable = {each.failure.identity: rank(each) < OTHERS_TRACE for each in failures}
    beyond = record.least(chain.from_iterable(each.beyond for each in records), rank)
    timing = {str(each): each for one in records for each in one.timing}
    return attrs.evolve(
        records[0],
        pieces=tuple(_joined(pieces)),
        failures=failures,
        stop_reason=max(reasons, key=record.REASONS.index, default=record.ACTIONS),
        beyond=tuple(
            each
            for each in beyond
            if each.failure.identity not in usable
            or (rank(each) < OTHERS_TRACE and not usable[each.failure.identity])
        ),
        timing=tuple(timing[key] for key in sorted(timing)),
    )


def _largest(pieces: list[Piece]) -> list[Piece]:
    """The pieces that are not part of another. Raises BadInputError if two overlap."""
    kept: list[Piece] = []
    for piece in sorted(pieces, key=lambda each: (-len(each.indices), len(each.lost))):
        shared = [_shared(piece.indices, other.indices) for other in kept]
        if len(piece.indices) not in shared and piece.indices:
            if any(shared):
                start, _, step = piece.chunks
                raise BadInputError(
                    f"chunks from {start}, every {step}, are in several records whose parts do not "
                    "fit together; merge parts that were cut in the same way (the same --part N)"
                )
            kept.append(piece)
    return kept or pieces[:1]


def _shared(one: range, other: range) -> int:
    """How many numbers two ranges share."""
    common = math.gcd(one.step, other.step)
    if not one or not other or (other.start - one.start) % common:
        return 0
    # The numbers of both are those of a range, by the Chinese remainder theorem.
    step, modulus = one.step * other.step // common, other.step // common
    times = (other.start - one.start) // common * pow(one.step // common, -1, modulus) % modulus
    first = one.start + one.step * times
    first += -((first - max(one.start, other.start)) // step) * step
    return len(range(first, min(one[-1], other[-1]) + 1, step))


def _joined(pieces: list[Piece]) -> list[Piece]:
    """As few pieces as possible: those whose chunks together are one range become one."""
    while True:
        pieces = sorted(pieces, key=lambda each: (each.indices.start, each.indices.step))
        groups = chain([pieces], combinations(pieces, 2)) if len(pieces) > 1 else iter(())
        group = next((each for each in groups if _range_of(each) is not None), None)
        if group is None:
            return pieces
        joined = {id(each) for each in group}
        pieces = [each for each in pieces if id(each) not in joined] + [_joined_piece(group)]


def _range_of(pieces: Sequence[Piece]) -> range | None:
    """The range of all chunks of pieces that share none; None if it has others too."""
    filled = [each.indices for each in pieces if each.indices]
    if not filled:
        return range(0)
    first, last = min(each[0] for each in filled), max(each[-1] for each in filled)
    step = (last - first) // max(sum(map(len, filled)) - 1, 1) or 1
    chunks = range(first, last + 1, step)
    is_one = len(chunks) == sum(map(len, filled))
    return chunks if is_one and all(record.is_within(each, chunks) for each in filled) else None


def _joined_piece(pieces: Sequence[Piece]) -> Piece:
    totals = SessionTotals()
    for each in pieces:
        totals.add_all(each.totals)
    lost = tuple(sorted(chain.from_iterable(each.lost for each in pieces)))
    chunks = _range_of(pieces)
    assert chunks is not None
    return record.piece_of(chunks, lost, totals)
