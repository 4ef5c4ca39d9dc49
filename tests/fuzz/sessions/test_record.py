"""A record of a session that is broken has one line that says so; nothing is made of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_records import failure, record, timing

from fuzz.problems import BadInputError
from fuzz.sessions import record as records


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (record(traces="many"), "traces"),
        (record(target=["reference"]), "target"),
        (record(failures=[failure(chunk="first")]), "chunk"),
        (record(failures=[failure(expected={})]), "expected"),
        (record(timing=[timing(seconds=10**40)]), "invalid value"),
        (record(timing=[timing(started="9999-12-31")]), "out of range"),
        (record(timing=[timing((-1.0, 0, 0, 0))]), "invalid value"),
        (record(timing=[False]), "JSON object"),
        (record(timing=[timing(started="yesterday")]), "invalid value"),
        (record(pieces=[{"chunks": [0, 2, 0], "lost": []}]), "is missing"),
        (record(probes={"callback_sampled": []}), "probes"),
        ({"gcfuzz_session": 1}, "'target' is missing"),
    ],
)
def test_a_value_of_another_type_is_bad_input(
    broken: dict[str, Any], what: str, tmp_path: Path
) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(broken))
    with pytest.raises(BadInputError) as raised:
        records.read(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: is no record of a session: ")
    assert what in message
    assert "\n" not in message


def test_a_list_that_is_nested_too_deeply_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"gcfuzz_session": ' + "[" * 100_000)
    with pytest.raises(BadInputError, match="no record of a session"):
        records.read(path)
