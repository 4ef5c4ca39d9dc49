"""From a source to a recording, and from a recording to the files that people open.

Invariant: a recording is never lost to what happens after it, be it an export that fails, an
interrupt or a kill. It is removed only when every file that was asked for is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz.problems import BadInputError, HarnessError
from fuzz.profiling.source import Listener, Source
from gcmodel.errors import RecordingError
from gcmodel.profiling import collapsed, firefox, firefox_check, heap_dump, recording
from gcmodel.profiling.cost import Cost
from gcmodel.profiling.profile import Profile


def record(
    source: Source, cost: Cost, path: Path, max_bytes: int, listener: Listener
) -> float | None:
    """Record what costs so much; returns the seconds that it took, None if it was interrupted.

    Raises BadInputError before it would need more than `max_bytes`, and whenever it cannot go on.
    """
    _check_fits(source, cost, max_bytes)
    try:
        recorded = source.record(path, max_bytes, listener)
    except KeyboardInterrupt:
        return None
    except OSError as problem:
        raise BadInputError(f"{path}: cannot be written: {problem.strerror}") from problem
    except BadInputError as problem:
        raise BadInputError(f"{problem}; what was recorded before that is in {path}") from problem
    if recorded.stopped_by is not None:
        raise BadInputError(
            f"{path}: {recorded.stopped_by}; the recording ends there, and "
            f"`gcfuzz profile {path} -o FILE` shows it"
        )
    return recorded.seconds


def _check_fits(source: Source, cost: Cost, max_bytes: int) -> None:
    """Raise BadInputError if the recording would not fit, with the period that would."""
    needed_bytes = cost.recording_bytes(source.period_bytes, source.time_period_us)
    if needed_bytes <= max_bytes:
        return
    period_bytes = cost.period_that_fits(max_bytes, source.time_period_us)
    if period_bytes is None:
        how = "not even a sample a terabyte would fit; raise --max-size"
    else:
        how = f"--period {period_bytes} would fit"
    raise BadInputError(
        f"{source.name}: a period of {source.period_bytes} bytes would write about "
        f"{needed_bytes:,} bytes, and --max-size is {max_bytes:,}; {how}"
    )


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
        raise HarnessError(f"{path}: {problems[0]}; what was recorded is kept")
    firefox.write(data, path)


EXPORTS: dict[str, Callable[[Profile, Path], None]] = {
    ".json": _write_firefox,
    ".json.gz": _write_firefox,
    ".heap": heap_dump.write,
    ".collapsed": collapsed.write,
}
"""What is written to a file, by the ending of its name."""
RECORDING_SUFFIX = ".jsonl"


def check_outputs(paths: Sequence[Path]) -> None:
    """Raise BadInputError unless every one of these files can be written, and is known by name."""
    for path in paths:
        if _ending_of(path) is None:
            endings = ", ".join([*EXPORTS, RECORDING_SUFFIX])
            raise BadInputError(f"{path}: unknown format; end the name in one of {endings}")
        if not path.parent.is_dir():
            raise BadInputError(f"{path}: cannot be written: there is no folder {path.parent}")
    if len(recordings := _recordings_among(paths)) > 1:
        raise BadInputError(f"{recordings[1]}: there is one recording; name one file for it")


def recording_path(paths: Sequence[Path]) -> Path:
    """Where the recording goes: to the file asked for, or beside the first of the others."""
    beside = paths[0].with_name(paths[0].name + RECORDING_SUFFIX)
    return next(iter(_recordings_among(paths)), beside)


def export(profile: Profile, paths: Sequence[Path]) -> None:
    """Write the files, but for the recording. Raises BadInputError."""
    for path in paths:
        write = EXPORTS.get(_ending_of(path) or "")
        if write is not None:
            try:
                write(profile, path)
            except OSError as problem:
                raise BadInputError(f"{path}: cannot be written: {problem.strerror}") from problem


def check_exports(recording: Path, paths: Sequence[Path]) -> None:
    """Raise BadInputError if one of these is a recording, too."""
    if recordings := _recordings_among(paths):
        raise BadInputError(f"{recordings[0]}: {recording} is the recording; copy that")


def _recordings_among(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if _ending_of(path) == RECORDING_SUFFIX]


def _ending_of(path: Path) -> str | None:
    endings = [*EXPORTS, RECORDING_SUFFIX]
    return next((ending for ending in endings if path.name.endswith(ending)), None)
