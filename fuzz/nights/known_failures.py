"""Which failures of a session are known: muted in the history of its corpus, or named by `--known`.

Invariant: a known failure is saved and recorded like any other. It only takes one line of the
report, and changes no exit code.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from fuzz.failures.causes import cause_of
from fuzz.failures.corpus import SavedFailure
from fuzz.nights import failure_history
from fuzz.nights.failure_history import KnownFailure, Life
from fuzz.plain import path_argument, shell_words
from fuzz.problems import BadInputError
from fuzz.sessions.plan import Plan


class KnownFailures:
    """Those of one plan."""

    def __init__(self, plan: Plan, ids: Collection[str] = ()) -> None:
        """`ids` are those of causes or failures. Raises BadInputError for one that is unknown."""
        self._plan, self._ids = plan, frozenset(ids)
        self._today = datetime.now(UTC).date()
        path = plan.corpus / failure_history.NAME
        self._history = failure_history.read(path)
        lives = self._history.lives().values()
        every = {each for life in lives for each in life.ids}
        if unknown := sorted(self._ids - every):
            command = shell_words(["gcfuzz", "triage", path_argument(plan.corpus)])
            raise BadInputError(
                f"--known {unknown[0]}: {path} has no such failure; `{command}` lists them"
            )
        fuzzed = plan.target, plan.name
        mine = [each for each in lives if (each.known.target, each.known.name) == fuzzed]
        unknown_too = {each.known.identity for each in mine if not self._why(each)}
        self.identities = frozenset(each.known.identity for each in mine) - unknown_too
        """The identities of failures that are all known.

        A new failure may have such an identity, too. Only its reduction shows its cause.
        """

    def why(self, saved: SavedFailure) -> str:
        """Why a reduced failure is known; empty if it is not."""
        failure = KnownFailure(self._plan.target, self._plan.name, cause_of(saved.failure), saved)
        lives = self._history.lives([failure]).values()
        return next(self._why(life) for life in lives if failure in life.traces)

    def _why(self, life: Life) -> str:
        if life.ids & self._ids:
            return "known"
        return str(life.mute(self._today) or "")
