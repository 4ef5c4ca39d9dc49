"""Makes a profile: runs the program, records it, and exports the files.

Invariant: a recording is not lost to what happens after it: an export that fails, an interrupt, a
kill, or the next profile, unless that writes to the same file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from fuzz.files import reading, replacing, writing
from fuzz.plain import path_argument, shell_words
from fuzz.problems import BadInputError, HarnessError, InterruptedWorkError
from fuzz.profiling import profile_report
from fuzz.profiling.choice import Profiled
from fuzz.profiling.outputs import check_exports, format_of, recording_place
from fuzz.profiling.programs import Stopped
from gcmodel.memory.errors import RecordingError
from gcmodel.profiling import recording
from gcmodel.profiling.cost import Cost
from gcmodel.profiling.profile import Profile, ProfileHeader
from gcmodel.profiling.recorder import Listener, Recorder


def make_profile(
    profiled: Profiled,
    outputs: Sequence[Path],
    max_bytes: int,
    console: Console,
    before: Path | None,
) -> bool:
    """Run the program, record it and write the files; returns whether it ran to its end.

    If there is a recording `before`, the differences are shown. Raises BadInputError.
    """
    profile_before = None if before is None else _read(before, console)
    with recording_place(outputs) as path:
        with profile_report.first_run(console, profiled):
            cost = profiled.cost()
        with profile_report.ProfilingProgress(console, profiled, cost) as progress, writing(path):
            is_whole = _record(profiled, cost, path, max_bytes, progress)
        with keeping(path):
            profile = _read(path, console)
            profile_report.print_profile(console, profile, profile_before)
            size_bytes = path.stat().st_size
            profile_report.print_costs(console, profile, cost, size_bytes, is_whole=is_whole)
            _export(profile, outputs, console)
    return is_whole


def export_recording(
    path: Path, outputs: Sequence[Path], console: Console, before: Path | None
) -> None:
    """Write files from a recording without running anything. Raises BadInputError."""
    check_exports(path, outputs)
    profile = _read(path, console)
    profile_before = None if before is None else _read(before, console)
    profile_report.print_profile(console, profile, profile_before)
    _export(profile, outputs, console)


def _read(path: Path, console: Console) -> Profile:
    with console.status("reading the recording"), reading(path):
        try:
            return recording.read(path)
        except RecordingError as problem:
            raise BadInputError(str(problem)) from problem


def _export(profile: Profile, outputs: Sequence[Path], console: Console) -> None:
    """Write the files except the recording, which is there. Raises BadInputError."""
    with console.status("writing the files"):
        for path in outputs:
            write = format_of(path).write
            if write is not None:
                with writing(path), replacing(path) as partial:
                    write(profile, partial)
    profile_report.print_written(console, outputs)


def _record(profiled: Profiled, cost: Cost, path: Path, max_bytes: int, listener: Listener) -> bool:
    """Record a program with this cost; returns whether it was not interrupted.

    Raises BadInputError if that would need more than `max_bytes`, or if it cannot continue.
    """
    header = profiled.header()
    _check_fits(header, cost, max_bytes)

    def stop_with_the_recording(recorder: Recorder) -> None:
        listener(recorder)
        if writer.stopped_by is not None:
            raise Stopped

    writer = recording.RecordingWriter(path, header, max_bytes)
    try:
        with writer, suppress(Stopped):
            profiled.record(writer, stop_with_the_recording)
    except KeyboardInterrupt:
        return False
    except BadInputError as problem:
        raise BadInputError(f"{problem}; what was recorded before that is in {path}") from problem
    if writer.stopped_by is not None:
        command = shell_words(["gcfuzz", "profile", path_argument(path), "-o", "FILE"])
        raise BadInputError(
            f"{path}: {writer.stopped_by}; the recording ends there, and `{command}` shows it"
        )
    return True


def _check_fits(header: ProfileHeader, cost: Cost, max_bytes: int) -> None:
    """Raise BadInputError if the recording would not fit, with a period that would."""
    needed_bytes = cost.recording_bytes(header.period_bytes, header.time_period_us)
    if needed_bytes <= max_bytes:
        return
    period_bytes = cost.period_that_fits(max_bytes, header.time_period_us)
    if period_bytes is None or period_bytes > cost.allocated_bytes:
        how = "no period that samples anything fits; raise --max-size"
    else:
        how = f"--period {period_bytes} would fit"
    raise BadInputError(
        f"{header.program}: a period of {header.period_bytes} bytes would write about "
        f"{needed_bytes:,} bytes, and --max-size is {max_bytes:,}; {how}"
    )


@contextmanager
def keeping(recording: Path) -> Iterator[None]:
    """Add to each error where the recording is."""
    try:
        yield
    except (BadInputError, HarnessError) as problem:
        raise type(problem)(f"{problem}; the recording is kept in {recording}") from problem
    except KeyboardInterrupt as interrupt:
        raise InterruptedWorkError(f"the recording is kept in {recording}") from interrupt
