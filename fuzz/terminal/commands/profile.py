"""Profiles of programs on the reference collector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuzz.problems import BadInputError
from fuzz.terminal.commands.group import cli
from fuzz.terminal.commands.traces import check_other
from fuzz.terminal.exit_codes import CLEAN, INCONCLUSIVE
from fuzz.terminal.screen import Screen
from fuzz.terminal.target_options import FILE, PATH, duration_option, size_option

REPEATS_MAX = 1_000_000


@cli.command("profile")
@click.argument("what", metavar="WORKLOAD", type=PATH)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=FILE,
    help="A file to write: .json or .json.gz for the Firefox Profiler, .pb.gz for pprof, .heap for "
    "jeprof, .collapsed for flame graphs, .jsonl for the recording; may be given several times.",
)
@size_option(
    "--period",
    "period_bytes",
    help="Bytes between samples: 64, 4k, 1M.  [default: 4k; for a trace its own]",
)
@click.option(
    "--fixed", is_flag=True, help="Sample at exact distances, not at random ones with this mean."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), help="The seed of random distances.  [default: 1]"
)
@duration_option(
    "--time-period", "time_period_seconds", help="Sample the stack by time as well: 1ms, 10ms."
)
@click.option(
    "--repeat", type=click.IntRange(1, REPEATS_MAX), help="How often to run it.  [default: 1]"
)
@size_option("--max-size", "max_bytes", help="The size limit of the recording.  [default: 100M]")
@click.option(
    "--diff",
    "before",
    metavar="RECORDING",
    type=FILE,
    help="Show the differences from this recording that are more than chance.",
)
def profile_command(
    what: Path,
    outputs: tuple[Path, ...],
    before: Path | None,
    **recording: Any,  # noqa: ANN401 - the options that are RecordingOptions
) -> int:
    """Profile the allocations of a program on the reference collector.

    WORKLOAD is gcbench, expressions, interpreter or allocate; a script, FILE.py; a trace; or a
    recording, which is exported without running anything. A script needs a function main(heap):
    gcfuzz profiles what it allocates in that heap, not Python's own memory.
    """
    from fuzz.profiling.choice import RecordingOptions, to_profile
    from fuzz.profiling.making import export_recording, make_profile
    from fuzz.profiling.outputs import check_outputs

    options = RecordingOptions(**recording)
    check_outputs(outputs, samples_time=options.time_period_seconds is not None)
    for output in outputs:
        check_other(output, what)
    profiled = to_profile(what, options)
    if profiled is None:
        export_recording(what, outputs, Screen().console, before)
        return CLEAN
    if not outputs:
        raise BadInputError(f"{what}: is not a recording yet; name a file for it: -o FILE.jsonl")
    is_whole = make_profile(profiled, outputs, options.recording_bytes, Screen().console, before)
    return CLEAN if is_whole else INCONCLUSIVE
