"""A session first replays the saved traces of its corpus, outside of its budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Gcfuzz
from histories import ids_in, remember_failures

from fuzz.nights import failure_history as history
from fuzz.nights.failure_history import Triaged
from fuzz.sessions import record

CLEAN, MISMATCH = 0, 1
TARGET = "reference+one-sample-per-object"
TRACE = """{"gcfuzz": 2, "target": "%s"}
{"do": "enable_sampling", "period_bytes": 8}
{"do": "allocate_array", "length": 1}
"""
BUDGET = ("--seed", "2", "--actions", "100")


def saved(corpus: Path, name: str = "saved", target: str = TARGET) -> Path:
    path = corpus / f"{name}.jsonl"
    path.write_text(TRACE % target)
    return path


def session(gcfuzz: Gcfuzz, code: int, corpus: Path, *options: str, target: str = TARGET) -> str:
    return gcfuzz(code, "run", "--target", target, *BUDGET, "--corpus", corpus, *options).out


def before_the_session(printed: str) -> list[str]:
    lines = printed.splitlines()
    return lines[: next(n for n, line in enumerate(lines) if line.startswith("gcfuzz: target "))]


def test_a_trace_that_still_fails_is_named_with_its_replay(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    path = saved(tmp_path)
    assert before_the_session(session(gcfuzz, MISMATCH, tmp_path)) == [
        f"corpus: replaying 1 saved trace of {tmp_path} first",
        f"still fails: sampling / samples / allocate_array / less: {path}",
        f"  replay    gcfuzz replay {path} --target {TARGET}",
        "corpus: 1 of 1 still fail",
    ]


def test_a_trace_that_passes_is_counted(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    saved(tmp_path, target="reference")
    printed = session(gcfuzz, CLEAN, tmp_path, target="reference")
    assert before_the_session(printed)[1:] == ["corpus: 0 of 1 still fail"]


def test_a_session_whose_saved_trace_fails_exits_with_1(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    """One action finds nothing by itself."""
    saved(tmp_path)
    options = "run", "--target", TARGET, "--seed", "1", "--actions", "1", "--corpus"
    assert "0 failures in " in gcfuzz(MISMATCH, *options, tmp_path).out
    gcfuzz(CLEAN, *options, tmp_path / "empty")


def test_replays_are_in_no_total_and_no_record(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    (tmp_path / "empty").mkdir()
    saved(tmp_path, target="reference")
    with_traces = session(gcfuzz, CLEAN, tmp_path, target="reference")
    without = session(gcfuzz, CLEAN, tmp_path / "empty", target="reference")
    lines = [text.splitlines()[-2].split(" (")[0] for text in (with_traces, without)]
    assert lines[0] == lines[1]
    [(_, one)], [(_, other)] = (record.records_in(each) for each in (tmp_path, tmp_path / "empty"))
    assert (one.pieces, one.failures) == (other.pieces, other.failures)


@pytest.mark.parametrize("target", ["reference", "my_collector:MyCollector"])
def test_traces_of_other_targets_are_left_out(target: str, tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    saved(tmp_path, target=target)
    printed = session(gcfuzz, CLEAN, tmp_path, target="reference-tcmalloc")
    assert before_the_session(printed) == []


@pytest.mark.parametrize(
    "name", ["sampling-samples-raw", "sampling-samples-a88a3499.1f2e-3", "broken"]
)
def test_traces_that_are_not_whole_are_left_out(name: str, tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    path = saved(tmp_path, name, "reference")
    if name == "broken":
        path.write_text("no trace\n")
    lines = before_the_session(session(gcfuzz, CLEAN, tmp_path, target="reference"))
    assert [line.split(str(path))[0] for line in lines] == ["not replayed: "] * (name == "broken")


def test_a_trace_that_uses_an_action_left_out_is_not_replayed(
    tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    path = saved(tmp_path)
    printed = session(gcfuzz, CLEAN, tmp_path, "--without", "enable_sampling")
    assert before_the_session(printed) == [f"not replayed: {path} uses enable_sampling"]


def test_a_trace_that_is_not_legal_any_more_is_no_failure(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    saved(tmp_path, target="reference").write_text(
        '{"gcfuzz": 2, "target": "reference"}\n{"do": "malloc", "size_bytes": 1}\n'
    )
    printed = session(gcfuzz, CLEAN, tmp_path, target="reference")
    _, refused, last = before_the_session(printed)
    assert refused.startswith(f"not replayed: {tmp_path / 'saved.jsonl'}")
    assert last == "corpus: 0 of 0 still fail, 1 could not be replayed"


@pytest.fixture
def history_of(tmp_path: Path, gcfuzz: Gcfuzz) -> Path:
    """A corpus with the failures of a session, and their history."""
    session(gcfuzz, MISMATCH, tmp_path)
    remember_failures(tmp_path, TARGET)
    return tmp_path


def test_muted_traces_are_listed(history_of: Path, gcfuzz: Gcfuzz) -> None:
    mutes = [Triaged(history.now(), each, muted_until="2999-01-01") for each in ids_in(history_of)]
    history.add(history_of / history.NAME, mutes)
    lines = before_the_session(session(gcfuzz, CLEAN, history_of))
    paths = sorted(history_of.glob("*.jsonl"))
    assert lines == [f"muted until 2999-01-01: {path}" for path in paths]


def test_known_failures_are_listed_and_change_no_exit_code(
    history_of: Path, gcfuzz: Gcfuzz
) -> None:
    known = [word for each in ids_in(history_of) for word in ("--known", each)]
    _, *lines, last = before_the_session(session(gcfuzz, CLEAN, history_of, *known))
    assert {line.partition(": ")[0] for line in lines} == {"known"}
    assert last.startswith("corpus: 0 of ")


def test_a_session_that_goes_on_replays_nothing(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    session(gcfuzz, MISMATCH, tmp_path)
    assert "still fails" not in session(gcfuzz, MISMATCH, tmp_path, "--resume")
