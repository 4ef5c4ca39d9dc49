"""The driver of `ocaml`: `python -m fuzz.targets.ocaml.driver NAME NATIVE BYTECODE VERSION`.

It sends the actions to the mutator. Each trace has a copy of the mutator's process, since only that
resets Memprof's generator. Invariant: of Memprof it uses only what Memprof's callbacks report.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct, unpack
from typing import ClassVar, NamedTuple

from fuzz.protocol import actions
from fuzz.protocol.contract import Contract
from fuzz.targets.ocaml.contract import BYTECODE, NATIVE, SETTINGS, WORD_BYTES, contract
from fuzz.targets.process.asked_process import AskedProcess
from fuzz.targets.process.driver import CarryOut, Driver

MESSAGE_INTEGERS = 12
MESSAGE = Struct(f"={MESSAGE_INTEGERS}q")
WALK, END, SUMS, NODES = 13, 14, 23, 24


class MemprofSample(NamedTuple):
    """A block that Memprof has sampled."""

    words: int
    samples: int
    line: int
    """The line of mutator.ml that has allocated it; 0 if it is unknown."""


class OcamlMutator(AskedProcess):
    """The mutator's program of that tier, which it checks itself. (See mutator.ml.)"""

    def __init__(self, program: str, tier: int) -> None:
        super().__init__([program], {"OCAMLRUNPARAM": f"s={SETTINGS[0].default}"})
        self.tier = tier
        self._beginning: tuple[int, int, int] | None = (SETTINGS[0].default, 0, tier)
        self.collections = 0
        """The minor collections of this trace."""
        self.sampled: tuple[MemprofSample, ...] = ()
        """The blocks that were sampled meanwhile."""

    def begin(self, minor_heap_words: int, batches: int) -> None:
        """Start a trace. The mutator forks at the first question: half of the headers have none."""
        if self._beginning is None:
            self._send_numbers(END)
        self._beginning, self.collections = (minor_heap_words, batches, self.tier), 0

    def _send_numbers(self, *numbers: int) -> None:
        self.send(MESSAGE.pack(*numbers, *[0] * (MESSAGE_INTEGERS - len(numbers))))

    def ask(self, what: int, *numbers: int) -> tuple[int, ...]:
        if self._beginning is not None:
            self._send_numbers(*self._beginning)
            self._beginning = None
        self._send_numbers(what, *numbers)
        [count] = unpack("=q", self.receive(8))
        value_count, *answer = unpack(f"={count - 1}q", self.receive(8 * (count - 1)))
        if value_count < 0:
            raise ValueError("OCaml cannot do that")
        self.collections, *sampled = answer[value_count:]
        self.sampled = tuple(map(MemprofSample, *(sampled[first::3] for first in range(3))))
        return tuple(answer[:value_count])


