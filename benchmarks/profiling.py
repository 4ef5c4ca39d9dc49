"""What profiling costs, and how right it is: `python benchmarks/profiling.py`.

It runs the workloads again and again, and writes a page with tables, how to read them, and plots.
Invariant: every figure is computed; the sentences hold for whatever was measured. Needs Valgrind
and the extra `evaluation`; takes a quarter of an hour of one processor.
"""

from __future__ import annotations

import io
import os
import platform
import statistics
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click
import profiling_runs as runs
from profiling_plots import draw_all
from rich.console import Console

from fuzz.profiling.screen import print_profile
from gcmodel.profiling.estimates import CONFIDENCE
from gcmodel.profiling.profile import Profile

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
NAME = "profiling"
MIB = 2**20
PYPY_RATE = 1450
"""6.06 GB/s by 4 MB: how many samples a second PyPy takes of its fastest program."""
HEADLINE = 0.25
THOUSAND_SAMPLES_A_SECOND = 1000 * 1e-6
"""Times the microseconds of one, the share of a second."""
COLUMNS, CASE_COLUMNS = 100, 90


def page(evaluation: runs.Evaluation, plots: str) -> str:
    """The page. Its plots are in the folder `plots`, as seen from it."""
    return f"""\
# What profiling costs, and how right it is

{evaluation.began}, {_python()}, {os.cpu_count()} cores, commit {evaluation.commit}.
`python benchmarks/profiling.py` writes this page and its plots. It repeats for the reference's
recorder what Jung and Bolz-Tereick do in Low Overhead Allocation Sampling in a Garbage Collected
Virtual Machine (JOT 2026), section 5; the headings name its figures.

The workloads are those of `gcfuzz profile`, a twentieth of their usual size, so that a hundred
seeds of each fit into minutes. **Instructions** are counted by Valgrind's Cachegrind, which no
other program on the machine changes: one run says it. They leave out what the kernel does, and
what a cache misses. So beside them stand the **processor's seconds**, of {evaluation.repeats}
turns, in which each variant runs once and is compared with the others of its turn: the median, and
in parentheses its {CONFIDENCE:.0%} bounds.

## The headline: 4 MB, at most 25 %

PyPy allocates 0.55 to 6.06 GB/s in the paper's figure 11, which are 130 to {PYPY_RATE:,} samples a
second with its headline's period of 4 MB. The reference allocates about a thousandth as fast, so a
period of {runs.HEADLINE.name}, which is the default, is for it what 4 MB are for PyPy. The last
column is what {PYPY_RATE:,} samples take of each second, by the cost of one (see below), however
fast a workload allocates.

{_headline(evaluation)}

## Overhead by sampling period (figure 8)

Instructions, divided by those without a recorder. Distances are random, which is the default, or
fixed where it says so. "{runs.NO_SAMPLES.name}" is a recorder that hears of collections and of
nothing else; "{runs.PLAIN_AGAIN.name}" says how well a count repeats itself. Between two variants a
hundredth means nothing: one with a few samples may take less than one with none.

![Overhead by sampling period]({plots}/overhead-by-period.svg)

{_overheads(evaluation)}

## Allocation against time sampling (figures 9 and 10)

What one sample costs: the run with samples, less the run with a recorder and none, divided by how
many there are. Allocations are sampled every {runs.OFTEN.name} on average, time every
{runs.BY_TIME.time_period_us} microseconds, or {runs.BY_TIME_COUNTED.time_period_us:,} under
Valgrind, where the program takes so much longer.

![The cost of one sample]({plots}/cost-of-a-sample.svg)

{_samples(evaluation)}

{_verdict(evaluation)}

In the last two columns a thousand samples for each second of the plain program, as a share of that
second: the paper's normalised overhead, less 1, but for its formula. That divides what is added to
a second of the plain program by the samples in a second of the sampled one, which lasts longer, and
so says too much, by the factor `overhead`.

## What the workloads allocate (figure 11)

Without sampling. MiB/s are of this machine; the ratios are to the workload that allocates fastest.

{_allocations(evaluation)}

## How large recordings become

In KiB; in parentheses the forecast that `gcfuzz profile` makes before it records, divided by that.
A forecast allows up to 64 KiB for the names of functions and their stacks, and more where a program
goes on to have new ones; 1 or more is right.

{_sizes(evaluation)}

## Estimate and truth by period

The bytes of each type as its samples tell, compared with a count. Random distances have
{evaluation.seeds} seeds for each workload, which no other workload has. "Within bounds" are the
types and runs whose truth lies in the {CONFIDENCE:.0%} interval, and of these shares the lowest of
any type in a workload: where 95 of 100 seeds should, chance leaves 91 or fewer to one type of
sixteen. The errors are of types with {runs.COMMON_SHARE:.0%} of their workload's
bytes or more: the median, and the largest.

The period of {runs.LOOP_BYTES:,} B, "loop" in the plot, is four rounds of `allocate`. Fixed
distances, which are the paper's, then hit the same object in every fourth round and no other ever,
and nothing in the profile tells. Where they are in step with nothing they are even, and nearer to
the truth than chance is; but no bounds say which of the two it was.

![Estimate divided by truth, by period]({plots}/estimates.svg)

{_estimates(evaluation)}

## A case study (section 5.2)

The paper's profile shows lists in PyPy's optimizer that are built, read out again one call deeper,
and dropped. The same was in `expressions`: its evaluator made a constant in the heap of each value,
whose number its caller read at once. In its profile {_share(evaluation.case[runs.BEFORE]):.0%} of
all bytes are on such stacks: `make_constant`, called by `evaluate`.

```text
{_shown(evaluation.case[runs.BEFORE])}
```

Now `evaluate` returns the number itself. `gcfuzz profile --diff` shows that, though the samples are
others, from another seed:

```text
{_shown(evaluation.case[runs.AFTER], evaluation.case[runs.BEFORE])}
```

{_case(evaluation)}
"""


