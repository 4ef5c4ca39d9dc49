"""The page of `python benchmarks/profiling.py`: its tables, and how to read them, as Markdown.

Invariant: every figure is computed; the sentences hold for whatever was measured.
"""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence

from profiling_runs import (
    BY_PERIOD,
    BY_RATE,
    COMMON_SHARE,
    COMPARED,
    CONFIDENCE,
    ESTIMATED_PERIODS_BYTES,
    KIB,
    LOOP_BYTES,
    NO_SAMPLES,
    PLAIN,
    Estimated,
    Evaluation,
    Run,
    Variant,
)

MIB = 2**20


def page(evaluation: Evaluation, plots: str) -> str:
    """The page. Its plots are in the folder `plots`, as seen from it."""
    return f"""\
# What profiling costs, and how right it is

{evaluation.began}, {_python()}, {os.cpu_count()} cores, commit {evaluation.commit}.
`python benchmarks/profiling.py` writes this page and its plots. It repeats for the reference's
recorder what Jung and Bolz-Tereick do in Low Overhead Allocation Sampling in a Garbage Collected
Virtual Machine (JOT 2026), section 5; the headings name its figures.

An overhead is a run's time with sampling, divided by that of the run without it that is next to it;
both are the processor's. A cell has the median of {evaluation.repeats} runs, the lowest and the
highest. "{PLAIN.name}" divides two plain runs: so far the machine alone moves a ratio.
"{NO_SAMPLES.name}" is a recorder that hears of collections and of nothing else.

## Overhead by sampling period (figure 8)

![Overhead by sampling period]({plots}/overhead-by-period.svg)

{_overheads(evaluation, (*BY_PERIOD, NO_SAMPLES, PLAIN))}

## Overhead by time sampling (figure 9)

![Overhead by time sampling]({plots}/overhead-by-time.svg)

{_overheads(evaluation, (PLAIN, NO_SAMPLES, *BY_RATE))}

## Overhead of 1,000 samples a second (figure 10)

The paper's formula is 1 + (overhead - 1) / samples per second * 1000. The overhead is what is added
to a second of the plain program, but the samples are those of a second of the sampled one, which
lasts longer: the formula says too much, by the factor `overhead`. "Normalised" divides by the
samples for each second of the plain program instead, so that it is the cost of one sample, a
thousand times, whatever the overhead was. Both have in them what a recorder costs without samples.

![Overhead of 1,000 samples a second]({plots}/normalised-overhead.svg)

{_normalised(evaluation)}

The paper has a period of 32 KiB, with which PyPy takes 8,000 to 53,000 samples a second. The
reference allocates about a thousandth as fast, so shorter periods give such rates here; at 32 KiB a
few hundred samples add less than what the machine does.

## What the workloads allocate (figure 11)

Without sampling. MiB/s are of this machine; the ratios are to the workload that allocates fastest.

{_allocations(evaluation)}

## How large recordings become

In KiB; in parentheses the forecast that `gcfuzz profile` makes before it records, divided by that.
A forecast allows up to 64 KiB for the names of functions and their stacks, and more where a program
goes on to have new ones; 1 or more is right.

{_sizes(evaluation)}

## Estimate and truth by period

The bytes of each type as its samples tell, compared with a count. Random distances have a new seed
in each of {evaluation.seeds} runs. "Within bounds" are the types and runs whose truth lies in the
{CONFIDENCE:.0%} interval: that share should be {CONFIDENCE:.0%} or more, but of a hundred chance
alone moves it by two, and now and then by five. The errors are of types with {COMMON_SHARE:.0%} of
their workload's bytes or more: the median, and the largest.

The period of {LOOP_BYTES:,} B, "loop" in the plot, is four rounds of `allocate`. Fixed distances,
which are the paper's, then hit the same object in every fourth round and no other ever, and nothing
in the profile tells. Where they are in step with nothing they are even, and nearer to the truth
than chance is; but no bounds say which of the two it was.

![Estimate divided by truth, by period]({plots}/estimates.svg)

{_estimates(evaluation)}
"""


