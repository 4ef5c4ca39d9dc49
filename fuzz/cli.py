"""The command line, `gcfuzz`.

Exit codes: 0 clean, 1 a mismatch, 2 bad input, 3 inconclusive (a failure was not reproduced, the
command was interrupted, or something that should be found was not), 4 a bug of the harness itself;
where several apply, 4 before 2 before 1 before 3.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import attrs
import click

from fuzz import corpus, report
from fuzz import trace as traces
from fuzz.drawing import check_beginning
from fuzz.explain import LEGEND, explain_step, shows_pointers
from fuzz.explain_page import Page, make_page, render
from fuzz.hunt import SEEDS, hunt_all
from fuzz.oracles import Bench
from fuzz.probes import probes_for
from fuzz.problems import BadInputError, HarnessError, InterruptedWorkError, writing
from fuzz.profiling.choice import RecordingOptions, source_of
from fuzz.profiling.command import export_recording, make_profile
from fuzz.profiling.outputs import check_outputs
from fuzz.reach import reach
from fuzz.rules import Situation
from fuzz.run import Failure, Step, record, replay, replay_steps
from fuzz.selfcheck import check_harness
from fuzz.session import ENGINES, WORKERS_DIED, Plan, Session, Started
from fuzz.target_options import (
    Duration,
    Size,
    TargetChoice,
    target_options,
    without_option,
)
from fuzz.targets import KNOWN_BUGS, REFERENCES, make_target, planted

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE, HARNESS_BUG = range(5)
WORKERS_MAX = 256
SESSION_SEEDS = 2**32
SEEDS_HUNTED_MAX = 1000
REPEATS_MAX = 1_000_000


corpus_option = click.option(
    "--corpus",
    "corpus_folder",
    type=click.Path(path_type=Path),
    default=Path("corpus"),
    show_default=True,
    help="Where finds are saved; made if missing.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gcfuzz")
def cli() -> None:
    """Find the bugs in garbage collectors that sample their allocations."""


@cli.command()
@target_options
@click.option("--engine", type=click.Choice(ENGINES), default="random", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), help="Drawn and printed if left out.")
@click.option(
    "--workers",
    type=click.IntRange(1, WORKERS_MAX),
    default=1,
    show_default=True,
    help="Processes.",
)
@click.option("--time", "seconds", type=Duration(), help="Budget: 30s, 10m, 2h. [default: 30s]")
@click.option(
    "--actions",
    type=click.IntRange(min=1),
    help="Budget in actions; the session is then reproducible.",
)
@corpus_option
@click.option(
    "--summary", type=click.Path(path_type=Path, dir_okay=False), help="Write a summary as JSON."
)
@without_option
def run(  # noqa: PLR0913 - the options of the command
    choice: TargetChoice,
    engine: str,
    seed: int | None,
    workers: int,
    seconds: float | None,
    actions: int | None,
    corpus_folder: Path,
    summary: Path | None,
    without: tuple[str, ...],
) -> int:
    """Fuzz a target until the budget is used up."""
    if seconds is not None and actions is not None:
        raise BadInputError("--time and --actions are two budgets; give one of them")
    options = attrs.evolve(choice.options, without=without)
    # A program that cannot be talked to is bad input now, and a find later.
    contract = make_target(choice.name_without_trace, options).start({})
    check_beginning(Situation(contract, Bench(contract)))
    corpus.open_folder(corpus_folder)
    if summary is not None:
        with writing(summary):
            summary.touch()
    plan = Plan(
        target=choice.name_without_trace,
        options=options,
        probes=probes_for(contract),
        engine=engine,
        seed=secrets.randbelow(SESSION_SEEDS) if seed is None else seed,
        workers=workers,
        corpus=corpus_folder,
        seconds=(seconds or 30.0) if actions is None else None,
        actions=actions,
    )
    reporter = report.SessionReporter(report.Screen())
    reporter(Started(plan, check_harness()))
    finished = Session(plan, [reporter]).run()
    if summary is not None:
        with writing(summary):
            report.write_summary(summary, finished)
    if finished.problem is not None:
        raise finished.problem
    if any(find.reproduced for find in finished.finds):
        return MISMATCH
    return INCONCLUSIVE if finished.finds or finished.stop_reason == WORKERS_DIED else CLEAN


@cli.command("replay")
@click.argument(
    "places", metavar="FILE|DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@target_options
def replay_command(places: tuple[Path, ...], choice: TargetChoice) -> int:
    """Replay traces, on the target that each names or on another."""
    paths = [path for place in places for path in corpus.traces_in(place)]
    console = report.Screen()
    return MISMATCH if report.print_replays(console, _replays(paths, choice)) else CLEAN


def _replays(paths: list[Path], choice: TargetChoice) -> Iterator[tuple[Path, Failure | None, str]]:
    make = cache(choice.make)  # One process serves many traces.
    for path in paths:
        trace = traces.read(path)
        failure = replay(make(trace.header.target), trace, str(path))
        yield path, failure, report.replay_command(path, choice.options, choice.name)


@cli.command("reduce")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@target_options
@corpus_option
def reduce_command(path: Path, choice: TargetChoice, corpus_folder: Path) -> int:
    """Reduce a failing trace to a few actions, and save it in the corpus."""
    trace = traces.read(path)
    name = choice.name_for(trace.header.target)
    failure = replay(choice.make(name), trace, str(path))
    console = report.Screen()
    if failure is None:
        console.print(f"{path} passes on {name}: there is nothing to reduce", soft_wrap=True)
        return CLEAN
    corpus.open_folder(corpus_folder)
    engine = trace.header.found.engine if trace.header.found else "replay"
    finder = corpus.Finder(corpus_folder, name, engine, trace.header.seed, choice.options)
    find = corpus.save_reduced(finder, path, failure)
    report.print_find(console, 1, find, choice.options)
    return MISMATCH if find.reproduced else INCONCLUSIVE


@cli.command("record")
@click.argument("path", metavar="TRACE", type=click.Path(path_type=Path))
@target_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the recording goes.",
)
def record_command(path: Path, choice: TargetChoice, output: Path) -> int:
    """Store what a target says to a trace. `replay` compares a recording with what it says then.

    On the target that it was made on, every field of every answer must be the same; on another,
    under the same contract, what the contract determines.
    """
    trace = traces.read(path)
    _check_other(output, path)
    name = choice.name_for(trace.header.target)
    recording, failure = record(choice.make(name), trace, str(path))
    with writing(output):
        traces.write_to(recording, output)
    console = report.Screen()
    actions = len(recording.actions)
    console.print(f"{output}: {actions} actions on {name}, with what it said", soft_wrap=True)
    if failure is None:
        return CLEAN
    report.print_failure(console, f"FAILED {path}", failure, replay=None)
    return MISMATCH


@cli.command("explain")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@target_options
@click.option(
    "--html",
    "page_path",
    metavar="OUT",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page to step through in a browser instead, with the objects as a graph.",
)
def explain_command(path: Path, choice: TargetChoice, page_path: Path | None) -> int:
    """Show a trace step by step, each with what came of it and a picture of the nursery."""
    trace = traces.read(path)
    name = choice.name_for(trace.header.target)
    title = f"{path} on {name}"
    steps = replay_steps(choice.make(name), trace, str(path))
    if page_path is not None:
        _check_other(page_path, path)
        configuration = report.describe_configuration(trace.header.config)
        code = _write_page(page_path, make_page(title, configuration, steps))
    else:
        code = _explain(title, steps)
    if code == CLEAN:
        _say_who_fails(path, name, trace.header.kills)
    return code


def _explain(title: str, steps: Iterator[Step]) -> int:
    click.echo(title)
    code = CLEAN
    for step in steps:
        if step.number == 1 and shows_pointers(step.contract):
            for line in LEGEND:
                click.echo(line)
        code = MISMATCH if step.failure else CLEAN
        for line in explain_step(step):
            click.secho(line, bold=step.failure is not None)
    return code


def _say_who_fails(path: Path, passed: str, kills: tuple[str, ...]) -> None:
    """A known bug's trace passes where the bug is not planted: where to see what it found."""
    for bug in kills:
        if bug in KNOWN_BUGS and planted(bug) != passed:
            command = shlex.join(["gcfuzz", "explain", str(path), "--target", planted(bug)])
            click.echo(f"passes here; `{command}` shows what it found")


