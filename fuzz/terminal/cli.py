"""The command line, `gcfuzz`.

Exit codes: 0 clean, 1 a mismatch, 2 bad input, 3 inconclusive (a failure was not reproduced, the
command was interrupted, or something that should be found was not), 4 a bug of the harness itself;
where several apply, 4 before 2 before 1 before 3.

Each command imports what it needs in its own body: that is most of what a short one costs.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fuzz.files import FAILURES_FOLDER
from fuzz.plain import counted, plain, shell_words
from fuzz.problems import BadInputError, HarnessError, InterruptedWorkError
from fuzz.terminal.addresses import PathOrAddress, stand_in_at, told
from fuzz.terminal.standard_streams import Screen, in_columns, lost_output
from fuzz.terminal.target_options import (
    PATH,
    OneOf,
    TargetChoice,
    TargetsCommand,
    after_option,
    before_option,
    byte_size,
    chunk_range,
    duration_option,
    options_of_session,
    part,
    path_options,
    target_options,
    without_option,
)
from fuzz.version import __version__

if TYPE_CHECKING:
    from fuzz.protocol.trace import Header
    from fuzz.run import Failure, Step
    from fuzz.sessions.compare import Before
    from fuzz.sessions.plan import Plan
    from fuzz.sessions.record import SessionRecord
    from fuzz.sessions.session_events import Finished, Listener
    from fuzz.targets import TargetOptions

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE, HARNESS_BUG = range(5)
WORKERS_MAX = 256
SEED_BYTES = 4
"""Of a seed that nobody gave."""
SEEDS_HUNTED, SEEDS_HUNTED_MAX = 20, 1000
REPEATS_MAX = 1_000_000
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EFBIG}
"""Of open files, of processes, of memory, of disks."""
PLACE = PathOrAddress()
FILE = click.Path(path_type=Path, dir_okay=False)
STANDARD_OUTPUT = Path("-")


engine_option = click.option(
    "--engine", type=OneOf("fuzz.sessions.plan", "ENGINES"), default="random", show_default=True
)
workers_option = functools.partial(click.option, "--workers", type=click.IntRange(1, WORKERS_MAX))
corpus_option = functools.partial(click.option, "--corpus", "corpus_folder", type=PLACE)


class Commands(click.Group):
    """The commands. One that takes a target loads the registrations when it is called."""

    command_class = TargetsCommand


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Find the bugs in garbage collectors that sample their allocations."""


