"""Known bugs: real bugs from the field, and some of our own, planted in the reference.

Each is a small change to one part of gcmodel: a subclass that overrides the method where the
mistake is made. The correct lines are those of the method that it overrides; a comment says where
the wrong one differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from gcmodel import Parts
from gcmodel.barrier import Barrier
from gcmodel.identities import Identities
from gcmodel.nursery import Nursery
from gcmodel.objects import Object
from gcmodel.sampling import Sampling


class DisableBeforeEnable(Sampling):
    """The nursery's real top is saved by enabling only, and disabling restores it."""

    _saved_top = 0

    def enable(self, period_bytes: int) -> None:
        self._saved_top = self._nursery.nursery_top
        super().enable(period_bytes)

    def disable(self) -> None:
        super().disable()
        # Correct: nursery_limit = nursery_top. Never enabled, the saved top is uninitialised.
        self._nursery.nursery_limit = self._saved_top


class OneSamplePerObject(Sampling):
    """Listings 4 and 5 as they are printed: passing several sample points takes one sample."""

    def pass_sample_points(self, end: int) -> int:
        if self.is_due(end):  # Correct: while.
            self._events.sample()
            self.sample_point += self.period_bytes
            return 1
        return 0


class StaleLimitAfterLarge(Sampling):
    """A large object moves the sample point out of the nursery, and the limit stays behind."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        limit = self._nursery.nursery_limit
        super().allocated_outside(obj, counted_bytes)
        if self.period_bytes and self.sample_point > self._nursery.nursery_top:
            self._nursery.nursery_limit = limit  # Correct: nursery_top.


class ForgottenRememberedEntry(Barrier):
    """A write into an old object without cards is not remembered."""

    def before_write(self, obj: Object, index: int) -> None:
        if obj.cards is not None:  # Correct: obj is remembered otherwise.
            super().before_write(obj, index)


class LimitAtFree(Nursery):
    """The fast path compares with `>=`, so that equality takes the slow path."""

    def allocate(self, size_bytes: int) -> int:
        result = self.nursery_free
        self.nursery_free = result + size_bytes
        if self.nursery_free >= self.nursery_limit:  # Correct: >.
            result = self._reserve(size_bytes)
        return result


class SampleAtPoint(Sampling):
    """An object that ends exactly at the sample point is sampled."""

    def is_due(self, end: int) -> bool:
        return self.sample_point <= end  # Correct: <.


class SamplePointStays(Sampling):
    """A minor collection moves `nursery_free` back and leaves the sample point where it was."""

    def before_minor_collection(self) -> None:
        pass  # Correct: sample_point -= nursery_free.


class LargeObjectsUncounted(Sampling):
    """An object outside the nursery does not bring the sample point nearer."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        pass  # Correct: sample_point -= counted_bytes, and sample.


class ShadowKeepsNumber(Identities):
    """The future place of an object keeps the contents of the moment when it was reserved."""

    def move_to_shadow(self, obj: Object) -> Object:
        shadow = self._shadows[obj]
        reserved = shadow.number
        super().move_to_shadow(obj)
        shadow.number = reserved  # Correct: obj.number, which may have been written since.
        return shadow


@attrs.frozen
class KnownBug:
    """A bug, where it happened, which parts of gcmodel it changes, and who may catch it."""

    id: str
    source: str
    what: str
    oracles: tuple[str, ...]
    parts: dict[str, type[Any]]


KNOWN_BUGS = {
    bug.id: bug
    for bug in (
        KnownBug(
            "disable-before-enable",
            "PyPy; Jung and Bolz-Tereick, section 3.7",
            "disabling what was never enabled sets the limit from an uninitialised top",
            ("heap", "pointers"),
            {"sampling": DisableBeforeEnable},
        ),
        KnownBug(
            "one-sample-per-object",
            "Jung and Bolz-Tereick, listings 4 and 5, as simplified in print",
            "an object is not sampled for each of the sample points that it passes",
            ("sampling",),
            {"sampling": OneSamplePerObject},
        ),
        KnownBug(
            "stale-limit-after-large",
            "PyPy's sampling fork, external_malloc",
            "a large object moves the sample point past the nursery, the limit keeps its value",
            ("pointers",),
            {"sampling": StaleLimitAfterLarge},
        ),
        KnownBug(
            "forgotten-remembered-entry",
            "every generational collector once",
            "an old object that refers to a young one is not remembered",
            ("heap",),
            {"barrier": ForgottenRememberedEntry},
        ),
        KnownBug(
            "sample-on-equality",
            "our own: >= for >",
            "an object that ends exactly at the sample point is sampled",
            ("sampling",),
            {"nursery": LimitAtFree, "sampling": SampleAtPoint},
        ),
        KnownBug(
            "sample-point-stays",
            "our own",
            "the sample point is not moved by a minor collection",
            ("sampling", "pointers"),
            {"sampling": SamplePointStays},
        ),
        KnownBug(
            "large-objects-uncounted",
            "our own",
            "objects outside the nursery are not counted",
            ("sampling", "pointers"),
            {"sampling": LargeObjectsUncounted},
        ),
        KnownBug(
            "shadow-keeps-number",
            "our own: gcmodel had it, and this harness found it",
            "a node written after its identity was taken moves with its old integer",
            ("heap",),
            {"identities": ShadowKeepsNumber},
        ),
    )
}


def plant(bugs: Sequence[str]) -> Parts:
    """The parts of gcmodel with these bugs planted, the first outermost where they share a part."""
    mistakes: dict[str, list[type[Any]]] = {}
    for bug in bugs:
        for part, mistake in KNOWN_BUGS[bug].parts.items():
            mistakes.setdefault(part, []).append(mistake)
    return Parts(
        **{part: type("Planted", tuple(classes), {}) for part, classes in mistakes.items()}
    )
