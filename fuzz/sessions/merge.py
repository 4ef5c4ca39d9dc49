"""Merging what several sessions left into one corpus with one record a plan.

Parts of one plan add up to what one session would have left, byte for byte. Invariants: the order
of the folders makes no difference, nor does a folder that is given twice, or merged once more; and
each identity that one of them has, a find or what is beyond, is in the result.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from pathlib import Path

import attrs

from fuzz.files import writing
from fuzz.problems import BadInputError
from fuzz.sessions import record
from fuzz.sessions.corpus import COMPLAINT_SUFFIX, PARTIAL, SUFFIX
from fuzz.sessions.plan import SessionTotals
from fuzz.sessions.record import ACTIONS, REASONS, Data, Piece, SessionRecord

Named = set[tuple[Path, str]]
"""Files, by their folder, and by their name in it."""


def merge(folders: Sequence[Path], out: Path) -> list[SessionRecord]:
    """Merge corpora into a new one; returns its records. Raises BadInputError."""
    for folder in folders:
        if not folder.is_dir():
            raise BadInputError(f"{folder}: there is no such folder to merge")
    with writing(out, "made"):
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise BadInputError(f"{out}: has something in it; merge into a new folder")
    found: dict[str, list[tuple[Path, SessionRecord]]] = defaultdict(list)
    for folder in folders:
        for _, each in record.records_in(folder):
            found[json.dumps(each.plan)].append((folder, each))
    merged = {plan: merged_record([each for _, each in found[plan]]) for plan in sorted(found)}
    known: Named = set()
    kept: Named = set()
    for plan, records in found.items():
        for folder, each in records:
            known |= _files(folder, (*each.failures, *each.beyond))
            kept |= _files(folder, _among(each.failures, merged[plan].failures))
            kept |= _files(folder, _among(each.beyond, merged[plan].beyond))
    with writing(out):
        _copy(folders, known - kept, kept, out)
        (out / record.FOLDER).mkdir()
    for each in merged.values():
        record.write(each, out / record.FOLDER / f"{record.name_of(each.plan)}.json")
    return [*merged.values()]


def _files(folder: Path, failures: Iterable[Data]) -> Named:
    return {(folder, each["trace"]) for each in failures if each["trace"] is not None}


def _among(some: Iterable[Data], others: Sequence[Data]) -> list[Data]:
    return [each for each in some if each in others]


def _copy(folders: Sequence[Path], dropped: Named, kept: Named, out: Path) -> None:
    """Copy all traces but those dropped, each with its complaint.

    Of several of one name those kept come first.
    """
    contents: dict[str, list[tuple[bool, bytes]]] = defaultdict(list)
    for folder in folders:
        for path in folder.rglob("*"):
            trace = folder, path.with_suffix(SUFFIX).relative_to(folder).as_posix()
            is_find = path.suffix in {SUFFIX, COMPLAINT_SUFFIX} and PARTIAL not in path.suffixes
            if is_find and trace not in dropped:
                name = path.relative_to(folder).as_posix()
                contents[name].append((trace not in kept, path.read_bytes()))
    for name, candidates in contents.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(min(candidates)[1])


def merged_record(records: Sequence[SessionRecord]) -> SessionRecord:
    """The sum of records of one plan. Raises BadInputError if that cannot be told."""
    pieces = _largest([piece for each in records for piece in each.pieces])
    reasons = [
        each.stop_reason for each in records if any(piece in pieces for piece in each.pieces)
    ]
    failures = record.least(chain.from_iterable(each.failures for each in records))
    identities = {*map(record.identity_of, failures)}
    beyond = record.least(
        failure
        for each in records
        for failure in each.beyond
        if record.identity_of(failure) not in identities
    )
    timing = {json.dumps(each): each for one in records for each in one.timing}
    return attrs.evolve(
        records[0],
        pieces=tuple(_joined(pieces)),
        failures=failures,
        stop_reason=max(reasons, key=REASONS.index, default=ACTIONS),
        beyond=beyond,
        timing=tuple(timing[key] for key in sorted(timing)),
    )


def _largest(pieces: list[Piece]) -> list[Piece]:
    """The pieces without those that lie in another. Raises BadInputError if two overlap."""
    kept: list[Piece] = []
    for piece in sorted(pieces, key=lambda each: (-len(each.chunks), len(each.lost))):
        shared = [sum(index in other.chunks for index in piece.chunks) for other in kept]
        if len(piece.chunks) not in shared and piece.chunks:
            if any(shared):
                raise BadInputError(
                    f"chunks {piece.chunks.start}, every {piece.chunks.step}, are in several "
                    "records that are cut otherwise; merge the parts of one cut"
                )
            kept.append(piece)
    return kept or pieces[:1]


def _joined(pieces: list[Piece]) -> list[Piece]:
    """As few pieces as possible: those whose chunks together are one range become one."""
    pieces = sorted(pieces, key=lambda each: (each.chunks.start, each.chunks.step))
    groups = chain(combinations(pieces, 2), [pieces])
    for group in groups:
        indices = sorted(chain.from_iterable(each.chunks for each in group))
        step = indices[1] - indices[0] if len(indices) > 1 else 1
        chunks = range(indices[0], indices[-1] + 1, step) if indices else range(0)
        if len(group) > 1 and indices == [*chunks]:
            totals = SessionTotals()
            for each in group:
                totals.add_all(each.totals)
            lost = tuple(sorted(chain.from_iterable(each.lost for each in group)))
            return _joined([*(p for p in pieces if p not in group), Piece(chunks, totals, lost)])
    return pieces
