"""A session is a sum of chunks: any number of workers and any parts leave the same."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from command_line import Complaint, Gcfuzz
from hypothesis import given
from hypothesis import strategies as st
from made_records import timing

from fuzz.nights.merge import _shared, merge, merged_record
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.sessions import record
from fuzz.sessions.plan import Plan, SessionTotals, actions_before
from fuzz.sessions.record import ACTIONS, SessionRecord, Timing, piece_of
from fuzz.sessions.session import Session
from fuzz.sessions.session_events import Event, Progress, WorkerDied
from fuzz.targets import TargetOptions, chunk_actions_of
from fuzz.targets.registration import CHUNK_ACTIONS
from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)
PLANTED = "reference+one-sample-per-object+sample-on-equality"
BUDGET = 6000
MINE = '{"gcfuzz": 2, "target": "mine"}\n{"do": "collect_full"}\n'
PLAN = Plan("reference", "random", 1, 1, Path("corpus"))
SIZE = chunk_actions_of(PLANTED)

Left = dict[str, Any]


def left_in(folder: Path) -> Left:
    """All that sessions left in a corpus, except what need not be the same."""
    files: Left = {}
    for path in folder.rglob("*"):
        if path.suffix == ".json":
            data = json.loads(path.read_bytes())
            del data["timing"], data["beyond"]
            files[path.name] = data
        elif path.is_file() and path.parent.name != "beyond":
            files[path.name] = path.read_bytes()
    return files


def run(corpus: Path, *options: str, seed: str = "3") -> Left:
    arguments = ["--target", PLANTED, "--seed", seed, "--corpus", str(corpus), *options]
    assert run_command_line(["run", *arguments]) in {CLEAN, MISMATCH}
    return left_in(corpus)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What one worker leaves."""
    return run(tmp_path_factory.mktemp("whole"), "--actions", str(BUDGET))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What four parts of the same leave."""
    folders = [tmp_path_factory.mktemp(f"part{number}") for number in range(1, 5)]
    for number, folder in enumerate(folders, 1):
        run(folder, "--actions", str(BUDGET), "--part", f"{number}/4")
    return folders


# Plans.


def test_chunks_have_all_actions_of_a_budget() -> None:
    for actions in (1, 63, 64, 65, 5000, 16_127, 16_128, 16_129, 100_000):
        plan = attrs.evolve(PLAN, actions=actions)
        assert sum(plan.chunk(index).actions for index in plan.share) == actions
        assert all(plan.chunk(index).actions > 0 for index in plan.share)


@pytest.mark.parametrize("chunk_actions", [1, 64, 100, CHUNK_ACTIONS, 65_536])
def test_chunks_grow_to_their_size(chunk_actions: int) -> None:
    plan = attrs.evolve(PLAN, chunk_actions=chunk_actions)
    sizes = [plan.chunk(index).actions for index in range(100)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (min(64, chunk_actions), chunk_actions)
    assert [actions_before(index, chunk_actions) for index in range(101)] == [
        sum(sizes[:index]) for index in range(101)
    ]


def test_the_size_of_chunks_is_part_of_the_plan() -> None:
    assert attrs.evolve(PLAN, chunk_actions=65_536).key != PLAN.key


@pytest.mark.slow
@pytest.mark.parametrize(("options", "actions"), [((), 131_072), (("--chunk-actions", "70"), 70)])
def test_a_target_has_a_default_size_of_chunks(
    options: tuple[str, ...], actions: int, tmp_path: Path
) -> None:
    run(tmp_path, "--actions", "64", *options)
    [found] = record.records_in(tmp_path)
    assert found[1].plan.chunk_actions == actions


def test_parts_share_the_chunks_of_a_plan() -> None:
    plan = attrs.evolve(PLAN, actions=50_000)
    shares = [attrs.evolve(plan, chunks=plan.chunks[part::3]).share for part in range(3)]
    assert sorted(index for share in shares for index in share) == [*plan.share]


def test_a_part_without_chunks_is_empty() -> None:
    assert not attrs.evolve(PLAN, actions=64, chunks=PLAN.chunks[5::16]).share


# Results.


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["2", "4"])
def test_any_number_of_workers_leaves_the_same(workers: str, whole: Left, tmp_path: Path) -> None:
    assert len(whole) > 5
    assert run(tmp_path, "--actions", str(BUDGET), "--workers", workers) == whole


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_parts_merged_in_any_order_are_the_whole(
    order: int, whole: Left, parts: list[Path], tmp_path: Path
) -> None:
    folders = map(str, parts[::order])
    assert run_command_line(["merge", *folders, "-o", str(tmp_path / "merged")]) == CLEAN
    assert left_in(tmp_path / "merged") == whole


@pytest.mark.slow
def test_combinations_of_facts_are_the_union_of_the_chunks_of_any_workers_and_parts(
    tmp_path: Path,
) -> None:
    options = ["--combinations", "--actions", "1000"]
    whole = run(tmp_path / "whole", *options)
    assert run(tmp_path / "workers", *options, "--workers", "3") == whole
    for part in ("1/2", "2/2"):
        run(tmp_path / part[0], *options, "--part", part)
    merge([tmp_path / "2", tmp_path / "1"], tmp_path / "merged")
    assert left_in(tmp_path / "merged") == whole
    [session] = (each for name, each in whole.items() if name.endswith(".json"))
    assert session["totals"]["held"]["facts"]


def test_a_session_that_counts_combinations_draws_the_same(tmp_path: Path) -> None:
    totals = []
    for options in ([], ["--combinations"]):
        left = run(tmp_path / str(len(options)), "--actions", "1000", *options)
        [session] = (each for name, each in left.items() if name.endswith(".json"))
        totals.append({**session["totals"], "held": None})
        assert ("held" in session["totals"]) is bool(options)
    assert totals[0] == totals[1]


def test_merged_corpora_may_be_merged_again(whole: Left, parts: list[Path], tmp_path: Path) -> None:
    some, rest, again = (tmp_path / name for name in ("some", "rest", "again"))
    merge(parts[:2], some)
    merge([parts[2], parts[2], some], rest)
    merge([parts[0], rest, some, parts[3]], again)
    assert left_in(again) == whole


@pytest.mark.slow
def test_the_chunks_of_a_session_of_time_can_be_repeated(tmp_path: Path) -> None:
    def end(event: Event) -> None:
        if isinstance(event, Progress) and event.totals.actions > BUDGET:
            session._deadline = 0.0  # noqa: SLF001 - how fast it is, is chance

    corpus = tmp_path / "timed"
    plan = Plan(PLANTED, "random", 3, 2, corpus, seconds=3600.0, chunk_actions=SIZE)
    plan.corpus.mkdir()
    session = Session(plan.under_contract(), [end])
    session.run()
    timed = left_in(plan.corpus)
    [first] = (each for name, each in timed.items() if name.endswith(".json"))
    [piece] = first["pieces"]
    start, stop, _ = piece["chunks"]
    again = run(tmp_path / "again", "--chunks", f"{start}:{stop}")
    [second] = (each for name, each in again.items() if name.endswith(".json"))
    assert (first.pop("stop_reason"), second.pop("stop_reason")) == ("time", "actions")
    assert first == second
    assert {name for name in timed if name.endswith(".jsonl")} == {
        name for name in again if name.endswith(".jsonl")
    }


@pytest.mark.slow
def test_a_resumed_session_leaves_the_same(whole: Left, tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Progress) and event.totals.actions > BUDGET / 2:
            os.kill(os.getpid(), signal.SIGINT)

    plan = Plan(PLANTED, "random", 3, 1, tmp_path, actions=BUDGET, chunk_actions=SIZE)
    stopped = Session(plan.under_contract(), [interrupt]).run()
    assert 0 < stopped.record.totals.actions < BUDGET
    arguments = ["--target", PLANTED, "--corpus", str(tmp_path), "--actions", str(BUDGET)]
    assert "seed 3" in gcfuzz(MISMATCH, "run", *arguments, "--resume").out
    assert left_in(tmp_path) == whole


CRASHING = """
import os, sys, zlib
from fuzz.targets import make_target
from fuzz.targets.process.serve import serve

