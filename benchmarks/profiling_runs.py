"""What profiling costs and how right it is: the runs behind `python benchmarks/profiling.py`.

Costs are instructions, which Valgrind counts and no other program on the machine changes, and
beside them the processor's seconds, of so many runs that their median has bounds. Invariant:
samples of allocations, and what is estimated from them, are the same in every run and on every
machine.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import attrs
from exact_heap import ExactHeap

from gcmodel.collector.heap import Heap
from gcmodel.memory.configuration import PERIOD_BYTES_MAX
from gcmodel.profiling.cost import Cost, cost_of
from gcmodel.profiling.estimates import CONFIDENCE, Bounds, estimates
from gcmodel.profiling.profile import Profile, ProfileHeader
from gcmodel.profiling.recording import RecordingWriter, read
from gcmodel.profiling.sampled_run import PROFILED, Program, record
from gcmodel.workloads import allocate, expressions, gcbench, interpreter
from gcmodel.workloads.scopes import Scope

KIB = 2**10
PERIODS_BYTES = tuple(256 * 4**power for power in range(5))
HEADLINE_BYTES = 4 * KIB
"""What 4 MB are to PyPy, which allocates about a thousand times as fast as the reference."""
LOOP_BYTES = 2272
"""Four rounds of the workload `allocate`, with which samples that are so far apart fall in step."""
ESTIMATED_PERIODS_BYTES = (KIB, LOOP_BYTES, *PERIODS_BYTES[2:])
COMMON_SHARE = 0.05
"""Types with fewer of a workload's bytes are hit too seldom for long periods to be compared."""
NO_LIMIT_BYTES = 2**40
VALGRIND = (
    *("valgrind", "--quiet", "--tool=cachegrind", "--cache-sim=no"),
    "--cachegrind-out-file={folder}/%p",
)
CHILD = "import profiling_runs; profiling_runs.carry_out_all()"

BEFORE, AFTER = "expressions, before", "expressions, after"
ROUNDS = 40
SMALL = gcbench.Size(
    stretch_depth=8, long_lived_depth=6, max_depth=8, nodes_per_depth=6000, array_length=400
)
WORKLOADS: dict[str, Program] = {
    "gcbench": partial(gcbench.run, size=SMALL),
    "expressions": partial(expressions.run, rounds=ROUNDS),
    "interpreter": partial(interpreter.run, sieve_limit=900, fibonacci_of=15),
    "allocate": partial(allocate.run, rounds=2000),
}
"""The programs of `gcfuzz profile`, a twentieth of their usual size, since each runs often."""


def boxed_expressions(heap: Heap, rounds: int) -> None:
    """The workload `expressions` as it was: each value that it computes is a constant in the heap.

    `evaluate` finds itself by its name, so this holds for the values of all subtrees.
    """
    unboxed = expressions.evaluate

    def evaluate(heap: Heap, tree: int) -> int:
        with Scope(heap):
            value = unboxed(heap, tree)
            return heap.read_number(expressions.make_constant(heap, value))

    with patch.object(expressions, "evaluate", evaluate):
        expressions.run(heap, rounds=rounds)


# How a program is run.


@attrs.frozen(kw_only=True)
class Variant:
    """How a program is run. Without a recorder `period_bytes` is None."""

    name: str
    period_bytes: int | None = PERIOD_BYTES_MAX
    seed: int | None = None
    """Of random distances; None for fixed ones."""
    time_period_us: int | None = None


def named_bytes(size_bytes: int) -> str:
    """So many bytes, a power of two, in KiB if there is one."""
    return f"{size_bytes} B" if size_bytes < KIB else f"{size_bytes // KIB} KiB"


PLAIN = Variant(name="no recorder", period_bytes=None)
PLAIN_AGAIN = Variant(name="no recorder, again", period_bytes=None)
NO_SAMPLES = Variant(name="no samples")
BY_PERIOD = tuple(
    Variant(name=named_bytes(each), period_bytes=each, seed=1) for each in PERIODS_BYTES
)
OFTEN, HEADLINE = BY_PERIOD[0], BY_PERIOD[PERIODS_BYTES.index(HEADLINE_BYTES)]
FIXED = {
    each: attrs.evolve(each, name=f"{each.name}, fixed", seed=None) for each in (OFTEN, HEADLINE)
}
# As in the paper, a run is sampled by allocation or by time, and not by both. Under Valgrind a
# program takes so long that there are as many samples.
BY_TIME = Variant(name="by time", time_period_us=200)
BY_TIME_COUNTED = attrs.evolve(BY_TIME, time_period_us=5000)
COUNTED = (PLAIN, PLAIN_AGAIN, NO_SAMPLES, *BY_PERIOD, *FIXED.values(), BY_TIME_COUNTED)
TIMED = (PLAIN, NO_SAMPLES, HEADLINE, OFTEN, BY_TIME)


