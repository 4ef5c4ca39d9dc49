"""What can be profiled: something that costs something, and that can be recorded.

Invariant: what is recorded does the same as what `cost` has run before, with a recorder attached.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import attrs

from gcmodel.profiling.cost import Cost
from gcmodel.profiling.recorder import Recorder

Listener = Callable[[Recorder], None]
"""Who hears after each minor collection how far a recorder is."""


@attrs.frozen
class Recorded:
    """How long what was recorded took, and what stopped the recording before its end, if any."""

    seconds: float
    stopped_by: str | None


class Stopped(BaseException):
    """The recording has stopped for good, so it is no use to run the program on."""


class Profiled(Protocol):
    """A workload, a script or a trace, and how it is sampled."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def period_bytes(self) -> int:
        """The sampling period, the shortest if it has several."""

    @property
    def time_period_us(self) -> int | None:
        """How often it is sampled by time; None for never."""

    @property
    def is_quiet(self) -> bool:
        """Whether it prints nothing of its own, which leaves a terminal to the progress."""

    def cost(self) -> Cost:
        """Run it without recording. Raises BadInputError for what cannot run."""

    def record(self, path: Path, max_bytes: int, listener: Listener) -> Recorded:
        """Run it and record it.

        Raises BadInputError for what cannot run, OSError where nothing can be written, and whatever
        the listener raises.
        """
