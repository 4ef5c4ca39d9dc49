"""`gcfuzz report` of several corpora: programs stay apart, and each trace is accounted for."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from made_records import failure, record, written

from fuzz.nights import failure_history as history
from fuzz.nights.failure_history import KnownFailure
from fuzz.nights.material import read_material
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, CollectFull
from fuzz.protocol.trace import Found, Header, Trace
from fuzz.sessions import record as records
from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)
TRACE = Trace(
    Header(traces.VERSION, "process", found=Found("heap", "made up", "random", None)),
    (AllocateNode(7), AllocateNode(7), CollectFull()),
)


def corpus(
    folder: Path, trace: str | None, command: str = "", name: str = "", oracle: str = "heap"
) -> Path:
    """A corpus in which a program's session found a failure."""
    data = record(failure(oracle, path=trace), target="process", options=["--command", command])
    data["plan"]["name"] = name
    written(folder, data)
    if trace is not None:
        traces.write_to(TRACE, folder / trace)
    return folder


def report(*arguments: Path | str) -> tuple[int, str]:
    """The exit code, and the text of the page."""
    page = Path(arguments[0]).parent / "page.html"
    code = run_command_line(["report", *map(str, arguments), "-o", str(page)])
    return code, html.unescape(" ".join(page.read_text(encoding="utf-8").split()))


def left_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jsonl"))


# Programs.


def test_traces_of_programs_with_other_names_are_kept_apart(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", "a.jsonl", "./one", "one")
    two = corpus(tmp_path / "two", "b.jsonl", "./two", "two")
    three = corpus(tmp_path / "three", "c.jsonl", "./three", "../three")
    report(one, two, three, "--name", "one")
    assert left_in(one) == ["a.jsonl", "of-..-three/c.jsonl", "of-two/b.jsonl"]


def test_traces_of_programs_with_other_commands_are_kept_apart(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", "a.jsonl", "./one")
    two = corpus(tmp_path / "two", "b.jsonl", "./two", oracle="clock")
    report(two, one, "--history", str(one / "failures.history"), "--command", "./one")
    assert left_in(one) == ["a.jsonl", "of-process-.-two/b.jsonl"]


def test_a_trace_of_the_program_is_kept_beside_the_history(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", "a.jsonl", "./one", "one")
    report(one, "--history", str(tmp_path / "kept" / "failures.history"), "--name", "one")
    assert left_in(tmp_path / "kept") == ["a.jsonl"]


def test_a_trace_that_is_kept_apart_is_found_the_next_night(tmp_path: Path) -> None:
    one, two = corpus(tmp_path / "one", None, "./one", "one"), tmp_path / "two"
    kept = str(tmp_path / "kept" / "failures.history")
    report(corpus(two, "b.jsonl", "./two", "two"), "--history", kept, "--name", "one")
    (two / "b.jsonl").unlink()
    material = read_material([one])
    material.corpora.append(tmp_path / "kept")
    known = [each for each in history.read(Path(kept)).lines if isinstance(each, KnownFailure)]
    assert material.trace_of(known[0].saved) == (tmp_path / "kept" / "of-two" / "b.jsonl", TRACE)


def test_the_row_of_a_session_names_its_command(tmp_path: Path) -> None:
    _, page = report(corpus(tmp_path / "one", None, "./my adapter --fast", "mine"))
    assert "process mine --command './my adapter --fast', random engine, seed 1" in page


def test_several_commands_with_one_name_are_said(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", None, "./one", "mine")
    two = corpus(tmp_path / "two", None, "./two", "mine")
    other = corpus(tmp_path / "other", None, "./three", "other")
    _, page = report(one, two, other)
    assert "sessions of process mine ran several commands: ./one, ./two;" in page
    assert "process other ran" not in page


# Traces.


def test_an_unrecorded_trace_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = corpus(tmp_path / "one", "a.jsonl", "./one")
    traces.write_to(TRACE, one / "heap-other-1234abcd.jsonl")
    traces.write_to(attrs.evolve(TRACE, header=Header(traces.VERSION, "mine")), one / "mine.jsonl")
    _, page = report(one)
    data: dict[str, Any] = json.loads((tmp_path / "page.json").read_bytes())
    unnamed = str(one / "heap-other-1234abcd.jsonl")
    assert data["unnamed"] == [unnamed]
    for text in (page, capsys.readouterr().out):
        assert "1 trace of failures that no record names, so this page does not judge them: " in (
            " ".join(text.split())
        )
    assert unnamed in page


def test_a_trace_that_the_history_names_is_not_listed(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", "a.jsonl", "./one")
    report(one)
    for path in (one / "sessions").iterdir():
        path.write_text(json.dumps(record(seed=2)))
    report(one)
    assert json.loads((tmp_path / "page.json").read_bytes())["unnamed"] == []


def outside(corpus: Path, secret: Path) -> str:
    return str(secret)


def above(corpus: Path, secret: Path) -> str:
    return f"../{secret.name}"


def linked(corpus: Path, secret: Path) -> str:
    (corpus / "linked.jsonl").symlink_to(secret)
    return "linked.jsonl"


def in_linked_folder(corpus: Path, secret: Path) -> str:
    (corpus / "folder").symlink_to(secret.parent)
    return f"folder/{secret.name}"


@pytest.mark.parametrize("in_history", [False, True])
@pytest.mark.parametrize("leave", [outside, above, linked, in_linked_folder])
def test_a_report_publishes_no_trace_from_outside_its_corpora(
    leave: Callable[[Path, Path], str], in_history: bool, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.jsonl"
    traces.write_to(TRACE, secret)
    one = corpus(tmp_path / "made" / "one", None)
    found = record(failure("heap", path=leave(one, secret)))
    if in_history:
        line = {"kind": "failure", "target": "reference", "name": "", "cause": []}
        text = json.dumps(line | {"saved": found["failures"][0]})
        (one / "failures.history").write_text(f"{text}\n")
    else:
        (one / "sessions" / "1.json").write_text(json.dumps(found))
    report(one)
    published = [path for path in (tmp_path / "made").rglob("*.jsonl") if not path.is_symlink()]
    assert [path for path in published if "folder" not in path.parts] == []


def test_a_trace_with_a_name_that_no_file_can_have_is_missing(tmp_path: Path) -> None:
    folder = written(tmp_path / "one", record(failure(path="a" * 5000 + ".jsonl")))
    code, page = report(folder)
    assert code == CLEAN
    assert "its trace is in none of the places that were read" in page


@pytest.mark.slow
def test_a_failure_that_a_second_session_did_not_find_again_is_open(tmp_path: Path) -> None:
    target = "reference+one-sample-per-object"
    arguments = ["--target", target, "--actions", "2000", "--seed", "3"]
    arguments += ["--corpus", str(tmp_path / "one")]
    assert run_command_line(["run", *arguments]) == MISMATCH
    [(path, found)] = records.records_in(tmp_path / "one")
    records.save(attrs.evolve(found, failures=()), path)
    assert report(tmp_path / "one", "--fail-on", "open")[0] == MISMATCH
