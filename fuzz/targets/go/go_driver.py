"""The program that is the target `go`, or `go-as-documented`, on its side of the pipe.

`python -m fuzz.targets.go.go_driver PROGRAM NAME` begins a process of the mutator's program, and
has it carry out the actions. Invariant: at a header all blocks are freed and the generator is set,
so that the sampler says the same wherever a trace stands in a session; after that none of it is
read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from random import Random

import attrs

from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of
from fuzz.protocol.contract import (
    Contract,
    Range,
    SamplingRule,
    Setting,
    chosen_settings,
    layout_of_blocks,
)
from fuzz.protocol.counting import ProfileRate
from fuzz.protocol.observation import Observation
from fuzz.targets.go import AS_DOCUMENTED, GO
from fuzz.targets.go.go_mutator import GoAnswer, GoAsk, GoMutator
from fuzz.targets.process.serve import serve

BLOCK_BYTES_MAX = 2**20
PAGE_BYTES = 8192
SHARED_BYTES, ONLY_EMPTY = 16, 1
SIZE_CLASSES = (
    *(8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320),
    *(352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792),
    *(2048, 2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472),
    *(9728, 10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264),
    *(28672, 32768),
)
PERIODS = Range(1, 2**30)
WHEN_ASKED, BY_ITSELF = range(2)
PERCENT = {WHEN_ASKED: -1, BY_ITSELF: 100}
"""By so much the heap grows until the collector runs."""
SETTINGS = (
    Setting("period_bytes", 2**12, PERIODS),
    Setting("collector", WHEN_ASKED, Range(WHEN_ASKED, BY_ITSELF), choices=(0, 0, 0, 1)),
    Setting("sampler_seed", 0, Range(0, 2**62)),
)
"""The rate from the beginning; whether the collector runs by itself; from which number the state of
the generator is drawn."""
ACTIONS = (actions.Malloc, actions.Free, actions.CollectFull)
SWITCHING = (
    *(actions.EnableSampling, actions.DisableSampling, actions.SetPeriod),
    actions.ReadProfile,
)


def contract_under(mutator: GoMutator, period_bytes: int, state: int) -> Contract:
    """What Go does as it is built, where the generator begins at `state`."""
    is_new = mutator.knows_rate
    return Contract(
        nursery_bytes=0,
        layout=attrs.evolve(
            layout_of_blocks(BLOCK_BYTES_MAX, SIZE_CLASSES, PAGE_BYTES), shared_bytes=SHARED_BYTES
        ),
        actions=tuple(map(name_of, ACTIONS + SWITCHING)),
        observes=("samples", "minors", "profile"),
        sampling=SamplingRule(
            period_bytes=PERIODS,
            crosses="beyond" if is_new else "at",
            surplus="dropped",
            samples_per_allocation="one",
            disabling=("drop",),
            enabling="keeps",
            counting=ProfileRate(
                new_period="samples" if is_new else "waits",
                certain_period_bytes=0 if is_new else 1,
                spent_numbers=mutator.spent_numbers,
            ),
            estimates="present_probability",
            distances="go_1_19" if mutator.is_wide else "go",
            seeds=(state,),
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
        version=mutator.version,
    )


def by_chance(contract: Contract, shared_bytes: int) -> Contract:
    """What is left of it where nobody knows what else has been allocated: samples are chance."""
    return attrs.evolve(
        contract,
        layout=attrs.evolve(contract.layout, shared_bytes=shared_bytes),
        actions=tuple(map(name_of, ACTIONS)),
        observes=("samples", "minors"),
        sampling=SamplingRule(
            period_bytes=PERIODS,
            surplus="dropped",
            samples_per_allocation="one",
            distances="random",
            initial_period_bytes=contract.sampling.initial_period_bytes,
        ),
    )


class GoTarget:
    """See Target."""

    def __init__(self, program: str, name: str = GO) -> None:
        self._program = program
        self.name = name
        self.mutator = GoMutator(program)

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """Raises BadInputError also if the program's Go is none that is known."""
        chosen = chosen_settings(configuration, SETTINGS)
        if self.mutator.has_ended:
            self.mutator.close()
            self.mutator = GoMutator(self._program)
        bits = 64 if self.mutator.is_wide else 32
        state = Random(chosen["sampler_seed"]).getrandbits(bits)  # noqa: S311 - no secret
        self.mutator.ask(GoAsk.SET_COLLECTOR, PERCENT[chosen["collector"]])
        self._rate = chosen["period_bytes"]
        self._collections = self.mutator.begin(chosen["period_bytes"], state).collections
        contract = contract_under(self.mutator, chosen["period_bytes"], state)
        if self.name == AS_DOCUMENTED:
            return by_chance(contract, ONLY_EMPTY)
        if chosen["collector"] == BY_ITSELF:
            return by_chance(contract, SHARED_BYTES)
        return contract

    def perform(self, action: Action) -> Observation:
        """Nothing that goes wrong ends the process."""
        try:
            return self._perform(action)
        except (EOFError, ValueError) as problem:
            return Observation(error=f"{type(problem).__name__}: {problem}")

    def _perform(self, action: Action) -> Observation:
        if action.thread:
            raise ValueError(f"there is no thread {action.thread}")
        said = Observation()
        match action:
            case actions.Malloc():
                answer = self.mutator.ask(GoAsk.ALLOCATE, action.size_bytes)
                said.samples = answer.value
            case actions.Free():
                answer = self.mutator.ask(GoAsk.FREE, action.root)
            case actions.EnableSampling():
                answer = self._set_rate(action.period_bytes)
            case actions.SetPeriod():
                answer = self._set_rate(action.period_bytes if self._rate else 0)
            case actions.DisableSampling():
                answer = self._set_rate(0)
            case actions.ReadProfile():
                answer = self.mutator.ask(GoAsk.PROFILE)
                said.profile = [answer.value, answer.more]
            case actions.CollectFull():
                answer = self.mutator.ask(GoAsk.COLLECT)
            case _:
                raise ValueError(f"{self.name} carries out no {name_of(type(action))}")
        return self._with_collections(said, answer)

    def _set_rate(self, rate: int) -> GoAnswer:
        self._rate = rate
        return self.mutator.ask(GoAsk.SET_RATE, rate)

    def _with_collections(self, said: Observation, answer: GoAnswer) -> Observation:
        said.minors = answer.collections - self._collections
        self._collections = answer.collections
        return said


if __name__ == "__main__":
    target = GoTarget(*sys.argv[1:])
    serve(target, sys.stdin, sys.stdout)
    target.mutator.close()
