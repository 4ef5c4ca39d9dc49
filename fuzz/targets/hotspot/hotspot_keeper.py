"""The program that is the target `hotspot`: it keeps a process for each collector.

A process can make one virtual machine, whose collector is settled then. So at a header the lines go
on to the process with that collector, which is begun if there is none; it answers until the next.
Invariant: what is read and written is what such a process reads and writes.

`python -m fuzz.targets.hotspot.hotspot_keeper LIBJVM [NAME]` is what the harness starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import IO

from fuzz.protocol import lines as wire
from fuzz.targets.hotspot.collectors import COLLECTOR, COLLECTORS
from fuzz.targets.hotspot.hotspot_command import AT_ONCE, HOTSPOT

DRIVER = "hotspot_driver"
DRIVERS = {AT_ONCE: "at_once_driver"}
"""Of the targets that have one of their own."""
Process = subprocess.Popen[bytes]


class Keeper:
    """The processes by their collectors."""

    def __init__(self, library: str, target_name: str = HOTSPOT) -> None:
        self._library = library
        self._target_name = target_name
        self._processes: dict[str, Process] = {}

    def relay(self, lines: Iterable[bytes], answers: IO[bytes]) -> None:
        """Have each line answered. When a process has ended, so does this, in the same way."""
        process = self._process_for({})
        for line in lines:
            if b'"gcfuzz"' in line:
                process = self._process_for(_configuration_in(line))
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):  # Then there is no answer.
                process.stdin.write(line)
                process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                _end_like(process)
            answers.write(answer)
            answers.flush()
        for process in self._processes.values():
            process.communicate()

    def _process_for(self, configuration: dict[str, int]) -> Process:
        """One that is not known is the first one's to refuse."""
        names = dict(enumerate(COLLECTORS))
        name = names.get(configuration.get(COLLECTOR, 0), COLLECTORS[0])
        if name not in self._processes:
            module = f"{__package__}.{DRIVERS.get(self._target_name, DRIVER)}"
            words = [sys.executable, "-m", module, self._library, name, self._target_name]
            pipe = subprocess.PIPE
            self._processes[name] = subprocess.Popen(words, stdin=pipe, stdout=pipe)  # noqa: S603
        return self._processes[name]


def _configuration_in(line: bytes) -> dict[str, int]:
    """That of a header; nothing if it is none."""
    try:
        header = wire.as_object(wire.from_line(line))
        return wire.structured(header.get("config", {}), dict[str, int])
    except ValueError:
        return {}


def _end_like(process: Process) -> None:
    code = process.wait()
    if code < 0:
        os.kill(os.getpid(), -code)
    raise SystemExit(code)


if __name__ == "__main__":
    Keeper(*sys.argv[1:]).relay(sys.stdin.buffer, sys.stdout.buffer)