def _check_other(output: Path, trace: Path) -> None:
    if output.exists() and trace.exists() and output.samefile(trace):
        raise BadInputError(f"{output}: is the trace itself; name another file to write")


def _write_page(path: Path, page: Page) -> int:
    with writing(path):
        path.write_text(render(page), encoding="utf-8")
    click.echo(f"{path}: open it in a browser to step through {page.title}")
    return MISMATCH if page.fails else CLEAN


@cli.command("profile")
@click.argument("what", metavar="WORKLOAD", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "outputs",
    metavar="FILE",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file to write: .json or .json.gz for the Firefox Profiler, .heap for jeprof, "
    ".collapsed for flame graphs, .jsonl for the recording itself; several if given again.",
)
@click.option(
    "--period",
    "period_bytes",
    type=Size(),
    help="Bytes from one sample to the next: 64, 4k, 1M.  [default: 4k; a trace's own]",
)
@click.option("--fixed", is_flag=True, help="Exactly so many bytes, not so many on average.")
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), help="Of random distances.  [default: 1]"
)
@click.option(
    "--time-period",
    "time_period_seconds",
    type=Duration(),
    help="Sample the stack by time as well: 1ms, 10ms.",
)
@click.option(
    "--repeat", type=click.IntRange(1, REPEATS_MAX), help="Run it so many times.  [default: 1]"
)
@click.option(
    "--max-size",
    "max_bytes",
    type=Size(),
    help="How large the recording may become.  [default: 100M]",
)
def profile_command(
    what: Path,
    outputs: tuple[Path, ...],
    **recording: Any,  # noqa: ANN401 - the options that are RecordingOptions
) -> int:
    """Profile what allocates, on the reference collector, for people to look at.

    WORKLOAD is gcbench, expressions, interpreter or allocate; a script, FILE.py, with a function
    main(heap); a trace; or a recording, of which files are made without running anything.
    """
    options = RecordingOptions(**recording)
    check_outputs(outputs, samples_time=options.time_period_seconds is not None)
    for output in outputs:
        _check_other(output, what)
    source = source_of(what, options)
    if source is None:
        export_recording(what, outputs, report.Screen())
        return CLEAN
    is_whole = make_profile(source, outputs, options.recording_bytes, report.Screen())
    return CLEAN if is_whole else INCONCLUSIVE