def _python() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"


def _paragraph(text: str) -> str:
    return textwrap.fill(text, COLUMNS)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _by_workload(
    evaluation: runs.Evaluation,
    variants: Iterable[runs.Variant],
    cell: Callable[[str, runs.Variant], str],
) -> str:
    """A row a variant, a column a workload."""
    rows = [
        [variant.name, *(cell(name, variant) for name in evaluation.timed)] for variant in variants
    ]
    return _table(["", *evaluation.timed], rows)


def _bounded(of: runs.Measured, form: str) -> str:
    return f"{of.median:{form}} ({of.low:{form}} to {of.high:{form}})"


def _headline(evaluation: runs.Evaluation) -> str:
    rows = []
    counts, shares = [], []
    for name in evaluation.timed:
        counts.append(evaluation.instructions(name, runs.HEADLINE) - 1)
        of_each = evaluation.us_a_sample(name, runs.OFTEN)
        shares.append(runs.measured(PYPY_RATE * each / 1e6 for each in of_each))
        seconds = runs.measured(each - 1 for each in evaluation.seconds(name, runs.HEADLINE))
        rate = evaluation.counted[name, runs.HEADLINE].samples / evaluation.plain_seconds(name)
        figures = _bounded(seconds, ".1%"), _bounded(shares[-1], ".1%")
        rows.append([name, f"{rate:,.0f}", f"{counts[-1]:.1%}", *figures])
    header = ["", "samples/s", "instructions more", "processor time more", f"{PYPY_RATE:,}/s"]
    share = max(each.high for each in shares)
    said = (
        f"In instructions a period of {runs.HEADLINE.name} takes at most {max(counts):.1%} more: "
        f"the headline {_holds(max(counts))}. In processor time, samples as frequent as PyPy's at "
        f"4 MB take at most {share:.1%}, bounds included: so far it {_holds(share)}. A "
        "workload that is sampled more often than that may take more."
    )
    return f"{_table(header, rows)}\n\n{_paragraph(said)}"


def _holds(overhead: float) -> str:
    return "holds" if overhead <= HEADLINE else "does not hold"


def _overheads(evaluation: runs.Evaluation) -> str:
    def cell(name: str, variant: runs.Variant) -> str:
        return f"{evaluation.instructions(name, variant):.3f}"

    variants = [
        each
        for variant in runs.BY_PERIOD
        for each in (variant, *((runs.FIXED[variant],) if variant in runs.FIXED else ()))
    ]
    return _by_workload(evaluation, [*variants, runs.NO_SAMPLES, runs.PLAIN_AGAIN], cell)


def _samples(evaluation: runs.Evaluation) -> str:
    header = ["", "instructions, allocation", "by time", "µs, allocation", "by time"]
    header += ["1,000/s, allocation", "by time"]
    rows = []
    for name in evaluation.timed:
        counted = [
            f"{evaluation.instructions_a_sample(name, each):,.0f}"
            for each in (runs.OFTEN, runs.BY_TIME_COUNTED)
        ]
        timed = [
            runs.measured(evaluation.us_a_sample(name, each)) for each in (runs.OFTEN, runs.BY_TIME)
        ]
        shares = [f"{each.median * THOUSAND_SAMPLES_A_SECOND:.1%}" for each in timed]
        rows.append([name, *counted, *(_bounded(each, ".1f") for each in timed), *shares])
    return _table(header, rows)


def _verdict(evaluation: runs.Evaluation) -> str:
    """Which of the two costs less."""
    ratios = [
        evaluation.instructions_a_sample(name, runs.BY_TIME_COUNTED)
        / evaluation.instructions_a_sample(name, runs.OFTEN)
        for name in evaluation.timed
    ]
    pairs = [
        [runs.measured(evaluation.us_a_sample(name, each)) for each in (runs.OFTEN, runs.BY_TIME)]
        for name in evaluation.timed
    ]
    cheaper = sum(allocation.high < by_time.low for allocation, by_time in pairs)
    dearer = sum(by_time.high < allocation.low for allocation, by_time in pairs)
    return _paragraph(
        f"A sample by time takes {min(ratios):.2f} to {max(ratios):.2f} times the instructions of "
        f"one of an allocation. In processor time it takes more in {cheaper} of {len(pairs)} "
        f"workloads and less in {dearer}, where the bounds of the two do not overlap. (The paper "
        "found allocation sampling slightly better, in four programs of four.)"
    )


