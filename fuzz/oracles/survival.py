"""The survival oracle: every sampled object is reported once, at the next minor collection.

With its type, whether it lies outside the nursery, and whether it survived; which of them
survive, the shadow heap says. Samples that were dropped are never reported. (Jung and
Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine, section 3.5.)
A minor collection with nothing to report makes no report, and any other one; where sampling is off
nothing is pending, once it was reported or dropped. The order of the entries means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from fuzz.mutator.shadow import Shadow, ShadowObject
from fuzz.oracles.oracle import Mismatch, Oracle
from fuzz.oracles.sampling import SamplingFacts, SamplingOracle
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import OUTSIDE, SURVIVED, TYPE_SHIFT, Observation

DROPPING = ("stops", "pauses")
"""What leaves no sample pending, once a report was made of those that are to be reported."""
LISTED_MAX = 8
"""So many sampled objects are named."""


class SurvivalMismatch(Mismatch):
    """A report says something else than what became of the sampled objects."""

    oracle = "survival"


class SurvivalOracle(Oracle[SamplingFacts]):
    """Keeps the sampled objects until a minor collection decides about them.

    They are counted, since an object may be sampled more often than a list has room.
    """

    judges = ("reports",)
    events = frozenset({"minors", "samples", "reports"})
    relies_on = (SamplingOracle,)
    told_by = SamplingOracle

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._kinds = contract.layout.kinds
        self.pending: dict[ShadowObject, int] = {}
        # Not so once nobody can tell an object's samples from those of a callback.
        self._knows_pending = True

    @classmethod
    @override
    def can_judge(cls, contract: Contract) -> bool:
        return "reports" in contract.observes

    @classmethod
    @override
    def concerns(cls, action: type[Action]) -> bool:
        return action.sampling in DROPPING

    @override
    def check(self, action: Action, observation: Observation, sampling: SamplingFacts) -> None:
        """Compare with what the target said. Raises SurvivalMismatch."""
        if observation.reports:
            self._check_made(observation)
        # A collection inside an allocation comes before the object exists: what it reports are
        # the samples of earlier actions only, and of the callback if it collects after that.
        callback_samples = sampling.callback_samples
        if callback_samples is None:
            self._knows_pending = False
            return
        if callback_samples and sampling.callback_was_reported:
            self._add(self._callback_string(), callback_samples)
        if observation.minors:
            if self._knows_pending and (self.pending or observation.reports):
                self._check_reports(self.pending, observation)
            self.pending, self._knows_pending = {}, True
        elif observation.reports:
            self._check_reports({}, observation)
        if observation.samples and action.allocates:
            if callback_samples and not sampling.callback_was_reported:
                self._add(self._callback_string(), callback_samples)
            self._add(self._shadow.roots[-1], observation.samples - callback_samples)
        elif action.sampling in DROPPING:
            self.pending, self._knows_pending = {}, True

    def _add(self, obj: ShadowObject, samples: int) -> None:
        if samples > 0:
            self.pending[obj] = self.pending.get(obj, 0) + samples

    def _callback_string(self) -> ShadowObject:
        """What a callback allocates and drops at once, so that all its strings are alike."""
        return ShadowObject("string", self._kinds["string"].type_index, 0, [], 0, outside=False)

    def _check_made(self, observation: Observation) -> None:
        """A report has something to say, and a minor collection makes one at most."""
        reports, minors = observation.reports, observation.minors
        with_entries = sum(bool(report.entries) for report in reports)
        if with_entries < len(reports):
            why = "reports with an entry: none is made where no sample is pending"
            raise SurvivalMismatch("reports", with_entries, len(reports), why)
        if len(reports) > minors > 0:  # Without any, what is reported is too much anyway.
            raise SurvivalMismatch(
                "reports", minors, len(reports), "one a minor collection at most"
            )

    def _check_reports(self, pending: Mapping[ShadowObject, int], observation: Observation) -> None:
        got = sorted(entry for report in observation.reports for entry in report.entries)
        samples = sum(pending.values())
        if len(got) != samples:
            why = f"sampled objects: {_listed(pending, with_times=True)}"
            raise SurvivalMismatch("reported", samples, len(got), why)
        expected = []
        for obj, times in pending.items():
            expected += [self._entry(obj)] * times
        for wanted, entry in zip(sorted(expected), got, strict=True):
            if wanted != entry:
                why = f"what became of the sampled objects: {_listed(pending, with_times=False)}"
                raise SurvivalMismatch("entry", self._describe(wanted), self._describe(entry), why)

    def _entry(self, obj: ShadowObject) -> int:
        type_index = self._kinds[obj.kind].type_index
        return type_index << TYPE_SHIFT | OUTSIDE * obj.outside | SURVIVED * obj.survived

    def _describe(self, entry: int) -> list[object]:
        names = {layout.type_index: kind for kind, layout in self._kinds.items()}
        return [
            names.get(entry >> TYPE_SHIFT, entry >> TYPE_SHIFT),
            "outside" if entry & OUTSIDE else "in the nursery",
            "survived" if entry & SURVIVED else "died",
        ]


def _listed(pending: Mapping[ShadowObject, int], *, with_times: bool) -> str:
    """The sampled objects, or the first of them, each with how often it was sampled."""
    labels = [
        f"{obj.label} ({times} times)" if with_times and times > 1 else obj.label
        for obj, times in pending.items()
    ]
    more = len(labels) - LISTED_MAX
    shown = ", ".join(labels[:LISTED_MAX]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown
