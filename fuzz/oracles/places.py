"""The places oracle: where each object lies, and which allocation collects, as predicted.

The clocks predict both, since samples depend on them. This oracle detects a difference at once, and
not only at the next sample.
"""

from __future__ import annotations

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action, Realloc
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation


class PlacesOracle(Oracle):
    """Compares the clocks' places with the reported ones."""

    name = "places"
    judges = ("minors", "at", "buffer", "tlab")
    relies_on = (SamplingOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._observes_place = "at" in contract.observes
        self._shows_new_buffers = "buffer" in contract.observes
        self._shows_buffers = "tlab" in contract.observes

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return contract.sampling.counting.predicts_places

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        place = sampling.place
        if place is None or not (action.allocates or isinstance(action, Realloc)):
            if observation.minors and action.collects == "never":
                raise self.mismatch("minors", 0, observation.minors, "nothing was allocated")
            return
        if observation.minors != place.collections:
            why = f"{place.nursery_used_bytes} bytes of the nursery are taken then"
            raise self.mismatch("minors", int(place.collections), observation.minors, why)
        may_begin = place.where == "new buffer" and self._shows_new_buffers
        if observation.buffer is not None and not may_begin:
            raise self.mismatch("buffer", None, observation.buffer, "no new one was needed")
        if self._observes_place and observation.at != place.at:
            is_outside = place.where == "outside"
            why = "outside the thread's buffer" if is_outside else f"in its {place.where}"
            raise self.mismatch("at", place.at, observation.at, why)
        if self._shows_buffers and observation.tlab != place.tlab:
            why = "the buffer's start, what is used of it, its end, and its true end"
            raise self.mismatch("tlab", place.tlab, observation.tlab, why)
