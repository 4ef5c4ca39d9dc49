"""Processes of Dask: a scheduler, its workers, and sessions on them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from waiting import killed_at_end, wait_for_line, wait_until

TARGET = "reference+one-sample-per-object"


class Machines:
    """A scheduler, its workers and sessions, each a process that leads a group."""

    def __init__(self, folder: Path, environment: dict[str, str], stack: ExitStack) -> None:
        self.folder, self.environment, self._stack = folder, environment, stack

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        return self._stack.enter_context(killed_at_end(process))

    def start_scheduler(
        self, port: str = "0", *options: str, **environment: str
    ) -> tuple[subprocess.Popen[str], str]:
        """A scheduler, and its address when it answers."""
        place = self.folder / "scheduler.json"
        place.unlink(missing_ok=True)
        arguments = ("--scheduler-file", str(place), "--port", port, "--no-dashboard", *options)
        process = self.start("distributed.cli.dask_scheduler", *arguments, **environment)
        addresses: list[str] = []

        def is_written() -> bool:
            with suppress(OSError, ValueError):  # The file may exist before its text does.
                addresses.append(json.loads(place.read_text())["address"])
            return bool(addresses)

        wait_until(is_written, "the scheduler's address", process)
        return process, addresses[0]

    def start_worker(self, address: str, **environment: str) -> subprocess.Popen[str]:
        """A worker, when the scheduler knows it."""
        arguments = (address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        worker = self.start("distributed.cli.dask_worker", *arguments, **environment)
        wait_for_line(worker.stdout, "Registered to")
        return worker
