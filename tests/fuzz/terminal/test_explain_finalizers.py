"""`gcfuzz explain` shows finalizers: registrations, those that ran, and those that wait."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fuzz.protocol.trace import loads
from fuzz.replay import replay_steps
from fuzz.targets import make_target
from fuzz.terminal.explain import explain_step
from fuzz.terminal.explain_page import Page, make_page, render

HEADER = '{"gcfuzz": 2, "target": "reference-finalizers"}\n'
NODE, RUN = '{"do": "allocate_node", "number": 0}', '{"do": "run_finalizers"}'
REGISTER = '{"do": "register_finalizer", "root": 0, "number": 0}'
FREE, FULL = '{"do": "free", "root": 0}', '{"do": "collect_full"}'
RUNS_TWICE = "reference-finalizers+finalized-bit-reset"
TWICE = (
    *(NODE, REGISTER, FREE, FULL, '{"do": "run_finalizers", "keep": true}', RUN),
    *('{"do": "collect_step"}', '{"do": "collect_step"}', RUN),
)
"""Under RUNS_TWICE the last action runs the finalizer again."""


def facts_after(*actions: str, target: str = "reference-finalizers") -> str:
    """What explain prints about the last action."""
    trace = loads(HEADER + "".join(action + "\n" for action in actions), "trace.jsonl")
    *_, last = replay_steps(make_target(target), trace, "trace.jsonl")
    return " ".join(" ".join(explain_step(last)).split())


def page_of(*actions: str, target: str = "reference-finalizers") -> Page:
    trace = loads(HEADER + "".join(action + "\n" for action in actions), "trace.jsonl")
    return make_page("a trace", {}, replay_steps(make_target(target), trace, "trace.jsonl"))


@pytest.mark.parametrize(
    ("actions", "fact"),
    [
        ((NODE, REGISTER), "1 finalizer waiting: finalizer 0 of node #1 (reachable)"),
        ((NODE, REGISTER, FREE, FULL), "waiting: finalizer 0 of node #1 (unreachable)"),
        ((NODE, REGISTER, FREE, FULL, RUN), "finalized 0 (of node #1)"),
        ((NODE, REGISTER, RUN), "finalized none, 1 finalizer waiting"),
    ],
)
def test_a_step_shows_what_ran_and_what_waits(actions: tuple[str, ...], fact: str) -> None:
    assert fact in facts_after(*actions)


def test_a_failure_names_the_object_of_a_finalizer() -> None:
    failed = facts_after(*TWICE, target=RUNS_TWICE)
    assert "expected not 0 (of node #1), got 0 (of node #1)" in failed
    assert "(0 (of node #1) has run before)" in failed


def test_a_trace_without_finalizers_shows_none() -> None:
    assert "finalizer" not in facts_after(NODE, FULL)


def test_the_page_has_the_objects_of_finalizers_that_wait_or_have_run() -> None:
    *_, waiting, run = page_of(NODE, REGISTER, FREE, FULL, RUN)["steps"]
    assert waiting["finalizers"] == [("#1", "finalizer 0")]
    assert run["finalizers"] == [("#1", "0 has run")]


@pytest.mark.slow
def test_the_page_of_a_finalization_failure_draws_the_object(viewer: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(render(page_of(*TWICE, target=RUNS_TWICE)))
    viewer.open(tmp_path / "page.html", "")
    shown = viewer.find("#heaps").text
    assert "No objects." not in shown
    assert re.search(r"0 has run\s+node 0\s+#1", shown)
