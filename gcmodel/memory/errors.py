"""The errors of the reference. Each problem has its own error, and none returns a wrong value."""


class HeapError(Exception):
    """The heap cannot carry out what the mutator or the collector did."""

    graph: list[list[int]] | None = None
    """What the walk that found the error saw. An object that is gone has an empty row."""


class DanglingReferenceError(HeapError):
    """A reference leads to an object that was freed, or that was moved without updating it."""


class InvariantError(HeapError):
    """An invariant between the parts of the collector is broken; the message names it."""


class PinningError(HeapError):
    """An object cannot be pinned or unpinned, or sampling cannot start beside a pinned one."""


class ConfigurationError(HeapError, ValueError):
    """A configuration or a sampling period is outside its range."""


class HeapExhaustedError(HeapError):
    """The heap has its greatest size already. It is whole, and can be used."""


class DoubleFreeError(HeapError):
    """The mutator freed a block twice."""


class RecordingError(ValueError):
    """A profile's recording contains something that no recorder writes."""