@cli.command()
@target_options
@before_option
@after_option
@engine_option
@click.option("--seed", type=click.IntRange(min=0), help="Drawn and printed if left out.")
@workers_option(default=1, show_default=True, help="Processes.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Have Dask's workers do it: tcp://scheduler:8786, or local:2 for two on this machine.",
)
@click.option(
    "--canary",
    is_flag=True,
    help="Let each worker first find a planted bug; --cluster always does.",
)
@click.option(
    "--database",
    metavar="ADDRESS",
    help="Share examples of --engine stateful, in a folder or at redis://host.",
)
@duration_option("--time", "seconds", help="Budget: 30s, 10m, 2h. [default: 30s]")
@click.option(
    "--actions",
    type=click.IntRange(min=1),
    help="Budget in actions; the session is then reproducible.",
)
@click.option(
    "--chunks",
    metavar="FROM:TO",
    type=chunk_range,
    help="Budget as a range of chunks, 0:5120: what they were, again.",
)
@click.option("--part", metavar="K/N", type=part, help="Run the third of sixteen parts: 3/16.")
@click.option("--resume", is_flag=True, help="Go on where such a session stopped.")
@corpus_option(
    default=FAILURES_FOLDER,
    show_default=True,
    help="Where failures are saved: a folder, created if missing, or s3://bucket/night.",
)
@click.option("--summary", type=FILE, help="Write a summary as JSON.")
@click.option("-x", "stops_first", is_flag=True, help="Stop after the first failure.")
@click.option(
    "--max-failures",
    "failures_max",
    type=click.IntRange(min=1),
    help="Stop after so many failures, of those that can be reproduced.",
)
@without_option
def run(  # noqa: PLR0913 - the options of the command
    choice: TargetChoice,
    before: str | None,
    after: str | None,
    engine: str,
    seed: int | None,
    workers: int,
    cluster: str | None,
    canary: bool,
    database: str | None,
    seconds: float | None,
    actions: int | None,
    chunks: range | None,
    part: slice | None,
    resume: bool,
    corpus_folder: Path,
    summary: Path | None,
    stops_first: bool,
    failures_max: int | None,
    without: tuple[str, ...],
) -> int:
    """Fuzz a target until the budget is used up; or two, for what a change did."""
    import attrs

    from fuzz.files import check_writable
    from fuzz.run import BROKE
    from fuzz.sessions import corpus, record
    from fuzz.sessions.plan import UNLIMITED, Plan
    from fuzz.terminal.session_report import SessionReporter

    budgets = {"--time": seconds, "--actions": actions, "--chunks": chunks}
    given = [name for name, value in budgets.items() if value is not None]
    if len(given) > 1:
        raise BadInputError(f"{' and '.join(given)} are budgets; give one of them")
    if database is not None and engine != "machine":
        raise BadInputError(
            f"--engine {engine} shares no examples; --database needs --engine stateful"
        )
    choice, earlier = _told_apart(choice, before, after, engine, without)
    target = choice.name_without_trace
    options = attrs.evolve(choice.options, without=without)
    plan = Plan(
        target=target,
        options=options_of_session(target, options, workers),
        engine=engine,
        seed=int.from_bytes(os.urandom(SEED_BYTES)) if seed is None else seed,
        workers=workers,
        corpus=corpus_folder,
        seconds=seconds if given else 30.0,
        actions=actions,
        chunks=(chunks or range(UNLIMITED))[part or slice(None)],
        failures_max=1 if stops_first else failures_max,
        before=earlier,
        has_canary=canary or cluster is not None,
        database=database,
    ).under_contract()
    corpus.open_folder(corpus_folder)
    recorded = None
    if resume:
        plan, recorded = record.resumed(plan, any_seed=seed is None)
    if summary is not None:
        check_writable(summary)
    listeners: list[Listener] = [SessionReporter(Screen()), *stand_in_at(corpus_folder)]
    finished = _run_session(plan, cluster, listeners, recorded)
    if summary is not None:
        record.write(finished.record, summary)
    if finished.problem is not None:
        raise finished.problem
    if any(find.is_sure for find in finished.finds):
        return MISMATCH
    is_clean = not any(find.failure.change == BROKE for find in finished.finds)
    return CLEAN if finished.is_done and is_clean else INCONCLUSIVE


def _run_session(
    plan: Plan, address: str | None, listeners: Sequence[Listener], recorded: SessionRecord | None
) -> Finished:
    """A session here, or in the cluster at an address."""
    import attrs

    from fuzz.sessions.selfcheck import check_harness
    from fuzz.sessions.session import Session
    from fuzz.sessions.session_events import Started

    reporter, *_ = listeners
    if address is None:
        reporter(Started(plan, check_harness()))
        return Session(plan, listeners, recorded).run()
    from fuzz.sessions.cluster import connected

    with connected(address, plan) as cluster:
        plan = attrs.evolve(plan, workers=cluster.threads)
        reporter(Started(plan, check_harness()))
        for worker, why in cluster.unable.items():
            if why is not None:
                Screen().print(f"{worker} gets no chunk: {why}", "yellow")
        return Session(plan, listeners, recorded, cluster.hire).run()


def _told_apart(
    choice: TargetChoice,
    before: str | None,
    after: str | None,
    engine: str,
    without: tuple[str, ...],
) -> tuple[TargetChoice, Before | None]:
    """The target to be fuzzed, and what it was before a change, if that is asked for."""
    if before is None and after is None:
        return choice, None
    import attrs

    from fuzz.sessions.compare import Before, ComparingEngine

    if before is None or after is None:
        raise BadInputError("--before and --after are the two to compare; give both of them")
    if engine != ComparingEngine.name:
        raise BadInputError(
            f"--engine {engine} draws for one target; --before wants the random one"
        )
    earlier = choice.version(before)
    options = attrs.evolve(earlier.options, without=without)
    return choice.version(after), Before(earlier.name_without_trace, options)


@cli.command("merge")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=PLACE)
@click.option(
    "-o", "--output", metavar="FOLDER", required=True, type=PLACE, help="The new corpus; made."
)
def merge_command(folders: tuple[Path, ...], output: Path) -> int:
    """Put corpora together: parts of one session become what the whole would have left."""
    from fuzz.sessions.merge import merge
    from fuzz.terminal.session_report import print_record

    for each in merge(folders, output):
        print_record(Screen(), each)
    return CLEAN


