"""Merges what several sessions left into one corpus with one record for each plan.

Parts of one plan add up to what one session would have left, byte for byte. Invariants: the order
of the folders does not matter, and neither does a folder that is given twice or was merged before.
Each identity in one of them, in whole chunks or beyond, is in the result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from pathlib import Path

import attrs

from fuzz.files import writing
from fuzz.problems import BadInputError
from fuzz.sessions import record
from fuzz.sessions.corpus import COMPLAINT_SUFFIX, PARTIAL, SUFFIX, SavedFailure
from fuzz.sessions.plan import PlanKey, SessionTotals
from fuzz.sessions.record import ACTIONS, REASONS, Piece, SessionRecord, piece_of

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
            raise BadInputError(f"{out}: is not empty; merge into a new folder")
    found: dict[PlanKey, list[tuple[Path, SessionRecord]]] = defaultdict(list)
    for folder in folders:
        for _, each in record.records_in(folder):
            found[each.plan].append((folder, each))
    merged = {plan: merged_record([each for _, each in found[plan]]) for plan in found}
    known: Named = set()
    kept: Named = set()
    for plan, records in found.items():
        for folder, each in records:
            known |= _files(folder, (*each.failures, *each.beyond))
            kept |= _files(folder, (it for it in each.failures if it in merged[plan].failures))
            kept |= _files(folder, (it for it in each.beyond if it in merged[plan].beyond))
    with writing(out):
        _copy(folders, known - kept, kept, out)
        (out / record.FOLDER).mkdir()
    for plan, each in merged.items():
        record.write(each, out / record.FOLDER / f"{record.name_of(plan)}.json")
    return [merged[plan] for plan in sorted(merged, key=record.name_of)]


def _files(folder: Path, failures: Iterable[SavedFailure]) -> Named:
    return {(folder, each.path.as_posix()) for each in failures if each.path is not None}


def _copy(folders: Sequence[Path], dropped: Named, kept: Named, out: Path) -> None:
    """Copy all traces but those dropped, each with its complaint.

    Of files with the same name, those kept come first.
    """
    contents: dict[str, list[tuple[bool, bytes]]] = defaultdict(list)
    for folder in folders:
        for path in folder.rglob("*"):
            trace = folder, path.with_suffix(SUFFIX).relative_to(folder).as_posix()
            is_saved = path.suffix in {SUFFIX, COMPLAINT_SUFFIX} and PARTIAL not in path.suffixes
            if is_saved and trace not in dropped:
                name = path.relative_to(folder).as_posix()
                contents[name].append((trace not in kept, path.read_bytes()))
    for name, candidates in contents.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(min(candidates)[1])


def merged_record(records: Sequence[SessionRecord]) -> SessionRecord:
    """The sum of records of one plan. Raises BadInputError if they do not add up."""
    pieces = _largest([piece for each in records for piece in each.pieces])
    reasons = [
        each.stop_reason for each in records if any(piece in pieces for piece in each.pieces)
    ]
    failures = record.least(chain.from_iterable(each.failures for each in records))
    identities = {each.failure.identity for each in failures}
    beyond = chain.from_iterable(each.beyond for each in records)
    timing = {str(each): each for one in records for each in one.timing}
    return attrs.evolve(
        records[0],
        pieces=tuple(_joined(pieces)),
        failures=failures,
        stop_reason=max(reasons, key=REASONS.index, default=ACTIONS),
        beyond=record.least(each for each in beyond if each.failure.identity not in identities),
        timing=tuple(timing[key] for key in sorted(timing)),
    )


def _largest(pieces: list[Piece]) -> list[Piece]:
    """The pieces that are not part of another. Raises BadInputError if two overlap."""
    kept: list[Piece] = []
    for piece in sorted(pieces, key=lambda each: (-len(each.indices), len(each.lost))):
        shared = [sum(index in other.indices for index in piece.indices) for other in kept]
        if len(piece.indices) not in shared and piece.indices:
            if any(shared):
                start, _, step = piece.chunks
                raise BadInputError(
                    f"chunks from {start}, every {step}, are in several records whose parts do not "
                    "fit together; merge parts that were cut in the same way (the same --part N)"
                )
            kept.append(piece)
    return kept or pieces[:1]


def _joined(pieces: list[Piece]) -> list[Piece]:
    """As few pieces as possible: those whose chunks together are one range become one."""
    pieces = sorted(pieces, key=lambda each: (each.indices.start, each.indices.step))
    groups = [*combinations(pieces, 2), pieces] if len(pieces) > 1 else []
    for group in groups:
        indices = sorted(chain.from_iterable(each.indices for each in group))
        step = indices[1] - indices[0] if len(indices) > 1 else 1
        chunks = range(indices[0], indices[-1] + 1, step) if indices else range(0)
        if indices == [*chunks]:
            totals = SessionTotals()
            for each in group:
                totals.add_all(each.totals)
            lost = tuple(sorted(chain.from_iterable(each.lost for each in group)))
            rest = [each for each in pieces if each not in group]
            return _joined([*rest, piece_of(chunks, lost, totals)])
    return pieces
