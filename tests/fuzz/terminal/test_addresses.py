"""A corpus at an address is one in a folder: commands read it there, and what they add is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import fsspec
import pytest

from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.replay import replay
from fuzz.sessions.corpus import Find, shipped_traces
from fuzz.sessions.plan import Plan
from fuzz.sessions.session_events import Told
from fuzz.targets import make_target
from fuzz.terminal.addresses import StandIn
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT = range(3)
ADDRESS = "memory://night"
BUGGY = "reference+one-sample-per-object"


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture
def there() -> Iterator[dict[str, Any]]:
    """What is at addresses, by path."""
    store: dict[str, Any] = fsspec.filesystem("memory").store
    yield store
    store.clear()


@pytest.fixture
def find(tmp_path: Path) -> Find:
    traces_of = shipped_traces().items()
    trace = next(each for name, each in traces_of if name.startswith("one-sample-per-object"))
    failure = replay(make_target(BUGGY), trace, "")
    assert failure is not None
    return Find(failure, trace, tmp_path, 1, reproduced=True)


def put(path: str, content: str) -> None:
    fsspec.filesystem("memory").pipe_file(path, content.encode())


def test_what_is_there_is_fetched_and_what_is_new_is_copied(there: dict[str, Any]) -> None:
    put("/night/sessions/one.json", "old")
    put("/night/old.jsonl", "old")
    put("/night/page.html", "none of a corpus")
    stand_in = StandIn(ADDRESS)
    assert [path.name for path in sorted(stand_in.folder.rglob("*.*"))] == ["old.jsonl", "one.json"]
    (stand_in.folder / "beyond").mkdir()
    (stand_in.folder / "beyond" / "new.jsonl").write_text("new")
    (stand_in.folder / "sessions" / "one.json").write_text("new")
    stand_in.end()
    assert there["/night/beyond/new.jsonl"].getvalue() == b"new"
    assert there["/night/sessions/one.json"].getvalue() == b"new"
    assert not stand_in.folder.exists()


def test_what_another_put_there_meanwhile_is_not_replaced(there: dict[str, Any]) -> None:
    stand_in = StandIn(ADDRESS)
    put("/night/same.jsonl", "another's")
    (stand_in.folder / "same.jsonl").write_text("ours")
    stand_in.end()
    assert there["/night/same.jsonl"].getvalue() == b"another's"


def test_no_name_leads_out_of_the_folder(there: dict[str, Any]) -> None:
    put("/night/../../outside.jsonl", "")
    stand_in = StandIn(ADDRESS)
    assert [*stand_in.folder.rglob("*")] == []
    stand_in.end()


def test_a_find_is_copied_when_it_is_told(
    there: dict[str, Any], find: Find, tmp_path: Path
) -> None:
    stand_in = StandIn(ADDRESS)
    path = stand_in.folder / "find.jsonl"
    traces.write_to(find.trace, path)
    path.with_suffix(".log").write_text("a complaint")
    plan = Plan(BUGGY, "random", 1, 1, stand_in.folder)
    stand_in(Told(plan, attrs.evolve(find, path=path)))
    assert {*there} == {"/night/find.jsonl", "/night/find.log"}
    stand_in.end()


def test_what_cannot_be_copied_stays_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    stand_in = StandIn(f"file://{tmp_path}/file/night")
    (stand_in.folder / "new.jsonl").touch()
    with pytest.raises(BadInputError, match=f"what is not there is in {stand_in.folder}"):
        stand_in.end()
    assert (stand_in.folder / "new.jsonl").exists()


def test_a_trace_is_replayed_from_its_address_which_is_what_is_shown(
    there: dict[str, Any], find: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    put("/night/a.jsonl", traces.dumps(find.trace))
    assert run_command_line(["replay", f"{ADDRESS}/a.jsonl", "--target", BUGGY]) == MISMATCH
    printed = capsys.readouterr().out
    assert f"gcfuzz replay {ADDRESS}/a.jsonl --target" in printed
    assert run_command_line(["replay", ADDRESS]) == CLEAN
    assert f"passed {ADDRESS}/a.jsonl" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nonsense://night", "nonsense://night: cannot be fetched: Protocol not known"),
        (ADDRESS, f"{ADDRESS}: the folder has no traces"),
    ],
)
def test_what_is_no_corpus_is_bad_input(
    address: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["replay", address]) == BAD_INPUT
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_parts_at_an_address_are_merged_there_and_are_the_whole(
    there: dict[str, Any], tmp_path: Path
) -> None:
    words = ["run", "--target", BUGGY, "--seed", "3", "--actions", "1500", "--corpus"]
    assert run_command_line([*words, str(tmp_path)]) == MISMATCH
    parts = [f"{ADDRESS}/{part}" for part in "12"]
    for part, address in zip("12", parts, strict=True):
        assert run_command_line([*words, address, "--part", f"{part}/2"]) == MISMATCH
    assert run_command_line([*words, parts[0], "--part", "1/2", "--resume"]) == MISMATCH
    assert run_command_line(["merge", *parts, "-o", "memory://whole"]) == CLEAN
    merged = {path: content.getvalue() for path, content in there.items()}
    whole = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*.*")}
    assert len(whole) > 3
    for name, path in whole.items():
        assert left(name, merged.pop(f"/whole/{name}")) == left(name, path.read_bytes())
    assert not [path for path in merged if path.startswith("/whole/")]


def left(name: str, content: bytes) -> object:
    """What is the same however it came about."""
    if name.endswith(".jsonl"):
        return content
    data = json.loads(content)
    return {key: data[key] for key in data if key != "timing"}
