"""Single traces: replay, reduce, record and explain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fuzz.plain import counted, path_argument, shell_words
from fuzz.problems import BadInputError
from fuzz.terminal.commands.group import PLACE, cli
from fuzz.terminal.exit_codes import BAD_INPUT, CLEAN, INCONCLUSIVE, MISMATCH
from fuzz.terminal.screen import Screen
from fuzz.terminal.target_options import FILE, TargetChoice, target_options

if TYPE_CHECKING:
    from fuzz.protocol.trace import Header
    from fuzz.replay import Step

STANDARD_OUTPUT = Path("-")


@cli.command("replay")
@click.argument("places", metavar="FILE|DIR...", nargs=-1, required=True, type=PLACE)
@target_options
def replay_command(places: tuple[Path, ...], choice: TargetChoice) -> int:
    """Replay traces on the target that each names, or on another.

    In a folder with a failures.history, traces of muted failures are left out.
    """
    from fuzz.terminal.replays import Replays
    from fuzz.terminal.report import print_replays

    replays = Replays(choice)
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

    from fuzz.failures import corpus
    from fuzz.protocol import trace as traces
    from fuzz.protocol.target import contract_of
    from fuzz.replay import replay
    from fuzz.terminal import saved_report

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
    saved_report.print_found(screen, 1, failure, length)
    saved = corpus.reduce_saved(origin, found)
    if saved.path != path:
        saved = corpus.publish(saved)
    saved_report.print_saved(screen, 1, saved, attrs.evolve(origin, options=choice.options))
    return MISMATCH if saved.reproduced else INCONCLUSIVE


@cli.command("record")
@click.argument("path", metavar="TRACE", type=PLACE)
@target_options
@click.option("-o", "--output", required=True, type=FILE, help="The recording to write.")
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
    check_other(output, path)
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
    from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
    from fuzz.terminal.report import earlier_traces

    trace = traces.read(path)
    name = choice.name_for(trace.header.target)
    title = f"{path} on {name}"
    if trace.header.earlier:
        title += f", after {earlier_traces(len(trace.header.earlier))}"
    steps = replay_steps(choice.make_for(trace.header), trace, str(path))
    if page_path is not None:
        check_other(page_path, path)
        code = _write_page(page_path, title, trace.header, steps)
        if page_path == STANDARD_OUTPUT:
            return code
    else:
        code = _explain(title, steps)
    # A known bug's trace passes without the bug.
    for bug in trace.header.kills if code == CLEAN else ():
        if bug in KNOWN_BUGS and KNOWN_BUGS[bug].target != name:
            target = KNOWN_BUGS[bug].target
            command = shell_words(["gcfuzz", "explain", path_argument(path), "--target", target])
            Screen().print(f"passes here; `{command}` shows the failure")
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


def check_other(output: Path, trace: Path) -> None:
    """Raise BadInputError if a command would write over the trace that it reads."""
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
