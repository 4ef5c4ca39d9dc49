"""A process that a driver asks through pipes, with messages of its own: a mutator, mostly.

Invariant: every question gets an answer, or an EOFError because the process has ended.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from fuzz.problems import BadInputError


class AskedProcess:
    """The process. Raises BadInputError if it cannot be started."""

    def __init__(
        self,
        command: Sequence[str | Path],
        variables: Mapping[str, str],
        stderr: IO[bytes] | None = None,
    ) -> None:
        try:
            self.process = subprocess.Popen(  # noqa: S603 - made by this package, or the user's
                command,
                env={**os.environ, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        except OSError as problem:
            raise BadInputError(f"{command[0]}: {problem.strerror}") from problem
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._questions, self._answers = self.process.stdin, self.process.stdout

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def send(self, question: bytes) -> None:
        """Send a message. If the process has ended, `receive` raises the error."""
        with suppress(BrokenPipeError):
            self._questions.write(question)
            self._questions.flush()

    def receive(self, size_bytes: int) -> bytes:
        data = self._answers.read(size_bytes)
        if len(data) < size_bytes:
            code = self.process.wait()
            raise EOFError(f"the program that is asked has ended with exit code {code}")
        return data

    def close(self) -> None:
        self.process.communicate()
