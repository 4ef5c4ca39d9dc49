"""A night: the sum of its sessions' records, and the state of each failure that is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from made_records import Data, failure, piece, record, timing, written

from fuzz.failures.corpus import stem_of
from fuzz.failures.trace_files import shipped_folder, shipped_traces
from fuzz.nights.failure_history import FailureHistory, KnownFailure, Triaged, add, read
from fuzz.nights.material import read_material
from fuzz.nights.night import Night, NightCause, Replay, Replayed, sum_up
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, CheckHeap, CollectFull
from fuzz.protocol.trace import Header, Trace

VERSION = "0.1.0"
WEAKREF = "weakref-to-pinned-cleared-heap-ca04307c.jsonl"


WEAKREF_PAGE = "weakref-to-pinned"
NIGHTS = [f"2026-11-2{day}T04:00:00+00:00" for day in range(1, 8)]
UNABLE = Replayed(problem="there is no build")


def replaying(*results: Replayed) -> Replay:
    """A build on which replays have these results, the last one again and again."""
    left = [*results]

    def replay(known: KnownFailure, trace: Trace, path: Path) -> Replayed:
        return left.pop(0) if len(left) > 1 else left[0]

    return replay


def night(*places: Path, history: FailureHistory | None = None, **changed: Any) -> Night:
    replay, at = changed.get("replay", replaying(UNABLE)), changed.get("at", NIGHTS[0])
    return sum_up(read_material(places), history or FailureHistory(), replay, VERSION, at)


def nights(tmp_path: Path, *each_night: tuple[list[Data], Replayed]) -> list[Night]:
    """Several nights with one history, each with the failures of a session and a replay."""
    made: list[Night] = []
    history = FailureHistory()
    for number, (failures, replayed) in enumerate(each_night):
        started = timing(
            started=f"2026-11-2{number + 1}T02:00:00+00:00", versions={"target": f"v{number}"}
        )
        corpus = written(tmp_path / str(number), record(*failures, timing=[started]))
        traces.write_to(TRACE, corpus / "a.jsonl")
        one = replaying(attrs.evolve(replayed, version=f"v{number}"))
        made.append(night(corpus, history=history, replay=one, at=NIGHTS[number]))
        history = FailureHistory((*history.lines, *made[-1].lines(history)))
    return made


FOUND, CLEAN = [failure(path="a.jsonl")], list[Data]()
FAILS, PASSES, MIXED = Replayed(1, 1), Replayed(0, 5), Replayed(2, 5)
TRACE = Trace(Header(traces.VERSION, "reference"), (AllocateNode(7), CollectFull()))


def states(current: Night) -> dict[str, str]:
    return {each.saved.failure.oracle: each.state for each in current.failures}


def test_sessions_add_up(tmp_path: Path) -> None:
    current = night(written(tmp_path, record(), record(seed=2), record(target="reference-dotnet")))
    assert sum(session.totals.actions for session in current.sessions) == 300
    assert current.probes() == {
        "reference": {"callback_sampled": 6, "weakref_died": 0},
        "reference-dotnet": {"callback_sampled": 3, "weakref_died": 0},
    }


HELD_AT_ONCE: tuple[Data, Data] = (
    {"facts": ["string", "old", "identity", "parent"], "bits": ["7", "b", "1"]},
    {"facts": ["string", "old", "identity", "parent"], "bits": ["e", "38", "8"]},
)


def test_combinations_of_facts_are_the_union_of_the_sessions_of_a_target(tmp_path: Path) -> None:
    pieces = [[piece(held=held)] for held in HELD_AT_ONCE]
    sessions = [record(seed=seed, pieces=each) for seed, each in enumerate(pieces)]
    current = night(written(tmp_path, *sessions, record(target="reference-dotnet")))
    [(target, several)] = current.combinations().items()
    # A string is never a parent.
    assert (target, [*map(str, several)]) == (
        "reference",
        ["5 of 5 pairs of facts (100 %)", "2 of 2 triples of facts (100 %)"],
    )


def test_the_history_has_the_combinations_of_the_sessions_of_each_night(tmp_path: Path) -> None:
    history = FailureHistory()
    for number, held in enumerate(HELD_AT_ONCE):
        started = [timing(started=NIGHTS[number])]
        sessions = record(pieces=[piece(held=held)], timing=started), record(seed=2, timing=started)
        corpus = written(tmp_path / str(number), *sessions)
        current = night(corpus, history=history, at=NIGHTS[number])
        add(tmp_path / "failures.history", current.lines(history))
        history = read(tmp_path / "failures.history")
    figures = [[attrs.astuple(each) for each in done.combinations] for done in history.nights]
    assert figures == [[("reference", 3, 5, 1, 2)], [("reference", 3, 5, 1, 2)]]


def test_a_history_without_combinations_is_written_as_it_was_read(tmp_path: Path) -> None:
    history = tmp_path / "failures.history"
    add(history, night(written(tmp_path, record())).lines(FailureHistory()))
    assert "combinations" not in history.read_text()
    [done] = read(history).nights
    assert done.combinations == ()


def test_a_trace_is_read_once(tmp_path: Path) -> None:
    corpus = written(tmp_path, record(*FOUND))
    traces.write_to(TRACE, corpus / "a.jsonl")
    material = read_material([corpus])
    [session] = material.records.values()
    [saved] = session.failures
    found = material.trace_of(saved)
    (corpus / "a.jsonl").unlink()
    assert material.trace_of(saved) == found == (corpus / "a.jsonl", TRACE)


def test_a_record_that_is_given_twice_counts_once_in_any_order(tmp_path: Path) -> None:
    one = written(tmp_path / "one", record(failure()))
    other = written(tmp_path / "other", record(seed=2), record(failure()))
    assert night(one, other).dumps() == night(other, one, other).dumps()
    assert len(night(one, other).sessions) == 2


def test_a_part_counts_once_beside_what_it_was_merged_into(tmp_path: Path) -> None:
    part = record(pieces=[piece(chunks=(0, 1, 1), actions=64)])
    current = night(written(tmp_path, part, record(timing=[timing(), timing(seconds=9.0)])))
    assert [session.totals.actions for session in current.sessions] == [100]
    assert len(current.timing) == 2


def test_the_least_failure_of_an_identity_is_kept(tmp_path: Path) -> None:
    worse = record(failure(reproduced=False, length=2), failure(length=4), seed=1)
    better = record(failure(length=3), seed=2)
    [each] = night(written(tmp_path, worse, better)).failures
    assert (each.saved.reproduced, each.saved.length) == (True, 3)


@pytest.mark.parametrize(("names", "count"), [(("", ""), 1), (("mine", "yours"), 2)])
def test_failures_of_programs_differ_in_their_names_and_not_in_their_paths(
    names: tuple[str, ...], count: int, tmp_path: Path
) -> None:
    sessions = [
        record(failure(), target="process", options=["--command", f"./b{number}/adapter"])
        for number in (1, 2)
    ]
    for session, name in zip(sessions, names, strict=True):
        session["plan"]["name"] = name
    assert len(night(written(tmp_path, *sessions)).failures) == count


def test_failures_beyond_the_whole_chunks_count(tmp_path: Path) -> None:
    beyond = record(failure("heap"), beyond=[failure("heap"), failure("survival")])
    assert states(night(written(tmp_path, beyond))) == {"heap": "open", "survival": "open"}


@pytest.mark.parametrize(
    ("each_night", "expected"),
    [
        ([(FOUND, FAILS)], [("open", "new")]),
        ([(FOUND, UNABLE)], [("open", "new")]),
        ([(FOUND, FAILS), (CLEAN, FAILS)], [("open", "new"), ("open", "")]),
        ([(FOUND, FAILS), (CLEAN, UNABLE)], [("open", "new"), ("open", "")]),
        ([(FOUND, FAILS), (CLEAN, PASSES)], [("open", "new"), ("fixed", "fixed")]),
        (
            [(FOUND, FAILS), (CLEAN, PASSES), (CLEAN, PASSES), (FOUND, FAILS)],
            [("open", "new"), ("fixed", "fixed"), ("fixed", ""), ("open", "back")],
        ),
        (
            [(FOUND, FAILS), (CLEAN, PASSES), (CLEAN, FAILS)],
            [("open", "new"), ("fixed", "fixed"), ("open", "back")],
        ),
        ([(FOUND, PASSES)], [("flaky", "new")]),
        ([(FOUND, MIXED), (CLEAN, PASSES)], [("flaky", "new"), ("flaky", "")]),
        (
            [(FOUND, MIXED), *[(CLEAN, PASSES)] * 3],
            [("flaky", "new"), ("flaky", ""), ("flaky", ""), ("fixed", "fixed")],
        ),
        (
            [(FOUND, FAILS), (FOUND, MIXED), (FOUND, FAILS)],
            [("open", "new"), ("flaky", ""), ("flaky", "")],
        ),
    ],
)
def test_a_failure_has_a_state_in_each_night(
    each_night: list[tuple[list[Data], Replayed]], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    causes = [cause for each in nights(tmp_path, *each_night) for cause in each.causes]
    assert [(cause.state, cause.news) for cause in causes] == expected


def replaying_but(passing: tuple[str, ...], version: str) -> Replay:
    """A build on which the traces of these names pass, and all others fail."""

    def replay(known: KnownFailure, trace: Trace, path: Path) -> Replayed:
        return attrs.evolve(PASSES if path.name in passing else FAILS, version=version)

    return replay


def test_a_failure_that_comes_back_inside_an_open_cause_is_news(tmp_path: Path) -> None:
    found = [failure(action=kind, path=f"{kind}.jsonl") for kind in ("read", "write")]
    history, news = FailureHistory(), []
    for number, passing in enumerate(((), ("read.jsonl",), ("read.jsonl",), ())):
        started = timing(started=NIGHTS[number])
        session = record(*found[: 2 if number == 0 else 0], timing=[started])
        corpus = written(tmp_path / str(number), session)
        for each in found:
            traces.write_to(TRACE, corpus / str(each["path"]))
        replay = replaying_but(passing, f"v{number + 1}")
        current = night(corpus, history=history, replay=replay, at=NIGHTS[number])
        history = FailureHistory((*history.lines, *current.lines(history)))
        [cause] = current.causes
        news.append((cause.news, current.has_new))
    assert news == [("new", True), ("", False), ("", False), ("back", True)]
    assert cause.bounds == ("v3", "v4", "")


@pytest.mark.parametrize("reproduced", [{0}, {2}, {1, 3}, set[int]()])
def test_a_flaky_failure_is_one_cause_on_muted_nights(reproduced: set[int], tmp_path: Path) -> None:
    made: list[Night] = []
    history = FailureHistory()
    for number in range(5):
        found = failure(path="a.jsonl", reproduced=number in reproduced)
        corpus = written(
            tmp_path / str(number), record(found, timing=[timing(started=NIGHTS[number])])
        )
        actions = (*[AllocateNode(7), CollectFull()][: 1 + number % 2], CheckHeap())
        traces.write_to(attrs.evolve(TRACE, actions=actions), corpus / "a.jsonl")
        made.append(night(corpus, history=history, replay=replaying(PASSES), at=NIGHTS[number]))
        history = FailureHistory((*history.lines, *made[-1].lines(history)))
        if number == 3:
            mute = Triaged(NIGHTS[0], made[0].causes[0].id, muted_until="2026-12-24")
            history = FailureHistory((*history.lines, mute))
    assert [each.has_new for each in made] == [True, False, False, False, False]
    assert len({cause.id for each in made for cause in each.causes}) == 1
    assert [states(each)["heap"] for each in made] == [*["flaky"] * 4, "muted"]


@pytest.mark.parametrize(
    "changed", [{"target": "reference-dotnet"}, {"plan_without": ["collect_full"]}]
)
def test_an_unfindable_failure_was_not_looked_for(changed: dict[str, Any], tmp_path: Path) -> None:
    [first] = nights(tmp_path, (FOUND, FAILS))
    other = record(target=changed.get("target", "reference"), timing=[timing(started=NIGHTS[1])])
    other["plan"]["without"] = changed.get("plan_without", [])
    history = FailureHistory(tuple(first.lines(FailureHistory())))
    material = read_material([written(tmp_path / "other", other)])
    material.corpora.append(tmp_path / "0")
    second = sum_up(material, history, replaying(UNABLE), VERSION, NIGHTS[1])
    assert states(second) == {"heap": "not looked for"}


def test_a_failure_has_its_life(tmp_path: Path) -> None:
    *_, last = nights(
        tmp_path, (CLEAN, UNABLE), (FOUND, FAILS), (FOUND, FAILS), (CLEAN, PASSES), (FOUND, FAILS)
    )
    [data] = [each.to_data() for each in last.failures]
    assert {name: data[name] for name in ("first_seen", "last_seen", "sessions", "versions")} == {
        "first_seen": "2026-11-22T02:00:00+00:00",
        "last_seen": "2026-11-25T02:00:00+00:00",
        "sessions": 3,
        "versions": ["v1", "v2", "v4"],
    }
    assert (data["last_good"], data["first_bad"], data["fixed_in"]) == ("v3", "v4", "")
    assert [(each.open, each.new, each.back, each.fixed) for each in last.nights] == [
        *((0, 0, 0, 0), (1, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1), (1, 0, 1, 0))
    ]


@pytest.mark.parametrize(
    ("each_night", "bounds"),
    [
        ([(CLEAN, UNABLE), (FOUND, FAILS)], ("", "v1", "")),
        ([(CLEAN, UNABLE), (FOUND, FAILS), (CLEAN, PASSES), (CLEAN, PASSES)], ("", "v1", "v2")),
        ([(FOUND, FAILS), (CLEAN, PASSES), (FOUND, FAILS)], ("v1", "v2", "")),
    ],
)
def test_only_a_version_on_which_a_trace_passed_is_good(
    each_night: list[tuple[list[Data], Replayed]], bounds: tuple[str, str, str], tmp_path: Path
) -> None:
    *_, last = nights(tmp_path, *each_night)
    assert last.failures[0].life.bounds == bounds


def test_a_failure_is_seen_first_and_last_in_the_order_of_nights(tmp_path: Path) -> None:
    """The clock of the second night's session was behind."""
    history = FailureHistory()
    for number, started in enumerate((NIGHTS[2], "1970-01-01T02:00:00+00:00")):
        corpus = written(tmp_path / str(number), record(*FOUND, timing=[timing(started=started)]))
        current = night(corpus, history=history, at=NIGHTS[3 + number])
        history = FailureHistory((*history.lines, *current.lines(history)))
    data = current.failures[0].to_data()
    assert (data["first_seen"], data["last_seen"]) == (NIGHTS[2], "1970-01-01T02:00:00+00:00")


