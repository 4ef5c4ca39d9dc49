"""The command line, `gcfuzz`.

Exit codes: 0 clean, 1 a mismatch, 2 bad input, 3 inconclusive (a failure did not reproduce, the
command was interrupted, or something to be found was not found), 4 a bug of gcfuzz itself. If
several apply, 4 comes before 2 before 1 before 3.

Each command imports what it needs in its own body, because imports are most of the time of a short
command.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fuzz.files import FAILURES_FOLDER
from fuzz.plain import counted, path_argument, plain, shell_words
from fuzz.problems import BadInputError, HarnessError, InterruptedWorkError, notes_of
from fuzz.terminal.addresses import PathOrAddress, uploading, with_addresses
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
    day,
    duration_option,
    fail_on_weaker_option,
    options_of_session,
    part,
    path_options,
    share,
    target_options,
    url,
    without_option,
)
from fuzz.version import HYPOTHESIS, __version__, other_hypothesis

if TYPE_CHECKING:
    from fuzz.protocol.trace import Header
    from fuzz.replay import Step
    from fuzz.sessions.known_failures import KnownFailures
    from fuzz.sessions.night import Night
    from fuzz.sessions.plan import Plan
    from fuzz.sessions.record import SessionRecord
    from fuzz.sessions.session_events import Finished, Listener
    from fuzz.targets import TargetOptions

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE, HARNESS_BUG, UNFINISHED_MISMATCH = range(6)
WORKERS_MAX = 256
SEED_BYTES = 4
"""The size of a seed that is drawn because none is given."""
DEFAULT_SECONDS = 30.0
SEEDS_HUNTED, SEEDS_HUNTED_MAX = 20, 1000
REPEATS_MAX = 1_000_000
HELP_REDUCE_TIME = "Time to reduce all failures together: 30s.  [default: half of --time]"
CHUNK_ACTIONS_MAX = 1_000_000
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EFBIG}
"""Too few open files, processes, memory, or disk space."""
PLACE = PathOrAddress()
FILE = click.Path(path_type=Path, dir_okay=False)
STANDARD_OUTPUT = Path("-")


engine_option = click.option(
    "--engine", type=OneOf("fuzz.sessions.plan", "ENGINES"), default="random", show_default=True
)
name_option = click.option(
    "--name",
    "session_name",
    default="",
    help="What distinguishes the program from others in a history, whatever its path is.",
)
workers_option = functools.partial(click.option, "--workers", type=click.IntRange(1, WORKERS_MAX))


class Commands(click.Group):
    """The commands. One that takes a target loads the registrations when it is called."""

    command_class = TargetsCommand


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Find bugs in garbage collectors and allocators that sample their allocations."""


