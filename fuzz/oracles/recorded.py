"""The recording oracle: a target answers a trace as it did when the trace was recorded.

The recorded target must repeat every field of every answer. Another target under the same contract
must agree in what the contract determines: costs, samples, values and the heap. It may differ in
when it collects, in its pointers and in its identities.
"""

from __future__ import annotations

from fuzz.oracles.oracle import Judge
from fuzz.protocol.observation import FIELDS, Observation

ALL = FIELDS
DETERMINED = ("error", "size", "outside", "value")
DETERMINED_WITHOUT_CALLBACKS = (*DETERMINED, "samples", "samples_by_member")
"""What a callback allocates depends on when the target collects."""


class RecordingOracle(Judge):
    """Compares these fields of answers with a recording."""

    name = "recording"

    def __init__(self, fields: tuple[str, ...]) -> None:
        self._fields = fields

    def check(self, recorded: Observation, observation: Observation) -> None:
        """Raise a RecordingMismatch unless they agree."""
        fields = self._fields
        if None not in (recorded.graph, observation.graph):
            fields = (*fields, "graph")  # If only one shows its heap, it collects at another time.
        self.compare_fields(fields, recorded, observation, "what was recorded")