@cli.command("replay")
@click.argument("places", metavar="FILE|DIR...", nargs=-1, required=True, type=PLACE)
@target_options
def replay_command(places: tuple[Path, ...], choice: TargetChoice) -> int:
    """Replay traces, on the target that each names or on another."""
    from fuzz.sessions.corpus import traces_in
    from fuzz.terminal import report

    paths = [path for place in places for path in traces_in(place)]
    unsure: list[Path] = []
    failed, unusable = report.print_replays(Screen(), _replays(paths, choice, unsure))
    if unusable:
        return BAD_INPUT
    if failed:
        return MISMATCH
    for path in unsure:
        Screen().print(f"{path}: a find of threads at once, which has not come back; it may yet")
    return INCONCLUSIVE if unsure else CLEAN


def _replays(
    paths: list[Path], choice: TargetChoice, unsure: list[Path]
) -> Iterator[tuple[Path, Failure | BadInputError | None, Sequence[str]]]:
    from fuzz.protocol import trace as traces
    from fuzz.protocol.target import contract_of
    from fuzz.run import replay, tries_for
    from fuzz.targets import make_target
    from fuzz.terminal import report

    make = functools.cache(make_target)  # One process serves many traces.
    if choice.name is not None:  # What is wrong with it is wrong for every trace.
        contract_of(make(choice.name, choice.options))
    for path in paths:
        command = report.replay_command(path, choice.options, choice.name)
        try:
            trace = traces.read(path)
            header = trace.header
            target = make(choice.name_for(header.target), choice.options_for(header))
            failure = replay(target, trace, str(path))
            if failure is None and header.found is not None and tries_for(trace.actions) > 1:
                unsure.append(path)
            yield path, failure, command
        except BadInputError as problem:
            place = "" if str(problem).startswith(str(path)) else f"{path}:1: "
            _complain(f"{place}{problem}", BAD_INPUT)
            yield path, problem, command


@cli.command("reduce")
@click.argument("path", metavar="FILE", type=PLACE)
@target_options
@corpus_option(help="Where the find is saved; made if missing.  [default: FILE's own folder]")
def reduce_command(path: Path, choice: TargetChoice, corpus_folder: Path | None) -> int:
    """Reduce a failing trace to a few actions, and save it."""
    import attrs

    from fuzz.protocol import trace as traces
    from fuzz.protocol.target import contract_of
    from fuzz.run import replay
    from fuzz.sessions import corpus
    from fuzz.terminal import report

    trace = traces.read(path)
    name = choice.name_for(trace.header.target)
    target = choice.make_for(trace.header)
    failure = replay(target, trace, str(path))
    screen = Screen()
    if failure is None:
        screen.print(f"{path} passes on {name}: there is nothing to reduce")
        return CLEAN
    folder = path.parent if corpus_folder is None else corpus_folder
    corpus.open_folder(folder)
    found = trace.header.found or traces.Found("", "", engine="replay")
    options = attrs.evolve(choice.options_for(trace.header), contract=contract_of(target))
    finder = corpus.Finder(folder, name, found.engine, trace.header.seed, options)
    report.print_found(screen, 1, failure)
    find = corpus.save_reduced(finder, corpus.Raw(failure, path, reduced_from=found.reduced_from))
    if find.path is not None and find.path != path:
        find = attrs.evolve(find, path=corpus.publish(find.path))
    report.print_find(screen, 1, find, choice.options)
    return MISMATCH if find.reproduced else INCONCLUSIVE


@cli.command("record")
@click.argument("path", metavar="TRACE", type=PLACE)
@target_options
@click.option(
    "-o", "--output", metavar="FILE", required=True, type=FILE, help="Where the recording goes."
)
def record_command(path: Path, choice: TargetChoice, output: Path) -> int:
    """Store what a target says to a trace. `replay` compares a recording with what it says then.

    On the target that it was made on, every field of every answer must be the same; on another,
    under the same contract, what the contract determines.
    """
    from fuzz.files import write_text
    from fuzz.protocol import trace as traces
    from fuzz.run import record
    from fuzz.terminal.report import print_failure

    trace = traces.read(path)
    _check_other(output, path)
    name = choice.name_for(trace.header.target)
    recording, failure = record(choice.make_for(trace.header), trace, str(path))
    write_text(output, traces.dumps(recording))
    screen = Screen()
    performed = counted(len(recording.actions), "action")
    screen.print(f"{output}: {performed} on {name}, with what it said")
    if failure is None:
        return CLEAN
    print_failure(screen, f"FAILED {path}", failure, replay=None)
    return MISMATCH


