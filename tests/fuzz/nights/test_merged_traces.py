"""Of the traces of one failure, a merge keeps one that exists, can be read, and is of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from made_records import Data, failure, record, written

from fuzz.nights.merge import merge
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, CollectFull, CollectMinor
from fuzz.protocol.trace import Found, Header, Trace
from fuzz.sessions import record as records
from fuzz.terminal.commands.cli import run_command_line

INCONCLUSIVE = 3
MESSAGE = "heap: graph: expected made up, got made up (made up)"
FOUND = Found("heap", MESSAGE, "random", None)
TRACE = Trace(
    Header(traces.VERSION, "reference", found=FOUND),
    (AllocateNode(7), AllocateNode(7), CollectFull()),
)
"""The trace of the failure that `failure()` makes."""
Harm = Callable[[Path], None]


def corpus(folder: Path, name: str, **changed: Any) -> Path:
    """A corpus with a failure, and its trace of that name."""
    written(folder, record(failure(path=name, **changed)))
    traces.write_to(TRACE, folder / name)
    return folder


def remove(path: Path) -> None:
    path.unlink()


def spoil(path: Path) -> None:
    path.write_text("not a trace\n")


def link(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def replaced_by(trace: Trace) -> Harm:
    return lambda path: traces.write_to(trace, path)


OF_CLOCK = attrs.evolve(FOUND, oracle="clock")
OTHERS = {
    "of another oracle": attrs.evolve(TRACE, header=attrs.evolve(TRACE.header, found=OF_CLOCK)),
    "of another target": attrs.evolve(TRACE, header=attrs.evolve(TRACE.header, target="process")),
    "of no failure": attrs.evolve(TRACE, header=attrs.evolve(TRACE.header, found=None)),
    "of another action": attrs.evolve(TRACE, actions=(*TRACE.actions[:2], CollectMinor())),
    "of another length": attrs.evolve(TRACE, actions=TRACE.actions[1:]),
}
HARMS = [remove, spoil, link, *map(replaced_by, OTHERS.values())]
NAMES = ["removed", "broken", "a link", *OTHERS]


def chosen_in(folder: Path) -> list[tuple[str | None, bool]]:
    """The traces that the record of a merged corpus names, and whether each is right."""
    [path] = (folder / "sessions").iterdir()
    data: Data = json.loads(path.read_bytes())
    names = [each["path"] for each in (*data["failures"], *data["beyond"])]
    return [
        (name, (folder / name).exists() and traces.read(folder / name) == TRACE) for name in names
    ]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("harm", HARMS, ids=NAMES)
def test_a_merge_chooses_the_part_that_is_right(harm: Harm, order: int, tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", "a.jsonl", chunk=0)
    other = corpus(tmp_path / "other", "b.jsonl", chunk=1)
    harm(one / "a.jsonl")
    merged = merge([one, other][::order], tmp_path / "out")
    assert chosen_in(tmp_path / "out") == [("b.jsonl", True)]
    assert merged.missing == []


@pytest.mark.parametrize("harm", HARMS, ids=NAMES)
def test_a_merge_says_that_no_trace_is_right(
    harm: Harm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = corpus(tmp_path / "one", "a.jsonl")
    harm(one / "a.jsonl")
    assert run_command_line(["merge", str(one), "-o", str(tmp_path / "out")]) >= 2
    printed = " ".join(capsys.readouterr().out.split())
    assert "the trace a.jsonl of heap / graph / collect_full / different is " in printed
    assert "`gcfuzz run --seed 1 --chunks 0:1`" in printed
    assert [name for name, _ in chosen_in(tmp_path / "out")] == ["a.jsonl"]


def test_a_missing_trace_alone_is_inconclusive(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", "a.jsonl")
    (one / "a.jsonl").unlink()
    assert run_command_line(["merge", str(one), "-o", str(tmp_path / "out")]) == INCONCLUSIVE


def test_a_trace_of_the_record_may_be_in_another_folder(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", "a.jsonl")
    (tmp_path / "two").mkdir()
    (one / "a.jsonl").rename(tmp_path / "two" / "a.jsonl")
    assert merge([one, tmp_path / "two"], tmp_path / "out").missing == []


def test_a_failure_beyond_whole_chunks_stays_if_only_its_trace_is_right(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", "a.jsonl")
    (one / "a.jsonl").unlink()
    other = written(tmp_path / "other", record(beyond=[failure(path="b.jsonl")]))
    traces.write_to(TRACE, other / "b.jsonl")
    merge([one, other], tmp_path / "out")
    assert chosen_in(tmp_path / "out") == [("a.jsonl", False), ("b.jsonl", True)]


def test_a_message_of_another_version_is_right(tmp_path: Path) -> None:
    found = attrs.evolve(FOUND, message="in other words")
    other_words = attrs.evolve(TRACE, header=attrs.evolve(TRACE.header, found=found))
    one = corpus(tmp_path / "one", "a.jsonl")
    traces.write_to(other_words, one / "a.jsonl")
    assert merge([one], tmp_path / "out").missing == []


def test_a_merge_keeps_the_records_of_two_builds_apart(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", "a.jsonl")
    [path] = (one / "sessions").iterdir()
    data = json.loads(path.read_bytes())
    data["timing"][0]["versions"]["commit"] = "of another build"
    other = written(tmp_path / "other", data)
    merged = merge([one, other], tmp_path / "out").records
    assert [each.totals.actions for each in merged] == [100, 100]
    again = merge([tmp_path / "out", other, one], tmp_path / "again").records
    assert again == merged
    left = [each for _, each in records.records_in(tmp_path / "again")]
    assert sorted(left, key=str) == sorted(merged, key=str)
