"""A night as one HTML page, with what it refers to beside it. Needs the extra `report`.

The page is made from `night_page.html`, a template of Jinja's, which escapes all values. Beside
`night.html` are `night.json`, with the figures, and the folder `night`, with the trace of each
failure, its log and the page of `gcfuzz explain`. Invariant: the page refers to nothing else, so
the three can be moved together, and no network is needed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from fuzz.failures.corpus import COMPLAINT_SUFFIX
from fuzz.files import write_text, writing
from fuzz.nights.material import Material
from fuzz.nights.night import COUNTED, Night, NightCause, NightFailure
from fuzz.nights.night_reach import reached_in, target_name
from fuzz.plain import LINE_MAX, counted, is_url, path_argument, plain, shell_words
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.sessions.record import ACTIONS, FAILURES, TIME, SessionRecord
from fuzz.terminal.explain_page import render
from fuzz.terminal.night_build import NightBuild
from fuzz.terminal.night_plots import draw_plots, look_of, plots_of, reach_plots_of, unit_of
from fuzz.terminal.night_summary import notes_on, problems_of, status_of, verdict_of
from fuzz.terminal.report import describe_action
from fuzz.terminal.session_report import STOPPED

ACTIONS_MAX = 30
"""How many actions of a failure are shown, the last ones."""
MISSED_MAX = 5
"""How many missed combinations of a size are named."""
EXPLAINED_MAX = 50
"""How many causes are explained step by step, the first ones. Each page has 34 kB, and those of
1,000 causes took 29 MB."""


def write_night(night: Night, material: Material, output: Path, build: NightBuild) -> None:
    """Write the page `output` and what is beside it. Raises BadInputError."""
    folder = output.with_suffix("")
    with writing(folder):
        folder.mkdir(exist_ok=True)
    causes = [
        _cause(each, material, folder, build if number < EXPLAINED_MAX else None)
        for number, each in enumerate(night.causes)
    ]
    write_text(output.with_suffix(".json"), night.dumps())
    write_text(output, render_night(night, causes, output.stem))


def _cause(
    cause: NightCause, material: Material, folder: Path, build: NightBuild | None
) -> dict[str, Any]:
    """The data of a cause, with the files of its failures in the folder. Raises BadInputError.

    The build explains it, if there is one.
    """
    first = cause.first
    traced = {each.life.id: _copied(each, material, folder) for each in cause.failures}
    shown: dict[str, Any] = {"cause": cause, "traced": traced, "notes": [*notes_on(cause)]}
    found = material.trace_of(first.saved)
    if found is None:
        return shown
    path, trace = found
    arguments = first.known.options if build is None else build.arguments_for(first.known)
    href = str(traced[first.life.id])
    left_out = max(0, len(trace.actions) - ACTIONS_MAX)
    shown |= {
        "trace": href,
        "command": shell_words(["gcfuzz", "replay", path_argument(Path(href)), *arguments]),
        "actions": [describe_action(action) for action in trace.actions[left_out:]],
        "first": left_out + 1,
        "left_out": counted(left_out, "action") if left_out else "",
        "log": _copied_log(path, folder),
    }
    shown["notes"] += [f"planted: {bug}" for bug in trace.header.kills]
    if build is None:
        return shown
    try:
        page = build.explained(first.known, trace, path)
    except BadInputError as problem:
        shown["notes"].append(f"not explained: {problem}")
        return shown
    page_path = (folder / path.name).with_suffix(".html")
    write_text(page_path, render(page))
    return shown | {"page": f"{folder.name}/{page_path.name}"}


def _copied(each: NightFailure, material: Material, folder: Path) -> str | None:
    """The place of a copy of its trace, relative to the page."""
    found = material.trace_of(each.saved)
    if found is None:
        return None
    path, trace = found
    with writing(folder):  # The page, which is written last, is whole or not there.
        (folder / path.name).write_text(traces.dumps(trace), encoding="utf-8")
    return f"{folder.name}/{path.name}"


def _copied_log(trace: Path, folder: Path) -> str | None:
    """The place of a copy of what the program wrote on standard error when it broke.

    A corpus may be a stranger's. A link in it could publish any file, so none is followed.
    """
    log = trace.with_suffix(COMPLAINT_SUFFIX)
    if log.is_symlink() or not log.is_file():
        return None
    with writing(folder):
        shutil.copyfile(log, folder / log.name)
    return f"{folder.name}/{log.name}"


def render_night(night: Night, causes: Sequence[Mapping[str, Any]], name: str) -> str:
    """The page of that name as HTML. Foreign text is always text in it, and never markup."""
    combinations = night.combinations()
    targets = sorted({*combinations, *(it.target for at in night.nights for it in at.combinations)})
    return _template().render(
        night=night,
        title=f"{name}: {counted(len(night.sessions), 'session')}",
        look="wrong" if night.has_new else "" if night.is_partial else "right",
        verdict=verdict_of(night),
        counts=night.counts(),
        causes=causes,
        problems=[*problems_of(night)],
        counted=COUNTED,
        plots=draw_plots(plots_of(night.timing)),
        combinations=[*combinations.items()],
        reach_plots=draw_plots(reach_plots_of(night.nights, targets)),
        reach_looks={target: look_of(number) for number, target in enumerate(targets)},
        missed_max=MISSED_MAX,
        wrong_actions=night.wrong_actions(),
        probes=sorted(night.probes().items()),
        reached=reached_in(night.probes()),
        lost=[*_lost(night)],
        ended_well={TIME, ACTIONS, FAILURES},
        look_of=look_of,
        data=f"{name}.json",
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fuzz", "terminal"),
        autoescape=True,
        finalize=_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"counted": counted, "figure": "{:,}".format, "duration": _duration}
    environment.filters |= {"name": _name_of, "stopped": STOPPED.__getitem__, "status": status_of}
    environment.tests["url"] = is_url
    return environment.get_template("night_page.html")


def _one_line(value: object) -> object:
    """A string as plain text in one line; other values as they are."""
    return plain(value, LINE_MAX) if type(value) is str else value


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
    target = " ".join(filter(None, [target_name(plan), shell_words(plan.options)]))
    return f"{target}, {plan.engine} engine, seed {plan.seed}"
