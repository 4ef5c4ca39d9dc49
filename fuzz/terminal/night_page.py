"""A night as one HTML page, with what it refers to beside it. Needs the extra `report`.

The page is made from `night_page.html`, a template of Jinja's, which escapes all values. Beside
`night.html` are `night.json`, with the figures, and the folder `night`, with the trace of each
failure and the page of `gcfuzz explain`. Invariant: the page refers to nothing else, so the three
can be moved together, and no network is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from fuzz.files import write_text, writing
from fuzz.plain import LINE_MAX, counted, plain, shell_words
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.trace import Trace
from fuzz.replay import replay_steps
from fuzz.run import BROKE
from fuzz.sessions.night import (
    HuntedBugs,
    Material,
    Night,
    NightFailure,
    by_likely_cause,
    target_name,
)
from fuzz.sessions.record import ACTIONS, FAILURES, TIME, SessionRecord, Timing
from fuzz.targets import make_target
from fuzz.terminal.explain_page import Page, fails, make_page, render
from fuzz.terminal.night_plots import COLOURS, draw_plots, look_of, unit_of
from fuzz.terminal.report import describe_action, how_seen_once
from fuzz.terminal.session_report import STOPPED
from fuzz.terminal.target_options import TargetChoice

ACTIONS_MAX = 30
"""How many actions of a failure are shown, the last ones."""
RAREST = 10
MOST, ALSO = "●", "○"


def write_night(night: Night, material: Material, output: Path, choice: TargetChoice) -> None:
    """Write the page `output` and what is beside it. Raises BadInputError.

    `choice` is the target on the command line, for the explanations, which replay the traces.
    """
    make = functools.cache(make_target)  # One process serves many traces.

    def explain(trace: Trace, path: Path) -> Page:
        name = choice.name_for(trace.header.target)
        steps = replay_steps(make(name, choice.options_for(trace.header)), trace, str(path))
        return make_page(f"{path.name} on {name}", trace.header.config, steps)

    folder = output.with_suffix("")
    with writing(folder):
        folder.mkdir(exist_ok=True)
    failures = []
    for group in by_likely_cause(night.failures, material):
        like = ""
        for each in group:
            shown = _failure(each, material.path_of(each), folder, explain)
            failures.append(shown | {"like": like})
            like = like or shown["identity"]
    write_text(output.with_suffix(".json"), night.dumps())
    write_text(output, render_night(night, failures, output.stem))


def _failure(
    each: NightFailure, path: Path | None, folder: Path, explain: Callable[[Trace, Path], Page]
) -> dict[str, Any]:
    """The data of a failure, whose files are written into the folder. Raises BadInputError."""
    saved, failure = each.saved, each.saved.failure
    notes = [f"known, perhaps: see `gcfuzz help findings/{page}`" for page in each.pages]
    if not saved.reproduced:
        notes.append(how_seen_once(saved.tries))
    is_reduced = saved.length < saved.reduced_from
    reduced = f", reduced from {saved.reduced_from:,}" if is_reduced else ""
    shown: dict[str, Any] = {
        "status": each.status,
        "identity": " / ".join(failure.identity),
        "where": f"{each.target}, {counted(saved.length, 'action')}{reduced}",
        "message": failure.message,
        "notes": notes,
    }
    if path is None:
        notes.append("its trace is in none of the places that were read")
        return shown
    trace = traces.read(path)
    copy = folder / path.name
    write_text(copy, traces.dumps(trace))
    left_out = max(0, len(trace.actions) - ACTIONS_MAX)
    href = f"{folder.name}/{copy.name}"
    shown |= {
        "trace": href,
        "command": shell_words(["gcfuzz", "replay", href, *each.options]),
        "actions": [describe_action(action) for action in trace.actions[left_out:]],
        "first": left_out + 1,
        "left_out": counted(left_out, "action") if left_out else "",
    }
    notes += [f"planted: {bug}" for bug in trace.header.kills]
    page_path = copy.with_suffix(".html")
    try:
        page = explain(trace, path)
    except BadInputError as problem:
        notes.append(f"not explained: {problem}")
        return shown
    write_text(page_path, render(page))
    if failure.change == BROKE:
        how = "fails" if fails(page) else "passes"
        notes.append(f"replayed when this page was made: it {how}")
    return shown | {"page": f"{folder.name}/{page_path.name}"}


def render_night(night: Night, failures: Sequence[Mapping[str, Any]], name: str) -> str:
    """The page of that name as HTML. Foreign text is always text in it, and never markup."""
    environment = jinja2.Environment(autoescape=True, finalize=_one_line)
    template = (files("fuzz.terminal") / "night_page.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        title=f"{name}: {counted(len(night.timing), 'session')}",
        contents=[*_contents(night)],
        has_new=bool(night.counts()["new"]),
        verdict=", ".join(f"{number:,} {status}" for status, number in _verdict(night)),
        glance=[*_glance(night)],
        failures=failures,
        plots=[(what, Markup(svg)) for what, svg in draw_plots(night.timing)],  # noqa: S704 - ours
        quiet=_duration(night.quiet_seconds),
        wrong_actions=_wrong_actions(night.wrong_actions()),
        probes=[_reached(target, counts) for target, counts in sorted(night.probes().items())],
        lost=[*_lost(night)],
        hunts=[_matrix(hunted) for hunted in night.hunts],
        sessions=[*_sessions(night)],
        version=night.gcfuzz,
        data=f"{name}.json",
    )


def _one_line(value: object) -> object:
    """A string as plain text in one line; other values as they are."""
    return plain(value, LINE_MAX) if type(value) is str else value


def _contents(night: Night) -> Iterator[tuple[str, str]]:
    """The sections: their names, and the texts of the links to them."""
    yield from (("failures", "failures"), ("time", "over time"))
    if night.wrong_actions():
        yield "wrong-actions", "first wrong answers by oracle"
    yield "probes", "probes"
    if any(_lost(night)):
        yield "lost", "chunks lost"
    for number, hunted in enumerate(night.hunts, 1):
        yield f"bugs-{number}", f"known bugs ({hunted.engine})"
    yield "sessions", "sessions"


def _verdict(night: Night) -> Iterator[tuple[str, int]]:
    counts = night.counts()
    for status in ("new", "known", "vanished"):
        yield status, counts[status]


def _glance(night: Night) -> Iterator[tuple[str, str]]:
    for status, number in _verdict(night):
        yield f"{status} failures", f"{number:,}"
    unsure = sum(each.is_current and not each.saved.reproduced for each in night.failures)
    yield "did not replay", f"{unsure:,}"
    reached = [times > 0 for counts in night.probes().values() for times in counts.values()]
    yield "probes reached", f"{sum(reached):,} / {len(reached):,}"
    yield "actions", f"{sum(session.totals.actions for session in night.sessions):,}"
    yield "chunks lost", f"{sum(len(lost) for _, lost in _lost(night)):,}"
    yield "since the last new", _duration(night.quiet_seconds)


def _duration(seconds: float) -> str:
    unit, size = unit_of(seconds)
    return f"{seconds / size:,.0f} {unit}"


def _lost(night: Night) -> Iterator[tuple[str, tuple[int, ...]]]:
    for session in night.sessions:
        lost = tuple(chunk for piece in session.pieces for chunk in piece.lost)
        if lost:
            yield _name_of(session), lost


def _name_of(session: SessionRecord) -> str:
    plan = session.plan
    return f"{target_name(plan)}, {plan.engine} engine, seed {plan.seed}"


def _wrong_actions(counts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """A row for each action with a first wrong answer, a column for each oracle."""
    oracles = sorted(counts)
    actions = sorted({action for of_oracle in counts.values() for action in of_oracle})
    rows = [(action, [counts[oracle].get(action, 0) for oracle in oracles]) for action in actions]
    return {"columns": oracles, "rows": rows}


def _reached(target: str, counts: Mapping[str, int]) -> dict[str, Any]:
    """The probes of a target."""
    reached = sorted((times, name) for name, times in counts.items() if times)
    return {
        "name": target,
        "all": len(counts),
        "reached": len(reached),
        "missing": [name for name, times in counts.items() if not times],
        "rarest": [(name, f"{times:,}") for times, name in reached[:RAREST]],
    }


def _matrix(hunted: HuntedBugs) -> dict[str, Any]:
    """Which oracle catches which known bug."""
    oracles = sorted({oracle for bug in hunted.bugs for oracle in bug.oracles})
    rows = [
        {
            "id": bug.id,
            "found": bug.found,
            "oracles": ", ".join(bug.oracles) or "none",
            "marks": [_mark(oracle, bug.oracles) for oracle in oracles],
            "median": "-" if bug.actions_median is None else f"{bug.actions_median:,.0f}",
            "worst": "-" if bug.actions_worst is None else f"{bug.actions_worst:,}",
        }
        for bug in hunted.bugs
    ]
    found = sum(bug.found for bug in hunted.bugs)
    return {
        "engine": hunted.engine,
        "columns": oracles,
        "rows": rows,
        "found": f"{found} of {counted(len(rows), 'bug')} found with every one of "
        f"{counted(hunted.seeds, 'seed')}",
    }


def _mark(oracle: str, caught_by: Sequence[str]) -> str:
    """Whether an oracle caught a bug; the first of `caught_by` did so most often."""
    if oracle not in caught_by:
        return ""
    return MOST if oracle == caught_by[0] else ALSO


def _sessions(night: Night) -> Iterator[dict[str, Any]]:
    """The sessions of each plan, and the timing of each session with the look of its lines."""
    looks = map(look_of, count())
    for session in night.sessions:
        totals = session.totals
        did = ", ".join(
            [
                counted(totals.traces, "trace"),
                counted(totals.actions, "action"),
                counted(totals.samples, "sample"),
                counted(len(session.failures), "failure"),
            ]
        )
        yield {
            "did": f"{_name_of(session)}: {did};",
            "ended": STOPPED[session.stop_reason],
            "class": "" if session.stop_reason in {TIME, ACTIONS, FAILURES} else "wrong",
            "timing": [
                {"how": _how(timing), "colour": COLOURS[colour], "style": style}
                for timing, (colour, style) in zip(session.timing, looks, strict=False)
            ],
        }


def _how(timing: Timing) -> str:
    speed = timing.actions / max(timing.seconds, 0.001)
    how = _duration(timing.seconds), counted(timing.workers, "worker"), f"{speed:,.0f} actions/s"
    canaries = f"canaries found: {timing.canaries}" if timing.canaries else "no canary"
    versions = (f"{name} {version}" for name, version in timing.versions.items())
    return f"{timing.started}: {', '.join([*how, canaries, *versions])}"
