"""The driver of `go`: `python -m fuzz.targets.go.driver NAME PROGRAM`.

It starts a process of the mutator, and sends it the actions. Invariant: a header frees all blocks
and sets the generator, so the answers to a trace do not depend on the traces before it. After that
the driver reads nothing of the sampler.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from random import Random
from struct import Struct
from typing import ClassVar, NamedTuple

from fuzz.problems import BadInputError
from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.written import NUMBER_BYTES, SHOWN_BYTES, contents_of, number_in
from fuzz.targets.go.contract import (
    BY_ITSELF,
    ONLY_EMPTY,
    SETTINGS,
    SITES,
    WHEN_ASKED,
    GoSampler,
    by_chance,
    contract,
)
from fuzz.targets.process.asked_process import AskedProcess
from fuzz.targets.process.driver import CarryOut, Driver

QUESTION, ANSWER, GREETING = Struct("<2q"), Struct("<4q"), Struct("32s16s16s")
ENVIRONMENT = {"GODEBUG": "asyncpreemptoff=1", "GOGC": "", "GOMAXPROCS": "1", "GOMEMLIMIT": ""}
"""A signal in a stack walk would find the cache for these in use more often than is legal."""
STEPS = {True: 0xA0761D6478BD642F, False: 0x53C5CA59}
"""What a generator of 64 bits, and one of 32, adds for each number."""
SPENT_MAX = 1024
"""The most numbers that a contract lets the stack walk of a sample take."""
NAME_KNOWN = "name a Go of version 1.19 to 1.27 with --go"
PROBE_BYTES = 16
PERCENT = {WHEN_ASKED: -1, BY_ITSELF: 100}
"""How much the heap grows until the collector runs."""


class GoAsk(IntEnum):
    """The questions to the mutator. (See mutator.go.)"""

    BEGIN, SEED, LOOK, ALLOCATE, FREE, SET_RATE, PROFILE, COLLECT = range(8)
    SET_COLLECTOR, COMPARE, READ, SET_SITE = range(8, 12)


class GoAnswer(NamedTuple):
    """An answer: `value` is the samples of an allocation, or the first figure of a profile.

    Of a comparison: the first wrong offset, or the size, which `more` is.
    """

    value: int
    more: int
    damage: int
    collections: int


class GoMutator(AskedProcess):
    """The mutator's process. Raises BadInputError if the sampler of its Go is unknown."""

    def __init__(self, program: str) -> None:
        super().__init__([program], ENVIRONMENT)
        try:
            greeting = self.receive(GREETING.size)
        except EOFError as problem:
            self.close()
            unknown = f"the sampler of this Go is not known: {problem}; {NAME_KNOWN}"
            raise BadInputError(unknown) from problem
        name, wide, rate = (part.decode().strip() for part in GREETING.unpack(greeting))
        version, is_wide = f"Go {name.removeprefix('go')}", wide == "true"
        spent_numbers = tuple(self._spent_numbers(site, is_wide) for site in SITES)
        if not all(spent in range(SPENT_MAX + 1) for spent in spent_numbers):
            self.close()
            raise BadInputError(f"the generator of {version} is not known; {NAME_KNOWN}")
        self.sampler = GoSampler(version, is_wide, rate == "true", spent_numbers)

    def _spent_numbers(self, site: int, is_wide: bool) -> int:
        """See GoSampler. With another generator than those known, it is any number."""
        self.begin(site, 2, 0)
        # The state is what the numbers of the first sample have added to 0.
        state: int = self.ask(GoAsk.LOOK).value
        modulus = 2**64 if is_wide else 2**32
        return state * pow(STEPS[is_wide], -1, modulus) % modulus - 1

    def ask(self, what: GoAsk, number: int = 0) -> GoAnswer:
        """Raises EOFError if the process has ended, and ValueError if it cannot do that."""
        self.send(QUESTION.pack(what, number))
        answer = GoAnswer(*ANSWER.unpack(self.receive(ANSWER.size)))
        if answer.damage < 0:
            raise ValueError("the mutator cannot do that")
        if answer.damage > 0:
            raise ValueError("a block is damaged")
        return answer

    def begin(self, site: int, period_bytes: int, state: int) -> GoAnswer:
        self.ask(GoAsk.SET_SITE, site)
        self.ask(GoAsk.BEGIN, period_bytes)
        self.ask(GoAsk.SEED, state - (state >> 63 << 64))
        if self.ask(GoAsk.ALLOCATE, PROBE_BYTES).value != 1:
            raise BadInputError("the runtime has drawn a distance for something else")
        return self.ask(GoAsk.FREE)


