"""A night: what its sessions' records add up to, and what became of the finds of the one before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_records import failure, record, timing, written

from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.sessions.corpus import shipped_traces
from fuzz.sessions.night import Night, read_finds, read_material, sum_up

VERSION = "0.1.0"
WEAKREF = "weakref-to-pinned-cleared-heap-ca04307c.jsonl"


def night(*places: Path, before: Night | None = None) -> Night:
    return sum_up(read_material(places), () if before is None else before.finds, VERSION)


def statuses(tonight: Night) -> dict[str, str]:
    return {find.failure.oracle: find.status for find in tonight.finds}


def test_sessions_add_up(tmp_path: Path) -> None:
    tonight = night(written(tmp_path, record(), record(seed=2), record(target="reference-dotnet")))
    assert sum(session.totals.actions for session in tonight.sessions) == 300
    assert tonight.probes() == {
        "reference": {"callback_sampled": 6, "weakref_died": 0},
        "reference-dotnet": {"callback_sampled": 3, "weakref_died": 0},
    }


def test_what_is_given_twice_counts_once_in_whichever_order(tmp_path: Path) -> None:
    one = written(tmp_path / "one", record(failure()))
    other = written(tmp_path / "other", record(seed=2), record(failure()))
    assert night(one, other).dumps() == night(other, one, other).dumps()
    assert len(night(one, other).sessions) == 2


def test_a_part_counts_once_beside_what_it_was_merged_into(tmp_path: Path) -> None:
    part = record(pieces=[{**record()["pieces"][0], "chunks": [0, 1, 1], "actions": 64}])
    tonight = night(written(tmp_path, part, record(timing=[timing(), timing(seconds=9.0)])))
    assert [session.totals.actions for session in tonight.sessions] == [100]
    assert len(tonight.timing) == 2


def test_of_finds_with_one_identity_the_least_is_kept(tmp_path: Path) -> None:
    worse = record(failure(reproduced=False, actions=2, chunk=0), failure(actions=4), seed=1)
    better = record(failure(actions=3), seed=2)
    [find] = night(written(tmp_path, worse, better)).finds
    assert (find.failure.reproduced, find.failure.actions) == (True, 3)


def test_a_find_in_another_target_is_another(tmp_path: Path) -> None:
    options = [["--command", "./one"], ["--command", "./two", "--timeout", "1s"]]
    sessions = [record(failure(), target="process", options=each) for each in options]
    tonight = night(written(tmp_path, *sessions))
    assert [(find.target, [*find.options]) for find in tonight.finds] == [
        ("process --command ./one", options[0]),
        ("process --command ./two", options[1]),
    ]


def test_what_was_found_beyond_the_whole_chunks_is_a_find(tmp_path: Path) -> None:
    beyond = record(failure("heap"), beyond=[failure("heap"), failure("survival")])
    assert statuses(night(written(tmp_path, beyond))) == {"heap": "new", "survival": "new"}


def test_finds_are_told_apart_by_the_night_before(tmp_path: Path) -> None:
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


def test_a_find_vanishes_once_and_is_known_if_it_comes_again(tmp_path: Path) -> None:
    found, clean = record(failure()), record(seed=2)
    nights = [night(written(tmp_path / "0", found))]
    for number, session in enumerate([clean, clean, found], 1):
        nights.append(night(written(tmp_path / str(number), session), before=nights[-1]))
    told = [statuses(each)["heap"] for each in nights]
    assert told == ["new", "vanished", "gone", "known"]


def test_a_find_like_one_in_the_documents_is_known(tmp_path: Path) -> None:
    trace = shipped_traces("incminimark")[WEAKREF]
    corpus = written(tmp_path, record(failure(trace="a.jsonl"), target="incminimark"))
    traces.write_to(trace, corpus / "a.jsonl")
    [find] = night(corpus).finds
    assert (find.status, find.pages) == ("known", ("weakref-to-pinned",))


def test_wrong_actions_are_counted_by_oracle_and_what_nothing_broke_is_none(tmp_path: Path) -> None:
    fixed = failure("clock", change="fixed")
    finds = failure(), failure(action="read"), failure("survival"), fixed
    assert night(written(tmp_path, record(*finds))).wrong_actions() == {
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
def test_the_last_that_was_new_is_a_probe_or_a_failure(
    history: list[tuple[float, int, int, int]], quiet_seconds: float, tmp_path: Path
) -> None:
    tonight = night(written(tmp_path, record(timing=[timing(*history)])))
    assert tonight.quiet_seconds == quiet_seconds


def test_how_long_nothing_was_new_is_told_by_the_clock_of_all_sessions(tmp_path: Path) -> None:
    early = timing((50, 100, 1, 0), started="2026-11-22T02:00:00Z")
    late = timing((20, 100, 1, 0), started="2026-11-22T02:00:10Z", seconds=30.0)
    assert night(written(tmp_path, record(timing=[early, late]))).quiet_seconds == 10


def test_a_night_s_json_says_its_finds(tmp_path: Path) -> None:
    tonight = night(written(tmp_path, record(failure(), failure("clock", change="fixed"))))
    (tmp_path / "night.json").write_text(tonight.dumps())
    assert read_finds(tmp_path / "night.json") == tonight.finds


# Bad input.


def complaint(*places: Path) -> str:
    with pytest.raises(BadInputError) as problem:
        read_material(places)
    return str(problem.value)


def test_a_corpus_without_a_record_is_bad_input(tmp_path: Path) -> None:
    assert "no session has left a record" in complaint(tmp_path)


def test_a_night_beside_the_records_is_none_of_them(tmp_path: Path) -> None:
    corpus = written(tmp_path, record())
    (corpus / "night.json").write_text(night(corpus).dumps())
    assert len(night(corpus).sessions) == 1
    assert "--before compares with it" in complaint(corpus / "night.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not a line of JSON"),
        ("[1]", "must be a JSON object"),
        ("{}", "is no record of a session"),
        ('{"bugs": []}', "engine is missing"),
        (json.dumps(record(gcfuzz_session=2)), "of another version"),
        (json.dumps(record({**failure(), "actions": "3"})), "actions must be an integer"),
        (json.dumps(record(failure() | {"message": None})), "message must be a string"),
        (json.dumps(record(timing=[{}])), "seconds is missing"),
        (json.dumps(record(timing=[timing(history=[[1, 2, 3]])])), "invalid value"),
        (json.dumps(record(timing=[timing(started="at night")])), "invalid value"),
        (json.dumps(record(options=3)), "options must be a list"),
    ],
)
def test_what_is_no_record_is_bad_input(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text(text)
    assert words in complaint(path)
    assert complaint(path).startswith(f"{path}: ")


def test_the_known_bugs_alone_are_no_night(tmp_path: Path) -> None:
    (tmp_path / "bugs.json").write_text('{"engine": "random", "seeds": 1, "bugs": []}')
    assert "no record of a session" in complaint(tmp_path / "bugs.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "is no night of version 1"),
        ('{"gcfuzz_night": 2}', "is no night of version 1"),
        ('{"gcfuzz_night": 1, "finds": 3}', "it must be a list, and is 3"),
        ('{"gcfuzz_night": 1, "finds": [{}]}', "target"),
    ],
)
def test_what_is_no_earlier_night_is_bad_input(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "night.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match=words):
        read_finds(path)


def test_an_earlier_find_has_one_of_the_statuses(tmp_path: Path) -> None:
    data = json.loads(night(written(tmp_path, record(failure()))).dumps())
    data["finds"][0]["status"] = "old"
    (tmp_path / "night.json").write_text(json.dumps(data))
    with pytest.raises(BadInputError, match='"old"; it must be one of new, known'):
        read_finds(tmp_path / "night.json")
