"""A night: the sum of its sessions' records, and what became of the failures of the one before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_records import failure, piece, record, timing, written

from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.sessions.corpus import shipped_traces
from fuzz.sessions.night import Night, read_failures, read_material, sum_up

VERSION = "0.1.0"
WEAKREF = "weakref-to-pinned-cleared-heap-ca04307c.jsonl"


def night(*places: Path, before: Night | None = None) -> Night:
    return sum_up(read_material(places), () if before is None else before.failures, VERSION)


def statuses(current: Night) -> dict[str, str]:
    return {each.saved.failure.oracle: each.status for each in current.failures}


def test_sessions_add_up(tmp_path: Path) -> None:
    current = night(written(tmp_path, record(), record(seed=2), record(target="reference-dotnet")))
    assert sum(session.totals.actions for session in current.sessions) == 300
    assert current.probes() == {
        "reference": {"callback_sampled": 6, "weakref_died": 0},
        "reference-dotnet": {"callback_sampled": 3, "weakref_died": 0},
    }


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


def test_failures_of_different_targets_are_different(tmp_path: Path) -> None:
    options = [["--command", "./one"], ["--command", "./two", "--timeout", "1s"]]
    sessions = [record(failure(), target="process", options=each) for each in options]
    current = night(written(tmp_path, *sessions))
    assert [(each.target, [*each.options]) for each in current.failures] == [
        ("process --command ./one", options[0]),
        ("process --command ./two", options[1]),
    ]


def test_failures_beyond_the_whole_chunks_count(tmp_path: Path) -> None:
    beyond = record(failure("heap"), beyond=[failure("heap"), failure("survival")])
    assert statuses(night(written(tmp_path, beyond))) == {"heap": "new", "survival": "new"}


def test_a_failure_has_a_status_since_the_night_before(tmp_path: Path) -> None:
    elsewhere = record(failure("places"), target="reference-dotnet")
    first = night(written(tmp_path / "1", record(failure("heap"), failure("clock")), elsewhere))
    second = night(written(tmp_path / "2", record(failure("heap"), failure("major"))), before=first)
    assert statuses(first) == dict.fromkeys(("heap", "clock", "places"), "new")
    assert statuses(second) == {
        "heap": "known",
        "major": "new",
        "clock": "vanished",
        "places": "not looked for",
    }


def test_a_failure_vanishes_once_and_is_known_if_it_returns(tmp_path: Path) -> None:
    found, clean = record(failure()), record(seed=2)
    nights = [night(written(tmp_path / "0", found))]
    for number, session in enumerate([clean, clean, found], 1):
        nights.append(night(written(tmp_path / str(number), session), before=nights[-1]))
    assert [statuses(each)["heap"] for each in nights] == ["new", "vanished", "gone", "known"]


def test_a_failure_like_a_documented_finding_is_known(tmp_path: Path) -> None:
    trace = shipped_traces("incminimark")[WEAKREF]
    corpus = written(tmp_path, record(failure(path="a.jsonl"), target="incminimark"))
    traces.write_to(trace, corpus / "a.jsonl")
    [each] = night(corpus).failures
    assert (each.status, each.pages) == ("known", ("weakref-to-pinned",))


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


def test_a_night_s_json_has_its_failures(tmp_path: Path) -> None:
    current = night(written(tmp_path, record(failure(), failure("clock", change="fixed"))))
    (tmp_path / "night.json").write_text(current.dumps())
    assert read_failures(tmp_path / "night.json") == current.failures


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
    assert "name it with --before" in complaint(corpus / "night.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a line of JSON"),
        ("[1]", "must be a JSON object"),
        ("{}", "is not a session's record of version 1"),
        ('{"bugs": []}', "engine is missing"),
        (json.dumps(record(pieces=[piece(chunks=(0, 2**64, 1))])), "at most 10,000,000"),
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "is not a night of version 1"),
        ('{"gcfuzz_night": 2}', "is not a night of version 1"),
        ('{"gcfuzz_night": 1, "failures": 3}', "must be a list, and is 3"),
        ('{"gcfuzz_night": 1, "failures": [{}]}', "target"),
        (
            json.dumps(
                {
                    "gcfuzz_night": 1,
                    "failures": [
                        {"target": "reference", "options": [], "saved": failure(), "status": "old"}
                    ],
                }
            ),
            '"old"; it must be one of new, known',
        ),
    ],
)
def test_a_broken_earlier_night_is_bad_input(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "night.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match=message):
        read_failures(path)
