"""The errors of the reference. Each is named, and none is ever answered with a wrong value."""


class HeapError(Exception):
    """The mutator or the collector did something that the heap cannot carry out."""


class DanglingReferenceError(HeapError):
    """A reference leads to an object that was freed, or that was moved without updating it."""


class InvariantError(HeapError):
    """The parts of the collector do not agree; the message names the invariant that is broken."""


class PinningError(HeapError):
    """An object cannot be pinned or unpinned, or sampling cannot begin beside a pinned one."""


class ConfigurationError(HeapError, ValueError):
    """A configuration, or a sampling period, is outside what the collector allows."""


class DoubleFreeError(HeapError):
    """A block is freed that was freed before."""


class RecordingError(ValueError):
    """A profile's recording says something that no recorder wrote."""