@cli.command("explain")
@click.argument("path", metavar="FILE", type=PLACE)
@target_options
@click.option(
    "--html",
    "page_path",
    metavar="OUT",
    type=FILE,
    help="Write a page to step through in a browser instead, with the objects as a graph; "
    "- for standard output.",
)
def explain_command(path: Path, choice: TargetChoice, page_path: Path | None) -> int:
    """Show a trace step by step, each with what came of it and a picture of the nursery."""
    from fuzz.protocol import trace as traces
    from fuzz.run import replay_steps
    from fuzz.terminal.report import earlier_traces

    trace = traces.read(path)
    name = choice.name_for(trace.header.target)
    title = f"{path} on {name}"
    if trace.header.earlier:
        title += f", after {earlier_traces(trace.header)}"
    steps = replay_steps(choice.make_for(trace.header), trace, str(path))
    if page_path is not None:
        _check_other(page_path, path)
        code = _write_page(page_path, title, trace.header, steps)
        if page_path == STANDARD_OUTPUT:
            return code
    else:
        code = _explain(title, steps)
    if code == CLEAN:
        _say_who_fails(path, name, trace.header.kills)
    return code


def _explain(title: str, steps: Iterator[Step]) -> int:
    from fuzz.terminal.explain import explain_step, legend_for, shows_pointers

    screen = Screen()
    screen.print(title)
    code = CLEAN
    for step in steps:
        if step.number == 1 and shows_pointers(step.contract):
            for line in legend_for(step.contract):
                screen.print(line)
        code = MISMATCH if step.failure else CLEAN
        for line in explain_step(step):
            screen.print(line, "bold" if step.failure else "")
    return code


def _say_who_fails(path: Path, passed: str, kills: tuple[str, ...]) -> None:
    """A known bug's trace passes where the bug is not planted: where to see what it found."""
    from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

    for bug in kills:
        if bug in KNOWN_BUGS and KNOWN_BUGS[bug].target != passed:
            words = ["gcfuzz", "explain", str(path), "--target", KNOWN_BUGS[bug].target]
            Screen().print(f"passes here; `{shell_words(words)}` shows what it found")


def _check_other(output: Path, trace: Path) -> None:
    if output.exists() and trace.exists() and output.samefile(trace):
        raise BadInputError(f"{output}: is the trace itself; name another file to write")


def _write_page(path: Path, title: str, header: Header, steps: Iterator[Step]) -> int:
    from fuzz.files import write_text
    from fuzz.terminal.explain_page import fails, make_page, render

    page = make_page(title, header.config, steps)
    if path == STANDARD_OUTPUT:
        click.echo(render(page).encode(), nl=False)
    else:
        write_text(path, render(page))
        Screen().print(f"{path}: open it in a browser to step through {page['title']}")
    return MISMATCH if fails(page) else CLEAN


@cli.command("profile")
@click.argument("what", metavar="WORKLOAD", type=PATH)
@click.option(
    "-o",
    "--output",
    "outputs",
    metavar="FILE",
    multiple=True,
    type=FILE,
    help="A file to write: .json or .json.gz for the Firefox Profiler, .pb.gz for pprof, "
    ".heap for jeprof, "
    ".collapsed for flame graphs, .jsonl for the recording itself; several if given again.",
)
@click.option(
    "--period",
    "period_bytes",
    metavar="SIZE",
    type=byte_size,
    help="Bytes from one sample to the next: 64, 4k, 1M.  [default: 4k; a trace's own]",
)
@click.option("--fixed", is_flag=True, help="Exactly so many bytes, not so many on average.")
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), help="Of random distances.  [default: 1]"
)
@duration_option(
    "--time-period", "time_period_seconds", help="Sample the stack by time as well: 1ms, 10ms."
)
@click.option(
    "--repeat", type=click.IntRange(1, REPEATS_MAX), help="Run it so many times.  [default: 1]"
)
@click.option(
    "--max-size",
    "max_bytes",
    metavar="SIZE",
    type=byte_size,
    help="How large the recording may become.  [default: 100M]",
)
@click.option(
    "--diff",
    "before",
    metavar="RECORDING",
    type=FILE,
    help="Show how it differs from this recording, by more than chance.",
)
def profile_command(
    what: Path,
    outputs: tuple[Path, ...],
    before: Path | None,
    **recording: Any,  # noqa: ANN401 - the options that are RecordingOptions
) -> int:
    """Profile what allocates, on the reference collector, for people to look at.

    WORKLOAD is gcbench, expressions, interpreter or allocate; a script, FILE.py; a trace; or a
    recording, of which files are made without running anything. A script needs a function
    main(heap): gcfuzz profiles what it allocates in that heap, not Python's own memory.
    """
    from fuzz.profiling.choice import RecordingOptions, to_profile
    from fuzz.profiling.making import export_recording, make_profile
    from fuzz.profiling.outputs import check_outputs

    options = RecordingOptions(**recording)
    check_outputs(outputs, samples_time=options.time_period_seconds is not None)
    for output in outputs:
        _check_other(output, what)
    profiled = to_profile(what, options)
    if profiled is None:
        export_recording(what, outputs, Screen().console, before)
        return CLEAN
    if not outputs:
        raise BadInputError(f"{what}: is no recording yet; name a file for it: -o FILE.jsonl")
    is_whole = make_profile(profiled, outputs, options.recording_bytes, Screen().console, before)
    return CLEAN if is_whole else INCONCLUSIVE


