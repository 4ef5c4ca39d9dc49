"""Files of version 1: refused with one line that names the script, and converted by it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE_SECONDS

from fuzz.problems import BadInputError
from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import (
    Buffers,
    Bytes,
    Contexts,
    LazySeeds,
    NetBytes,
    ProfileRate,
    Streams,
    Way,
)
from fuzz.protocol.lines import contract_from_data, structured, unstructured
from fuzz.protocol.trace import VERSION, Header, Trace, dumps, loads, read
from fuzz.protocol.version_1 import converted, converted_contract, main
from fuzz.targets import make_target

ACTION = '{"do": "allocate_node", "number": 1}\n'
ANSWER = '{"size": 24}\n'
SIZES: dict[str, Any] = {
    "desired_bytes": 64,
    "least_bytes": 16,
    "reserve_bytes": 8,
    "waste_bytes": 8,
    "waste_increment_bytes": 8,
    "charges": "ahead",
}
CASES: list[tuple[dict[str, Any], dict[str, Any], Way]] = [
    ({}, {}, Bytes()),
    ({"unit_bytes": 1, "frees": "ignored", "reseeds": []}, {}, Bytes()),
    ({"context_bytes": 64}, {}, Contexts(64)),
    (
        {"context_bytes": 64, "contexts": "told", "outside": "in_turn"},
        {},
        Contexts(64, sizes="reported", outside="in_turn"),
    ),
    ({}, {"buffers": SIZES}, Buffers(**SIZES)),
    (
        {"generators": "shared", "births": "reseeds", "resting_period_bytes": 512},
        {"buffers": SIZES},
        Buffers(**SIZES, generators="shared", births="reseeds", resting_period_bytes=512),
    ),
    ({"distances": "ocaml", "unit_bytes": 8, "streams": "places"}, {}, Streams()),
    (
        {"streams": "places", "postponed": ["string"], "renewed_by": ["callbacks"]},
        {},
        Streams(("string",), ("callbacks",)),
    ),
    ({"frees": "counted", "unsampled_bytes": 9}, {}, NetBytes(unsampled_bytes=9)),
    ({"new_period": "samples", "spent_numbers": 2}, {}, ProfileRate("samples", spent_numbers=2)),
    ({"certain_period_bytes": 1}, {}, ProfileRate(certain_period_bytes=1)),
    ({"reseeds": [1, 2]}, {}, LazySeeds((1, 2))),
]


def contract_of_version_1(sampling: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """The reference's contract, with these keys of version 1."""
    contract: dict[str, Any] = unstructured(make_target("reference").start({}))
    return {**contract, "sampling": {**contract["sampling"], **sampling}, **others}


@pytest.mark.parametrize(("sampling", "others", "way"), CASES, ids=str)
def test_each_way_to_count_is_converted(
    sampling: dict[str, Any], others: dict[str, Any], way: Way
) -> None:
    new = converted_contract(contract_of_version_1(sampling, others))
    assert structured(new, Contract).sampling.counting == way
    assert converted_contract(new) == new


@pytest.mark.parametrize(
    ("sampling", "problem"),
    [
        ({"context_bytes": 64, "frees": "counted"}, "cannot state these keys together"),
        ({"generators": "shared"}, "cannot state these keys together: generators"),
        ({"unit_bytes": 4}, "unit_bytes must be"),
        ({"distances": "ocaml"}, "unit_bytes must be 8 with the distances ocaml"),
    ],
)
def test_what_version_2_cannot_state_is_an_error(sampling: dict[str, Any], problem: str) -> None:
    contract = contract_of_version_1({"births": "draws", **sampling}, {})
    with pytest.raises(ValueError, match=problem):
        converted_contract(contract)


# What is refused.


def test_a_trace_of_version_1_is_refused_with_one_line_that_names_the_script() -> None:
    with pytest.raises(BadInputError) as caught:
        loads('{"gcfuzz": 1, "target": "reference"}\n', "some.jsonl")
    assert str(caught.value) == (
        "some.jsonl:1: version 1 is not read any more; "
        "convert it with: python -m fuzz.protocol.version_1 FILE"
    )