class OcamlDriver(Driver):
    """Memprof."""

    settings = SETTINGS

    def __init__(self, name: str, native: str, bytecode: str, version: str) -> None:
        super().__init__(name)
        self._programs = {BYTECODE: bytecode, NATIVE: native}
        self._version = version
        self._mutators: dict[int, OcamlMutator] = {}
        self.mutator: OcamlMutator | None = None

    def close(self) -> None:
        for mutator in self._mutators.values():
            mutator.close()

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        tier = chosen["tier"]
        self.mutator = self._mutators.get(tier)
        if self.mutator is None or self.mutator.has_ended:
            self.mutator = self._mutators[tier] = OcamlMutator(self._programs[tier], tier)
        self.mutator.begin(chosen["minor_heap_words"], chosen["sampler_seed"])
        self.collections = 0
        return contract(self._version, self.actions, chosen)

    def ask(self, what: int, *numbers: int) -> tuple[int, ...]:
        assert self.mutator is not None
        values = self.mutator.ask(what, *numbers)
        self.collections = self.mutator.collections
        return values

    def allocate(self, what: int, *numbers: int) -> int:
        """The size of the block; whether it was sampled goes to the observation."""
        [words] = self.ask(what, *numbers)
        assert self.mutator is not None
        for sampled in self.mutator.sampled:
            self._check_words(sampled, words)
            self.observation.samples += sampled.samples
        return words * WORD_BYTES

    def _check_words(self, sampled: MemprofSample, words: int) -> None:
        if sampled.words != words:
            raise ValueError(f"a block of {sampled.words} words was sampled, not of {words}")

    def allocate_group(self, action: actions.AllocateGroup) -> int:
        """The size of all nodes. Bytecode allocates each of them by itself."""
        assert self.mutator is not None
        nodes, observation = action.members, self.observation
        if self.mutator.tier == BYTECODE:
            answers = [self.perform(actions.alone(node, action.thread)) for node in nodes]
            self.observation, observation.members = observation, answers
            return sum(answer.size or 0 for answer in answers)
        numbers = (half for node in nodes for half in halves(node.number))
        *words, first_line = self.ask(NODES, len(nodes), *numbers)
        observation.samples_by_member = [0] * len(nodes)
        for sampled in self.mutator.sampled:
            member = sampled.line - first_line
            if member not in range(len(nodes)):
                raise ValueError(f"line {sampled.line} was sampled, not {first_line} or after")
            self._check_words(sampled, words[member])
            observation.samples_by_member[member] += sampled.samples
        observation.samples = sum(observation.samples_by_member)
        return sum(words) * WORD_BYTES

    def read(self, root: int, field: int) -> int | None:
        [found] = self.ask(4, root, field)
        return None if found < 0 else found

    def write(self, root: int, field: int, value: int | None) -> None:
        self.ask(5, root, field, -1 if value is None else value)

    def after_collection(self) -> None:
        self.observation.graph = self.graph()

    def graph(self) -> list[list[int]]:
        """What a walk from the roots finds."""
        rows = []
        numbers = iter(self.ask(WALK))
        for count in numbers:
            kind, low, high, *references = (next(numbers) for _ in range(count))
            rows.append([kind, joined(low, high), *references])
        return rows

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.AllocateNode: lambda driver, each: driver.allocate(0, *halves(each.number)),
        actions.AllocateString: lambda driver, each: driver.allocate(1, each.length),
        actions.AllocateArray: lambda driver, each: driver.allocate(2, each.length),
        actions.AllocateGroup: lambda driver, each: driver.allocate_group(each),
        actions.Free: lambda driver, each: driver.ask(3, each.root),
        actions.Read: lambda driver, each: driver.read(each.root, each.field),
        actions.Write: lambda driver, each: driver.write(each.root, each.field, each.value),
        actions.ReadNumber: lambda driver, each: joined(*driver.ask(6, each.root)),
        actions.WriteNumber: lambda driver, each: driver.ask(7, each.root, *halves(each.number)),
        actions.CopyArray: lambda driver, each: driver.ask(
            *(8, each.source, each.dest, each.source_start, each.dest_start, each.length)
        ),
        actions.CollectMinor: lambda driver, _: driver.ask(9),
        actions.CollectFull: lambda driver, _: driver.ask(10),
        actions.EnableSampling: lambda driver, each: driver.ask(
            11, each.period_bytes // WORD_BYTES
        ),
        actions.DisableSampling: lambda driver, _: driver.ask(12),
        actions.CheckHeap: lambda driver, _: driver.graph(),
        actions.CheckContents: lambda driver, _: [[each] for each in driver.ask(SUMS)],
    }


def halves(number: int) -> tuple[int, int]:
    """The halves of an integer; one of OCaml has one bit less than one of the protocol."""
    return number & 2**32 - 1, number >> 32


def joined(low: int, high: int) -> int:
    """The integer of these halves."""
    return low | high << 32


if __name__ == "__main__":
    OcamlDriver.main()
