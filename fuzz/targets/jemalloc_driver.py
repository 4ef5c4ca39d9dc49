"""The program that is the target `jemalloc`, on its side of the pipe.

`python -m fuzz.targets.jemalloc_driver`, in the environment that the library needs, carries out
actions with the stock libjemalloc.so.2. Each thread of the mutator is a thread of this process,
with jemalloc's own state for it; they take turns. Invariant: at a header all blocks are freed and
every thread's generator is set, so a trace says the same wherever it stands in a session.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

from fuzz.actions import (
    Action,
    Calloc,
    Free,
    Malloc,
    PauseSampling,
    Realloc,
    ResumeSampling,
    SetPeriod,
    name_of,
)
from fuzz.contract import (
    Contract,
    KindLayout,
    Layout,
    Range,
    SamplingRule,
    Setting,
    problem_of_configuration,
)
from fuzz.observation import Observation
from fuzz.problems import BadInputError
from fuzz.serve import serve
from fuzz.targets.jemalloc_library import Jemalloc, ThreadSampler

BLOCK_BYTES_MAX = 2**22
SIZE_CLASSES = (
    *(8, 16, 32, 48, 64),
    *(quarters << shift for shift in range(4, 20) for quarters in (5, 6, 7, 8)),
)
"""From 64 bytes up, four between one power of two and the next; as far as blocks go.
(jemalloc 5.3.0, src/sc.c)"""
PERIODS = tuple(1 << lg_period for lg_period in range(21))
SETTINGS = (
    Setting("period_bytes", 4096, Range(1, PERIODS[-1]), choices=PERIODS),
    Setting("threads", 2, Range(1, 4)),
    Setting("sampler_seed", 0, Range(0, 2**32)),
)
"""Those of `reference-jemalloc`, so that a trace of one can be replayed on the other."""
ACTIONS = (Malloc, Calloc, Realloc, Free, PauseSampling, ResumeSampling, SetPeriod)

Result = TypeVar("Result")


def contract_under(period_bytes: int, seeds: tuple[int, ...]) -> Contract:
    """What jemalloc 5.3.0 promises, in figures, where the threads' generators begin at `seeds`."""
    return Contract(
        nursery_bytes=0,
        layout=Layout(
            kinds={"block": KindLayout(type_index=1, fixed_bytes=0, item_bytes=1)},
            large_object_bytes=1,
            word_bytes=1,
            object_bytes_max=BLOCK_BYTES_MAX,
            size_classes=SIZE_CLASSES,
        ),
        actions=tuple(name_of(action) for action in ACTIONS),
        observes=("samples", "size"),
        sampling=SamplingRule(
            period_bytes=Range(1, PERIODS[-1]),
            periods=PERIODS,
            counts="size",
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            realloc="always",
            paused="counting",
            setting_period="drops",
            distances="jemalloc",
            seeds=seeds,
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
    )


class Mutator:
    """A thread of the mutator, which has jemalloc's state for it, and makes calls of its own.

    The first is the thread that makes it: to hand a call over costs as much as all the rest.
    """

    def __init__(self, jemalloc: Jemalloc, *, is_first: bool) -> None:
        self._executor = None if is_first else ThreadPoolExecutor(max_workers=1)
        self._sampler = self.run(lambda: ThreadSampler(jemalloc))

    def begin(self, seed: int) -> None:
        """See ThreadSampler."""
        self.run(lambda: self._sampler.begin(seed))

    def allocate(self, call: Callable[[], int]) -> tuple[int, int]:
        """See ThreadSampler."""
        return self.run(lambda: self._sampler.allocate(call))

    def run(self, call: Callable[[], Result]) -> Result:
        """Make a call in the thread, and wait for it."""
        return call() if self._executor is None else self._executor.submit(call).result()


class JemallocTarget:
    """See Target."""

    name = "jemalloc"

    def __init__(self) -> None:
        self._mutators: list[Mutator] = []
        self._blocks: list[int] = []
        self._carry_out: dict[type[Action], Callable[[Any], Observation]] = {
            Malloc: self._malloc,
            Calloc: self._calloc,
            Realloc: self._realloc,
            Free: self._free,
            PauseSampling: self._pause,
            ResumeSampling: self._resume,
            SetPeriod: self._set_period,
        }

    @cached_property
    def jemalloc(self) -> Jemalloc:
        """Loaded at the first header, whose answer can say why it cannot be."""
        return Jemalloc()

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """See Target."""
        problem = problem_of_configuration(configuration, SETTINGS)
        if problem:
            raise BadInputError(problem)
        jemalloc = self.jemalloc
        chosen = {setting.name: setting.default for setting in SETTINGS} | dict(configuration)
        first = chosen["sampler_seed"]
        seeds = tuple(range(first, first + chosen["threads"]))
        while self._blocks:
            jemalloc.free(self._blocks.pop())
        jemalloc.reset(lg_of(chosen["period_bytes"]))
        jemalloc.is_active = True
        while len(self._mutators) < len(seeds):
            self._mutators.append(Mutator(jemalloc, is_first=not self._mutators))
        for mutator, seed in zip(self._mutators, seeds, strict=False):
            mutator.begin(seed)
        return contract_under(chosen["period_bytes"], seeds)

    def perform(self, action: Action) -> Observation:
        """See Target."""
        return self._carry_out[type(action)](action)

    def _malloc(self, action: Malloc) -> Observation:
        return self._append(action, lambda: self.jemalloc.malloc(action.size_bytes))

    def _calloc(self, action: Calloc) -> Observation:
        return self._append(action, lambda: self.jemalloc.calloc(action.count, action.size_bytes))

    def _append(self, action: Action, call: Callable[[], int]) -> Observation:
        block, samples = self._mutators[action.thread].allocate(call)
        self._blocks.append(block)
        return Observation(samples=samples, size=self.jemalloc.usable_bytes(block))

    def _realloc(self, action: Realloc) -> Observation:
        old = self._blocks[action.root]
        block, samples = self._mutators[action.thread].allocate(
            lambda: self.jemalloc.realloc(old, action.size_bytes)
        )
        self._blocks[action.root] = block
        return Observation(samples=samples, size=self.jemalloc.usable_bytes(block))

    def _free(self, action: Free) -> Observation:
        block = self._blocks.pop(action.root)
        self._mutators[action.thread].run(lambda: self.jemalloc.free(block))
        return Observation()

    def _pause(self, action: PauseSampling) -> Observation:
        self.jemalloc.is_active = False
        return Observation()

    def _resume(self, action: ResumeSampling) -> Observation:
        self.jemalloc.is_active = True
        return Observation()

    def _set_period(self, action: SetPeriod) -> Observation:
        self.jemalloc.reset(lg_of(action.period_bytes))
        return Observation()


def lg_of(period_bytes: int) -> int:
    """The logarithm of a period, which is a power of two."""
    return period_bytes.bit_length() - 1


if __name__ == "__main__":
    serve(JemallocTarget(), sys.stdin, sys.stdout)
