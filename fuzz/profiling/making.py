"""What `gcfuzz profile` does, from a source to the files, and what it says meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fuzz.files import writing
from fuzz.profiling.outputs import check_exports, export, recording_place
from fuzz.profiling.profiled import Profiled
from fuzz.profiling.recordings import keeping, read, record
from fuzz.profiling.screen import (
    ProfilingProgress,
    first_run,
    print_costs,
    print_profile,
    print_written,
)


def make_profile(
    source: Profiled, outputs: Sequence[Path], max_bytes: int, console: Console
) -> bool:
    """Run a source, record it and write the files; whether it came to its end.

    Raises BadInputError.
    """
    with recording_place(outputs) as path:
        with first_run(console, source):
            cost = source.cost()
        with ProfilingProgress(console, source, cost) as progress, writing(path):
            seconds = record(source, cost, path, max_bytes, progress)
        with keeping(path):
            with console.status("reading the recording"):
                profile = read(path)
            print_profile(console, profile)
            print_costs(console, profile, cost, seconds, path.stat().st_size)
            with console.status("writing the files"):
                export(profile, outputs)
    print_written(console, outputs)
    return seconds is not None


def export_recording(recording: Path, outputs: Sequence[Path], console: Console) -> None:
    """Write the files that a recording tells, and run nothing. Raises BadInputError."""
    check_exports(recording, outputs)
    with console.status("reading the recording"):
        profile = read(recording)
    print_profile(console, profile)
    with console.status("writing the files"):
        export(profile, outputs)
    print_written(console, outputs)
