"""What a session found stays in its record: later sessions neither drop nor replace it."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest
from command_line import Gcfuzz
from made_records import Data, failure, piece, record, timing, written

from fuzz.nights.merge import merged_records
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.sessions import record as records
from fuzz.sessions.plan import Plan
from fuzz.sessions.record import SessionRecord
from fuzz.targets import chunk_actions_of
from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)
TARGET = "reference+one-sample-per-object"
RUN = ["run", "--target", TARGET, "--actions", "2000", "--seed", "3", "--corpus"]


def as_record(data: Data) -> SessionRecord:
    del data["gcfuzz_session"], data["totals"]
    return wire.structured(data, SessionRecord)


def made(*failures: Data, build: str = "a", **changed: Any) -> SessionRecord:
    times = [timing(versions={"commit": build}, **changed.pop("times", {}))]
    return as_record(record(*failures, timing=times, **changed))


def saved_in_order(folder: Path, *made_records: SessionRecord) -> list[str]:
    """The names of the records that are left after all were saved in this order."""
    for each in made_records:
        records.save(each, folder / "s.json")
    return sorted(path.name for path in folder.iterdir())


def remove(path: Path) -> None:
    path.unlink()


def spoil(path: Path) -> None:
    path.write_text("not a trace\n")


# Resuming.


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus in which a session found a failure."""
    assert run_command_line([*RUN, str(tmp_path / "corpus")]) == MISMATCH
    return tmp_path / "corpus"


def failures_of(corpus: Path) -> list[Data]:
    [path] = (corpus / "sessions").iterdir()
    found: list[Data] = json.loads(path.read_bytes())["failures"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("harm", [remove, spoil])
def test_a_failure_whose_trace_is_gone_stays_when_its_session_is_resumed(
    harm: Callable[[Path], None], corpus: Path, gcfuzz: Gcfuzz
) -> None:
    found = failures_of(corpus)
    for path in corpus.glob("*.jsonl"):
        harm(path)
    printed = " ".join(gcfuzz(MISMATCH, *RUN, corpus, "--resume").out.split())
    assert failures_of(corpus) == found
    assert "lost its trace: " in printed
    assert f"--seed 3 --chunks {found[0]['chunk']}:" in printed


def test_resuming_keeps_the_failure_of_an_incomplete_chunk(tmp_path: Path) -> None:
    size = chunk_actions_of("reference")
    plan = Plan("reference", "random", 3, 1, tmp_path, actions=64, chunk_actions=size)
    beyond = [failure(path="beyond/a.jsonl")]
    empty = [piece(chunks=(0, 0, 1), traces=0, actions=0, samples=0, minor_collections=0)]
    earlier = attrs.evolve(as_record(record(beyond=beyond, pieces=empty)), plan=plan.key)
    (tmp_path / "sessions").mkdir()
    records.write(earlier, records.path_for(plan))
    arguments = ["--target", "reference", "--actions", "64", "--seed", "3"]
    code = run_command_line(["run", *arguments, "--corpus", str(tmp_path), "--resume"])
    assert code == MISMATCH
    [(_, left)] = records.records_in(tmp_path)
    assert left.beyond == earlier.beyond


def test_the_newest_session_is_resumed(tmp_path: Path) -> None:
    plan = Plan("reference", "random", 3, 1, tmp_path, actions=64)
    (tmp_path / "sessions").mkdir()
    for day, build in ((23, "b"), (24, "c"), (22, "a")):
        times = {"started": f"2026-11-{day}T02:00:00Z"}
        pieces = [piece(chunks=(0, 1, 1))]
        each = attrs.evolve(made(build=build, times=times, pieces=pieces), plan=plan.key)
        records.save(each, records.path_for(plan))
    _, resumed = records.resumed(plan, any_seed=False)
    assert [each.versions["commit"] for each in resumed.timing] == ["c"]


# Replacing.

HEAP, CLOCK = failure("heap"), failure("clock")
MORE = [piece(chunks=(0, 4, 1))]
UNSURE = failure("heap", reproduced=False)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (made(HEAP), made(HEAP)),
        (made(HEAP), made(HEAP, CLOCK, pieces=MORE)),
        (made(UNSURE), made(HEAP)),
        (made(beyond=[HEAP]), made(HEAP)),
    ],
)
def test_a_record_that_has_all_of_another_one_replaces_it(
    first: SessionRecord, second: SessionRecord, tmp_path: Path
) -> None:
    assert saved_in_order(tmp_path, first, second) == ["s.json"]
    assert records.read(tmp_path / "s.json") == second


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (made(HEAP), made(HEAP, build="b")),
        (made(HEAP, pieces=MORE), made(HEAP)),
        (made(HEAP), made()),
        (made(HEAP), made(UNSURE)),
        (made(beyond=[HEAP]), made()),
        (made(), made(pieces=[piece(1)])),
        (made(), made(pieces=[piece(chunks=(0, 8, 2))])),
    ],
)
def test_a_record_that_lacks_something_of_another_one_is_beside_it(
    first: SessionRecord, second: SessionRecord, tmp_path: Path
) -> None:
    assert saved_in_order(tmp_path, first, second, second) == ["s.2.json", "s.json"]
    assert records.read(tmp_path / "s.json") == first
    assert records.read(tmp_path / "s.2.json") == second