@cli.command("bugs")
@click.argument("bugs", metavar="[BUG]...", nargs=-1, type=click.Choice(list(KNOWN_BUGS)))
@click.option("--engine", type=click.Choice(ENGINES), default="random", show_default=True)
@click.option(
    "--seeds",
    type=click.IntRange(1, SEEDS_HUNTED_MAX),
    default=SEEDS,
    show_default=True,
    help="Hunt with the seeds from 1 to N.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, WORKERS_MAX),
    default=min(os.cpu_count() or 1, WORKERS_MAX),
    show_default="the processors",
    help="Processes.",
)
@click.option("--trace", "shows_trace", is_flag=True, help="Show each bug's reduced trace.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def bugs_command(  # noqa: PLR0913 - the options of the command
    bugs: tuple[str, ...],
    engine: str,
    seeds: int,
    workers: int,
    shows_trace: bool,
    as_json: bool,
) -> int:
    """Hunt the known bugs: who finds each, how soon, and how short its trace becomes."""
    if shows_trace and as_json:
        raise BadInputError("--trace and --json are two ways to print; give one of them")
    chosen = bugs or tuple(KNOWN_BUGS)
    with report.counting("hunts", len(chosen) * seeds) as progress:
        records = list(hunt_all(chosen, engine, seeds, workers, progress))
    console = report.Screen()
    if as_json:
        console.out(json.dumps(report.bugs_data(records, engine, seeds), indent=2))
    else:
        report.print_bugs(console, records, engine, seeds)
        if shows_trace:
            report.print_bug_traces(console, records)
    return CLEAN if all(record.found for record in records) else INCONCLUSIVE


@cli.command("probes")
@target_options
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--actions", type=click.IntRange(min=1), default=200_000, show_default=True)
def probes_command(choice: TargetChoice, seed: int, actions: int) -> int:
    """Count what fuzzing reaches, and show the smallest trace for each probe."""
    fuzzed = choice.make(choice.name_without_trace)
    with report.counting("probes", len(probes_for(fuzzed.start({})))) as progress:
        reached = []
        for each in reach(fuzzed, seed, actions):
            reached.append(each)
            progress()
    report.print_probes(report.Screen(), reached, actions)
    return CLEAN if all(each.times for each in reached) else INCONCLUSIVE


@cli.command("targets")
def targets_command() -> int:
    """List the targets, their settings, and the bugs that can be planted."""
    contracts = {name: make_target(name).start({}) for name in REFERENCES}
    report.print_targets(report.Screen(), contracts)
    return CLEAN


def main() -> None:
    """The entry point: runs the command line and exits with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # Not every terminal has an arrow.
    # So that programs under test are ended with this one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run_command_line(sys.argv[1:]))


def run_command_line(arguments: list[str]) -> int:
    """Run the command line; returns the exit code. Errors are one line each, on stderr."""
    try:
        code = cli.main(arguments, prog_name="gcfuzz", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as help_page:
        click.echo(help_page.format_message())
        code = BAD_INPUT
    except click.ClickException as problem:
        code = _complain(problem.format_message(), BAD_INPUT)
    except BadInputError as problem:
        code = _complain(str(problem), BAD_INPUT)
    except HarnessError as problem:
        code = _complain(f"the harness is broken: {problem}", HARNESS_BUG)
    except InterruptedWorkError as problem:
        code = _complain(f"interrupted; {problem}", INCONCLUSIVE)
    except (click.Abort, KeyboardInterrupt):
        code = _complain("interrupted", INCONCLUSIVE)
    except Exception as problem:  # noqa: BLE001 - whatever is left
        code = _unforeseen(problem)
    return code if isinstance(code, int) else CLEAN


def _complain(message: str, code: int) -> int:
    click.echo(f"gcfuzz: {message}", err=True)
    return code


def _unforeseen(problem: Exception) -> int:
    """A file in a way that no other line foresees, or a disk that is full; or a bug, which says so.

    The system names a file only in an answer to its name.
    """
    if isinstance(problem, OSError) and (problem.filename or problem.errno == errno.ENOSPC):
        where = problem.filename or "standard output"
        return _complain(f"{where}: {problem.strerror}", BAD_INPUT)
    traceback.print_exception(problem)
    return _complain("this is a bug of gcfuzz itself; please report it", HARNESS_BUG)
