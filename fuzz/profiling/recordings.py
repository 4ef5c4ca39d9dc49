"""From a source to a recording, and back from a recording to its profile.

Invariant: a recording is never lost to what happens after it, be it an export that fails, an
interrupt, a kill, or the next profile, unless that is told to write to its very file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fuzz.files import reading
from fuzz.plain import shell_words
from fuzz.problems import BadInputError, HarnessError, InterruptedWorkError
from fuzz.profiling.profiled import Listener, Profiled, Stopped
from gcmodel.memory.errors import RecordingError
from gcmodel.profiling import recording
from gcmodel.profiling.cost import Cost
from gcmodel.profiling.profile import Profile
from gcmodel.profiling.recorder import Recorder


def record(
    source: Profiled, cost: Cost, path: Path, max_bytes: int, listener: Listener
) -> float | None:
    """Record what costs so much; returns the seconds that it took, None if it was interrupted.

    Raises BadInputError before it would need more than `max_bytes`, and whenever it cannot go on.
    """
    _check_fits(source, cost, max_bytes)

    def stop_with_the_recording(recorder: Recorder) -> None:
        listener(recorder)
        if recorder.writer.stopped_by is not None:
            raise Stopped(recorder.writer.stopped_by)

    try:
        recorded = source.record(path, max_bytes, stop_with_the_recording)
    except KeyboardInterrupt:
        return None
    except Stopped as stopped:
        raise _ends_early(path, str(stopped)) from stopped
    except BadInputError as problem:
        raise BadInputError(f"{problem}; what was recorded before that is in {path}") from problem
    if recorded.stopped_by is not None:
        raise _ends_early(path, recorded.stopped_by)
    return recorded.seconds


def _ends_early(path: Path, why: str) -> BadInputError:
    command = shell_words(["gcfuzz", "profile", str(path), "-o", "FILE"])
    return BadInputError(f"{path}: {why}; the recording ends there, and `{command}` shows it")


def _check_fits(source: Profiled, cost: Cost, max_bytes: int) -> None:
    """Raise BadInputError if the recording would not fit, with the period that would."""
    needed_bytes = cost.recording_bytes(source.period_bytes, source.time_period_us)
    if needed_bytes <= max_bytes:
        return
    period_bytes = cost.period_that_fits(max_bytes, source.time_period_us)
    if period_bytes is None or period_bytes > cost.allocated_bytes:
        how = "no period that samples anything fits; raise --max-size"
    else:
        how = f"--period {period_bytes} would fit"
    raise BadInputError(
        f"{source.name}: a period of {source.period_bytes} bytes would write about "
        f"{needed_bytes:,} bytes, and --max-size is {max_bytes:,}; {how}"
    )


def is_recording(path: Path) -> bool:
    """Whether a file is a recording. Raises BadInputError where it cannot be read."""
    with reading(path):
        return recording.is_recording(path)


def read(path: Path) -> Profile:
    """The profile in a recording. Raises BadInputError."""
    try:
        with reading(path):
            return recording.read(path)
    except RecordingError as problem:
        raise BadInputError(str(problem)) from problem


@contextmanager
def keeping(recording: Path) -> Iterator[None]:
    """Whatever keeps its files from being made of a recording, the message says where that is."""
    try:
        yield
    except (BadInputError, HarnessError) as problem:
        raise type(problem)(f"{problem}; the recording is kept in {recording}") from problem
    except KeyboardInterrupt as interrupt:
        raise InterruptedWorkError(f"the recording is kept in {recording}") from interrupt