@cli.command("check")
@target_options
@click.option("--verbose", is_flag=True, help="List all names: those a contract may have, too.")
def check_command(choice: TargetChoice, verbose: bool) -> int:
    """Try each action and setting of a target's contract once, and say what is odd. In seconds."""
    from fuzz.sessions.handshake import shake_hands
    from fuzz.terminal import report

    try:
        hands = shake_hands(choice.make())
    except BadInputError as problem:
        code = _complain(str(problem), BAD_INPUT)
        if verbose:
            report.print_known_names(Screen())
        return code
    report.print_handshake(Screen(), hands, choice.arguments, is_verbose=verbose)
    if hands.failures:
        return MISMATCH
    return INCONCLUSIVE if hands.untried else CLEAN


@cli.command("bugs")
@click.argument(
    "bugs",
    metavar="[BUG]...",
    nargs=-1,
    type=OneOf("fuzz.targets.bugs.known_bugs", "KNOWN_BUGS", "`gcfuzz targets`"),
)
@engine_option
@click.option(
    "--seeds",
    type=click.IntRange(1, SEEDS_HUNTED_MAX),
    default=SEEDS_HUNTED,
    show_default=True,
    help="Hunt with the seeds from 1 to N.",
)
@workers_option(
    default=min(os.cpu_count() or 1, WORKERS_MAX), help="Processes.  [default: the processors]"
)
@click.option("--trace", "shows_trace", is_flag=True, help="Show each bug's reduced trace.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def bugs_command(  # noqa: PLR0913 - the options of the command
    bugs: tuple[str, ...], engine: str, seeds: int, workers: int, shows_trace: bool, as_json: bool
) -> int:
    """Hunt the known bugs: who finds each, how soon, and how short its trace becomes."""
    from fuzz.sessions.hunt import ACTIONS_MAX, hunt_all
    from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
    from fuzz.terminal import tables

    if shows_trace and as_json:
        raise BadInputError("--trace and --json are two ways to print; give one of them")
    chosen = bugs or tuple(KNOWN_BUGS)
    if not as_json:
        bugs_and_seeds = f"{counted(len(chosen), 'bug')}, {counted(seeds, 'seed')} each"
        hunts = counted(len(chosen) * seeds, "hunt")
        Screen().print(
            f"{bugs_and_seeds}: {hunts}, each of {ACTIONS_MAX[engine]:,} actions at most"
        )
    with tables.counting("hunts", len(chosen) * seeds) as progress:
        records = list(hunt_all(chosen, engine, seeds, workers, progress))
    if as_json:
        click.echo(json.dumps(tables.bugs_data(records, engine, seeds), indent=2))
    else:
        tables.print_bugs(Screen(), records, engine, seeds, with_traces=shows_trace)
    return CLEAN if all(record.found for record in records) else INCONCLUSIVE


@cli.command("probes")
@target_options
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--actions", type=click.IntRange(min=1), default=200_000, show_default=True)
def probes_command(choice: TargetChoice, seed: int, actions: int) -> int:
    """Count what fuzzing reaches, and show the smallest trace for each probe."""
    from fuzz.drawing.probes import probes_for
    from fuzz.protocol.target import contract_of
    from fuzz.sessions.reach import reach
    from fuzz.terminal import tables

    fuzzed = choice.make()
    with tables.counting("probes", len(probes_for(contract_of(fuzzed)))) as progress:
        reached = []
        for each in reach(fuzzed, seed, actions):
            reached.append(each)
            progress()
    tables.print_probes(Screen().console, reached, actions)
    return CLEAN if all(each.times for each in reached) else INCONCLUSIVE


