"""The program that is the target `ocaml`, on its side of the pipe.

`python -m fuzz.targets.ocaml.ocaml_driver PROGRAM VERSION` begins a process of the mutator for each
trace, since nothing but that begins Memprof's generator anew, and asks it to carry out the actions.
Invariant: nothing is read of Memprof but what it tells its callbacks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from struct import Struct, unpack
from typing import ClassVar, NamedTuple

from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of
from fuzz.protocol.contract import (
    Contract,
    KindLayout,
    Layout,
    Range,
    SamplingRule,
    Setting,
    chosen_settings,
)
from fuzz.protocol.counting import Streams
from fuzz.protocol.observation import Observation
from fuzz.targets.ocaml.ocaml_command import OCAML
from fuzz.targets.process.asked_process import AskedProcess
from fuzz.targets.process.serve import serve

WORD_BYTES = 8
LAYOUT = Layout(
    kinds={
        "node": KindLayout(type_index=1, fixed_bytes=6 * WORD_BYTES),
        "string": KindLayout(2, fixed_bytes=3 * WORD_BYTES, item_bytes=WORD_BYTES),
        "array": KindLayout(3, fixed_bytes=2 * WORD_BYTES, item_bytes=WORD_BYTES),
    },
    large_object_bytes=258 * WORD_BYTES,
    word_bytes=WORD_BYTES,
    object_bytes_max=2**16,
    nonmovable="ignored",
)
"""With their headers. A node is allocated by compiled code, the others by the runtime."""
SETTINGS = (
    Setting("minor_heap_words", 4096, Range(4096, 2**18), choices=(4096, 4096, 2**15, 2**18)),
    Setting("sampler_seed", 0, Range(0, 64)),
)
"""The seed is how many batches of numbers were drawn before: the generator has no other."""
PERIODS = Range(WORD_BYTES, 2**20, WORD_BYTES)
OBSERVES = ("samples", "minors", "size", "value", "graph")
MESSAGE = Struct("=8q")
WALK, SKIP = 13, 14


def contract_under(version: str, minor_heap_words: int, seed: int) -> Contract:
    """What Memprof of OCaml 4.13 does as it is built."""
    return Contract(
        nursery_bytes=minor_heap_words * WORD_BYTES,
        layout=LAYOUT,
        actions=tuple(map(name_of, OcamlTarget.CARRY_OUT)),
        observes=OBSERVES,
        sampling=SamplingRule(
            period_bytes=PERIODS,
            crosses="at",
            counting=Streams(
                postponed=("string", "array"), renewed_by=("collections", "callbacks")
            ),
            disabling=("drop",),
            distances="ocaml",
            seeds=(seed,),
        ),
        settings=SETTINGS,
        version=f"OCaml {version}",
    )


class OcamlAnswer(NamedTuple):
    """What the mutator says: what came of it, and of each block that was sampled how often."""

    values: tuple[int, ...]
    collections: int
    told: tuple[int, ...]


class OcamlMutator(AskedProcess):
    """A process of the mutator's program."""

    def __init__(self, program: str, minor_heap_words: int) -> None:
        super().__init__([program], {"OCAMLRUNPARAM": f"s={minor_heap_words}"})

    def ask(self, what: int, *numbers: int) -> OcamlAnswer:
        """Raises EOFError if the process has ended, ValueError if that cannot be done."""
        self.send(MESSAGE.pack(what, *numbers, *[0] * (7 - len(numbers))))
        [count] = unpack("=q", self.receive(8))
        answer = unpack(f"={count - 1}q", self.receive(8 * (count - 1)))
        if answer[0] < 0:
            raise ValueError("OCaml cannot do that")
        values, (collections, *told) = answer[1 : answer[0] + 1], answer[answer[0] + 1 :]
        return OcamlAnswer(values, collections, tuple(told))