def test_a_night_that_is_made_again_counts_once(tmp_path: Path) -> None:
    first, second = nights(tmp_path, (CLEAN, UNABLE), (FOUND, FAILS))
    lines = first.lines(FailureHistory())
    history = FailureHistory((*lines, *second.lines(FailureHistory())))
    again = night(tmp_path / "1", history=history, replay=replaying(FAILS), at=NIGHTS[2])
    assert again.has_new
    assert len(again.nights) == 2
    after = FailureHistory((*history.lines, *again.lines(history)))
    assert len(after.nights) == 2
    assert [len(life.shown) for life in after.lives().values()] == [1]


def test_failures_of_one_cause_are_one_entry_that_sure_and_short_ones_lead(tmp_path: Path) -> None:
    seen_once = failure("clock", length=1, reproduced=False)
    kinds = [failure("heap", action=kind, path="a.jsonl") for kind in ("read", "write")]
    kinds[0]["length"] = 9
    corpus = written(tmp_path, record(*kinds, seen_once))
    traces.write_to(TRACE, corpus / "a.jsonl")
    current = night(corpus)
    assert [[each.saved.failure.action for each in cause.failures] for cause in current.causes] == [
        ["write", "read"],
        ["collect_full"],
    ]


def test_a_muted_cause_stays_muted_in_an_action_that_is_first_seen_later(tmp_path: Path) -> None:
    history, state = FailureHistory(), []
    for number, kinds in enumerate((["read"], ["read", "write"], ["read", "write"])):
        found = [failure(action=kind, path="a.jsonl") for kind in kinds]
        session = record(*found, timing=[timing(started=NIGHTS[number])])
        corpus = written(tmp_path / str(number), session)
        traces.write_to(TRACE, corpus / "a.jsonl")
        current = night(corpus, history=history, replay=replaying(FAILS), at=NIGHTS[number])
        [cause] = current.causes
        state.append((cause.state, cause.news, current.has_new))
        mute = Triaged(NIGHTS[0], cause.id, muted_until="2026-12-24")
        history = FailureHistory((*history.lines, *current.lines(history), mute))
    assert state == [("open", "new", True), ("muted", "", False), ("muted", "", False)]


