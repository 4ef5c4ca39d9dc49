"""What profiling costs and how right it is: the runs behind `python benchmarks/profiling.py`.

A speed is a ratio of two runs, one after the other, with a recorder and on a plain heap, so that
what the machine does meanwhile is done to both. Seconds are those of the processor, which do not
count who else uses it. Invariant: samples of allocations, and what is estimated from them, are the
same in every run and on every machine.
"""

from __future__ import annotations

import gc
import multiprocessing
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from datetime import UTC, date, datetime
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
from exact_heap import ExactHeap

from fuzz.profiling.programs import ProgramSource
from gcmodel.collector.heap import Heap
from gcmodel.memory.configuration import PERIOD_BYTES_MAX
from gcmodel.profiling.cost import Cost, cost_of
from gcmodel.profiling.estimates import Bounds, estimates
from gcmodel.profiling.recording import RecordingWriter, read
from gcmodel.profiling.sampled_run import PROFILED, Program

PERIODS_BYTES = tuple(128 * 4**power for power in range(6))
RATES_PER_SECOND = (100, 250, 500, 1000, 2000)
LOOP_BYTES = 2272
"""Four rounds of the workload `allocate`, with which samples that are so far apart fall in step."""
ESTIMATED_PERIODS_BYTES = (512, 2048, LOOP_BYTES, 8192, 32768, 131_072, 524_288)
CONFIDENCE = 0.95
COMMON_SHARE = 0.05
"""Types with fewer of a workload's bytes are hit too seldom for long periods to be compared."""
NO_LIMIT_BYTES = 2**40
KIB = 2**10


@attrs.frozen
class Workload:
    """A program and its name."""

    name: str
    run: Program


# Speeds.


@attrs.frozen(kw_only=True)
class Variant:
    """How a program is run. Without a recorder `period_bytes` is None."""

    name: str
    period_bytes: int | None = PERIOD_BYTES_MAX
    time_period_us: int | None = None


def named_bytes(size_bytes: int) -> str:
    """So many bytes, a power of two, in KiB if there is one."""
    return f"{size_bytes} B" if size_bytes < KIB else f"{size_bytes // KIB} KiB"


