"""A session's record: it is read as it was written, and a broken one gets one line."""

import json
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from made_records import failure, piece, record, timing, totals

from fuzz.problems import BadInputError
from fuzz.sessions import record as records


def written(folder: Path, data: dict[str, Any]) -> Path:
    path = folder / "record.json"
    path.write_text(json.dumps(data))
    return path


def test_a_record_is_written_as_it_was_read(tmp_path: Path) -> None:
    data = record(
        failure("clock", path="clock.jsonl", tries=3, reproduced=False),
        failure("heap", change="fixed", where="node #1"),
        options=["--command", "./adapter"],
        pieces=[piece(7, 9, chunks=(0, 30, 3), samples=0)],
        timing=[timing((0.5, 9, 1, 0), (1.0, 20, 1, 1))],
    )
    assert records.read(written(tmp_path, data)).to_data() == data


def test_the_order_of_failures_does_not_depend_on_where_they_are_read(tmp_path: Path) -> None:
    data = record(failure(reproduced=False), failure(length=9), failure(length=3, path="a"))
    failures = records.read(written(tmp_path, data)).failures
    assert [each.length for each in records.least(failures)] == [3]


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (record(pieces=[piece(traces="many")]), "traces"),
        (record(target=cast(str, ["reference"])), "target"),
        (record(failure(chunk="first")), "chunk"),
        (record(failure(expected={})), "expected"),
        (record(failure(length="3")), "length"),
        (record(failure(colour=7)), "colour"),
        (record(options=3), "options"),
        (record(timing=[timing(seconds=10**40)]), "seconds is 1e+40"),
        (record(timing=[timing(started="9999-12-31")]), "started"),
        (record(timing=[timing(started="yesterday")]), "started"),
        (record(timing=[timing((-1.0, 0, 0, 0))]), "seconds is -1.0"),
        (record(timing=[timing(history=[[1, 2, 3]])]), "history"),
        (record(timing=[False]), "timing"),
        (record(timing=[{}]), "seconds is missing"),
        (record(pieces=[{"chunks": [0, 2, 1], "lost": []}], totals={}), "totals is missing"),
        (record(pieces=[piece(chunks=(0, 2, 0))]), "chunks"),
        (record(pieces=[piece(probes={"callback_sampled": []})]), "probes"),
        (record(pieces=[piece(held={"facts": ["old"]})]), "held.bits has 0 numbers"),
        (record(pieces=[piece(held={"facts": ["old"], "bits": ["1", "x", "0"]})]), "hexadecimal"),
        (record(stop_reason="tired"), "stop_reason"),
        (record(totals=totals(actions=99)), "not the sum"),
        (record(gcfuzz_session=2), "of version 1"),
        ({"gcfuzz_session": 1}, "plan is missing"),
        ([], "JSON object"),
    ],
)
def test_a_broken_record_is_bad_input(broken: dict[str, Any], what: str, tmp_path: Path) -> None:
    path = written(tmp_path, broken)
    with pytest.raises(BadInputError) as raised:
        records.read(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert what in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["", '{"gcfuzz_session": ' + "[" * 100_000])
def test_a_file_that_is_not_json_is_bad_input(text: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match="not a record of a session"):
        records.read(path)


def test_a_record_has_what_was_reported_and_not_the_trace(tmp_path: Path) -> None:
    [saved] = records.read(written(tmp_path, record(failure()))).failures
    fields = {field.name for field in attrs.fields(type(saved.failure))}
    reported = {"oracle", "field", "action", "direction", "expected", "got", "why"}
    assert {name for name in fields if getattr(saved.failure, name)} == {*reported, "change"}
