"""A process that a driver asks through pipes, by messages of its own: mutators are such.

Invariant: every question is answered, or the process has ended, which is an EOFError.
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
        words: Sequence[str | Path],
        variables: Mapping[str, str],
        stderr: IO[bytes] | None = None,
    ) -> None:
        try:
            self.process = subprocess.Popen(  # noqa: S603 - made by this package, or the user's
                words,
                env={**os.environ, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        except OSError as problem:
            raise BadInputError(f"{words[0]}: {problem.strerror}") from problem
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._questions, self._answers = self.process.stdin, self.process.stdout

    @property
    def has_ended(self) -> bool:
        """Whether nobody answers any more."""
        return self.process.poll() is not None

    def send(self, question: bytes) -> None:
        """Send a message. Of a process that has ended its answer tells."""
        with suppress(BrokenPipeError):
            self._questions.write(question)
            self._questions.flush()

    def receive(self, size_bytes: int) -> bytes:
        """So much of the answer. Raises EOFError if the process has ended."""
        data = self._answers.read(size_bytes)
        if len(data) < size_bytes:
            code = self.process.wait()
            raise EOFError(f"the program that is asked has ended with exit code {code}")
        return data

    def close(self) -> None:
        """It ends when nobody can ask it any more."""
        self.process.communicate()
