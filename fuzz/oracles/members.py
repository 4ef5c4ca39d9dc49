"""The members oracle: a sample of a group names the right one of its members.

    members        | node 32        | array 24   | string 40          |
    sampled bytes             *                          *
    by member        1                0            1

The contract says whether a sample names the member with the sampled byte, or always the first one.
(Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine,
section 3.5, promise the type and the survival of the sampled object.)
"""

from __future__ import annotations

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action, AllocateGroup
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation


class MembersOracle(Oracle):
    """Compares the members that samples name with those that have the sampled bytes."""

    name = "members"
    judges = ("samples_by_member", "members")
    relies_on = (SamplingOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._sampled = "" if contract.groups is None else contract.groups.sampled

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return "samples_by_member" in contract.observes

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        got = observation.samples_by_member
        if not isinstance(action, AllocateGroup):
            if got is not None:
                raise self.mismatch("samples_by_member", None, got, "the action has no members")
            return
        members = self._shadow.members(action)
        if got is None or len(got) != len(members):
            why = "one for each member of the group"
            raise self.mismatch("samples_by_member", f"{len(members)} numbers", got, why)
        expected = sampling.samples_by_member
        if expected is None:
            self._check_unstated(got, observation)
        elif got != [*expected]:
            sizes = ", ".join(str(member.size_bytes) for member in members)
            why = f"each sample names the {self._named()}; the members take {sizes} bytes"
            raise self.mismatch("samples_by_member", [*expected], got, why)

    def _check_unstated(self, got: list[int], observation: Observation) -> None:
        """Check numbers that no rule states. Others may be samples of a callback."""
        samples, total = observation.samples, sum(got)
        if min(got) < 0:
            raise self.mismatch("samples_by_member", "at least 0 each", got, "they are numbers")
        if self._sampled == "first" and any(got[1:]):
            why = f"each sample names the {self._named()}"
            raise self.mismatch("samples_by_member", [total, *[0] * len(got[1:])], got, why)
        has_others = observation.minors and self._shadow.callback_bytes
        if total > samples or (total < samples and not has_others):
            raise self.mismatch("samples_by_member", samples, total, "the samples of the members")

    def _named(self) -> str:
        return "first member" if self._sampled == "first" else "member with the sampled byte"