def _allocations(evaluation: runs.Evaluation) -> str:
    seconds = {name: evaluation.plain_seconds(name) for name in evaluation.timed}
    rates = {name: evaluation.costs[name].allocated_bytes / MIB / seconds[name] for name in seconds}
    fastest = max(rates, key=rates.__getitem__)
    header = ["", "run time, ratio", "KiB allocated", "MiB/s", "rate, ratio", "collections"]
    rows = [
        [
            name,
            f"{seconds[name] / seconds[fastest]:.2f}",
            f"{evaluation.costs[name].allocated_bytes / runs.KIB:.0f}",
            f"{rate:.1f}",
            f"{rate / rates[fastest]:.2f}",
            f"{evaluation.costs[name].collections:,}",
        ]
        for name, rate in rates.items()
    ]
    return _table(header, rows)


def _sizes(evaluation: runs.Evaluation) -> str:
    def cell(name: str, variant: runs.Variant) -> str:
        actual_bytes = evaluation.counted[name, variant].recording_bytes
        assert variant.period_bytes is not None
        forecast_bytes = evaluation.costs[name].recording_bytes(variant.period_bytes, None)
        return f"{actual_bytes / runs.KIB:,.1f} ({forecast_bytes / actual_bytes:.2f})"

    return _by_workload(evaluation, (*runs.BY_PERIOD, runs.NO_SAMPLES), cell)


def _estimates(evaluation: runs.Evaluation) -> str:
    common = [each for name in evaluation.timed for each in evaluation.common_estimates(name)]
    rows = []
    for period_bytes in runs.ESTIMATED_PERIODS_BYTES:
        by_type: dict[tuple[str, str], list[bool]] = {}
        for each in evaluation.estimates:
            if each.is_random and each.period_bytes == period_bytes:
                by_type.setdefault((each.workload, each.type), []).append(each.is_held)
        judged = [is_held for held in by_type.values() for is_held in held]
        lowest = min(sum(held) / len(held) for held in by_type.values())
        errors = [
            _errors(each for each in common if (each.is_random, each.period_bytes) == wanted)
            for wanted in ((True, period_bytes), (False, period_bytes))
        ]
        share = f"{sum(judged)} of {len(judged)} ({sum(judged) / len(judged):.1%})"
        rows.append([f"{period_bytes:,} B", share, f"{lowest:.0%}", *errors])
    return _table(["", "within bounds", "of one type", "error, random", "error, fixed"], rows)


def _errors(estimates: Iterable[runs.Estimated]) -> str:
    errors = [abs(each.ratio - 1) for each in estimates]
    return f"{statistics.median(errors):.1%} ({max(errors):.0%})"


# The case study.


def _share(profile: Profile) -> float:
    """Of all bytes, those that are allocated on behalf of the evaluator."""
    bytes_below = sum(
        each.weight_bytes
        for each in profile.samples
        if any(frame.function.endswith("evaluate") for frame in profile.frames_of(each.stack))
    )
    return bytes_below / profile.weight_bytes


def _shown(profile: Profile, before: Profile | None = None) -> str:
    """What `gcfuzz profile` prints of it."""
    printed = io.StringIO()
    print_profile(Console(file=printed, width=CASE_COLUMNS, markup=False), profile, before)
    return "\n".join(map(str.rstrip, printed.getvalue().splitlines()))


def _case(evaluation: runs.Evaluation) -> str:
    rows = []
    for name in (runs.BEFORE, runs.AFTER):
        cost, run = evaluation.costs[name], evaluation.counted[name, runs.PLAIN]
        rows.append([name, f"{cost.allocated_bytes:,}", f"{cost.collections}", f"{run.cost:,.0f}"])
    before, after = (evaluation.costs[name].allocated_bytes for name in (runs.BEFORE, runs.AFTER))
    steps = [evaluation.counted[name, runs.PLAIN].cost for name in (runs.BEFORE, runs.AFTER)]
    table = _table(["", "bytes allocated", "minor collections", "instructions"], rows)
    said = (
        f"Counted, and not sampled: {1 - after / before:.1%} fewer bytes, and "
        f"{1 - steps[1] / steps[0]:.1%} fewer instructions. (The paper's change had no effect on "
        "time that could be measured.)"
    )
    return f"{table}\n\n{_paragraph(said)}"


# The command.


def write(evaluation: runs.Evaluation, folder: Path) -> None:
    """Write the page, and the folder of its plots beside it. Raises OSError."""
    plots = folder / NAME
    plots.mkdir(parents=True, exist_ok=True)
    draw_all(evaluation, plots)
    (folder / f"{NAME}.md").write_text(page(evaluation, NAME), encoding="utf-8")


@click.command()
@click.option("--repeats", type=click.IntRange(min=1), default=25, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=100, show_default=True)
def main(repeats: int, seeds: int) -> None:
    """Measure, and write the page and its plots."""
    write(runs.evaluate(runs.WORKLOADS, repeats=repeats, seeds=seeds), EVIDENCE)


if __name__ == "__main__":
    main()
