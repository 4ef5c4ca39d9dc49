"""The adapter kit answers every line once, with any content, and no line breaks it."""

from __future__ import annotations

import json
import random
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE_SECONDS, killed_at_end

pytestmark = pytest.mark.slow  # It has to be compiled first.

HEADER = '{"gcfuzz": 2, "target": "process", "config": {"nursery_bytes": 64}}'
HEADER_OF_SMALLEST = '{"gcfuzz": 2, "target": "process", "config": {}}'
NODE = '{"do": "allocate_node", "number": 5}'
COPY = (
    '{"do": "copy_array", "source": 0, "dest": 0, "source_start": %d, "dest_start": 0, '
    '"length": %d}'
)
MUTATIONS = 20_000

Build = Callable[..., Path]
Answers = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def program(build: Build) -> Path:
    return build(sanitized=True)


def in_lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def talk(program: Path, lines: bytes) -> list[dict[str, Any]]:
    ran = subprocess.run(
        [program], input=lines, capture_output=True, check=True, timeout=PATIENCE_SECONDS
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture
def answers(program: Path) -> Answers:
    """The answers of the program to lines after a header."""

    def after_header(*lines: str) -> list[dict[str, Any]]:
        return talk(program, in_lines(HEADER, *lines))[1:]

    return after_header


def test_a_header_is_answered_with_a_contract_of_the_callbacks(program: Path) -> None:
    (answer,) = talk(program, in_lines(HEADER))
    assert answer["contract"]["nursery_bytes"] == 64
    assert "write" in answer["contract"]["actions"]
    assert "pin" not in answer["contract"]["actions"]


@pytest.fixture
def changed(native: Path, tmp_path: Path) -> Callable[[str, str], Path]:
    """Compile the smallest adapter with a change to its code."""

    def compiled(before: str, after: str) -> Path:
        code = (native / "smallest.c").read_text()
        assert before in code
        source, program = tmp_path / "changed.c", tmp_path / "changed"
        source.write_text("#include <stdio.h>\n" + code.replace(before, after))
        kit = [f"-I{native}", str(native / "gcfuzz_adapter.c")]
        subprocess.run(
            ["gcc", "-std=gnu11", *kit, source, "-o", program], check=True, timeout=PATIENCE_SECONDS
        )
        return program

    return compiled


def test_what_the_collector_prints_is_not_an_answer(changed: Callable[[str, str], Path]) -> None:
    program = changed("    period_bytes = period;", '    puts("on"); period_bytes = period;')
    lines = in_lines(HEADER_OF_SMALLEST, '{"do": "enable_sampling", "period_bytes": 8}')
    ran = subprocess.run(
        [program], input=lines, capture_output=True, check=True, timeout=PATIENCE_SECONDS
    )
    assert [json.loads(line) for line in ran.stdout.splitlines()][1:] == [{}]
    assert ran.stderr == b"on\n"


def test_a_kit_may_ignore_that_an_object_must_not_move(changed: Callable[[str, str], Path]) -> None:
    program = changed(".word_bytes = 8,", ".word_bytes = 8, .ignores_nonmovable = true,")
    (answer,) = talk(program, in_lines(HEADER_OF_SMALLEST))
    assert answer["contract"]["layout"]["nonmovable"] == "ignored"


def test_a_kit_may_state_a_version(changed: Callable[[str, str], Path]) -> None:
    program = changed(".word_bytes = 8,", '.word_bytes = 8, .version = "mine \\"1.2\\"",')
    (answer,) = talk(program, in_lines(HEADER_OF_SMALLEST))
    assert answer["contract"]["version"] == 'mine "1.2"'


def test_keys_may_come_in_any_order(answers: Answers) -> None:
    assert answers('{"number": 5, "nonmovable": false, "do": "allocate_node"}') == answers(NODE)


def test_a_header_forgets_all_objects(program: Path) -> None:
    *_, last = talk(program, in_lines(HEADER, NODE, HEADER, '{"do": "free", "root": 0}'))
    assert "root names no root slot" in last["error"]


def test_further_keys_of_a_header_are_ignored(program: Path) -> None:
    further = HEADER[:-1] + ', "seed": -7, "found": {"a": [1.5e3, true, "\\u00e9"]}, "kills": []}'
    assert "contract" in talk(program, in_lines(further))[0]


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ('{"gcfuzz": 1, "config": {}}', "version 1 is unknown"),
        ('{"gcfuzz": 2, "config": {"nursery": 64}}', "config has no setting nursery"),
        ('{"gcfuzz": 2, "config": {"nursery_bytes": 63}}', "nursery_bytes is 63"),
        ('{"gcfuzz": 2, "config": {"nursery_bytes": "x"}}', "not a line of JSON"),
        ('{"gcfuzz": 2, "config": {"large_object_bytes": 300}}', "large_object_bytes is 300"),
        (NODE, "no header"),
    ],
)
def test_an_illegal_header_is_refused(program: Path, header: str, problem: str) -> None:
    (answer,) = talk(program, in_lines(header))
    assert problem in answer["error"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "JSON"),
        ("null", "JSON"),
        ("{} {}", "JSON"),
        ('{"do": "allocate_node", "number": 1', "JSON"),
        ('{"do": "allocate_node", "number": 1.5}', "JSON"),
        ('{"do": "allocate_node", "number": 01}', "JSON"),
        ('{"do": "allocate_node", "number": -}', "JSON"),
        ('{"do": "allocate_node", "number": 9223372036854775808}', "out of range"),
        ('{"do": "allocate_node", "number": 1, "number": 2}', "twice"),
        ('{"do": "allocate_node", "number": null}', "must not be null"),
        ('{"do": "allocate_node", "number": 1, "nonmovable": 1}', "true or false"),
        ('{"do": "allocate_node"}', "needs number"),
        ('{"do": "allocate_node", "number": 1, "root": 0}', "has no root"),
        ('{"do": "allocate_node", "number": 1, "colour": "red"}', "no key colour"),
        ('{"do": "allocate_nodes", "number": 1}', "no action is called allocate_nodes"),
        ('{"do": "pin", "root": 0}', "no action is called pin"),
        ('{"number": 1}', "no action is called"),
        ('{"do": "free", "root": 1}', "no root slot"),
        ('{"do": "free", "root": -1}', "no root slot"),
        ('{"do": "read", "root": 0, "field": 2}', "no such field"),
        ('{"do": "read", "root": 0, "field": -1}', "no such field"),
        ('{"do": "write", "root": 0, "field": 0, "value": 7}', "no root slot"),
        ('{"do": "read_weakref", "root": 0}', "not a weak reference"),
        ('{"do": "allocate_string", "length": -1}', "no object of this length"),
        ('{"do": "allocate_array", "length": 4611686018427387904}', "no object of this length"),
        ('{"do": "enable_sampling", "period_bytes": 12}', "no such period"),
        (COPY % (0, 1), "between arrays"),
        ('{"do": "free", "root": 0, "x": ' + "[" * 40 + "]" * 40 + "}", "nested too deeply"),
    ],
)
def test_an_illegal_line_gets_an_error(answers: Answers, line: str, problem: str) -> None:
    _, answer = answers(NODE, line)
    assert problem in answer["error"]