@cli.command()
@target_options
@before_option
@after_option
@fail_on_weaker_option
@engine_option
@click.option("--seed", type=click.IntRange(min=0), help="The seed; drawn and printed if left out.")
@workers_option(default=1, show_default=True, help="Number of processes.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Run on the workers of a Dask cluster: tcp://scheduler:8786, or local:2 for two here.",
)
@click.option(
    "--canary",
    "has_canary",
    is_flag=True,
    help="First check that each worker finds a planted bug; --cluster always does.",
)
@click.option(
    "--database",
    metavar="ADDRESS",
    help="Share the examples of --engine stateful in a folder or at redis://host.",
)
@duration_option("--time", "seconds", help="Budget: 30s, 10m, 2h. [default: 30s]")
@duration_option("--reduce-time", "reduce_seconds", help=HELP_REDUCE_TIME)
@click.option(
    "--actions",
    type=click.IntRange(min=1),
    help="Budget in actions. The result is then reproducible.",
)
@click.option(
    "--chunks",
    metavar="FROM:TO",
    type=chunk_range,
    help="Budget as a range of chunks, 0:5120, to run them again.",
)
@click.option(
    "--chunk-actions",
    type=click.IntRange(1, CHUNK_ACTIONS_MAX),
    help="Actions in a chunk; parts need the same number.  [default: the target's]",
)
@click.option(
    "--part",
    metavar="K/N",
    type=part,
    help="Run one part of the session: 3/16 is the third of sixteen.",
)
@click.option(
    "--resume", is_flag=True, help="Continue the session with these options where it stopped."
)
@click.option(
    "--corpus",
    type=PLACE,
    default=FAILURES_FOLDER,
    show_default=True,
    help="Where failures are saved: a folder, created if missing, or s3://bucket/night.",
)
@name_option
@click.option("--summary", type=FILE, help="Write a summary as JSON.")
@click.option("-x", "stops_first", is_flag=True, help="Stop after the first failure.")
@click.option(
    "--max-failures",
    "failures_max",
    type=click.IntRange(min=1),
    help="Stop after this many failures that reproduce.",
)
@click.option(
    "--known",
    "known_ids",
    metavar="ID",
    multiple=True,
    help="A cause or a failure in the corpus's history that this session takes as muted.",
)
@without_option
def run(  # noqa: PLR0913 - the options of the command
    choice: TargetChoice,
    summary: Path | None,
    resume: bool,
    cluster: str | None,
    seed: int | None,
    known_ids: tuple[str, ...],
    fail_on: str | None,
    **options: Any,  # noqa: ANN401 - those of the plan
) -> int:
    """Fuzz a target until the budget is used up, or compare two targets."""
    import attrs

    from fuzz.failure import BROKE, UNCLEAR
    from fuzz.files import check_writable
    from fuzz.sessions import corpus, record
    from fuzz.sessions.known_failures import KnownFailures

    if cluster is not None:
        options["has_canary"] = True
    if options["part"] is not None and seed is None and not resume:
        raise BadInputError("--part needs --seed, the same for each part")
    plan = _plan(choice, seed, **options).under_contract()
    if fail_on is not None and plan.before is None:
        raise BadInputError(
            f"--fail-on {fail_on} compares two contracts: give --before and --after"
        )
    corpus.open_folder(plan.corpus)
    known = KnownFailures(plan, known_ids)
    plan = attrs.evolve(plan, known=known.identities)
    earlier = None
    if resume:
        plan, earlier = record.resumed(plan, any_seed=seed is None)
        others = other_hypothesis(each.versions.get(HYPOTHESIS) for each in earlier.timing)
        if others is not None:
            Screen().print(
                f"resumed: earlier chunks were drawn with {others}: no one session draws both"
            )
    if summary is not None:
        check_writable(summary)
    finished = _run_session(plan, cluster, earlier, known)
    if summary is not None:
        record.write(finished.record, summary)
    if finished.problem is not None:
        raise finished.problem
    unknown = [saved for saved in finished.failures if not known.why(saved)]
    is_weaker = fail_on is not None and bool(plan.why_weaker)
    if is_weaker or any(each.is_certain or each.failure.change == UNCLEAR for each in unknown):
        return UNFINISHED_MISMATCH if finished.stop_reason == record.INTERRUPTED else MISMATCH
    is_clean = not any(saved.failure.change == BROKE for saved in unknown)
    return CLEAN if finished.is_done and is_clean else INCONCLUSIVE


def _plan(  # noqa: PLR0913 - the options of the command
    choice: TargetChoice,
    seed: int | None,
    *,
    before: str | None,
    after: str | None,
    chunks: range | None,
    part: slice | None,
    stops_first: bool,
    without: tuple[str, ...],
    session_name: str,
    **fields: Any,  # noqa: ANN401 - of the plan, by their names
) -> Plan:
    """The plan of a session. Raises BadInputError."""
    import attrs

    from fuzz.sessions.compare import Before
    from fuzz.sessions.plan import UNLIMITED, Plan
    from fuzz.targets import chunk_actions_of

    budgets = {"--time": fields["seconds"], "--actions": fields["actions"], "--chunks": chunks}
    given = [name for name, value in budgets.items() if value is not None]
    if len(given) > 1:
        raise BadInputError(f"{' and '.join(given)} are budgets; give one of them")
    engine, earlier = fields["engine"], None
    if fields["database"] is not None and engine != "stateful":
        raise BadInputError(
            f"--engine {engine} has no examples to share; --database needs --engine stateful"
        )
    if before is not None and after is not None:
        if engine != "random":
            raise BadInputError(
                f"--engine {engine} cannot compare two targets; --before needs --engine random"
            )
        compared = choice.version(before)
        options = attrs.evolve(compared.options, without=without)
        earlier = Before(compared.name_without_trace, options)
        choice = choice.version(after)
    elif before is not None or after is not None:
        raise BadInputError("--before and --after name the two to compare; give both of them")
    fields["seconds"] = fields["seconds"] if given else DEFAULT_SECONDS
    fields["failures_max"] = 1 if stops_first else fields["failures_max"]
    target = choice.name_without_trace
    options = attrs.evolve(choice.options, without=without)
    fields["chunk_actions"] = fields["chunk_actions"] or chunk_actions_of(target)
    return Plan(
        target=target,
        options=options_of_session(target, options, fields["workers"]),
        seed=int.from_bytes(os.urandom(SEED_BYTES)) if seed is None else seed,
        chunks=(chunks or range(UNLIMITED))[part or slice(None)],
        before=earlier,
        name=session_name,
        **fields,
    )


