"""Fuzzing: `gcfuzz run`, and `gcfuzz check`, which tries a target before it is fuzzed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fuzz.files import FAILURES_FOLDER
from fuzz.problems import BadInputError
from fuzz.terminal.addresses import uploading
from fuzz.terminal.commands.group import PLACE, cli, engine_option, name_option, workers_option
from fuzz.terminal.exit_codes import CLEAN, INCONCLUSIVE, MISMATCH, UNFINISHED_MISMATCH
from fuzz.terminal.screen import Screen
from fuzz.terminal.target_options import (
    FILE,
    OneOf,
    TargetChoice,
    chunk_range,
    duration_option,
    options_of_session,
    part,
    target_options,
)
from fuzz.version import HYPOTHESIS, other_hypothesis

if TYPE_CHECKING:
    from fuzz.nights.known_failures import KnownFailures
    from fuzz.sessions.plan import Plan
    from fuzz.sessions.record import SessionRecord
    from fuzz.sessions.session_events import Finished, Listener

SEED_BYTES = 4
"""The size of a seed that is drawn because none is given."""
DEFAULT_SECONDS = 30.0
HELP_REDUCE_TIME = "Time to reduce all failures together: 30s.  [default: half of --time]"
CHUNK_ACTIONS_MAX = 1_000_000
COUNT = click.IntRange(min=1)


@cli.command()
@target_options
@click.option(
    "--before",
    metavar="OLD",
    help="Run the same traces on two versions of the --target, each the value of its option "
    "(--command, --library, --java, ...); or, without --target, on two targets.",
)
@click.option("--after", metavar="NEW", help="The other version: only its failures are reported.")
@click.option(
    "--fail-on",
    type=click.Choice(["weaker"]),
    help="Exit with 1 also if the contract of NEW promises, observes or carries out less.",
)
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
    "--combinations",
    is_flag=True,
    help="Count which facts held at once, in pairs and triples. On `reference` this doubles the "
    "time.",
)
@click.option(
    "--database", metavar="FOLDER", help="Share the examples of --engine stateful in a folder."
)
@duration_option("--time", "seconds", help="Budget: 30s, 10m, 2h. [default: 30s]")
@duration_option("--reduce-time", "reduce_seconds", help=HELP_REDUCE_TIME)
@click.option("--actions", type=COUNT, help="Budget in actions. The result is then reproducible.")
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
    type=COUNT,
    help="Stop after this many failures that reproduce.",
)
@click.option(
    "--known",
    "known_ids",
    metavar="ID",
    multiple=True,
    help="A cause or a failure in the corpus's history that this session takes as muted.",
)
@click.option(
    "--without",
    metavar="ACTION",
    multiple=True,
    type=OneOf("fuzz.protocol.actions", "ACTIONS", "`gcfuzz help protocol`"),
    help="Leave out an action, so that a known failure does not hide others.",
)
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

    from fuzz.failures import corpus
    from fuzz.files import check_writable
    from fuzz.nights.known_failures import KnownFailures
    from fuzz.sessions import record
    from fuzz.terminal.corpus_first import replay_corpus_first

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
    # A session that goes on reports its own failures, and a comparison's traces need both targets.
    # Only the workers of a cluster may have the program.
    is_first = earlier is None and plan.before is None and cluster is None
    still_fails = is_first and replay_corpus_first(Screen(), choice, plan, known)
    finished = _run_session(plan, cluster, earlier, known)
    if summary is not None:
        record.write(finished.record, summary)
    if finished.problem is not None:
        raise finished.problem
    is_wrong = still_fails or (fail_on is not None and bool(plan.why_weaker))
    return code_of_session(finished, known, is_wrong)


def code_of_session(finished: Finished, known: KnownFailures, is_wrong: bool) -> int:
    """The exit code of a session that has ended. Known failures make no difference.

    `is_wrong` means that more than its own failures is: a saved trace, or a weaker contract.
    """
    from fuzz.failure import BROKE, UNCLEAR
    from fuzz.sessions.record import INTERRUPTED

    unknown = [saved for saved in finished.failures if not known.why(saved)]
    if is_wrong or any(each.is_certain or each.failure.change == UNCLEAR for each in unknown):
        return UNFINISHED_MISMATCH if finished.stop_reason == INTERRUPTED else MISMATCH
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

    from fuzz.failures.compare import Before
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


@cli.command("check")
@target_options
@click.option(
    "--verbose", is_flag=True, help="List all names, also those that a contract may have."
)
@click.option(
    "--suggest",
    "suggests",
    is_flag=True,
    help="Collect traces instead, and find the keys of the contract with which the answers fit.",
)
def check_command(choice: TargetChoice, verbose: bool, suggests: bool) -> int:
    """Try each action and setting of a target's contract once, in seconds."""
    from fuzz.sessions.handshake import shake_hands
    from fuzz.terminal import report

    if suggests:
        return _suggest(choice)
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


def _suggest(choice: TargetChoice) -> int:
    from fuzz.suggestions.suggest import suggest
    from fuzz.terminal.suggestion_report import print_suggestion

    found = suggest(choice.make())
    print_suggestion(Screen(), found)
    return CLEAN if found.is_clean else MISMATCH