@attrs.frozen(kw_only=True)
class Run:
    """What one run took: instructions, or seconds of the processor."""

    workload: str
    variant: Variant
    cost: float
    samples: int = 0
    """Of allocations or of moments; an object that is hit twice is one sample."""
    recording_bytes: int = 0


def carry_out(name: str, program: Program, variant: Variant, path: Path) -> None:
    """One run, recorded as `gcfuzz profile` does it."""
    if variant.period_bytes is None:
        program(Heap(PROFILED))
        return
    is_random = variant.seed is not None
    header = ProfileHeader.of_now(
        name,
        period_bytes=variant.period_bytes,
        is_random=is_random,
        nursery_bytes=PROFILED.nursery_bytes,
        time_period_us=variant.time_period_us,
    )
    configuration = attrs.evolve(
        PROFILED, random_periods=is_random, sampler_seeds=(variant.seed or 0,)
    )
    with RecordingWriter(path, header, NO_LIMIT_BYTES) as writer:
        record(program, writer, configuration=configuration)


def _run(workload: str, variant: Variant, cost: float, path: Path) -> Run:
    if variant.period_bytes is None:
        return Run(workload=workload, variant=variant, cost=cost)
    profile = read(path)
    return Run(
        workload=workload,
        variant=variant,
        cost=cost,
        samples=len(profile.time_samples if variant.time_period_us else profile.samples),
        recording_bytes=path.stat().st_size,
    )


Job = tuple[str, Program, Variant]


def counted_runs(jobs: Sequence[Job]) -> list[Run]:
    """Each job once, with the instructions that it takes.

    One process under Valgrind forks another for each of them, and for nothing at all first: what
    that has counted, all others have, too.
    """
    with TemporaryDirectory() as folder:
        ran = subprocess.run(  # noqa: S603 - our own command
            [
                *(word.format(folder=folder) for word in VALGRIND),
                sys.executable,
                "-c",
                CHILD,
                folder,
            ],
            input=pickle.dumps(jobs),
            stdout=subprocess.PIPE,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "0"},
        )
        nothing, *counts = [
            _instructions(Path(folder) / str(pid)) for pid in json.loads(ran.stdout)
        ]
        return [
            _run(workload, variant, count - nothing, _recording(folder, number))
            for number, ((workload, _, variant), count) in enumerate(zip(jobs, counts, strict=True))
        ]


def carry_out_all() -> None:
    """In the process that Valgrind watches: the jobs from the standard input, each in a fork."""
    jobs: list[Job] = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own
    gc.collect()
    # Under Valgrind a signal may come late, when the timer has been stopped already.
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    pids = []
    for number in range(-1, len(jobs)):
        if not (pid := os.fork()):
            if number >= 0:
                carry_out(*jobs[number], _recording(sys.argv[1], number))
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0, jobs[number]
        pids.append(pid)
    print(json.dumps(pids))


def _recording(folder: str, number: int) -> Path:
    return Path(folder) / f"{number}.jsonl"