def test_the_least_number_comes_back(answers: Answers) -> None:
    least = '{"do": "allocate_node", "number": -9223372036854775808}'
    assert answers(least, '{"do": "read_number", "root": 0}')[1]["value"] == -(2**63)


def test_an_error_in_an_array_leaves_the_heap_as_it_was(answers: Answers) -> None:
    array, check = '{"do": "allocate_array", "length": 4}', '{"do": "check_heap"}'
    *_, answer, walk = answers(array, COPY % (1, 4), check)
    assert "not a range of the array" in answer["error"]
    assert walk["graph"] == [[3, 4]]


def test_a_truncated_last_line_gets_an_error(program: Path) -> None:
    *_, answer = talk(program, in_lines(HEADER) + NODE.encode())
    assert "truncated" in answer["error"]


def test_a_line_without_an_end_ends_the_program(program: Path) -> None:
    ran = subprocess.run(
        [program], input=b" " * 2**21, capture_output=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert ran.returncode == 1
    assert b"a line without an end" in ran.stderr


def test_lines_that_were_sent_ahead_are_answered_in_one_write(program: Path) -> None:
    # Each write to such a socket is one packet.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(PATIENCE_SECONDS)
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=theirs.fileno())
    with ours, theirs, killed_at_end(process) as running:
        assert running.stdin
        running.stdin.write(in_lines(HEADER, NODE, NODE))
        running.stdin.flush()
        assert ours.recv(2**16).count(b"\n") == 3
        running.stdin.close()


def test_a_line_with_any_content_gets_one_answer(program: Path) -> None:
    random_bytes = random.Random(1)
    lines = [HEADER.encode()]
    for _ in range(MUTATIONS):
        line = bytearray(random_bytes.choice(MUTATED))
        for _ in range(random_bytes.randrange(4)):
            at = random_bytes.randrange(len(line))
            line[at : at + random_bytes.randrange(3)] = random_bytes.choice(PIECES)
        lines.append(bytes(line))
    assert len(talk(program, b"".join(line + b"\n" for line in lines))) == len(lines)


MUTATED = [
    HEADER.encode(),
    NODE.encode(),
    b'{"do": "allocate_string", "length": 60}',
    b'{"do": "allocate_array", "length": 4, "nonmovable": true}',
    b'{"do": "allocate_weakref", "root": 0}',
    b'{"do": "write", "root": 1, "field": 0, "value": 2}',
    b'{"do": "read", "root": 1, "field": 0}',
    b'{"do": "free", "root": 4}',
    b'{"do": "enable_sampling", "period_bytes": 64}',
    b'{"do": "disable_sampling", "report": true}',
    (COPY % (1, 2)).encode(),
    b'{"do": "collect_full"}',
]
PIECES = [b"", b"{", b"}", b'"', b"\\", b"\\u00", b"\x00", b"\xff", b"-", b"9", b"0", b"null",
          b"99999999", b"[[", b",", b":", b" ", b"1e9"]  # fmt: skip
