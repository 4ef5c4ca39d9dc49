"""Foreign text in names, traces, targets and scripts is shown, and controls no terminal."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Gcfuzz

ADAPTER = Path(__file__).with_name("saying_adapter.py")
CLEAN, MISMATCH, BAD_INPUT, _, HARNESS_BUG = range(5)
HOSTILE = "\x1b]0;x\x07old[old] [bold] :bug: \x9b31m\u202e\udcff\r\n"
"""Escape sequences, markup and emoji of rich, a reversed text direction, and a surrogate."""
SEEN = r"\x1b]0;x\x07old[old] [bold] :bug: \x9b31m\u202e\udcff\r\n"
STRINGS = {"string": {"type_index": 1, "fixed_bytes": 8, "item_bytes": 1}}
ACTION = '{"do": "allocate_string", "length": 1}\n'
SCRIPT = "def main(heap):\n    heap.allocate_node(1)\n    %s\n"
Shown = Callable[..., str]


pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.fixture
def shown(gcfuzz: Gcfuzz) -> Shown:
    """Run a command with this exit code; returns its output, whose characters are all visible."""

    def run(code: int, *arguments: str) -> str:
        printed = "".join(gcfuzz(code, *arguments))
        assert [line for line in printed.splitlines() if not line.isprintable()] == []
        return printed

    return run


def one_line(printed: str) -> str:
    """The text without line ends, because `explain` wraps long lines."""
    return " ".join(printed.split())


def saying(answer: dict[str, Any]) -> str:
    """A command whose contract has a hostile setting, and whose answers are all the same."""
    contract = {
        "nursery_bytes": 64,
        "layout": {
            "kinds": STRINGS,
            "large_object_bytes": 64,
            "word_bytes": 8,
            "object_bytes_max": 64,
        },
        "actions": ["allocate_string", "check_heap"],
        "observes": ["minors", "size", "graph", "state"],
        "settings": [{"name": HOSTILE, "default": 0, "range": {"minimum": 0, "maximum": 9}}],
    }
    arguments = [json.dumps({"contract": contract}), json.dumps(answer)]
    return shlex.join([sys.executable, str(ADAPTER), *arguments])


def hostile_trace(header: dict[str, Any], actions: str = ACTION) -> str:
    path = f"{HOSTILE}.jsonl"
    Path(path).write_text(json.dumps({"gcfuzz": 2, "target": "process", **header}) + "\n" + actions)
    return path


@pytest.fixture
def trace() -> str:
    found = {"oracle": HOSTILE, "message": HOSTILE, "engine": HOSTILE}
    return hostile_trace({"config": {HOSTILE: 3}, "found": found})


REFUSING = {"error": f"{HOSTILE}: {HOSTILE}"}


REPLAY = "replay    gcfuzz replay $'\\033]0;x\\007old[old] [bold] :bug: "


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("replay", [f"FAILED {SEEN}.jsonl ", f"config {SEEN} 3", REPLAY]),
        ("reduce", [f"by the {SEEN} engine"]),
        ("record", [f"{SEEN}: 1 action on process"]),
        ("explain", [f"{SEEN}.jsonl on process ", "error \\x1b]0;x\\x07old[old] [bold] :bug: "]),
    ],
)
def test_a_hostile_trace_is_shown(command: str, texts: list[str], trace: str, shown: Shown) -> None:
    options = {"reduce": ("--corpus", HOSTILE), "record": ("-o", HOSTILE)}.get(command, ())
    printed = shown(MISMATCH, command, trace, *options, "--command", saying(REFUSING))
    assert [text for text in texts if one_line(text) not in one_line(printed)] == []


def test_reduce_shows_a_hostile_trace_that_passes(shown: Shown) -> None:
    path = hostile_trace({"target": "reference"}, "")
    assert f"{SEEN}.jsonl passes on reference" in shown(CLEAN, "reduce", path)


def test_a_page_shows_hostile_text(trace: str, shown: Shown) -> None:
    page = f"{HOSTILE}.html"
    printed = shown(MISMATCH, "explain", trace, "--html", page, "--command", saying(REFUSING))
    assert printed.startswith(f"{SEEN}.html: open it in a browser to step through {SEEN}.jsonl")
    text = Path(page).read_text(encoding="utf-8")
    data = text[text.index('id="page">') + 10 : text.index("</script>")]
    assert json.loads(data)["title"] == f"{SEEN}.jsonl on process"
    assert json.loads(data)["configuration"] == f"{SEEN} 3"


@pytest.mark.parametrize("explaining", [[], ["--html", "page.html"]], ids=["terminal", "page"])
@pytest.mark.parametrize(
    "answer",
    [
        {"minors": 1, "size": 16, "state": 99},
        {"size": 16, "state": -1},
        {"minors": 1, "size": 16, "state": 0, "graph": [[], [1], [1, 1, 0]]},
    ],
    ids=["state", "negative", "graph"],
)
def test_explain_shows_answers_without_meaning(
    answer: dict[str, Any], explaining: list[str], shown: Shown
) -> None:
    path = hostile_trace({}, ACTION + '{"do": "check_heap"}\n')
    shown(MISMATCH, "explain", path, "--command", saying(answer), *explaining)


@pytest.mark.slow
def test_a_session_shows_hostile_text(shown: Shown) -> None:
    session = ("run", "--actions", "20", "--seed", "1", "--corpus", HOSTILE)
    printed = shown(MISMATCH, *session, "--command", saying(REFUSING))
    assert f"corpus {SEEN}\n" in printed
    assert "replay    gcfuzz replay $'\\033]0;x\\007old[old] [bold] :bug: " in printed


# Mistakes.


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", HOSTILE],
        ["replay", "trace.jsonl", "--target", HOSTILE],
        ["replay", "trace.jsonl", "--timeout", HOSTILE],
        ["replay", "trace.jsonl", "--command", shlex.quote(HOSTILE)],
        ["explain", "trace.jsonl", "--html", f"{HOSTILE}/page.html"],
        ["run", "--without", HOSTILE],
        ["run", "--corpus", f"/dev/null/{HOSTILE}"],
        ["targets", HOSTILE],
        ["profile", HOSTILE, "-o", "out.json"],
        ["profile", "gcbench", "-o", HOSTILE],
        [HOSTILE],
    ],
    ids=lambda arguments: " ".join(arguments)[:24].split("\x1b")[0],
)
def test_a_hostile_argument_is_shown_in_one_line(arguments: list[str], shown: Shown) -> None:
    Path("trace.jsonl").write_text('{"gcfuzz": 2, "target": "reference"}\n')
    printed = shown(BAD_INPUT, *arguments)
    assert printed.count("\n") == 1
    assert ":bug:" in printed


@pytest.mark.parametrize(
    "trace",
    [
        json.dumps({"gcfuzz": 2, "target": HOSTILE}) + "\n",
        json.dumps({"gcfuzz": 2, "target": "reference", HOSTILE: 1}) + "\n",
        json.dumps({"gcfuzz": 2, "target": "reference", "config": {HOSTILE: 1}}) + "\n",
        json.dumps({"gcfuzz": 2, "target": "reference"})
        + "\n"
        + json.dumps({"do": HOSTILE})
        + "\n",
        HOSTILE.replace("\udcff", ""),
    ],
    ids=["target", "key", "setting", "action", "text"],
)
def test_a_hostile_trace_is_refused_in_one_line(trace: str, shown: Shown) -> None:
    Path("trace.jsonl").write_bytes(trace.encode())
    assert shown(BAD_INPUT, "reduce", "trace.jsonl").count("\n") == 1


def test_a_message_has_at_most_a_thousand_characters(shown: Shown) -> None:
    Path("trace.jsonl").write_text(json.dumps({"gcfuzz": 2, "target": "x" * 10**6}) + "\n")
    printed = shown(BAD_INPUT, "reduce", "trace.jsonl")
    assert len(printed) <= 1001
    assert printed.endswith("and --command takes a program that is none of these\n")


def test_a_bug_of_gcfuzz_has_plain_lines(monkeypatch: pytest.MonkeyPatch, shown: Shown) -> None:
    def fail(_target: str) -> int:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr("fuzz.sessions.selfcheck.check_harness", fail)
    printed = shown(HARNESS_BUG, "run", "--actions", "1")
    assert f"\nRuntimeError: {SEEN[:15]}" in printed


# Profiles.


def test_profile_shows_a_hostile_script_and_file(shown: Shown) -> None:
    script, profile = f"{HOSTILE}.py", f"{HOSTILE}.jsonl"
    Path(script).write_text(SCRIPT % "pass")
    printed = shown(CLEAN, "profile", script, "-o", profile)
    assert f"{SEEN}.py: " in printed
    assert f"{SEEN}.jsonl: the recording" in printed


def test_profile_shows_what_a_hostile_script_raises(shown: Shown) -> None:
    Path("script.py").write_text(SCRIPT % f"raise ValueError({HOSTILE!r})")
    printed = shown(BAD_INPUT, "profile", "script.py", "-o", "out.json")
    assert printed.startswith(
        "gcfuzz: script.py:3: ValueError: \\x1b]0;x\\x07old[old] [bold] :bug:"
    )


def test_profile_shows_the_types_of_a_hostile_recording(shown: Shown) -> None:
    Path("script.py").write_text(SCRIPT % "heap.allocate_string(99999)")
    shown(CLEAN, "profile", "script.py", "--period", "64", "-o", "recording.jsonl")
    text = Path("recording.jsonl").read_text(encoding="utf-8")
    assert '"string"' in text
    Path("hostile.jsonl").write_text(text.replace('"string"', json.dumps("\x1b[old]:bug:")))
    printed = shown(CLEAN, "profile", "hostile.jsonl", "-o", "out.collapsed")
    assert r"\x1b[old]:bug:" in printed