def test_a_history_has_each_trace_of_a_failure_so_that_all_can_be_muted(tmp_path: Path) -> None:
    again = record(*FOUND, timing=[timing(started=NIGHTS[1])])
    longer = record(failure(path="b.jsonl", length=9), seed=2, timing=[timing(started=NIGHTS[1])])
    corpus = written(tmp_path, again, longer)
    for name in ("a", "b"):
        traces.write_to(TRACE, corpus / f"{name}.jsonl")
    current = night(corpus, replay=replaying(FAILS))
    assert len(current.failures) == 1
    known = [each for each in current.lines(FailureHistory()) if isinstance(each, KnownFailure)]
    assert {str(each.saved.path) for each in known} == {"a.jsonl", "b.jsonl"}


@pytest.mark.parametrize(("replayed", "count"), [(FAILS, 0), (PASSES, 1)])
def test_an_unshown_raw_failure_is_named(replayed: Replayed, count: int, tmp_path: Path) -> None:
    first, second = nights(tmp_path, (FOUND, FAILS), (CLEAN, replayed))
    history = FailureHistory((*first.lines(FailureHistory()), *second.lines(FailureHistory())))
    corpus = written(tmp_path / "2", record(timing=[timing(started=NIGHTS[2])]))
    stem = stem_of(first.failures[0].saved.failure)
    for name in ("a.jsonl", f"{stem}-raw-01234567.5eed-3.jsonl"):
        traces.write_to(TRACE, corpus / name)
    current = night(corpus, history=history, replay=replaying(replayed), at=NIGHTS[2])
    assert len(current.unreduced) == count


