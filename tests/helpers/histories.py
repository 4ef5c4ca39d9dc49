"""The history of a corpus: what a night would have written about its last session."""

from __future__ import annotations

from pathlib import Path

from fuzz.failures.causes import cause_of
from fuzz.nights import failure_history as history
from fuzz.nights.failure_history import KnownFailure
from fuzz.protocol import trace as traces
from fuzz.sessions import record


def remember_failures(corpus: Path, target: str) -> None:
    """Write the failures of the corpus' only session into its history."""
    [(_, session)] = record.records_in(corpus)
    known = []
    for saved in session.failures:
        assert saved.path is not None
        failure = saved.with_trace(traces.read(corpus / saved.path))
        known.append(KnownFailure(target, "", cause_of(failure.failure), saved))
    history.add(corpus / history.NAME, known)


def ids_in(corpus: Path) -> set[str]:
    """The ids of the causes in its history."""
    return {each.known.cause_id for each in history.read(corpus / history.NAME).lives().values()}
