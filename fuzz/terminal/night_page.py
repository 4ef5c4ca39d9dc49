"""A night as one HTML page, with what it refers to beside it. Needs the extra `report`.

The page itself is `night_page.html`, a template of Jinja's, which escapes all that is put into it.
Beside `night.html` lie `night.json`, the figures, and the folder `night`, with each find's trace
and the page of `gcfuzz explain`. Invariant: nothing that the page refers to lies elsewhere, so that
the three can be moved, and no network is needed.
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
    NightFind,
    by_likely_cause,
    fuzzed_by,
    timing_of,
)
from fuzz.sessions.record import ACTIONS, FAILURES, TIME, SessionRecord, Timing
from fuzz.targets import make_target
from fuzz.terminal.explain_page import Page, fails, make_page, render
from fuzz.terminal.night_plots import COLOURS, draw_plots, look_of, unit_of
from fuzz.terminal.report import describe_action, how_seen_once
from fuzz.terminal.session_report import STOPPED
from fuzz.terminal.target_options import TargetChoice

ACTIONS_MAX = 30
"""So many actions of a find are shown, the last ones."""
RAREST = 10
MOST, TOO = "●", "○"


def write_night(night: Night, material: Material, output: Path, choice: TargetChoice) -> None:
    """Write the page `output` and what lies beside it. Raises BadInputError.

    What the command line says of targets is for the explanations, which replay the traces.
    """
    make = functools.cache(make_target)  # One process serves many traces.

    def explained(trace: Trace, path: Path) -> Page:
        name = choice.name_for(trace.header.target)
        steps = replay_steps(make(name, choice.options_for(trace.header)), trace, str(path))
        return make_page(f"{path.name} on {name}", trace.header.config, steps)

    folder = output.with_suffix("")
    with writing(folder):
        folder.mkdir(exist_ok=True)
    finds = []
    for first, *others in by_likely_cause(night.finds, material):
        finds.append(_find(first, material.path_of(first), folder, explained))
        like = {"like": " / ".join(first.failure.identity)}
        finds += [_find(find, material.path_of(find), folder, explained) | like for find in others]
    write_text(output.with_suffix(".json"), night.dumps())
    write_text(output, render_night(night, finds, output.stem))


def _find(
    find: NightFind, path: Path | None, folder: Path, explained: Callable[[Trace, Path], Page]
) -> dict[str, Any]:
    """What the page tells of a find, whose files go into the folder. Raises BadInputError."""
    failure = find.failure
    notes = [f"known, perhaps: see `gcfuzz help findings/{page}`" for page in find.pages]
    if not failure.reproduced:
        notes.append(how_seen_once(failure.tries))
    is_reduced = failure.actions < failure.reduced_from
    reduced = f", reduced from {failure.reduced_from:,}" if is_reduced else ""
    shown: dict[str, Any] = {
        "status": find.status,
        "identity": " / ".join(failure.identity),
        "where": f"{find.target}, {counted(failure.actions, 'action')}{reduced}",
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
        "command": shell_words(["gcfuzz", "replay", href, *find.options]),
        "actions": [describe_action(action) for action in trace.actions[left_out:]],
        "first": left_out + 1,
        "left_out": counted(left_out, "action") if left_out else "",
    }
    notes += [f"planted: {bug}" for bug in trace.header.kills]
    page_path = copy.with_suffix(".html")
    try:
        page = explained(trace, path)
    except BadInputError as problem:
        notes.append(f"not explained: {problem}")
        return shown
    write_text(page_path, render(page))
    if failure.change == BROKE:
        how = "fails" if fails(page) else "passes"
        notes.append(f"replayed when this page was made it {how}")
    return shown | {"page": f"{folder.name}/{page_path.name}"}


def render_night(night: Night, finds: Sequence[Mapping[str, Any]], name: str) -> str:
    """The page of that name as HTML. What others wrote can be nothing but text in it."""
    environment = jinja2.Environment(autoescape=True, finalize=_seen)
    template = (files("fuzz.terminal") / "night_page.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        title=f"{name}: {counted(len(night.timing), 'session')}",
        contents=[*_contents(night)],
        counts=night.counts(),
        verdict=", ".join(f"{number:,} {status}" for status, number in _verdict(night)),
        glance=[*_glance(night)],
        finds=finds,
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


def _seen(value: object) -> object:
    """What is put into the page: a string as plain text in one line."""
    return plain(value, LINE_MAX) if type(value) is str else value


def _contents(night: Night) -> Iterator[tuple[str, str]]:
    """The sections: their names, and what stands in a link to one."""
    yield from (("finds", "finds"), ("time", "over time"))
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
    """What one looks for first."""
    for status, number in _verdict(night):
        yield f"{status} finds", f"{number:,}"
    tonight = [find for find in night.finds if find.is_tonight_s]
    yield "did not replay", f"{sum(not find.failure.reproduced for find in tonight):,}"
    reached = [times > 0 for counts in night.probes().values() for times in counts.values()]
    yield "probes reached", f"{sum(reached):,} / {len(reached):,}"
    yield "actions", f"{sum(session.totals.actions for session in night.sessions):,}"
    yield "chunks lost", f"{sum(len(lost) for _, lost in _lost(night)):,}"
    yield "since the last new", _duration(night.quiet_seconds)


def _duration(seconds: float) -> str:
    unit, size = unit_of(seconds)
    return f"{seconds / size:,.0f} {unit}"


def _lost(night: Night) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The chunks that killed each worker that tried them, by session."""
    for session in night.sessions:
        lost = tuple(chunk for piece in session.pieces for chunk in piece.lost)
        if lost:
            yield _name_of(session), lost


