"""From a source to a recording, and from a recording to the files that people open.

Invariant: a recording is never lost to what happens after it, be it an export that fails, an
interrupt, a kill, or the next profile, unless that is told to write to its very file. It is removed
only when every file that was asked for is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from fuzz.problems import BadInputError, HarnessError, InterruptedWorkError
from fuzz.profiling.source import Listener, Source, Stopped
from gcmodel.errors import RecordingError
from gcmodel.profiling import collapsed, firefox, firefox_check, heap_dump, recording
from gcmodel.profiling.cost import Cost
from gcmodel.profiling.profile import Profile
from gcmodel.profiling.recorder import Recorder


def record(
    source: Source, cost: Cost, path: Path, max_bytes: int, listener: Listener
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
    except OSError as problem:
        raise BadInputError(f"{path}: cannot be written: {problem.strerror}") from problem
    except BadInputError as problem:
        raise BadInputError(f"{problem}; what was recorded before that is in {path}") from problem
    if recorded.stopped_by is not None:
        raise _ends_early(path, recorded.stopped_by)
    return recorded.seconds


def _ends_early(path: Path, why: str) -> BadInputError:
    return BadInputError(
        f"{path}: {why}; the recording ends there, and `gcfuzz profile {path} -o FILE` shows it"
    )


def _check_fits(source: Source, cost: Cost, max_bytes: int) -> None:
    """Raise BadInputError if the recording would not fit, with the period that would."""
    needed_bytes = cost.recording_bytes(source.period_bytes, source.time_period_us)
    if needed_bytes <= max_bytes:
        return
    period_bytes = cost.period_that_fits(max_bytes, source.time_period_us)
    if period_bytes is None:
        how = "its collections alone do not fit; raise --max-size"
    else:
        how = f"--period {period_bytes} would fit"
    raise BadInputError(
        f"{source.name}: a period of {source.period_bytes} bytes would write about "
        f"{needed_bytes:,} bytes, and --max-size is {max_bytes:,}; {how}"
    )


def is_recording(path: Path) -> bool:
    """Whether a file is a recording. Raises BadInputError where it cannot be read."""
    try:
        return recording.is_recording(path)
    except OSError as problem:
        raise BadInputError(f"{path}: cannot be read: {problem.strerror}") from problem


def read(path: Path) -> Profile:
    """The profile in a recording. Raises BadInputError."""
    try:
        return recording.read(path)
    except RecordingError as problem:
        raise BadInputError(str(problem)) from problem
    except OSError as problem:
        raise BadInputError(f"{path}: cannot be read: {problem.strerror}") from problem


def _write_firefox(profile: Profile, path: Path) -> None:
    data = firefox.processed(profile)
    problems = firefox_check.problems(data)
    if problems:
        raise HarnessError(f"{path}: {problems[0]}")
    firefox.write(data, path)


@attrs.frozen
class Format:
    """How a file is written, and in a few words what opens it."""

    opened_by: str
    write: Callable[[Profile, Path], None] | None


RECORDING_SUFFIX = ".jsonl"
FORMATS = {
    ".json": Format("open it at https://profiler.firefox.com", _write_firefox),
    ".json.gz": Format("open it at https://profiler.firefox.com", _write_firefox),
    ".heap": Format("read it with `jeprof --text`", heap_dump.write),
    ".collapsed": Format("a flame graph tool reads it, speedscope for instance", collapsed.write),
    RECORDING_SUFFIX: Format(
        "the recording, of which `gcfuzz profile` makes the other formats", None
    ),
}
"""What a file is, by the ending of its name. The recording is there before all others."""


def format_of(path: Path) -> Format | None:
    """What the file is to be, if its name says so."""
    # A suffix is what follows a name, and a name there must be.
    ending = next((each for each in FORMATS if path.name[1:].endswith(each)), None)
    return None if ending is None else FORMATS[ending]


def check_outputs(paths: Sequence[Path]) -> None:
    """Raise BadInputError unless every one of these files can be written, and is known by name."""
    for path in paths:
        if format_of(path) is None:
            endings = ", ".join(FORMATS)
            raise BadInputError(f"{path}: unknown format; end the name in one of {endings}")
        if not path.parent.is_dir():
            raise BadInputError(f"{path}: cannot be written: there is no folder {path.parent}")
        if paths.count(path) > 1:
            raise BadInputError(f"{path}: is named twice; name another file or leave it out")
    if len(recordings := _recordings_among(paths)) > 1:
        raise BadInputError(f"{recordings[1]}: there is one recording; name one file for it")


def recording_path(paths: Sequence[Path]) -> Path:
    """Where the recording goes: to the file asked for, or beside the first of the others.

    Raises BadInputError if something is there that must not be lost, or cannot be read again.
    """
    asked_for = _recordings_among(paths)
    path = asked_for[0] if asked_for else paths[0].with_name(paths[0].name + RECORDING_SUFFIX)
    if not path.exists():
        return path
    if not path.is_file():
        raise BadInputError(f"{path}: is no regular file, from which a recording could be read")
    if not asked_for:
        raise BadInputError(
            f"{path}: is there already, and the recording would replace it; if a profile was "
            "killed, export it, and otherwise move it away"
        )
    if path.stat().st_size and not is_recording(path):
        raise BadInputError(f"{path}: is there already, and no recording; name another file")
    return path


def export(profile: Profile, paths: Sequence[Path]) -> None:
    """Write the files, but for the recording. Raises BadInputError."""
    for path in paths:
        its_format = format_of(path)
        if its_format is not None and its_format.write is not None:
            try:
                its_format.write(profile, path)
            except OSError as problem:
                raise BadInputError(f"{path}: cannot be written: {problem.strerror}") from problem


@contextmanager
def keeping(recording: Path) -> Iterator[None]:
    """Whatever keeps its files from being made of a recording, the message says where that is."""
    try:
        yield
    except (BadInputError, HarnessError) as problem:
        raise type(problem)(f"{problem}; the recording is kept in {recording}") from problem
    except KeyboardInterrupt as interrupt:
        raise InterruptedWorkError(f"the recording is kept in {recording}") from interrupt


def check_exports(recording: Path, paths: Sequence[Path]) -> None:
    """Raise BadInputError if one of these is a recording, too."""
    if recordings := _recordings_among(paths):
        raise BadInputError(f"{recordings[0]}: {recording} is the recording; copy that")


def _recordings_among(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if format_of(path) is FORMATS[RECORDING_SUFFIX]]