def test_a_cause_that_compares_two_targets_is_not_broken(tmp_path: Path) -> None:
    found = record(failure("heap"), failure("clock", change="observable"))
    causes = night(written(tmp_path, found)).causes
    assert {each.first.saved.failure.oracle: each.is_broken for each in causes} == {
        "heap": True,
        "clock": False,
    }


def test_a_muted_cause_that_was_fixed_and_returns_fails_no_job(tmp_path: Path) -> None:
    first, second = nights(tmp_path, (FOUND, FAILS), (CLEAN, PASSES))
    mute = Triaged(NIGHTS[0], first.causes[0].id, muted_until="2026-12-24")
    history = FailureHistory((*first.lines(FailureHistory()), mute))
    history = FailureHistory((*history.lines, *second.lines(history)))
    session = record(*FOUND, timing=[timing(started=NIGHTS[2])])
    corpus = written(tmp_path / "2", session)
    traces.write_to(TRACE, corpus / "a.jsonl")
    current = night(corpus, history=history, at=NIGHTS[2])
    [cause] = current.causes
    assert (cause.state, cause.news, current.has_new) == ("muted", "back", False)
    assert current.counts() == {"muted": 1, "back": 1}


def test_a_cause_was_seen_when_any_of_its_failures_was(tmp_path: Path) -> None:
    later, earlier = failure(action="read", length=1), failure(action="write")
    for each in (later, earlier):
        each["path"] = "a.jsonl"
    *_, last = nights(tmp_path, ([earlier], FAILS), ([later], FAILS))
    [data] = json.loads(last.dumps())["causes"]
    assert {data[name] for name in ("first_seen", "last_seen")} == {
        *("2026-11-21T02:00:00+00:00", "2026-11-22T02:00:00+00:00")
    }
    assert (data["sessions"], data["versions"]) == (2, ["v0", "v1"])
    assert data["failures"][0]["first_seen"] == data["last_seen"]