@cli.command("report")
@click.argument("places", metavar="CORPUS|SUMMARY...", nargs=-1, required=True, type=PLACE)
@target_options
@click.option(
    "-o", "--output", metavar="HTML", required=True, type=FILE, help="Where the page goes."
)
@click.option(
    "--before",
    metavar="JSON",
    type=FILE,
    help="The JSON beside an earlier page: what is new since, and what has vanished.",
)
def report_command(
    places: tuple[Path, ...], choice: TargetChoice, output: Path, before: Path | None
) -> int:
    """Make one page of many sessions: what they found, reached and did.

    It is made of corpora, which have a record of each session, of summaries, and of what `gcfuzz
    bugs --json` printed. The figures lie beside the page as JSON, and each find's trace and
    explanation in a folder of its name.
    """
    from fuzz.sessions import night

    try:
        from fuzz.terminal.night_page import write_night
    except ModuleNotFoundError as problem:
        raise BadInputError(
            f"a page needs {problem.name}, which `pip install 'gcfuzz[report]'` installs"
        ) from problem
    if output.suffix != ".html":
        raise BadInputError(f"{output}: is to be a page; name it so that it ends in .html")
    material = night.read_material(places)
    earlier: tuple[night.NightFind, ...] = ()
    if before is not None:
        earlier = night.read_finds(before)
        material.corpora.append(before.with_suffix(""))
    tonight = night.sum_up(material, earlier, __version__)
    write_night(tonight, material, output, choice)
    counts = tonight.counts()
    found = ", ".join(f"{counts[each]} {each}" for each in ("new", "known", "vanished"))
    Screen().print(f"{output}: {found}; open it in a browser")
    return CLEAN


@cli.command("targets")
@click.option(
    "--available",
    is_flag=True,
    help="List the real ones that can be run here, each with its version, and what others need.",
)
@path_options
def targets_command(available: bool, paths: TargetOptions) -> int:
    """List the targets, their settings, and the bugs that can be planted."""
    from fuzz.targets import NO_OPTIONS
    from fuzz.terminal import tables

    if available:
        tables.print_available(Screen().console, paths)
    elif paths != NO_OPTIONS:
        raise BadInputError(f"{paths.arguments[0]} needs --available")
    else:
        tables.print_targets(Screen().console)
    return CLEAN


@cli.command("help")
@click.argument("page", required=False)
def help_command(page: str | None) -> int:
    """Show a page of the documentation, or list the pages."""
    from fuzz.terminal import pages

    if page is None:
        pages.print_pages(Screen())
    else:
        pages.print_page(Screen(), page)
    return CLEAN


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
        for note in getattr(problem, "__notes__", ()):
            _complain_at_length(note)
        code = _complain(str(problem), BAD_INPUT)
    except HarnessError as problem:
        code = _complain_at_length(f"gcfuzz: {problem.what} is broken: {problem}")
    except InterruptedWorkError as problem:
        code = _complain(f"interrupted; {problem}", INCONCLUSIVE)
    except (click.Abort, KeyboardInterrupt):
        code = _complain("interrupted", INCONCLUSIVE)
    except Exception as problem:  # noqa: BLE001 - whatever is left
        code = _unexpected(problem)
    code = code if isinstance(code, int) else CLEAN
    why = lost_output()
    if why is not None and code != HARNESS_BUG:
        return _complain(f"standard output: {why}; the command went on without it", BAD_INPUT)
    return code


def _complain(message: str, code: int) -> int:
    line = plain(told(f"gcfuzz: {message}"))
    if sys.stderr.isatty():
        line = in_columns(line, shutil.get_terminal_size().columns)
    click.echo(line, err=True)
    return code


def _complain_at_length(message: str) -> int:
    """A bug of the harness is told in lines, of which a traceback has many."""
    for line in message.splitlines():
        click.echo(plain(line), err=True)
    return HARNESS_BUG


def _unexpected(problem: Exception) -> int:
    """What no other line foresees: a file, a shortage, or else a bug, which says so.

    The system names a file only in an answer to its name.
    """
    if isinstance(problem, OSError) and problem.filename:
        return _complain(f"{problem.filename}: {problem.strerror}", BAD_INPUT)
    if isinstance(problem, OSError) and problem.errno in SHORTAGES:
        return _complain(f"{problem.strerror}; see `ulimit -a` and `df`", BAD_INPUT)
    import traceback

    _complain_at_length("".join(traceback.format_exception(problem)))
    return _complain("this is a bug of gcfuzz itself; please report it", HARNESS_BUG)
