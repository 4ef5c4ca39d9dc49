"""Many sessions: merge, the page of a night, and what is known of its failures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fuzz.plain import path_argument, shell_words
from fuzz.problems import BadInputError
from fuzz.terminal.commands.group import PLACE, cli, name_option
from fuzz.terminal.exit_codes import BAD_INPUT, CLEAN, INCONCLUSIVE, MISMATCH, complain
from fuzz.terminal.screen import Screen
from fuzz.terminal.target_options import FILE, TargetChoice, day, share, target_options, url
from fuzz.version import __version__

if TYPE_CHECKING:
    from fuzz.nights.night import Night


@cli.command("merge")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=PLACE)
@click.option("-o", "--output", metavar="FOLDER", required=True, type=PLACE, help="The new corpus.")
def merge_command(folders: tuple[Path, ...], output: Path) -> int:
    """Merge corpora. Parts of one session become what the whole session would have left."""
    from fuzz.nights.merge import merge
    from fuzz.terminal.session_report import print_record

    merged = merge(folders, output)
    for each in merged.records:
        print_record(Screen(), each)
    for problem in (*(f"left out: {each}" for each in merged.left_out), *merged.missing):
        Screen().print(problem, "red")
    if merged.left_out:
        return BAD_INPUT
    return INCONCLUSIVE if merged.missing else CLEAN


@cli.command("report")
@click.argument("places", metavar="CORPUS|SUMMARY...", nargs=-1, required=True, type=PLACE)
@target_options
@name_option
@click.option("-o", "--output", metavar="HTML", required=True, type=FILE, help="The page to write.")
@click.option(
    "--history",
    "history_path",
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
    from fuzz.nights import failure_history as history
    from fuzz.nights import night
    from fuzz.nights.corpora import command_of
    from fuzz.nights.material import read_material
    from fuzz.terminal.night_build import NightBuild

    try:
        from fuzz.terminal import night_summary
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
    for line in night_summary.combination_lines(current):
        screen.print(f"held at once: {line}")
    screen.print(f"{output}: {night_summary.verdict_of(current)}; open it in a browser")
    was_replayed = any(each.tonight.runs for each in current.failures)
    if build.unable and current.not_replayed and not was_replayed:
        return complain(f"no failure could be replayed: {build.unable}", BAD_INPUT)
    return code_of_night(current, fail_on)


def code_of_night(current: Night, fail_on: str | None) -> int:
    """The exit code of a report. Muted causes do not count."""
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
    from fuzz.nights import failure_history as history

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
