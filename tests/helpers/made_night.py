"""A made-up night with all that its page may show, and what the command makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from made_records import failure, piece, record, timing, written

from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, CollectMinor
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.terminal.commands.cli import run_command_line
from fuzz.terminal.exit_codes import CLEAN

ACTIONS = (AllocateNode(7), CollectMinor())
TWO_HOURS = 7200.0
HISTORY = ((900.0, 4000, 30, 0), (TWO_HOURS, 90_000, 90, 2))


def report(folder: Path, *options: str) -> str:
    """The page of what is in a folder."""
    arguments = ["report", str(folder), "-o", str(folder / "night.html")]
    assert run_command_line([*arguments, *options]) == CLEAN
    return (folder / "night.html").read_text(encoding="utf-8")


LONG = (AllocateNode(0),) * 50
COMMAND = ["--command", "./my adapter", "--timeout", "2s"]
HOSTILE = "<script>alert(1)</script>{{ 7 * 7 }}\x1b[1m\u202e"
BUG = {
    "id": "some-bug",
    "seen_in": "somewhere",
    "oracle": "heap",
    "oracles": ["heap", "clock"],
    "found": False,
    "actions_median": 12.5,
    "actions_worst": None,
    "reduced": 3,
    "shortest": 3,
}


def write_night(corpus: Path) -> Path:
    """A corpus of sessions with all that a page may show, and its page."""
    probes = {"often": 2000, "never": 0, "once": 1}
    here = record(
        failure("heap", path="heap.jsonl"),
        failure("clock", path="clock.jsonl"),
        failure("places", reproduced=False, reduced_from=3),
        failure("survival", why=HOSTILE, field=HOSTILE),
        pieces=[piece(17, 1234, probes=probes)],
        timing=[timing(*HISTORY, seconds=TWO_HOURS, workers=n, canaries=n) for n in (0, 3)],
    )
    there = record(failure("major", path="major.jsonl"), target="process", options=COMMAND)
    folder = written(corpus, here, there)
    for name, target, actions in [
        ("heap", "reference", ACTIONS),
        ("clock", "reference", LONG + ACTIONS),
        ("major", "process", ACTIONS),
    ]:
        trace = Trace(Header(VERSION, target), actions)
        traces.write_to(trace, folder / f"{name}.jsonl")
    (folder / "bugs.json").write_text(
        json.dumps({"engine": "stateful", "seeds": 20, "bugs": [BUG]})
    )
    summaries = ["--markdown", str(folder / "night.md"), "--junit", str(folder / "night.xml")]
    report(folder, *summaries)
    return folder


def causes(corpus: Path) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads((corpus / "night.json").read_text())["causes"]
    return data
