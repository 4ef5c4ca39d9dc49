"""What can be profiled: something that costs something, and that can be recorded.

Invariant: what is recorded does the same as what `cost` has run before, with a recorder attached.
"""

from __future__ import annotations

from typing import Protocol

from gcmodel.profiling.cost import Cost
from gcmodel.profiling.profile import ProfileHeader
from gcmodel.profiling.recorder import Listener
from gcmodel.profiling.recording import RecordingWriter


class Stopped(BaseException):
    """The recording has stopped for good, so it is no use to run the program on."""


class Profiled(Protocol):
    """A workload, a script or a trace, and how it is sampled."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def is_quiet(self) -> bool:
        """Whether it prints nothing of its own, which leaves a terminal to the progress."""

    def cost(self) -> Cost:
        """Run it without recording. Raises BadInputError for what cannot run."""

    def header(self) -> ProfileHeader:
        """How it is sampled, by the shortest period if there are several, from now on.

        Raises BadInputError as `cost` does.
        """

    def record(self, writer: RecordingWriter, listener: Listener) -> None:
        """Run it and record it.

        Raises BadInputError for what cannot run, and whatever the listener raises.
        """
