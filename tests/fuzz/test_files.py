"""Files that the user names: reading them ends, and writing them replaces nothing else."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from command_line import Complaint
from waiting import PATIENCE_SECONDS

from fuzz.files import FILE_BYTES_MAX, check_writable, read_bytes, write_text
from fuzz.problems import BadInputError
from fuzz.terminal.commands.cli import run_command_line

CLEAN, BAD_INPUT = 0, 2
TRACE = """{"gcfuzz": 2, "target": "reference"}
{"do": "enable_sampling", "period_bytes": 8}
{"do": "allocate_node", "number": 0}
"""
READERS = {
    "replay": ["replay", "{}"],
    "explain": ["explain", "{}"],
    "reduce": ["reduce", "{}"],
    "record": ["record", "{}", "-o", "out.jsonl"],
    "profile": ["profile", "{}", "-o", "out.json"],
}
WRITERS = {
    "record": ["record", "trace.jsonl", "-o", "{}"],
    "explain": ["explain", "trace.jsonl", "--html", "{}"],
    "profile": ["profile", "trace.jsonl", "-o", "{}"],
    "run": ["run", "--actions", "10", "--summary", "{}"],
}


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_trace(empty_folder: Path) -> None:
    (empty_folder / "trace.jsonl").write_text(TRACE)


def on(path: str, command: list[str]) -> list[str]:
    return [word.format(path) for word in command]


def run(command: list[str], path: str) -> int:
    return run_command_line(on(path, command))


each_reader = pytest.mark.parametrize("command", READERS.values(), ids=READERS)
each_writer = pytest.mark.parametrize(
    "command",
    [
        pytest.param(words, id=name, marks=[pytest.mark.slow] if name == "run" else [])
        for name, words in WRITERS.items()
    ],
)


# Reading


@each_reader
@pytest.mark.parametrize("path", ["pipe.jsonl", "/dev/zero", "large.jsonl", "folder"])
def test_an_unreadable_file_is_refused(path: str, command: list[str], complaint: Complaint) -> None:
    os.mkfifo("pipe.jsonl")  # It has no writer.
    Path("folder").mkdir()
    Path("large.jsonl").write_text('{"gcfuzz": 2')
    os.truncate("large.jsonl", 2**30)
    assert complaint(*on(path, command)).startswith(f"gcfuzz: {path}")


@pytest.mark.slow
def test_a_long_line_of_a_recording_is_bad_input(complaint: Complaint) -> None:
    Path("large.jsonl").write_text('{"gcfuzz_profile":')
    os.truncate("large.jsonl", 2**30)
    assert "a line has more than" in complaint(*on("large.jsonl", READERS["profile"]))


def test_reading_a_pipe_with_too_many_bytes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.files.FILE_BYTES_MAX", 2**10)
    ours, theirs = os.pipe()
    os.write(theirs, b"x" * 2**12)
    with pytest.raises(BadInputError, match="has more than 1,024 bytes"):
        read_bytes(Path(f"/dev/fd/{ours}"))
    os.close(ours)
    os.close(theirs)


def test_a_script_of_a_gigabyte_is_bad_input(complaint: Complaint) -> None:
    Path("script.py").touch()
    os.truncate("script.py", 2**30)
    assert f"more than {FILE_BYTES_MAX:,} bytes" in complaint(*on("script.py", READERS["profile"]))


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system names no open files")
def test_a_pipe_with_a_trace_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, TRACE.encode())
    os.close(theirs)
    try:
        assert run(READERS["replay"], f"/dev/fd/{ours}") == CLEAN
    finally:
        os.close(ours)
    assert "1 passed" in capsys.readouterr().out


def test_a_file_with_too_many_bytes_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.files.FILE_BYTES_MAX", 7)
    Path("file").write_bytes(b"1234567")
    assert read_bytes(Path("file")) == b"1234567"
    Path("file").write_bytes(b"12345678")
    with pytest.raises(BadInputError, match="file: has more than 7 bytes"):
        read_bytes(Path("file"))


def test_too_long_lines_are_named(monkeypatch: pytest.MonkeyPatch, complaint: Complaint) -> None:
    monkeypatch.setattr("fuzz.protocol.trace.LINE_CHARACTERS_MAX", 40)
    assert "trace.jsonl:2: has more than 40" in complaint(*on("trace.jsonl", READERS["replay"]))


# Writing


@each_writer
def test_a_pipe_is_written_to(command: list[str]) -> None:
    name = "pipe.json"
    os.mkfifo(name)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path(name).read_text()), daemon=True)
    reader.start()
    assert run(command, name) == CLEAN
    reader.join(PATIENCE_SECONDS)
    assert Path(name).is_fifo()
    assert read[0]


@each_writer
@pytest.mark.parametrize("exists", [True, False])
def test_a_symlink_stays_and_its_file_is_written(exists: bool, command: list[str]) -> None:
    Path("there").mkdir()
    if exists:
        Path("there/file.json").write_text("old")
    Path("link.json").symlink_to("there/file.json")
    assert run(command, "link.json") == CLEAN
    assert Path("link.json").readlink() == Path("there/file.json")
    assert Path("there/file.json").read_text() not in {"old", ""}


@each_writer
def test_a_symlink_to_itself_is_bad_input(command: list[str], complaint: Complaint) -> None:
    Path("loop.json").symlink_to("loop.json")
    assert "Too many levels of symbolic links" in complaint(*on("loop.json", command))
    assert Path("loop.json").is_symlink()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no such device")
def test_a_file_that_cannot_be_written_leaves_no_partial_file() -> None:
    before = sorted(Path().iterdir())
    with pytest.raises(BadInputError, match="No space left"):
        write_text(Path("/dev/full"), "text")
    assert sorted(Path().iterdir()) == before


def test_text_that_cannot_be_encoded_leaves_the_old_file() -> None:
    with pytest.raises(UnicodeEncodeError):
        write_text(Path("trace.jsonl"), "\ud800")
    assert [path.name for path in Path().iterdir()] == ["trace.jsonl"]
    assert Path("trace.jsonl").read_text() == TRACE


def test_checking_a_place_changes_nothing() -> None:
    check_writable(Path("new.json"))
    check_writable(Path("trace.jsonl"))
    assert [path.name for path in Path().iterdir()] == ["trace.jsonl"]
    assert Path("trace.jsonl").read_text() == TRACE