def _python() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _by_workload(
    evaluation: Evaluation, variants: Iterable[Variant], cell: Callable[[list[Run]], str]
) -> str:
    """A row a variant, a column a workload."""
    rows = [
        [variant.name, *(cell(evaluation.runs_of(name, variant)) for name in evaluation.costs)]
        for variant in variants
    ]
    return _table(["", *evaluation.costs], rows)


def _overheads(evaluation: Evaluation, variants: Iterable[Variant]) -> str:
    def cell(runs: list[Run]) -> str:
        ratios = [run.overhead for run in runs]
        return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"

    return _by_workload(evaluation, variants, cell)


def _normalised(evaluation: Evaluation) -> str:
    header = ["", "sampled", "samples/s", "overhead", "the paper's formula", "normalised"]
    rows = []
    for name in evaluation.costs:
        for variant in COMPARED:
            runs = evaluation.runs_of(name, variant)
            rate = statistics.median(run.samples_per_second for run in runs)
            ratios = (
                statistics.median(run.overhead for run in runs),
                statistics.median(run.paper_overhead_at_1000 for run in runs),
                statistics.median(run.overhead_at_1000 for run in runs),
            )
            rows.append([name, variant.name, f"{rate:,.0f}", *(f"{each:.3f}" for each in ratios)])
    return _table(header, rows)


def _allocations(evaluation: Evaluation) -> str:
    seconds = {
        name: statistics.median(run.plain_seconds for run in evaluation.runs_of(name, PLAIN))
        for name in evaluation.costs
    }
    rates = {
        name: cost.allocated_bytes / MIB / seconds[name] for name, cost in evaluation.costs.items()
    }
    fastest = max(rates, key=rates.__getitem__)
    header = ["", "run time, ratio", "MiB allocated", "MiB/s", "rate, ratio", "collections"]
    rows = [
        [
            name,
            f"{seconds[name] / seconds[fastest]:.2f}",
            f"{cost.allocated_bytes / MIB:.1f}",
            f"{rates[name]:.1f}",
            f"{rates[name] / rates[fastest]:.2f}",
            f"{cost.collections:,}",
        ]
        for name, cost in evaluation.costs.items()
    ]
    return _table(header, rows)


def _sizes(evaluation: Evaluation) -> str:
    def cell(runs: list[Run]) -> str:
        actual_bytes = statistics.median(run.recording_bytes for run in runs)
        plan = runs[0].variant
        assert plan.period_bytes is not None
        cost = evaluation.costs[runs[0].workload]
        forecast_bytes = cost.recording_bytes(plan.period_bytes, plan.time_period_us)
        return f"{actual_bytes / KIB:,.0f} ({forecast_bytes / actual_bytes:.2f})"

    return _by_workload(evaluation, (*BY_PERIOD, NO_SAMPLES, *BY_RATE), cell)


def _estimates(evaluation: Evaluation) -> str:
    common = [each for name in evaluation.costs for each in evaluation.common_estimates(name)]
    rows = []
    for period_bytes in ESTIMATED_PERIODS_BYTES:
        judged = [
            each.is_held
            for each in evaluation.estimates
            if each.is_random and each.period_bytes == period_bytes
        ]
        errors = [
            _errors(each for each in common if (each.is_random, each.period_bytes) == wanted)
            for wanted in ((True, period_bytes), (False, period_bytes))
        ]
        share = f"{sum(judged)} of {len(judged)} ({sum(judged) / len(judged):.1%})"
        rows.append([f"{period_bytes:,} B", share, *errors])
    return _table(["", "within bounds", "error, random", "error, fixed"], rows)


def _errors(estimates: Iterable[Estimated]) -> str:
    errors = [abs(each.ratio - 1) for each in estimates]
    return f"{statistics.median(errors):.1%} ({max(errors):.0%})"
