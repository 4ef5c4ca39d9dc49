"""What the session needs of an engine."""

from __future__ import annotations

from typing import Protocol

import attrs

from fuzz.probes import ProbeCounter
from fuzz.run import Failure


@attrs.define
class Slice:
    """What a slice of a session did: some traces, and the failures among them."""

    traces: int = 0
    actions: int = 0
    samples: int = 0
    minor_collections: int = 0
    failures: list[Failure] = attrs.Factory(list)


class Engine(Protocol):
    """Draws traces and runs them on one target."""

    name: str

    def run_slice(self, number: int, actions_max: int, probes: ProbeCounter) -> Slice:
        """Run the slice `number`, of at most `actions_max` actions, in well under two seconds.

        The same number gives the same traces, whatever ran before.
        """
