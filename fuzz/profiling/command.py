"""What `gcfuzz profile` does, from a source to the files, and what it says meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fuzz.profiling.report import Progress, print_costs, print_profile, print_written
from fuzz.profiling.session import check_exports, export, keeping, read, record, recording_path
from fuzz.profiling.source import Source


def make_profile(source: Source, outputs: Sequence[Path], max_bytes: int, console: Console) -> bool:
    """Run a source, record it and write the files; whether it came to its end.

    Raises BadInputError.
    """
    path = recording_path(outputs)
    # A refresh takes the program's time: one a second is enough to see that it works.
    with console.status(f"{source.name}: once without a recorder", refresh_per_second=1):
        cost = source.cost()
    with Progress(console, cost) as progress:
        seconds = record(source, cost, path, max_bytes, progress)
    with keeping(path):
        with console.status("reading the recording"):
            profile = read(path)
        print_profile(console, profile)
        print_costs(console, profile, cost, seconds, path.stat().st_size)
        with console.status("writing the files"):
            export(profile, outputs)
    if path not in outputs:
        path.unlink()
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