def _name_of(session: SessionRecord) -> str:
    fuzzed = fuzzed_by(session)
    return f"{fuzzed.name}, {fuzzed.engine} engine, seed {fuzzed.seed}"


def _wrong_actions(counts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """A row for each action whose answer was the first wrong one, a column for each oracle."""
    oracles = sorted(counts)
    actions = sorted({action for of_oracle in counts.values() for action in of_oracle})
    rows = [(action, [counts[oracle].get(action, 0) for oracle in oracles]) for action in actions]
    return {"columns": oracles, "rows": rows}


def _reached(target: str, counts: Mapping[str, int]) -> dict[str, Any]:
    """What a target's fuzzing reached of its probes."""
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
            "oracles": ", ".join(bug.oracles) or "nobody",
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
        "words": f"{found} of {counted(len(rows), 'bug')} found with every one of "
        f"{counted(hunted.seeds, 'seed')}",
    }


def _mark(oracle: str, caught_by: Sequence[str]) -> str:
    """Whether an oracle caught a bug; the one that did so most often is the first."""
    if oracle not in caught_by:
        return ""
    return MOST if oracle == caught_by[0] else TOO


def _sessions(night: Night) -> Iterator[dict[str, Any]]:
    """What the sessions of each plan did, and how each went, with the look of its lines."""
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
            "words": f"{_name_of(session)}: {did};",
            "ended": STOPPED[session.stop_reason],
            "class": "" if session.stop_reason in {TIME, ACTIONS, FAILURES} else "wrong",
            "timing": [
                {"words": _words_of(timing), "colour": COLOURS[colour], "style": style}
                for timing, (colour, style) in zip(timing_of(session), looks, strict=False)
            ],
        }


def _words_of(timing: Timing) -> str:
    speed = timing.actions / max(timing.seconds, 0.001)
    how = _duration(timing.seconds), counted(timing.workers, "worker"), f"{speed:,.0f} actions/s"
    canaries = f"canaries found: {timing.canaries}" if timing.canaries else "no canary"
    versions = (f"{name} {version}" for name, version in timing.versions.items())
    return f"{timing.started}: {', '.join([*how, canaries, *versions])}"
