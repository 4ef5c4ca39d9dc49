"""The weights oracle: what weights add up to, if it is not stated which objects are sampled.

The weights of a thread's samples are never more than what it has allocated while sampling was on.
For each kind of object they add up to its bytes, as far as chance allows. The model: a sample
stands for as many bytes as its weight is, one of which decides the kind. Then n samples of the
weights w differ from the bytes by more than sqrt(20.35 sum(w^2)) with a probability of at most
exp(-40) (Hoeffding). Bytes that no sample stands for yet may be of any kind.
"""

from __future__ import annotations

import math
from collections import Counter

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action, BeginThread
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

SQUARES = 20.35
"""(40 + ln 2) / 2, for either side."""


class WeightsOracle(Oracle):
    """Adds weights up, for each thread and for each kind."""

    name = "weights"
    judges = ("weights",)
    relies_on = (SamplingOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._own_bytes = contract.sampling.own_bytes
        self._left_bytes = [self._own_bytes] * contract.threads
        self._bytes: Counter[str] = Counter()
        self._weights: Counter[str] = Counter()
        self._own_total_bytes = self._own_bytes * contract.threads
        self._squares = 0

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return contract.sampling.weights == "sums" and "weights" in contract.observes

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        if isinstance(action, BeginThread):
            self._left_bytes[action.thread] = self._own_bytes
            self._own_total_bytes += self._own_bytes
        if not action.allocates:
            return
        obj = self._shadow.placed
        if sampling.period_bytes is not None:
            self._left_bytes[action.thread] += obj.size_bytes
            self._bytes[obj.kind] += obj.size_bytes
        if observation.samples != len(observation.weights):
            why = "each sample has a weight"
            raise self.mismatch("weights", observation.samples, len(observation.weights), why)
        for weight in observation.weights:
            self._check_thread(action.thread, weight)
            self._weights[obj.kind] += weight
            self._squares += weight * weight
        if observation.weights:
            self._check_kinds()

    def _check_thread(self, thread: int, weight: int) -> None:
        left_bytes = self._left_bytes[thread]
        if weight > left_bytes:
            why = "the bytes that the thread has allocated while sampling was on, less its weights"
            raise self.mismatch("thread_weights", f"at most {left_bytes}", weight, why)
        self._left_bytes[thread] -= weight

    def _check_kinds(self) -> None:
        total_bytes = self._own_total_bytes + self._bytes.total()
        open_bytes = total_bytes - self._weights.total()
        for kind, allocated_bytes in self._bytes.items():
            most_off = math.sqrt(SQUARES * self._squares) + open_bytes
            if abs(self._weights[kind] - allocated_bytes) > most_off:
                why = f"the bytes of each {kind}; {most_off:.0f} more or less are possible"
                raise self.mismatch("kind_weights", allocated_bytes, self._weights[kind], why)