@pytest.mark.parametrize(("sampling", "others"), [case[:2] for case in CASES[1:]], ids=str)
def test_a_contract_of_version_1_is_refused_with_one_line_that_names_the_script(
    sampling: dict[str, Any], others: dict[str, Any]
) -> None:
    keys = [*(key for key in sampling if key != "distances"), *others]
    with pytest.raises(ValueError, match="only version 1 has") as caught:
        contract_from_data(contract_of_version_1(sampling, others))
    message = str(caught.value)
    assert all(key in message for key in keys)
    assert message.endswith("python -m fuzz.protocol.version_1 FILE")
    assert "\n" not in message


def test_a_later_version_is_unknown() -> None:
    with pytest.raises(BadInputError, match=f"this gcfuzz reads version {VERSION}"):
        loads('{"gcfuzz": 3, "target": "reference"}\n', "some.jsonl")


# The script.


def test_a_trace_is_converted_in_place_and_only_in_its_version(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"gcfuzz":1,  "target": "a\u2028b"}\n' + ACTION)
    assert main([str(path)]) == 0
    assert path.read_text() == '{"gcfuzz":2,  "target": "a\u2028b"}\n' + ACTION
    assert read(path).header.target == "a\u2028b"


def test_a_recording_is_converted_with_its_contract(tmp_path: Path) -> None:
    contract = contract_of_version_1({"context_bytes": 64}, {})
    header = {"gcfuzz": 1, "target": "reference", "contract": contract}
    path = tmp_path / "recording.jsonl"
    path.write_text(json.dumps(header) + "\n" + ACTION + ANSWER)
    assert main([str(path)]) == 0
    first, *others = path.read_text().splitlines(keepends=True)
    assert others == [ACTION, ANSWER]
    counting = json.loads(first)["contract"]["sampling"]["counting"]
    assert counting == {"by": "contexts", "context_bytes": 64}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_contract_is_converted(indent: int | None) -> None:
    contract = contract_of_version_1({"reseeds": [5]}, {})
    new = json.loads(converted(json.dumps(contract, indent=indent) + "\n"))
    assert new["sampling"]["counting"] == {"by": "lazy_seeds", "seeds": [5]}
    answer = json.loads(converted(json.dumps({"contract": contract}, indent=indent) + "\n"))
    assert answer == {"contract": new}


@pytest.mark.parametrize(
    "text",
    [
        dumps(Trace(Header(VERSION, "reference"), ())),
        json.dumps(unstructured(make_target("reference").start({})), indent=4) + "\n",
        '{"by": "contract"}\n["sampling"]\n',
        "",
    ],
    ids=["trace", "contract", "others", "empty"],
)
def test_what_is_of_no_version_or_of_this_one_stays(text: str, tmp_path: Path) -> None:
    assert converted(text) == text
    path = tmp_path / "some.json"
    path.write_text(text)
    before = path.stat()
    assert main([str(path)]) == 0
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_converting_twice_changes_nothing_more() -> None:
    for sampling, others, _ in CASES:
        header = {"gcfuzz": 1, "contract": contract_of_version_1(sampling, others)}
        once = converted(json.dumps(header) + "\n")
        assert converted(once) == once


def test_the_script_says_what_it_did_with_each_file(tmp_path: Path) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    broken, none = tmp_path / "broken.jsonl", tmp_path / "none.jsonl"
    old.write_text('{"gcfuzz": 1, "target": "reference"}\n')
    new.write_text('{"gcfuzz": 2, "target": "reference"}\n')
    broken.write_text('{"gcfuzz": 7}\n')
    command = [sys.executable, "-m", "fuzz.protocol.version_1", *map(str, (old, new, broken, none))]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 2
    assert done.stdout == f"{old}: converted\n{new}: nothing to convert\n"
    first, second = done.stderr.splitlines()
    assert first == f"error: {broken}: version 7 is unknown"
    assert second.startswith(f"error: {none}: ")


def test_without_a_file_the_script_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err == "usage: python -m fuzz.protocol.version_1 FILE...\n"