def _run_session(
    plan: Plan, address: str | None, earlier: SessionRecord | None, known: KnownFailures
) -> Finished:
    """Run a session here, or in the cluster at an address."""
    import attrs

    from fuzz.sessions.selfcheck import check_harness
    from fuzz.sessions.session import Session
    from fuzz.sessions.session_events import Started
    from fuzz.terminal.session_report import SessionReporter

    reporter = SessionReporter(Screen(), known)
    listeners: list[Listener] = [uploading(plan.corpus, reporter)]
    if address is None:
        reporter(Started(plan, check_harness(plan.target)))
        return Session(plan, listeners, earlier).run()
    from fuzz.sessions.cluster import connected

    with connected(address, plan) as cluster:
        plan = attrs.evolve(plan, workers=cluster.threads)
        reporter(Started(plan, check_harness(plan.target)))
        for worker, why in cluster.unable.items():
            if why is not None:
                Screen().print(f"{worker} gets no chunk: {why}", "yellow")
        return Session(plan, listeners, earlier, cluster.start_worker).run()


@cli.command("merge")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=PLACE)
@click.option("-o", "--output", metavar="FOLDER", required=True, type=PLACE, help="The new corpus.")
def merge_command(folders: tuple[Path, ...], output: Path) -> int:
    """Merge corpora. Parts of one session become what the whole session would have left."""
    from fuzz.sessions.merge import merge
    from fuzz.terminal.session_report import print_record

    merged = merge(folders, output)
    for each in merged.records:
        print_record(Screen(), each)
    for problem in (*(f"left out: {each}" for each in merged.left_out), *merged.missing):
        Screen().print(problem, "red")
    if merged.left_out:
        return BAD_INPUT
    return INCONCLUSIVE if merged.missing else CLEAN


@cli.command("replay")
@click.argument("places", metavar="FILE|DIR...", nargs=-1, required=True, type=PLACE)
@target_options
def replay_command(places: tuple[Path, ...], choice: TargetChoice) -> int:
    """Replay traces on the target that each names, or on another.

    In a folder with a failures.history, traces of muted failures are left out.
    """
    from fuzz.terminal.replays import Replays
    from fuzz.terminal.report import print_replays

    replays = Replays(choice, lambda problem: _complain(problem, BAD_INPUT))
    failed, unusable = print_replays(Screen(), replays.of(places))
    for line in replays.notes():
        Screen().print(line)
    if unusable:
        return BAD_INPUT
    if failed:
        return MISMATCH
    return INCONCLUSIVE if replays.unsure else CLEAN


@cli.command("reduce")
@click.argument("path", metavar="FILE", type=PLACE)
@target_options
@click.option(
    "--corpus",
    "corpus_folder",
    type=PLACE,
    help="Where the failure is saved; created if missing.  [default: FILE's own folder]",
)
def reduce_command(path: Path, choice: TargetChoice, corpus_folder: Path | None) -> int:
    """Reduce a failing trace to a few actions, and save it."""
    import attrs

    from fuzz.protocol import trace as traces
    from fuzz.protocol.target import contract_of
    from fuzz.replay import replay
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
    found_by = trace.header.found
    options = attrs.evolve(choice.options_for(trace.header), contract=contract_of(target))
    origin = corpus.Origin(
        folder,
        name,
        "replay" if found_by is None else found_by.engine,
        trace.header.seed,
        options,
        hypothesis=None if found_by is None else found_by.hypothesis,
    )
    length = len(failure.actions)
    found = corpus.SavedFailure(
        failure,
        path,
        length=length,
        reduced_from=(found_by and found_by.reduced_from) or length,
        chunk=0,
        reproduced=False,
    )
    report.print_found(screen, 1, failure)
    saved = corpus.reduce_saved(origin, found)
    if saved.path != path:
        saved = corpus.publish(saved)
    report.print_saved(screen, 1, saved, attrs.evolve(origin, options=choice.options))
    return MISMATCH if saved.reproduced else INCONCLUSIVE