PLAIN = Variant(name="no recorder", period_bytes=None)
NO_SAMPLES = Variant(name="no samples")
BY_PERIOD = tuple(
    Variant(name=named_bytes(period_bytes), period_bytes=period_bytes)
    for period_bytes in PERIODS_BYTES
)
# As in the paper, a run is sampled by allocation or by time, and not by both.
BY_RATE = tuple(
    Variant(name=f"{rate:,}/s", time_period_us=1_000_000 // rate) for rate in RATES_PER_SECOND
)
COMPARED = (*BY_PERIOD[:3], BY_RATE[RATES_PER_SECOND.index(1000)])
"""What takes so many samples that the cost of one can be told from noise."""
VARIANTS = (PLAIN, NO_SAMPLES, *BY_PERIOD, *BY_RATE)


@attrs.frozen(kw_only=True)
class Run:
    """One run of a workload beside one on a plain heap."""

    workload: str
    variant: Variant
    seconds: float
    plain_seconds: float
    samples: int
    """Of allocations and of moments together; an object that is hit twice is one sample."""
    recording_bytes: int

    @property
    def overhead(self) -> float:
        """The paper's: runtime_with_sampling / runtime_without_sampling."""
        return self.seconds / self.plain_seconds

    @property
    def samples_per_second(self) -> float:
        """Of the run that is sampled, as in the paper."""
        return self.samples / self.seconds

    @property
    def paper_overhead_at_1000(self) -> float:
        """The paper's formula, with its samples per second: 1 + (overhead - 1) / rate * 1000."""
        return 1 + (self.overhead - 1) / self.samples_per_second * 1000

    @property
    def overhead_at_1000(self) -> float:
        """What 1,000 samples for each second of the plain program cost, in terms of that second.

        The paper divides what is added to a second of the plain program by the samples in a second
        of the sampled one, which lasts longer: its figure is higher, by the factor `overhead`.
        """
        return 1 + (self.seconds - self.plain_seconds) / self.samples * 1000


def runs_of(workload: Workload, repeats: int) -> Iterator[Run]:
    """Every variant so often. Each plain run stands between the two that it is compared with."""
    for turn in range(repeats):
        # In an order that differs, so that no variant is always behind the same other.
        order = random.Random(turn).sample(VARIANTS, len(VARIANTS))  # noqa: S311 - no secret
        for first in range(0, len(order), 2):
            before, *after = order[first : first + 2]
            runs = [_run(workload, before)]
            plain_seconds = _plain_seconds(workload)
            runs += [_run(workload, variant) for variant in after]
            yield from (attrs.evolve(run, plain_seconds=plain_seconds) for run in runs)


def _run(workload: Workload, variant: Variant) -> Run:
    """A run that has nothing beside it yet."""
    samples = recording_bytes = 0
    if variant.period_bytes is None:
        seconds = _plain_seconds(workload)
    else:
        source = _source(workload, variant.period_bytes, time_period_us=variant.time_period_us)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "recording"
            seconds = _processor_seconds(lambda: _record(source, path))
            profile, recording_bytes = read(path), path.stat().st_size
        samples = len(profile.samples) + len(profile.time_samples)
    return Run(
        workload=workload.name,
        variant=variant,
        seconds=seconds,
        plain_seconds=seconds,
        samples=samples,
        recording_bytes=recording_bytes,
    )


def _source(
    workload: Workload,
    period_bytes: int,
    *,
    time_period_us: int | None = None,
    seed: int | None = None,
) -> ProgramSource:
    """A workload as `gcfuzz profile` records it; with a seed, with random distances."""
    return ProgramSource(
        name=workload.name,
        program=workload.run,
        script=None,
        repeat=1,
        is_random=seed is not None,
        seed=seed or 0,
        period_bytes=period_bytes,
        time_period_us=time_period_us,
    )


def _record(source: ProgramSource, path: Path) -> None:
    with RecordingWriter(path, source.header(), NO_LIMIT_BYTES) as writer:
        source.record(writer, lambda _recorder: None)


def _plain_seconds(workload: Workload) -> float:
    return _processor_seconds(lambda: workload.run(Heap(PROFILED)))


def _processor_seconds(work: Callable[[], object]) -> float:
    gc.collect()  # What earlier runs left is no cost of this one.
    began = time.process_time()
    work()
    return time.process_time() - began


# Estimates.


@attrs.frozen(kw_only=True)
class Estimated:
    """The bytes of one type in one run, as estimated and as they are."""

    workload: str
    type: str
    period_bytes: int
    true_bytes: int
    estimated_bytes: int
    bounds: Bounds | None
    """None for fixed distances, which have none."""

    @property
    def ratio(self) -> float:
        """Estimate to truth."""
        return self.estimated_bytes / self.true_bytes

    @property
    def is_random(self) -> bool:
        """Whether the distances between samples were random."""
        return self.bounds is not None

    @property
    def is_held(self) -> bool:
        """Whether the truth lies within the bounds."""
        bounds = self.bounds
        return bounds is not None and bounds.low_bytes <= self.true_bytes <= bounds.high_bytes


def estimates_of(workload: Workload, seeds: int, pool: Executor) -> Iterator[Estimated]:
    """Each period with fixed distances, and with so many sequences of random ones.

    No two of these have the same seed: with one seed for all periods, if one estimate were too
    high all would be. They are made by many processes, since nothing of it is a speed.
    """
    heap = ExactHeap(PROFILED)
    workload.run(heap)
    sources = [_source(workload, period_bytes) for period_bytes in ESTIMATED_PERIODS_BYTES]
    sources += [
        _source(workload, period_bytes, seed=seed)
        for index, period_bytes in enumerate(ESTIMATED_PERIODS_BYTES)
        for seed in range(index * seeds, (index + 1) * seeds)
    ]
    for each in pool.map(_estimated, sources, repeat(heap.bytes_by_type)):
        yield from each


def _estimated(source: ProgramSource, true_bytes: Counter[str]) -> list[Estimated]:
    """All types in one run, also those that no sample hit."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recording"
        _record(source, path)
        profile = read(path)
    by_type = ((each.type, each) for each in profile.samples)
    found = estimates(profile, by_type, CONFIDENCE, true_bytes)
    return [
        Estimated(
            workload=source.name,
            type=each,
            period_bytes=source.period_bytes,
            true_bytes=true_bytes[each],
            estimated_bytes=found[each].bytes,
            bounds=found[each].bounds,
        )
        for each in true_bytes
    ]


# All of it.


@attrs.frozen(kw_only=True)
class Evaluation:
    """What was found, in the order of the workloads."""

    began: date
    commit: str
    repeats: int
    seeds: int
    costs: dict[str, Cost]
    """What each workload allocates, by its name."""
    runs: list[Run]
    estimates: list[Estimated]

    def runs_of(self, workload: str, variant: Variant) -> list[Run]:
        """All runs of a workload in one way."""
        return [run for run in self.runs if (run.workload, run.variant) == (workload, variant)]

    def common_estimates(self, workload: str) -> list[Estimated]:
        """The estimates for types that have COMMON_SHARE of a workload's bytes or more."""
        fewest_bytes = COMMON_SHARE * self.costs[workload].allocated_bytes
        return [
            each
            for each in self.estimates
            if each.workload == workload and each.true_bytes >= fewest_bytes
        ]


def evaluate(workloads: Sequence[Workload], repeats: int, seeds: int) -> Evaluation:
    """Run everything."""
    began, commit = datetime.now(UTC).date(), _commit()
    costs = {workload.name: cost_of(workload.run) for workload in workloads}
    runs = [run for workload in workloads for run in runs_of(workload, repeats)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        estimates = [each for workload in workloads for each in estimates_of(workload, seeds, pool)]
    return Evaluation(
        began=began,
        commit=commit,
        repeats=repeats,
        seeds=seeds,
        costs=costs,
        runs=runs,
        estimates=estimates,
    )


def _commit() -> str:
    """The commit that is measured, and whether something was changed since."""
    ran = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - whichever git there is
        cwd=Path(__file__).parent,
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.strip()
