"""The process of the mutator, which is asked one thing after another. (See mutator.go.)

Invariant: of the runtime's sampler only the generator is ever set or read, by `begin`, and when the
process begins.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from fuzz.problems import BadInputError
from fuzz.targets.process.asked_process import AskedProcess

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


class GoMutator(AskedProcess):
    """The process. Raises BadInputError if its Go is none that is known."""

    def __init__(self, program: str) -> None:
        super().__init__([program], ENVIRONMENT)
        try:
            greeting = self.receive(GREETING.size)
        except EOFError as problem:
            self.close()
            raise BadInputError(f"this Go is none whose sampler is known: {problem}") from problem
        version, is_wide, knows_rate = (part.decode().strip() for part in GREETING.unpack(greeting))
        self.version = f"Go {version.removeprefix('go')}"
        self.is_wide, self.knows_rate = is_wide == "true", knows_rate == "true"
        self.spent_numbers = self._numbers_of_sample() - 1
        """So many numbers the stack walk of a sample takes of the generator."""

    def ask(self, what: GoAsk, number: int = 0) -> GoAnswer:
        """Raises EOFError if the process has ended, and ValueError for what it cannot do."""
        self.send(QUESTION.pack(what, number))
        answer = GoAnswer(*ANSWER.unpack(self.receive(ANSWER.size)))
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

    def _numbers_of_sample(self) -> int:
        """How many numbers of the generator a sample takes."""
        self.begin(2, 0)
        bits, step = 64 if self.is_wide else 32, STEPS[self.is_wide]
        numbers: int = self.ask(GoAsk.LOOK).value * pow(step, -1, 2**bits) % 2**bits
        return numbers
