"""The process of the mutator, which is asked one thing after another. (See mutator.go.)

Invariant: of the runtime's sampler only the generator is ever set or read, by `begin`, and when the
process begins.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from fuzz.problems import BadInputError

QUESTION, ANSWER, GREETING = Struct("<2q"), Struct("<4q"), Struct("32s16s16s")
ENVIRONMENT = {"GODEBUG": "asyncpreemptoff=1", "GOGC": "", "GOMAXPROCS": "1", "GOMEMLIMIT": ""}
"""A signal in a stack walk would find the cache for these in use more often than is legal."""
STEPS = {True: 0xA0761D6478BD642F, False: 0x53C5CA59}
"""By what a generator of 64 bits, and one of 32, grows with each number."""
PROBE_BYTES = 16


class GoAsk(IntEnum):
    """What it can be asked."""

    BEGIN, SEED, LOOK, ALLOCATE, FREE, SET_RATE, PROFILE, COLLECT, SET_COLLECTOR = range(9)


class GoAnswer(NamedTuple):
    """Of an allocation: how many samples, and how many of what else the runtime allocated."""

    value: int
    more: int
    damage: int
    collections: int


class GoMutator:
    """The process. Raises BadInputError if its Go is none that is known."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - the program that was made
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._questions, self._answers = self.process.stdin, self.process.stdout
        greeting = self._answers.read(GREETING.size)
        if len(greeting) < GREETING.size:
            self.close()
            raise BadInputError("this Go is none whose sampler is known")
        version, is_wide, knows_rate = (part.decode().strip() for part in GREETING.unpack(greeting))
        self.version = f"Go {version.removeprefix('go')}"
        self.is_wide, self.knows_rate = is_wide == "true", knows_rate == "true"
        self.spent_numbers = self._numbers_of_sample() - 1
        """So many numbers the stack walk of a sample takes of the generator."""

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def ask(self, what: GoAsk, number: int = 0) -> GoAnswer:
        """Raises EOFError if the process has ended, and ValueError for what it cannot do."""
        with suppress(BrokenPipeError):  # Then there is no answer.
            self._questions.write(QUESTION.pack(what, number))
        data = self._answers.read(ANSWER.size)
        if len(data) < ANSWER.size:
            raise EOFError(f"the Go program has ended with exit code {self.process.wait()}")
        answer = GoAnswer(*ANSWER.unpack(data))
        if answer.damage < 0:
            raise ValueError("the mutator cannot do that")
        if answer.damage > 0:
            raise ValueError("a block is damaged")
        return answer

    def begin(self, period_bytes: int, state: int) -> GoAnswer:
        """Forget all, and have the first distance drawn from that state of the generator."""
        self.ask(GoAsk.BEGIN, period_bytes)
        self.ask(GoAsk.SEED, state - (state >> 63 << 64))
        drawn = self.ask(GoAsk.ALLOCATE, PROBE_BYTES)
        if drawn.value != 1:
            raise BadInputError("the runtime has drawn a distance for something else")
        return self.ask(GoAsk.FREE)

    def close(self) -> None:
        """The process ends when nobody can ask it any more."""
        self._questions.close()
        self._answers.close()
        self.process.wait()

    def _numbers_of_sample(self) -> int:
        """How many numbers of the generator a sample takes."""
        self.begin(2, 0)
        bits, step = 64 if self.is_wide else 32, STEPS[self.is_wide]
        numbers: int = self.ask(GoAsk.LOOK).value * pow(step, -1, 2**bits) % 2**bits
        return numbers