@cli.command("record")
@click.argument("path", metavar="TRACE", type=PLACE)
@target_options
@click.option(
    "-o", "--output", metavar="FILE", required=True, type=FILE, help="The recording to write."
)
def record_command(path: Path, choice: TargetChoice, output: Path) -> int:
    """Save a trace with the target's answers. `replay` compares the target with such a recording.

    On the target of the recording, each field of each answer must be the same. On another target,
    only what the contract determines must be the same.
    """
    from fuzz.files import write_text
    from fuzz.protocol import trace as traces
    from fuzz.replay import record
    from fuzz.terminal.report import print_failure

    trace = traces.read(path)
    _check_other(output, path)
    name = choice.name_for(trace.header.target)
    recording, failure = record(choice.make_for(trace.header), trace, str(path))
    write_text(output, traces.dumps(recording))
    screen = Screen()
    performed = counted(len(recording.actions), "action")
    screen.print(f"{output}: {performed} on {name}, with its answers")
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
    help="Write a page to step through in a browser, with a graph of the objects; "
    "- is standard output.",
)
def explain_command(path: Path, choice: TargetChoice, page_path: Path | None) -> int:
    """Show a trace step by step, with each answer and a picture of the nursery."""
    from fuzz.protocol import trace as traces
    from fuzz.replay import replay_steps
    from fuzz.terminal.report import earlier_traces

    trace = traces.read(path)
    name = choice.name_for(trace.header.target)
    title = f"{path} on {name}"
    if trace.header.earlier:
        title += f", after {earlier_traces(len(trace.header.earlier))}"
    steps = replay_steps(choice.make_for(trace.header), trace, str(path))
    if page_path is not None:
        _check_other(page_path, path)
        code = _write_page(page_path, title, trace.header, steps)
        if page_path == STANDARD_OUTPUT:
            return code
    else:
        code = _explain(title, steps)
    if code == CLEAN:
        _print_where_it_fails(path, name, trace.header.kills)
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