def _instructions(path: Path) -> int:
    """What Cachegrind has counted."""
    found = re.search(r"^summary: (\d+)", path.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def timed_runs(workload: str, program: Program, repeats: int) -> Iterator[dict[Variant, Run]]:
    """Every variant so often; those of a turn are next to each other, and done the same to."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recording"
        for turn in range(repeats):
            # In an order that differs, so that no variant is always behind the same other.
            order = random.Random(turn).sample(TIMED, len(TIMED))  # noqa: S311 - no secret
            runs = {}
            for variant in order:
                gc.collect()  # What earlier runs left is no cost of this one.
                began = time.process_time()
                carry_out(workload, program, variant, path)
                runs[variant] = _run(workload, variant, time.process_time() - began, path)
            yield runs


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


def estimates_of(workload: str, program: Program, seeds: Sequence[int]) -> Iterator[Estimated]:
    """Each period with fixed distances, and with random ones of all these seeds."""
    heap = ExactHeap(PROFILED)
    program(heap)
    for period_bytes in ESTIMATED_PERIODS_BYTES:
        for seed in (None, *seeds):
            variant = Variant(name="", period_bytes=period_bytes, seed=seed)
            yield from _estimated(recorded(workload, program, variant), heap.bytes_by_type)


def recorded(name: str, program: Program, variant: Variant) -> Profile:
    """The profile of one run."""
    with TemporaryDirectory() as folder:
        carry_out(name, program, variant, Path(folder) / "recording")
        return read(Path(folder) / "recording")


def _estimated(profile: Profile, true_bytes: Counter[str]) -> Iterator[Estimated]:
    """All types in one run, also those that no sample hit."""
    by_type = ((each.type, each) for each in profile.samples)
    found = estimates(profile, by_type, CONFIDENCE, true_bytes)
    for each in true_bytes:
        yield Estimated(
            workload=profile.header.program,
            type=each,
            period_bytes=profile.header.period_bytes,
            true_bytes=true_bytes[each],
            estimated_bytes=found[each].bytes,
            bounds=found[each].bounds,
        )


# All of it.


@attrs.frozen
class Measured:
    """The median of some figures, and its bounds with CONFIDENCE, which two of them are."""

    median: float
    low: float
    high: float


@attrs.frozen(kw_only=True)
class Evaluation:
    """What was found, in the order of the workloads."""

    began: date
    commit: str
    repeats: int
    seeds: int
    costs: dict[str, Cost]
    """What each workload allocates, by its name, and the case before and after."""
    counted: dict[tuple[str, Variant], Run]
    """One run each, in instructions."""
    timed: dict[str, list[dict[Variant, Run]]]
    """The turns of each workload, in seconds."""
    estimates: list[Estimated]
    case: dict[str, Profile]
    """Expressions as they were, and as they are."""

    def instructions(self, workload: str, variant: Variant) -> float:
        """Times as many as without a recorder."""
        return self.counted[workload, variant].cost / self.counted[workload, PLAIN].cost

    def instructions_a_sample(self, workload: str, variant: Variant) -> float:
        """What one sample costs."""
        run = self.counted[workload, variant]
        return (run.cost - self.counted[workload, NO_SAMPLES].cost) / max(run.samples, 1)

    def seconds(self, workload: str, variant: Variant) -> list[float]:
        """Times as many as without a recorder, in each turn."""
        return [turn[variant].cost / turn[PLAIN].cost for turn in self.timed[workload]]

    def us_a_sample(self, workload: str, variant: Variant) -> list[float]:
        """What one sample costs, in each turn."""
        return [
            # In a few milliseconds there may be none.
            (turn[variant].cost - turn[NO_SAMPLES].cost) / max(turn[variant].samples, 1) * 1e6
            for turn in self.timed[workload]
        ]

    def plain_seconds(self, workload: str) -> float:
        """The median run without a recorder."""
        return measured(turn[PLAIN].cost for turn in self.timed[workload]).median

    def common_estimates(self, workload: str) -> list[Estimated]:
        """The estimates for types that have COMMON_SHARE of a workload's bytes or more."""
        fewest_bytes = COMMON_SHARE * self.costs[workload].allocated_bytes
        return [
            each
            for each in self.estimates
            if each.workload == workload and each.true_bytes >= fewest_bytes
        ]


def measured(figures: Iterable[float]) -> Measured:
    """The median, and two figures between which that of all possible runs lies.

    On each side of it there are as many as there are heads in so many throws of a coin. Of fewer
    than six figures not even the outermost two are such bounds.
    """
    from scipy.stats import binom  # noqa: PLC0415 - not where Valgrind counts

    ordered = sorted(figures)
    count = len(ordered)
    left_out = max(int(binom.ppf((1 - CONFIDENCE) / 2, count, 0.5)) - 1, 0)
    median = (ordered[count // 2] + ordered[(count - 1) // 2]) / 2
    return Measured(median, ordered[left_out], ordered[count - 1 - left_out])


def evaluate(
    workloads: Mapping[str, Program], *, repeats: int, seeds: int, rounds: int = ROUNDS
) -> Evaluation:
    """Run everything, and `expressions` in so many rounds before and after. Needs Valgrind."""
    began, commit = datetime.now(UTC).date(), _commit()
    case: dict[str, Program] = {
        BEFORE: partial(boxed_expressions, rounds=rounds),
        AFTER: partial(expressions.run, rounds=rounds),
    }
    jobs = [(*item, variant) for item in workloads.items() for variant in COUNTED]
    jobs += [(*item, PLAIN) for item in case.items()]
    every_seed = count(1)
    return Evaluation(
        began=began,
        commit=commit,
        repeats=repeats,
        seeds=seeds,
        costs={name: cost_of(program) for name, program in {**workloads, **case}.items()},
        counted={(run.workload, run.variant): run for run in counted_runs(jobs)},
        timed={
            name: list(timed_runs(name, program, repeats)) for name, program in workloads.items()
        },
        estimates=[
            each
            for name, program in workloads.items()
            for each in estimates_of(name, program, list(islice(every_seed, seeds)))
        ],
        case={
            name: recorded(name, program, Variant(name="", period_bytes=512, seed=next(every_seed)))
            for name, program in case.items()
        },
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