def like_a_finding(tmp_path: Path, replayed: Replayed, finding: Replayed) -> NightCause:
    """A failure like a documented finding, whose own trace is replayed with that result, too."""
    trace = shipped_traces("incminimark")[WEAKREF]
    assert trace.header.found is not None
    assert trace.header.found.message.endswith("(its object is young)")
    found = failure(
        path="a.jsonl",
        where="weakref #3",
        expected="alive true",
        got="alive false",
        why="its object is young",
    )
    corpus = written(tmp_path, record(found, target="incminimark"))
    traces.write_to(trace, corpus / "a.jsonl")
    [cause] = night(corpus, replay=replaying(replayed, finding)).causes
    assert cause.first.pages == (WEAKREF_PAGE,)
    return cause


def test_a_failure_like_a_documented_finding_that_the_build_has_is_not_new(tmp_path: Path) -> None:
    assert like_a_finding(tmp_path, FAILS, finding=FAILS).news == ""


@pytest.mark.parametrize("finding", [PASSES, UNABLE])
def test_an_unshown_finding_makes_its_failure_new(finding: Replayed, tmp_path: Path) -> None:
    assert like_a_finding(tmp_path, FAILS, finding).news == "new"


def test_a_broken_trace_costs_a_line(tmp_path: Path) -> None:
    corpus = written(tmp_path, record(*FOUND, failure("clock")))
    (corpus / "a.jsonl").write_text("{")
    current = night(corpus)
    assert states(current) == {"clock": "open", "heap": "open"}
    assert [each.partition(":")[0] for each in current.left_out] == [str(corpus / "a.jsonl")]


