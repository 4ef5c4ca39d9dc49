"""A night in a few lines: as text, in Markdown for a job's page, and as JUnit's XML.

Invariant: foreign text is only text. In Markdown it is code, which has no links and no mentions,
except the address of an issue.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

import jinja2

from fuzz.nights.failure_history import FIXED, FLAKY, MUTED, NOT_LOOKED_FOR, OPEN
from fuzz.nights.night import BACK, COUNTED, NEW, Night, NightCause
from fuzz.nights.night_reach import reached_in
from fuzz.plain import counted, is_url, plain
from fuzz.terminal.saved_report import how_seen_once

LINES_MAX = 50
"""Causes in Markdown: a comment of GitHub's has at most 65,536 characters."""
TEXT_MAX = 300


def verdict_of(night: Night) -> str:
    """The number of causes by news and state, and of failures that were not replayed."""
    counts = night.counts()
    names = [*COUNTED, *([NOT_LOOKED_FOR] if counts[NOT_LOOKED_FOR] else [])]
    verdict = ", ".join(f"{counts[each]:,} {each}" for each in names)
    rest = f"; {counted(night.not_replayed, 'failure')} not replayed"
    return verdict + (rest if night.not_replayed else "")


def problems_of(night: Night) -> Iterator[str]:
    """A line for each file that was left out, and one for each other reason to look again."""
    yield from (f"left out: {problem}" for problem in night.left_out)
    if night.unreduced:
        yield (
            f"{counted(len(night.unreduced), 'failure')} found but not reduced, since a session "
            f"was killed or still runs: {', '.join(night.unreduced)}; run it with --resume, or "
            "`gcfuzz reduce FILE` and delete FILE"
        )
    if night.unnamed:
        yield (
            f"{counted(len(night.unnamed), 'trace')} of failures that no record names, so this "
            f"page does not judge them: {', '.join(night.unnamed)}; run `gcfuzz replay FILE`"
        )
    for (target, name), commands in night.commands.items():
        if len(commands) > 1:
            yield (
                f"sessions of {' '.join(filter(None, (target, name)))} ran several commands: "
                f"{', '.join(commands)}; if these are different programs, run and report each with "
                "a --name of its own"
            )


def combination_lines(night: Night) -> Iterator[str]:
    """How many pairs and triples of facts were reached, a line for each target."""
    for target, several in night.combinations().items():
        yield f"{target}: {', '.join(map(str, several))}"


def status_of(cause: NightCause) -> str:
    """The state of a cause, and what is new in it."""
    first = cause.first
    failed, runs = (sum(each) for each in zip((0, 0), *first.life.runs, strict=True))
    what: str = cause.state
    if cause.state == FLAKY:
        what = f"flaky ({failed} of {runs})"
    if cause.state == MUTED:
        what = str(first.mute)
    return f"{cause.news}, {what}" if cause.news in {NEW, BACK} else what


def notes_on(cause: NightCause) -> Iterator[str]:
    """What a reader wants to know of a cause: since when, where, and whether it still fails."""
    each, life = cause.first, cause.life
    saved, tonight = each.saved, each.tonight
    if life.sessions:
        yield f"first seen {life.first_seen}, last seen {life.last_seen}"
        yield f"found by {counted(len(life.sessions), 'session')}"
    if life.versions:
        yield f"failed on {', '.join(life.versions)}"
    last_good, first_bad, fixed_in = cause.bounds
    if fixed_in:
        yield f"fixed in {fixed_in}"
    elif last_good:
        yield f"last good version {last_good}, first bad version {first_bad}"
    for page in each.pages:
        yield f"known, perhaps: see `gcfuzz help findings/{page}`"
    if not saved.reproduced:
        yield how_seen_once(saved.tries)
    if tonight.runs:
        how = "passes" if not tonight.failed else "fails"
        if 0 < tonight.failed < tonight.runs:
            how = f"fails {tonight.failed} times of {tonight.runs}"
        yield f"replayed when this page was made: it {how}"
    elif each.why_not_replayed:
        yield f"not replayed: {each.why_not_replayed}"


def markdown(night: Night) -> str:
    """The causes that are not fixed, in the order of the page, and the nights."""
    loader = jinja2.PackageLoader("fuzz", "terminal")
    # Without escapes of HTML: `_code` makes text of all that is foreign.
    environment = jinja2.Environment(loader=loader, trim_blocks=True, keep_trailing_newline=True)  # noqa: S701
    environment.filters |= {"code": _code, "counted": counted, "status": status_of}
    environment.tests["url"] = is_url
    return environment.get_template("night_summary.md").render(
        night=night,
        causes=[each for each in night.causes if each.state != FIXED or each.news],
        shown_max=LINES_MAX,
        verdict=verdict_of(night),
        problems=[*problems_of(night)],
        reached=reached_in(night.probes()),
        combinations=[*combination_lines(night)],
    )


def _code(text: str) -> str:
    """Text as code in a cell of a table."""
    return f"`{plain(text, TEXT_MAX).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def junit(night: Night) -> str:
    """A test for each cause: it fails if it is open, and is skipped if that is not certain."""
    suite = ET.Element("testsuite", name="gcfuzz", timestamp=night.at)
    for cause in night.causes:
        saved = cause.first.saved
        name = f"{' / '.join(saved.failure.identity)} [{cause.id}]"
        names = {"classname": plain(cause.target), "name": plain(name)}
        case = ET.SubElement(suite, "testcase", names)
        if cause.state != FIXED:
            kind = "failure" if cause.state == OPEN else "skipped"
            result = ET.SubElement(case, kind, message=plain(status_of(cause)))
            issue = [f"issue: {cause.issue}"] if cause.issue else []
            notes = [saved.failure.message, *issue, *notes_on(cause)]
            result.text = "\n".join(map(plain, notes))
    for count, kind in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
        suite.set(count, str(len([*suite.iter(kind)])))
    ET.indent(suite)
    return f"{ET.tostring(suite, encoding='unicode')}\n"
