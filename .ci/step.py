"""Run a command as a step of CI: print its output when it ends, and what it took.

    step.py TABLE NAME MINUTES COMMAND [ARGUMENT ...]
    step.py TABLE MINUTES

The first form appends a row to the file TABLE. The second form prints all rows, and what they took
together. A step that takes more than its MINUTES does not fail, but says so.
Steps run side by side, so their outputs would be mixed if they were printed at once. A step that is
ended early prints what there is of its output.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

END_SECONDS = 10
"""How long a command may go on after SIGTERM."""
ENDED = 128 + signal.SIGTERM


class Row(TypedDict):
    """What one step took. `idle` is what all processors did not do meanwhile, for any step."""

    name: str
    minutes: float
    started: float
    ended: float
    processor: float
    idle_before: float
    idle_after: float


def idle_seconds() -> float:
    """The seconds that the processors of this machine were idle since it started, in sum."""
    fields = Path("/proc/stat").read_text("utf-8").splitlines()[0].split()
    idle, waiting_for_disk = fields[4:6]
    return (int(idle) + int(waiting_for_disk)) / os.sysconf("SC_CLK_TCK")


def run(table: Path, name: str, minutes: float, command: list[str]) -> int:
    """Run the command in a session of its own; returns its exit code."""
    print(f"started: {name}", flush=True)
    started, idle_before = time.time(), idle_seconds()
    # Whatever ends this process, it prints the output, and nothing that it started goes on. An
    # exception in Popen would lose a process that has started, so until then SIGTERM is noted.
    is_ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: is_ended.append(number))
    code = ENDED
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
            code = ENDED if is_ended else process.wait()
        finally:
            end(process)
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            row = Row(
                name=name,
                minutes=minutes,
                started=started,
                ended=time.time(),
                processor=used.ru_utime + used.ru_stime,
                idle_before=idle_before,
                idle_after=idle_seconds(),
            )
            with table.open("a", encoding="utf-8") as rows:
                rows.write(f"{json.dumps(row)}\n")
            show(f"{name}: exit code {code}, {took(row)}", output.fileno())
    return code


def end(process: subprocess.Popen[bytes]) -> None:
    """End the command, and what it has left in its session's group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def show(title: str, output: int) -> None:
    """Print the output of a step as one piece."""
    text = os.pread(output, os.fstat(output).st_size, 0)
    sys.stdout.buffer.write(f"\n=== {title} ===\n".encode() + text)
    sys.stdout.buffer.flush()


def took(row: Row) -> str:
    """The minutes that a step took, and those that it may take."""
    minutes = (row["ended"] - row["started"]) / 60
    too_long = ": TOO LONG" if minutes > row["minutes"] else ""
    return f"{minutes:.1f} of {row['minutes']:g} min{too_long}"


def print_table(table: Path, minutes: float) -> None:
    """Print each step's seconds, and those of all, as a table in Markdown."""
    rows: list[Row] = [json.loads(line) for line in table.read_text("utf-8").splitlines()]
    first, last = min(row["started"] for row in rows), max(row["ended"] for row in rows)
    everything = Row(
        name="all",
        minutes=minutes,
        started=first,
        ended=last,
        processor=sum(row["processor"] for row in rows),
        idle_before=min(row["idle_before"] for row in rows),
        idle_after=max(row["idle_after"] for row in rows),
    )
    print("\n| step | start s | wall s | processor s | idle s | minutes |")
    print("|---|--:|--:|--:|--:|--:|")
    for row in [*rows, everything]:
        start, wall = row["started"] - first, row["ended"] - row["started"]
        idle = row["idle_after"] - row["idle_before"]
        figures = f"{start:.0f} | {wall:.0f} | {row['processor']:.0f} | {idle:.0f}"
        print(f"| {row['name']} | {figures} | {took(row)} |")


def main() -> int:
    """Run a step, or print the table."""
    match sys.argv[1:]:
        case [table, minutes]:
            print_table(Path(table), float(minutes))
            return 0
        case [table, name, minutes, *command]:
            return run(Path(table), name, float(minutes), command)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