class GoDriver(Driver):
    """Go's heap profile."""

    settings = SETTINGS

    def __init__(self, name: str, program: str) -> None:
        super().__init__(name)
        self._program = program
        self.mutator = GoMutator(program)
        self.rate = self._percent = self._state = self._site = 0
        self._begins = False
        self._numbers: list[int] = []
        self._newest = 0

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        if self.mutator.has_ended:
            self.mutator.close()
            self.mutator = GoMutator(self._program)
        sampler = self.mutator.sampler
        state = Random(chosen["sampler_seed"]).getrandbits(64 if sampler.is_wide else 32)  # noqa: S311 - no secret
        self.rate, self._state = chosen["period_bytes"], state
        self._percent, self._site = PERCENT[chosen["collector"]], chosen["site"]
        self._begins = True
        self._numbers, self._newest = [], 0
        stated = contract(sampler, self.actions, self.rate, state, SITES[self._site])
        if self.is_as_documented:
            return by_chance(stated, min(stated.layout.shared_bytes, ONLY_EMPTY))
        is_by_itself = chosen["collector"] == BY_ITSELF
        return by_chance(stated, stated.layout.shared_bytes) if is_by_itself else stated

    def carry_out(self, action: Action) -> None:
        """Beginning takes a collection, and half of the headers have no action."""
        if self._begins:
            self._begins = False
            self.mutator.ask(GoAsk.SET_COLLECTOR, self._percent)
            self.collections = self.mutator.begin(self._site, self.rate, self._state).collections
        super().carry_out(action)

    def close(self) -> None:
        self.mutator.close()

    def ask(self, what: GoAsk, number: int = 0) -> GoAnswer:
        answer = self.mutator.ask(what, number)
        self.collections = answer.collections
        return answer

    def allocate(self, size_bytes: int) -> None:
        self.observation.samples = self.ask(GoAsk.ALLOCATE, size_bytes).value
        self._newest += 1
        self._numbers.append(self._newest)

    def free(self, root: int) -> None:
        self.ask(GoAsk.FREE, root)
        del self._numbers[root]

    def rows(self) -> list[list[int]]:
        """What `check_contents` answers."""
        return [self._row(root) for root in range(len(self._numbers))]

    def _row(self, root: int) -> list[int]:
        compared = self.ask(GoAsk.COMPARE, root)
        offset, size_bytes = compared.value, compared.more
        row = [number_in(contents_of(self._numbers[root], min(size_bytes, NUMBER_BYTES)))]
        if offset < size_bytes:
            places = range(offset, min(offset + SHOWN_BYTES, size_bytes))
            row += [offset, *(self.ask(GoAsk.READ, root << 32 | place).value for place in places)]
        return row

    def set_rate(self, rate: int) -> None:
        self.rate = rate
        self.ask(GoAsk.SET_RATE, rate)

    def profile(self) -> list[int]:
        answer = self.ask(GoAsk.PROFILE)
        return [answer.value, answer.more]

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.Malloc: lambda driver, each: driver.allocate(each.size_bytes),
        actions.Free: lambda driver, each: driver.free(each.root),
        actions.CollectFull: lambda driver, _: driver.ask(GoAsk.COLLECT),
        actions.EnableSampling: lambda driver, each: driver.set_rate(each.period_bytes),
        actions.DisableSampling: lambda driver, _: driver.set_rate(0),
        # The period of a sampler that is off is that of the next EnableSampling.
        actions.SetPeriod: lambda driver, each: driver.set_rate(driver.rate and each.period_bytes),
        actions.ReadProfile: lambda driver, _: driver.profile(),
        actions.CheckContents: lambda driver, _: driver.rows(),
    }


if __name__ == "__main__":
    GoDriver.main()