def test_a_broken_record_costs_a_line(tmp_path: Path) -> None:
    corpus = written(tmp_path, record(failure()))
    (corpus / "sessions" / "broken.json").write_text("{")
    assert len(night(corpus).failures) == 1
    assert "broken.json: not a line of JSON" in night(corpus).left_out[0]


def test_what_a_change_fixed_is_neither_new_nor_in_the_history(tmp_path: Path) -> None:
    current = night(written(tmp_path, record(failure(change="fixed"))))
    assert not current.has_new
    assert len([*current.lines(FailureHistory())]) == 1


def test_wrong_actions_are_counted_by_oracle_if_a_change_did_not_fix_them(tmp_path: Path) -> None:
    fixed = failure("clock", change="fixed")
    failures = failure(), failure(action="read"), failure("survival"), fixed
    assert night(written(tmp_path, record(*failures))).wrong_actions() == {
        "heap": {"collect_full": 1, "read": 1},
        "survival": {"collect_full": 1},
    }


@pytest.mark.parametrize(
    ("history", "quiet_seconds"),
    [
        ([], 60),
        ([(1, 5, 1, 0), (60, 100, 1, 0)], 59),
        ([(1, 5, 1, 0), (20, 50, 1, 1), (30, 60, 1, 1), (60, 100, 1, 1)], 40),
        ([(1, 5, 1, 0), (60, 100, 2, 0)], 0),
    ],
)
def test_a_probe_or_a_failure_is_new(
    history: list[tuple[float, int, int, int]], quiet_seconds: float, tmp_path: Path
) -> None:
    current = night(written(tmp_path, record(timing=[timing(*history)])))
    assert current.quiet_seconds == quiet_seconds


def test_the_quiet_time_is_that_of_all_sessions(tmp_path: Path) -> None:
    early = timing((50, 100, 1, 0), started="2026-11-22T02:00:00Z")
    late = timing((20, 100, 1, 0), started="2026-11-22T02:00:10Z", seconds=30.0)
    assert night(written(tmp_path, record(timing=[early, late]))).quiet_seconds == 10


# Bad input.


def complaint(*places: Path) -> str:
    with pytest.raises(BadInputError) as problem:
        read_material(places)
    return str(problem.value)


def test_a_corpus_without_a_record_is_bad_input(tmp_path: Path) -> None:
    assert "has no record of a session" in complaint(tmp_path)


def test_a_night_beside_the_records_is_not_a_record(tmp_path: Path) -> None:
    corpus = written(tmp_path, record())
    (corpus / "night.json").write_text(night(corpus).dumps())
    assert len(night(corpus).sessions) == 1
    assert "is the JSON of a night" in complaint(corpus / "night.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a line of JSON"),
        ("[1]", "must be a JSON object"),
        ("{}", "is not a session's record of version 1"),
        ('{"bugs": []}', "engine is missing"),
        (json.dumps(record(pieces=[piece(chunks=(0, 2**64, 1))])), "at most 10,000,000"),
        (json.dumps(record(pieces=[piece() | {"chunks": [0, 2]}])), "not start, stop and step"),
        (json.dumps(record(failure(length="3"))), "failures[0].length must be an integer"),
    ],
)
def test_a_broken_record_is_bad_input(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text(text)
    assert message in complaint(path)
    assert complaint(path).startswith(f"{path}: ")


def test_the_known_bugs_alone_are_not_a_night(tmp_path: Path) -> None:
    (tmp_path / "bugs.json").write_text('{"engine": "random", "seeds": 1, "bugs": []}')
    assert "no record of a session" in complaint(tmp_path / "bugs.json")


# The JSON beside the page.


def test_the_documentation_names_each_key_of_the_json(tmp_path: Path) -> None:
    [current] = nights(tmp_path, (FOUND, FAILS))
    data = json.loads(current.dumps())
    [cause], [one_night] = data["causes"], data["nights"]
    page = (shipped_folder("docs") / "sessions.md").read_text()
    part = page.partition('"gcfuzz_night": 3')[2].partition("## ")[0]
    keys = {*data, *cause, *cause["failures"][0], *one_night} - {"gcfuzz_night"}
    assert [key for key in sorted(keys) if f"`{key}`" not in part] == []
