"""The driver of `tcmalloc`: `python -m fuzz.targets.tcmalloc.driver NAME [PROGRAM]`.

A header frees the blocks of the last trace, and sets the generator of each thread's sampler to the
state that TCMalloc gives it for a seed. TCMalloc draws the first distance itself. After that the
driver reads no sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from typing_extensions import override

from fuzz.protocol import actions
from fuzz.protocol.contract import Contract
from fuzz.targets.allocators.block_driver import BlockDriver
from fuzz.targets.process.driver import CarryOut, without
from fuzz.targets.process.threads import Result
from fuzz.targets.tcmalloc.contract import BLOCK_BYTES_MAX, SETTINGS, contract
from fuzz.targets.tcmalloc.tcmalloc_program import TcmallocProgram

STEPS_OF_A_SEED = 20
"""The steps of a generator before its first draw: `Sampler::Init` in tcmalloc/sampler.cc."""


class TcmallocDriver(BlockDriver[TcmallocProgram, int]):
    """TCMalloc. Sampling is always on."""

    settings = SETTINGS
    block_bytes_max = BLOCK_BYTES_MAX
    load = TcmallocProgram
    CARRY_OUT: ClassVar[CarryOut] = {
        **without(BlockDriver.CARRY_OUT, actions.PauseSampling, actions.ResumeSampling),
        actions.ReadProfile: lambda driver, _: driver.read_profile(),
    }

    def __init__(self, name: str, *library_name: str) -> None:
        super().__init__(name, *library_name)
        self._of_program = 0, 0
        """The profile when the trace began: what the program itself has allocated."""

    @override
    def run(self, thread: int, work: Callable[[], Result]) -> Result:
        """The threads are the program's, and take turns."""
        self.library.thread = thread
        return work()

    def find_sampler(self) -> int:
        return self.library.find_sampler()

    def begin_samplers(self, chosen: Mapping[str, int]) -> Contract:
        first = chosen["sampler_seed"]
        seeds = tuple(range(first, first + chosen["threads"]))
        self.set_period(chosen["period_bytes"])
        for thread, seed in enumerate(seeds):
            self.library.thread = thread
            self.library.begin(self.samplers[thread], state_after(seed))
        self._of_program = self.library.read_profile()
        return contract(self.actions, chosen["period_bytes"], seeds)

    def read_profile(self) -> list[int]:
        pairs = zip(self.library.read_profile(), self._of_program, strict=True)
        return [now - before for now, before in pairs]

    def allocated(self, thread: int, call: Callable[[], int]) -> int:
        address = call()
        answer = self.library.answer
        self.observation.samples = answer.samples
        self.observation.weights = [round(answer.weight_bytes)] * answer.samples
        return address

    def set_period(self, period_bytes: int) -> None:
        self.library.set_period(period_bytes)


def state_after(seed: int) -> int:
    """The state of a generator that has started from a seed."""
    for _ in range(STEPS_OF_A_SEED):
        seed = (0x5DEECE66D * seed + 0xB) % 2**48
    return seed


if __name__ == "__main__":
    TcmallocDriver.main()