def _print_where_it_fails(path: Path, passed: str, kills: tuple[str, ...]) -> None:
    """A known bug's trace passes without the bug: the command that plants the bug."""
    from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

    for bug in kills:
        if bug in KNOWN_BUGS and KNOWN_BUGS[bug].target != passed:
            target = KNOWN_BUGS[bug].target
            command = shell_words(["gcfuzz", "explain", path_argument(path), "--target", target])
            Screen().print(f"passes here; `{command}` shows the failure")


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
    help="A file to write: .json or .json.gz for the Firefox Profiler, .pb.gz for pprof, .heap for "
    "jeprof, .collapsed for flame graphs, .jsonl for the recording; may be given several times.",
)
@click.option(
    "--period",
    "period_bytes",
    metavar="SIZE",
    type=byte_size,
    help="Bytes between samples: 64, 4k, 1M.  [default: 4k; for a trace its own]",
)
@click.option(
    "--fixed", is_flag=True, help="Sample at exact distances, not at random ones with this mean."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), help="The seed of random distances.  [default: 1]"
)
@duration_option(
    "--time-period", "time_period_seconds", help="Sample the stack by time as well: 1ms, 10ms."
)
@click.option(
    "--repeat", type=click.IntRange(1, REPEATS_MAX), help="How often to run it.  [default: 1]"
)
@click.option(
    "--max-size",
    "max_bytes",
    metavar="SIZE",
    type=byte_size,
    help="The size limit of the recording.  [default: 100M]",
)
@click.option(
    "--diff",
    "before",
    metavar="RECORDING",
    type=FILE,
    help="Show the differences from this recording that are more than chance.",
)
def profile_command(
    what: Path,
    outputs: tuple[Path, ...],
    before: Path | None,
    **recording: Any,  # noqa: ANN401 - the options that are RecordingOptions
) -> int:
    """Profile the allocations of a program on the reference collector.

    WORKLOAD is gcbench, expressions, interpreter or allocate; a script, FILE.py; a trace; or a
    recording, which is exported without running anything. A script needs a function main(heap):
    gcfuzz profiles what it allocates in that heap, not Python's own memory.
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
        raise BadInputError(f"{what}: is not a recording yet; name a file for it: -o FILE.jsonl")
    is_whole = make_profile(profiled, outputs, options.recording_bytes, Screen().console, before)
    return CLEAN if is_whole else INCONCLUSIVE


@cli.command("check")
@target_options
@click.option(
    "--verbose", is_flag=True, help="List all names, also those that a contract may have."
)
def check_command(choice: TargetChoice, verbose: bool) -> int:
    """Try each action and setting of a target's contract once, in seconds."""
    from fuzz.sessions.handshake import shake_hands
    from fuzz.terminal import report

    try:
        handshake = shake_hands(choice.make())
    except BadInputError:
        if verbose:
            report.print_known_names(Screen())
        raise
    report.print_handshake(Screen(), handshake, choice.arguments, is_verbose=verbose)
    if handshake.failures:
        return MISMATCH
    return INCONCLUSIVE if handshake.untried else CLEAN


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
    default=min(os.cpu_count() or 1, WORKERS_MAX),
    help="Number of processes.  [default: that of the processors]",
)
@click.option("--trace", "shows_trace", is_flag=True, help="Show each bug's reduced trace.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def bugs_command(  # noqa: PLR0913 - the options of the command
    bugs: tuple[str, ...], engine: str, seeds: int, workers: int, shows_trace: bool, as_json: bool
) -> int:
    """Hunt the known bugs: which oracle finds each, how soon, and how short its trace becomes."""
    from fuzz.sessions.hunt import ACTIONS_MAX, hunt_all
    from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
    from fuzz.terminal import tables

    if shows_trace and as_json:
        raise BadInputError("--trace and --json are two output formats; give one of them")
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
    """Count how often each probe is reached, and show its smallest trace."""
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
@name_option
@click.option("-o", "--output", metavar="HTML", required=True, type=FILE, help="The page to write.")
@click.option(
    "--history",
    "history_path",
    metavar="FILE",
    type=FILE,
    help="What is known of failures from earlier nights; this night is added.  [default: "
    "failures.history in the first CORPUS]",
)
@click.option("--markdown", metavar="FILE", type=FILE, help="Write a summary for a CI job's page.")
@click.option("--junit", metavar="FILE", type=FILE, help="Write a test for each cause, as XML.")
@click.option(
    "--fail-on",
    type=click.Choice(["new", "open"]),
    help="Exit with 1 if a cause is new or came back; or if any is open. Muted ones do not count.",
)
def report_command(  # noqa: PLR0913 - the options of the command
    places: tuple[Path, ...],
    choice: TargetChoice,
    session_name: str,
    output: Path,
    history_path: Path | None,
    markdown: Path | None,
    junit: Path | None,
    fail_on: str | None,
) -> int:
    """Make one page of many sessions: what they found, reached and did.

    The input is corpora, which have a record of each session, summaries, and the output of `gcfuzz
    bugs --json`. Each known failure is replayed on the target. Beside the page are its figures as
    JSON, and a folder with traces and explanations.
    """
    from fuzz.files import write_text, writing
    from fuzz.sessions import failure_history as history
    from fuzz.sessions import night
    from fuzz.sessions.corpora import command_of
    from fuzz.sessions.material import read_material
    from fuzz.terminal import night_summary
    from fuzz.terminal.night_build import NightBuild

    try:
        from fuzz.terminal.night_page import write_night
    except ModuleNotFoundError as problem:
        raise BadInputError(
            f"a page needs {problem.name}, which `pip install 'gcfuzz[report]'` installs"
        ) from problem
    if output.suffix != ".html":
        raise BadInputError(f"{output}: the page's name must end in .html")
    for each in filter(None, (output, markdown, junit, history_path)):
        with writing(each):
            each.parent.mkdir(parents=True, exist_ok=True)
    material = read_material(places)
    if history_path is None:
        folder = next((place for place in places if place.is_dir()), output.parent)
        history_path = folder / history.NAME
    material.corpora.append(history_path.parent)
    earlier, build = history.read(history_path), NightBuild(choice, session_name)
    current = night.sum_up(material, earlier, build.replayed, __version__, history.now())
    write_night(current, material, output, build)
    if markdown is not None:
        write_text(markdown, night_summary.markdown(current))
    if junit is not None:
        write_text(junit, night_summary.junit(current))
    command = command_of(choice.arguments)
    current.keep_traces(material, history_path.parent, session_name, command)
    history.add(history_path, current.lines(earlier))
    screen = Screen()
    for line in night_summary.problems_of(current):
        screen.print(line, "red")
    screen.print(f"{output}: {night_summary.verdict_of(current)}; open it in a browser")
    was_replayed = any(each.tonight.runs for each in current.failures)
    if build.unable and current.not_replayed and not was_replayed:
        return _complain(f"no failure could be replayed: {build.unable}", BAD_INPUT)
    return _code_of_night(current, fail_on)