class OcamlTarget:
    """See Target."""

    name = OCAML

    def __init__(self, program: str, version: str) -> None:
        self._program = program
        self._version = version
        self.mutator: OcamlMutator | None = None

    def close(self) -> None:
        """End the process of the last trace."""
        if self.mutator is not None:
            self.mutator.close()

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """Raises BadInputError for a setting that the contract does not allow."""
        chosen = chosen_settings(configuration, SETTINGS)
        self.close()
        self.mutator = OcamlMutator(self._program, chosen["minor_heap_words"])
        answer = self.mutator.ask(SKIP, chosen["sampler_seed"])
        self._collections = answer.collections
        return contract_under(self._version, chosen["minor_heap_words"], chosen["sampler_seed"])

    def perform(self, action: Action) -> Observation:
        """What goes wrong is an answer, also the end of the process."""
        said = Observation()
        try:
            self._run(action, said)
        except Exception as problem:  # noqa: BLE001 - also what nobody thought of is an answer
            return Observation(error=f"{type(problem).__name__}: {problem}")
        return said

    def _run(self, action: Action, said: Observation) -> None:
        carry_out = self.CARRY_OUT.get(type(action))
        if carry_out is None or action.thread:
            what = name_of(type(action))
            raise ValueError(f"{self.name} carries out no {what} in thread {action.thread}")
        assert self.mutator is not None
        answer = self.mutator.ask(*carry_out(action))
        self._tell(action, answer, said)
        if said.minors:
            said.graph = _graph(self.mutator.ask(WALK).values)

    def _tell(self, action: Action, answer: OcamlAnswer, said: Observation) -> None:
        said.minors = answer.collections - self._collections
        self._collections = answer.collections
        if action.allocates:
            said.size = answer.values[0] * WORD_BYTES
        if answer.told:
            words, said.samples = answer.told
            if words * WORD_BYTES != said.size:
                raise ValueError(f"a block of {words} words was sampled, which nobody made")
        if isinstance(action, actions.CheckHeap):
            said.graph = _graph(answer.values)
        elif isinstance(action, actions.Read):
            said.value = None if answer.values[0] < 0 else answer.values[0]
        elif isinstance(action, actions.ReadNumber):
            said.value = _joined(*answer.values)

    CARRY_OUT: ClassVar[Mapping[type[Action], Callable[..., tuple[int, ...]]]] = {
        actions.AllocateNode: lambda each: (0, *_halves(each.number)),
        actions.AllocateString: lambda each: (1, each.length),
        actions.AllocateArray: lambda each: (2, each.length),
        actions.Free: lambda each: (3, each.root),
        actions.Read: lambda each: (4, each.root, each.field),
        actions.Write: lambda each: (
            *(5, each.root, each.field),
            -1 if each.value is None else each.value,
        ),
        actions.ReadNumber: lambda each: (6, each.root),
        actions.WriteNumber: lambda each: (7, each.root, *_halves(each.number)),
        actions.CopyArray: lambda each: (
            *(8, each.source, each.dest, each.source_start, each.dest_start, each.length),
        ),
        actions.CollectMinor: lambda _: (9,),
        actions.CollectFull: lambda _: (10,),
        actions.EnableSampling: lambda each: (11, each.period_bytes // WORD_BYTES),
        actions.DisableSampling: lambda _: (12,),
        actions.CheckHeap: lambda _: (WALK,),
    }
    """What the mutator is asked for each action."""


def _halves(number: int) -> tuple[int, int]:
    """An integer of OCaml's has a bit less than one of the protocol's."""
    return number & 2**32 - 1, number >> 32


def _joined(low: int, high: int) -> int:
    return low | high << 32


def _graph(values: tuple[int, ...]) -> list[list[int]]:
    graph = []
    numbers = iter(values)
    for count in numbers:
        kind, low, high, *references = (next(numbers) for _ in range(count))
        graph.append([kind, _joined(low, high), *references])
    return graph


if __name__ == "__main__":
    target = OcamlTarget(*sys.argv[1:])
    serve(target, sys.stdin, sys.stdout)
    target.close()