class Crashing:
    name = "crashing"
    def __init__(self):
        self.target = make_target("reference")
    def start(self, configuration):
        self.crashes = zlib.crc32(repr(configuration).encode()) % 10 == 0
        return self.target.start(configuration)
    def perform(self, action):
        self.crashes and os._exit(7)
        return self.target.perform(action)

serve(Crashing(), sys.stdin, sys.stdout)
"""


@pytest.mark.slow
def test_a_program_that_crashes_in_every_tenth_trace_kills_no_worker(tmp_path: Path) -> None:
    program = tmp_path / "crashing.py"
    program.write_text(CRASHING)
    events: list[Event] = []
    options = TargetOptions((sys.executable, str(program)))
    plan = Plan("process", "random", 1, 2, tmp_path, actions=700, options=options)
    finished = Session(plan.under_contract(), [events.append]).run()
    assert not [event for event in events if isinstance(event, WorkerDied)]
    assert finished.is_done
    assert finished.record.totals.actions == 700
    assert {saved.failure.field for saved in finished.failures} == {"error"}


# Merging.


def record_of(*chunks: range, seed: int = 1, lost: tuple[int, ...] = ()) -> SessionRecord:
    pieces = [piece_of(each, lost, SessionTotals(actions=64 * len(each))) for each in chunks]
    plan = attrs.evolve(PLAN, seed=seed).key
    started = f"2026-11-22T02:00:{chunks[0].start:02}.{sum(map(len, chunks)):06}+00:00"
    times = wire.structured([timing(started=started)], tuple[Timing, ...])
    return SessionRecord(plan, tuple(pieces), (), ACTIONS, (), times)


def spans(*records: SessionRecord) -> list[range]:
    merged = [merged_record(order) for order in (records, records[::-1], [*records, records[0]])]
    assert merged[0] == merged[1] == merged[2]
    return [piece.indices for piece in merged[0].pieces]


@pytest.mark.parametrize(
    ("chunks", "merged"),
    [
        ([range(0, 30, 3), range(1, 10, 3)], [range(0, 30, 3), range(1, 10, 3)]),
        ([range(10, 20), range(10), range(20, 25)], [range(25)]),
        ([range(30), range(0, 30, 3), range(7)], [range(30)]),
    ],
)
def test_parts_are_as_few_pieces_as_possible(chunks: list[range], merged: list[range]) -> None:
    assert spans(*map(record_of, chunks)) == merged


def test_chunks_in_two_records_count_once() -> None:
    merged = merged_record([record_of(range(30)), record_of(range(0, 30, 3)), record_of(range(7))])
    assert merged.totals.actions == 30 * 64


def test_a_chunk_that_one_part_lost_is_taken_from_another() -> None:
    merged = merged_record([record_of(range(9), lost=(3,)), record_of(range(9))])
    assert [piece.lost for piece in merged.pieces] == [()]


def test_records_with_different_parts_do_not_add_up() -> None:
    with pytest.raises(BadInputError, match="merge parts that were cut in the same way"):
        merged_record([record_of(range(0, 30, 2)), record_of(range(0, 30, 3))])


def saved(folder: Path, *records: SessionRecord) -> Path:
    (folder / "sessions").mkdir(parents=True)
    for number, each in enumerate(records):
        record.write(each, folder / "sessions" / f"{number}.json")
    return folder


def test_plans_stay_apart(tmp_path: Path) -> None:
    one = saved(tmp_path / "one", record_of(range(3)))
    two = saved(tmp_path / "two", record_of(range(3, 5)), record_of(range(4), seed=2))
    merged = merge([one, two], tmp_path / "out").records
    assert [each.plan.seed for each in merged] == [1, 2]


def test_a_trace_that_is_in_no_record_is_kept(tmp_path: Path) -> None:
    (saved(tmp_path / "one") / "mine.jsonl").write_text(MINE)
    (tmp_path / "one" / "mine.log").write_text("why")
    assert merge([tmp_path / "one"], tmp_path / "out") == ([], [], [])
    left = sorted(path.name for path in (tmp_path / "out").glob("*.*"))
    assert left == ["mine.jsonl", "mine.log"]


def plant_link(place: Path) -> None:
    secret = place.with_name("secret.txt")
    secret.write_text(MINE)
    place.symlink_to(secret)


@pytest.mark.parametrize("name", ["x.jsonl", "x.log", "sessions/x.json"])
@pytest.mark.parametrize("plant", [plant_link, os.mkfifo, Path.mkdir])
def test_merging_copies_only_regular_files(
    plant: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    one = saved(tmp_path / "one", record_of(range(3)))
    plant(one / name)
    merge([one], tmp_path / "out")
    assert [*(tmp_path / "out").glob("*.*")] == []


@pytest.mark.parametrize("name", ["x.jsonl", "sessions/x.json"])
def test_merging_copies_only_what_it_has_parsed(name: str, tmp_path: Path) -> None:
    one = saved(tmp_path / "one", record_of(range(3)))
    (one / name).write_text("secret\n")
    (one / "secret.txt").write_text("secret\n")
    merged, left_out, _ = merge([one], tmp_path / "out")
    assert len(merged) == 1
    assert [each.split(":")[0] for each in left_out] == [str(one / name)]
    assert [*(tmp_path / "out").glob("*.*")] == []


def test_a_left_out_file_is_bad_input(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    one = saved(tmp_path / "one", record_of(range(3)))
    (one / "x.jsonl").write_text("secret\n")
    printed = gcfuzz(BAD_INPUT, "merge", one, "-o", tmp_path / "out").out
    assert "whole: chunks 0:3" in printed
    assert "x.jsonl:1: not a line of JSON" in printed.replace("\n", " ")
    assert len([*(tmp_path / "out" / "sessions").iterdir()]) == 1


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        (["1-0--2", "1-1--2"], []),
        (["1-1--2"], ["part 1/2 of reference with seed 1;"]),
        (["1-0--4", "1-2--4"], ["part 2/4, 4/4 of reference with seed 1;"]),
        (["1-0--2", "2-1--2"], ["part 2/2 of reference with seed 1;", "part 1/2 of "]),
        (["1-1--2", "1-0-20-1"], []),
        (["1"], []),
    ],
)
def test_a_merge_without_all_parts_names_them_and_is_inconclusive(
    parts: list[str], missing: list[str], tmp_path: Path, gcfuzz: Gcfuzz
) -> None:
    for number, part in enumerate(parts):
        seed, *share = part.split("-", 1)
        each = record_of(range(0), seed=int(seed))
        (folder := tmp_path / "parts" / str(number) / "sessions").mkdir(parents=True)
        name = "-".join([record.name_of(each.plan), *share])
        record.write(each, folder / f"{name}.json")
    code = INCONCLUSIVE if missing else CLEAN
    printed = gcfuzz(code, "merge", *(tmp_path / "parts").iterdir(), "-o", tmp_path / "out").out
    lines = [line for line in printed.splitlines() if "no record has" in line]
    assert [expected in line for expected, line in zip(missing, lines, strict=True)] == [
        True for _ in missing
    ]


def test_a_missing_part_is_named_once(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    each = record_of(range(0))
    (folder := tmp_path / "part" / "sessions").mkdir(parents=True)
    record.write(each, folder / f"{record.name_of(each.plan)}-1--2.json")
    gcfuzz(INCONCLUSIVE, "merge", tmp_path / "part", "-o", tmp_path / "merged")
    gcfuzz(CLEAN, "merge", tmp_path / "merged", "-o", tmp_path / "again")


ranges = st.builds(
    lambda start, count, step: range(start, start + count * step, step),
    st.integers(0, 40),
    st.integers(0, 20),
    st.integers(1, 12),
)


@given(ranges, ranges)
def test_two_ranges_share_the_numbers_in_both(one: range, other: range) -> None:
    assert _shared(one, other) == len({*one} & {*other})


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run --chunks 0:5 --actions 3", "--actions and --chunks are budgets; give one"),
        ("run --chunks 5:5", "write 0:5120"),
        ("run --part 17/16", "write 3/16"),
        ("run --part 0/16", "write 3/16"),
        ("run --part 1/16", "--part needs --seed, the same for each part"),
        ("run --database here", "--engine random has no examples to share"),
        pytest.param(
            "run --engine stateful --actions 5 --database something",
            "--database something: cannot keep examples: Not a directory",
            marks=pytest.mark.slow,
        ),
        ("run --resume --actions 5", "no such session to resume"),
        ("merge nowhere -o out", "nowhere: there is no such folder"),
        ("merge . -o .", "is not empty"),
    ],
)
def test_a_session_that_is_impossible_is_bad_input(
    arguments: str, message: str, complaint: Complaint, empty_folder: Path
) -> None:
    (empty_folder / "something").touch()
    assert message in complaint(*shlex.split(arguments))