def _code_of_night(current: Night, fail_on: str | None) -> int:
    if current.left_out:
        return BAD_INPUT
    is_open = fail_on == "open" and any(each.is_broken for each in current.causes)
    if is_open or (fail_on and current.has_new):
        return MISMATCH
    return INCONCLUSIVE if current.unreduced else CLEAN


@cli.command("triage")
@click.argument("place", metavar="CORPUS|HISTORY", type=PLACE)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--mute-until",
    metavar="DATE",
    type=day,
    help="Until 2027-01-31 it is not new; an earlier date ends that.",
)
@click.option("--because", default="", help="Why it is muted.")
@click.option("--flaky", metavar="K/N", type=share, help="It failed in K of N runs.")
@click.option("--issue", metavar="URL", type=url, help="The issue about it.")
def triage_command(  # noqa: PLR0913 - the options of the command
    place: Path,
    ids: tuple[str, ...],
    mute_until: str | None,
    because: str,
    flaky: tuple[int, int] | None,
    issue: str | None,
) -> int:
    """Mute failures, call them flaky, or name their issue; without ID, list all failures.

    ID is that of a cause on the page, with all its failures, or that of one failure, as in the
    list. What was set is printed.
    """
    from fuzz.sessions import failure_history as history

    path = place / history.NAME if place.is_dir() else place
    if not path.exists():
        raise BadInputError(f"{path}: there is no such history; `gcfuzz report` makes one")
    lives = history.read(path).lives()
    known = {each for life in lives.values() for each in life.ids}
    if unknown := [each for each in ids if each not in known]:
        command = shell_words(["gcfuzz", "triage", path_argument(place)])
        raise BadInputError(f"{path}: has no failure {unknown[0]}; `{command}` lists them")
    is_known = bool(mute_until or flaky or issue)
    if ids and not is_known:
        raise BadInputError("what is known of it? Give --mute-until, --flaky or --issue")
    if is_known and not ids:
        raise BadInputError("which failure? Name its ID")
    if ids:
        what = *(flaky or (0, 0)), mute_until or "", because, issue or ""
        history.add(path, [history.Triaged(history.now(), each, *what) for each in ids])
        lives = history.read(path).lives()
    for _, life in sorted(lives.items()):
        if not ids or life.ids & {*ids}:
            Screen().print(history.described(life))
    return CLEAN


@cli.command("targets")
@click.option(
    "--available",
    is_flag=True,
    help="List the real ones: the version of each that runs here, and what the others need.",
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


@cli.command("schema")
def schema_command() -> int:
    """Print a JSON Schema of the lines of programs and trace files."""
    from fuzz.protocol.schema import schema

    click.echo(json.dumps(schema(), indent=1))
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
        for note in notes_of(problem):
            _complain_at_length(note)
        code = _complain(str(problem), BAD_INPUT)
    except HarnessError as problem:
        code = _complain_at_length(f"gcfuzz: {problem.what} is broken: {problem}")
    except InterruptedWorkError as problem:
        code = _complain(f"interrupted; {problem}", INCONCLUSIVE)
    except (click.Abort, KeyboardInterrupt):
        code = _complain("interrupted", INCONCLUSIVE)
    except Exception as problem:  # noqa: BLE001 - all others
        code = _unexpected(problem)
    code = code if isinstance(code, int) else CLEAN
    why = lost_output()
    if why is not None and code != HARNESS_BUG:
        return _complain(f"standard output: {why}; the command went on without it", BAD_INPUT)
    return code


def _complain(message: str, code: int) -> int:
    line = plain(with_addresses(f"gcfuzz: {message}"))
    if sys.stderr.isatty():
        line = in_columns(line, shutil.get_terminal_size().columns)
    click.echo(line, err=True)
    return code


def _complain_at_length(message: str) -> int:
    """Several lines: a bug of gcfuzz has a traceback."""
    for line in message.splitlines():
        click.echo(plain(line), err=True)
    return HARNESS_BUG


def _unexpected(problem: Exception) -> int:
    """An error of the system with a file, a shortage, or a bug of gcfuzz."""
    if isinstance(problem, OSError) and problem.filename:
        return _complain(f"{problem.filename}: {problem.strerror}", BAD_INPUT)
    if isinstance(problem, OSError) and problem.errno in SHORTAGES:
        return _complain(f"{problem.strerror}; see `ulimit -a` and `df`", BAD_INPUT)
    import traceback

    _complain_at_length("".join(traceback.format_exception(problem)))
    return _complain("this is a bug of gcfuzz itself; please report it", HARNESS_BUG)