def test_a_record_that_has_all_of_several_replaces_them(tmp_path: Path) -> None:
    assert saved_in_order(tmp_path, made(HEAP), made(CLOCK), made(HEAP, CLOCK)) == ["s.json"]


def test_a_resumed_session_replaces_its_record_though_the_build_differs(tmp_path: Path) -> None:
    first, second = made(HEAP), made(HEAP, build="b")
    both = attrs.evolve(second, timing=(*first.timing, *second.timing))
    assert saved_in_order(tmp_path, first, both) == ["s.json"]


def test_sessions_that_save_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    found = [made(failure(f"oracle {number}")) for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda each: records.save(each, tmp_path / "s.json"), found)]
    left = [records.read(path) for path in tmp_path.iterdir()]
    assert sorted(left, key=str) == sorted(found, key=str)


def test_a_file_that_is_not_a_record_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("mine")
    assert saved_in_order(tmp_path, made()) == ["s.2.json", "s.json"]
    assert (tmp_path / "s.json").read_text() == "mine"


@pytest.mark.slow
def test_another_build_s_session_keeps_the_first_ones_failure(corpus: Path) -> None:
    [path] = (corpus / "sessions").iterdir()
    found = failures_of(corpus)
    data = json.loads(path.read_bytes())
    data["timing"][0]["versions"]["commit"] = "of another build"
    path.write_text(json.dumps(data))
    assert run_command_line([*RUN, str(corpus)]) == MISMATCH
    assert len([*(corpus / "sessions").iterdir()]) == 2
    assert json.loads(path.read_bytes())["failures"] == found


# Adding up.


def test_a_chunk_counts_once_for_each_build() -> None:
    sums = merged_records([made(), made(), made(build="b"), made(build="b", pieces=[piece()])])
    assert [each.totals.actions for each in sums] == [100, 100]


def test_a_record_counts_as_part_of_the_one_that_continues_it() -> None:
    first = made(HEAP)
    both = attrs.evolve(
        made(CLOCK, build="b", pieces=MORE), timing=(*first.timing, *made(build="b").timing)
    )
    [whole] = merged_records([first, both])
    assert [each.indices for each in whole.pieces] == [range(4)]
    assert [each.failure.oracle for each in whole.failures] == ["clock", "heap"]


# Places.


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../a.jsonl", "beyond/../../a.jsonl", "a\0b", "a\ud800b"]
)
def test_a_record_whose_trace_is_outside_its_corpus_is_bad_input(path: str, tmp_path: Path) -> None:
    folder = written(tmp_path, record(failure(path=path)))
    with pytest.raises(BadInputError, match="is not in the corpus"):
        records.read(folder / "sessions" / "0.json")
