"""The survival oracle: every sampled object is reported once, at the next minor collection.

A report contains its type, whether it lies outside the nursery, and whether it survived. The shadow
heap knows the survivors. Dropped samples are never reported. A minor collection makes one report if
samples are pending, and none otherwise. The order of the entries has no meaning. (Jung and
Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine, section 3.5.)
"""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action, AllocateGroup
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import OUTSIDE, SURVIVED, TYPE_SHIFT, Observation

DROPPING = ("stops", "pauses")
"""After these, no sample is pending."""
LISTED_MAX = 8
"""At most this many sampled objects are named."""


class SurvivalOracle(Oracle):
    """Keeps the sampled objects until a minor collection decides about them."""

    name = "survival"
    judges = ("reports",)
    relies_on = (SamplingOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._kinds = contract.layout.kinds
        # Each with its number of samples, which may be more than fit in a list.
        self.pending: dict[ShadowObject, int] = {}
        # False if an object's samples cannot be distinguished from those of a callback.
        self._knows_pending = True

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return "reports" in contract.observes

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        happened = observation.minors or observation.samples or observation.reports
        if not (happened or action.sampling in DROPPING):
            return
        if observation.reports:
            self._check_made(observation)
        # A collection inside an allocation comes before the object exists. It reports the samples
        # of earlier actions, and those of the callback if it comes after the callback.
        callback_samples = sampling.callback_samples if action.allocates else 0
        if callback_samples is None:
            self._knows_pending = False
            return
        if callback_samples and sampling.callback_was_reported:
            self._add(self._callback_string(), callback_samples)
        self._check_reports(observation)
        if observation.samples and action.allocates:
            if callback_samples and not sampling.callback_was_reported:
                self._add(self._callback_string(), callback_samples)
            self._add_allocated(action, observation, sampling, callback_samples)
        elif action.sampling in DROPPING:
            self.pending, self._knows_pending = {}, True

    def _add_allocated(
        self,
        action: Action,
        observation: Observation,
        sampling: SamplingState,
        callback_samples: int,
    ) -> None:
        """Add the object, or the members that the samples of a group name."""
        if not isinstance(action, AllocateGroup):
            self._add(self._shadow.roots[-1], observation.samples - callback_samples)
            return
        members = self._shadow.members(action)
        named = sampling.samples_by_member or observation.samples_by_member or ()
        if len(named) != len(members):  # Not answered, or wrong in a field that is excluded.
            self._knows_pending = False
            return
        for member, samples in zip(members, named, strict=True):
            self._add(member, samples)

    def _add(self, obj: ShadowObject, samples: int) -> None:
        if samples > 0:
            self.pending[obj] = self.pending.get(obj, 0) + samples

    def _callback_string(self) -> ShadowObject:
        """The string that a callback allocates and drops at once."""
        return ShadowObject("string", self._kinds["string"].type_index, 0, [], 0, outside=False)

    def _check_made(self, observation: Observation) -> None:
        """A report has an entry, and a minor collection makes one report at most."""
        reports, minors = observation.reports, observation.minors
        with_entries = sum(bool(report.entries) for report in reports)
        if with_entries < len(reports):
            why = "reports with an entry: none is made where no sample is pending"
            raise self.mismatch("reports", with_entries, len(reports), why)
        if len(reports) > minors > 0:  # Without minor collections, each entry is wrong anyway.
            why = "one a minor collection at most"
            raise self.mismatch("reports", minors, len(reports), why)

    def _check_reports(self, observation: Observation) -> None:
        """Compare the reports with the samples that are pending."""
        if observation.minors:
            # A comparison may judge the next actions after a wrong report.
            pending, knows_pending = self.pending, self._knows_pending
            self.pending, self._knows_pending = {}, True
            if knows_pending and (pending or observation.reports):
                self._check_entries(pending, observation)
        elif observation.reports:
            self._check_entries({}, observation)

    def _check_entries(self, pending: Mapping[ShadowObject, int], observation: Observation) -> None:
        got = sorted(entry for report in observation.reports for entry in report.entries)
        samples = sum(pending.values())
        if len(got) != samples:
            why = f"sampled objects: {_listed(pending, with_times=True)}"
            raise self.mismatch("reported", samples, len(got), why)
        expected = []
        for obj, times in pending.items():
            expected += [self._entry(obj)] * times
        for wanted, entry in zip(sorted(expected), got, strict=True):
            if wanted != entry:
                why = f"what happened to the sampled objects: {_listed(pending, with_times=False)}"
                raise self.mismatch("entry", self._describe(wanted), self._describe(entry), why)

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
