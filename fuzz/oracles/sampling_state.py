"""What the sampling oracle knows, for the oracles that rely on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fuzz.mutator.objects import ShadowObject
from fuzz.oracles.counting.expected import Alike, ExpectedSample, Place


class SamplingState(NamedTuple):
    """The state of sampling after an action.

    `hits` and the fields after it describe the last action that the sampling oracle counted.
    """

    period_bytes: int | None
    """None while sampling is off."""
    until_bytes: tuple[int, ...]
    """For each thread, the bytes until its next sample. Has no meaning while nothing is counted."""
    free_bytes: tuple[int, ...]
    """For each thread, what is left of its own part of the nursery."""
    nursery_used_bytes: int
    """The bytes allocated in the nursery since the last minor collection."""
    was_enabled: bool
    """Whether sampling has ever been on."""
    hits: Sequence[ExpectedSample]
    """The expected samples."""
    unrecorded: int
    """How many more samples would have been taken if sampling were not paused."""
    counted_bytes: int | None
    """What the action's block counted; None if none was counted."""
    beside: ShadowObject | None
    """The block that shares its memory with the action's block and is freed together with it."""
    callback_samples: int | None
    """The samples of the callback; None if they look like those of the object."""
    callback_was_reported: bool
    """Whether another collection followed the callback."""
    place: Place | None
    """Where the object lies; None if that is not predicted."""
    samples_by_member: Sequence[int] | None
    """How many of the samples name each member of the group; None if that is not predicted."""

    @property
    def is_on(self) -> bool:
        """Whether sampling is on."""
        return self.period_bytes is not None

    def bytes_until_sample(self, thread: int = 0) -> int:
        """What the thread has left until its next sample."""
        return self.until_bytes[thread]

    @property
    def offsets(self) -> list[int]:
        """The sampled bytes of the object; none where distances are not drawn."""
        return [hit.offset for hit in self.hits] if type(self.hits) is not Alike else []
