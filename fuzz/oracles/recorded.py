"""The recording oracle: what a target said to a trace once, it says again.

The target that was recorded must give every field of every answer again. Another one under the same
contract must agree in what the contract determines: what an allocation costs, how it is sampled,
what is read, the heap itself. When it collects, where its pointers are, and which numbers its
identities have, is its own affair.
"""

from __future__ import annotations

from fuzz.oracles.oracle import Mismatch
from fuzz.protocol.observation import FIELDS, Observation

ALL = FIELDS
DETERMINED = ("error", "size", "outside", "value")
DETERMINED_WITHOUT_CALLBACKS = (*DETERMINED, "samples")
"""What a callback allocates depends on when the target collects."""


class RecordingMismatch(Mismatch):
    """A target says something else than what was recorded."""

    oracle = "recording"


class RecordingOracle:
    """Compares answers with a recording, in the fields of that name."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        self._fields = fields

    def check(self, recorded: Observation, observation: Observation) -> None:
        """Raise a RecordingMismatch unless they agree."""
        for field in self._fields:
            then, now = getattr(recorded, field), getattr(observation, field)
            if then != now:
                raise RecordingMismatch(field, then, now, "what was recorded")
        # Where only one of them shows its heap, the other collects at another time.
        heaps = recorded.graph, observation.graph
        if None not in heaps and recorded.graph != observation.graph:
            raise RecordingMismatch("graph", *heaps, "what was recorded")
