"""A corpus at an address: commands read it, and upload what they add."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import fsspec  # type: ignore[import-untyped]  # It has no types.
import pytest
from command_line import Gcfuzz
from waiting import (
    LONG_SECONDS,
    PATIENCE_SECONDS,
    completed,
    killed_at_end,
    wait_for_line,
    wait_until,
)

from fuzz.failures.corpus import SavedFailure
from fuzz.failures.trace_files import shipped_traces
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.trace import Trace
from fuzz.replay import replay
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.session_events import Event, FailureReported, Progress
from fuzz.targets import make_target
from fuzz.terminal.addresses import LocalCopy, with_addresses
from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)
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
def trace() -> Trace:
    traces_of = shipped_traces().items()
    return next(each for name, each in traces_of if name.startswith("one-sample-per-object"))


def put(path: str, content: str) -> None:
    fsspec.filesystem("memory").pipe_file(path, content.encode())


def test_the_files_are_fetched_and_new_ones_uploaded(there: dict[str, Any]) -> None:
    put("/night/sessions/one.json", "old")
    put("/night/old.jsonl", "old")
    put("/night/page.html", "not part of a corpus")
    copy = LocalCopy(ADDRESS)
    assert [path.name for path in sorted(copy.folder.rglob("*.*"))] == ["old.jsonl", "one.json"]
    (copy.folder / "beyond").mkdir()
    (copy.folder / "beyond" / "new.jsonl").write_text("new")
    (copy.folder / "sessions" / "one.json").write_text("new")
    copy.end()
    assert there["/night/beyond/new.jsonl"].getvalue() == b"new"
    assert there["/night/sessions/one.json"].getvalue() == b"new"
    assert not copy.folder.exists()


def test_a_file_that_another_session_uploaded_is_not_replaced(there: dict[str, Any]) -> None:
    copy = LocalCopy(ADDRESS)
    put("/night/same.jsonl", "another's")
    (copy.folder / "same.jsonl").write_text("ours")
    copy.end()
    assert there["/night/same.jsonl"].getvalue() == b"another's"


def test_a_record_that_another_session_uploaded_is_not_replaced(there: dict[str, Any]) -> None:
    put("/night/sessions/one.json", "old")
    copy = LocalCopy(ADDRESS)
    put("/night/sessions/one.json", "another's")
    listener = copy.before(lambda _: None)
    path, name = copy.folder / "sessions" / "one.json", "/night/sessions/one.2.json"
    for text in ("ours", "ours again"):
        path.write_text(text)
        listener(PROGRESS)
    copy.end()
    assert there["/night/sessions/one.json"].getvalue() == b"another's"
    assert there[name].getvalue() == b"ours again"
    assert [each for each in there if "sessions" in each] == ["/night/sessions/one.json", name]


def test_no_name_leads_out_of_the_folder(there: dict[str, Any]) -> None:
    put("/night/../../outside.jsonl", "")
    copy = LocalCopy(ADDRESS)
    assert [*copy.folder.rglob("*")] == []
    copy.end()


@pytest.fixture
def reported(trace: Trace) -> Iterator[tuple[LocalCopy, FailureReported]]:
    """A local copy with a failure that a session reports, and its complaint."""
    copy = LocalCopy(ADDRESS)
    path = copy.folder / "failure.jsonl"
    traces.write_to(trace, path)
    path.with_suffix(".log").write_text("a complaint")
    plan = Plan(BUGGY, "random", 1, 1, copy.folder)
    failure = replay(make_target(BUGGY), trace, "")
    assert failure is not None
    saved = SavedFailure(failure, path, 1, 1, chunk=0, reproduced=True)
    yield copy, FailureReported(plan, saved)
    with suppress(BadInputError):
        copy.end()


PROGRESS = Progress(0.0, SessionTotals(), 1, 0, 0, 0.0, 0, 0)


def test_a_failure_is_shown_when_it_is_at_the_address(
    there: dict[str, Any], reported: tuple[LocalCopy, FailureReported]
) -> None:
    copy, event = reported
    shown: list[set[str]] = []

    def listen(passed: Event) -> None:
        if passed is event:
            shown.append({*there})
            shown.append({with_addresses(str(event.saved.path))})

    listener = copy.before(listen)
    listener(event)

    def is_shown() -> bool:
        listener(PROGRESS)
        return bool(shown)

    wait_until(is_shown, "the failure")
    assert shown == [{"/night/failure.jsonl", "/night/failure.log"}, {f"{ADDRESS}/failure.jsonl"}]


def test_a_failure_that_cannot_be_uploaded_is_shown_where_it_is(
    there: dict[str, Any],
    reported: tuple[LocalCopy, FailureReported],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fuzz.terminal.addresses.HELD_SECONDS", 0.0)
    copy, event = reported
    monkeypatch.setattr(copy, "_remote", None)
    shown: list[str] = []
    listener = copy.before(lambda passed: shown.append(with_addresses(str(event.saved.path))))
    listener(event)
    listener(PROGRESS)
    assert shown == [str(event.saved.path)] * 2


def test_a_file_not_uploaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.terminal.addresses.END_SECONDS", 0.2)
    (tmp_path / "file").touch()
    copy = LocalCopy(f"file://{tmp_path}/file/night")
    (copy.folder / "new.jsonl").touch()
    with pytest.raises(BadInputError, match=f"the files that are not there are in {copy.folder}"):
        copy.end()
    assert (copy.folder / "new.jsonl").exists()


# A store that is stopped, killed, and started again.


class Store:
    """An S3 server with a bucket, at a port that stays the same."""

    def __init__(self, environment: dict[str, str], stack: ExitStack) -> None:
        self._stack = stack
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._port = server.getsockname()[1]
        keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "a-test")
        url = f"http://127.0.0.1:{self._port}"
        region = {"AWS_DEFAULT_REGION": "us-east-1"}
        self.environment = {**environment, **keys, **region, "AWS_ENDPOINT_URL": url}
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-p", str(self._port)],
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stack.enter_context(killed_at_end(self.process))
        wait_for_line(self.process.stderr, "Running on")
        request = Request(f"http://127.0.0.1:{self._port}/bucket", method="PUT")
        urlopen(request, timeout=PATIENCE_SECONDS).close()

    def start_session(self, *options: str) -> subprocess.Popen[str]:
        """A session that saves its failures in the bucket."""
        command = ["run", "--target", BUGGY, "--seed", "3", "--corpus", "s3://bucket/night"]
        process = subprocess.Popen(
            [sys.executable, "-m", "fuzz", *command, *options],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self._stack.enter_context(killed_at_end(process))

    def session(self, *options: str) -> subprocess.Popen[str]:
        """The same, when it has fetched what is there."""
        process = self.start_session(*options)
        wait_for_line(process.stdout, "self-check")
        return process


@pytest.fixture
def store(unmeasured: dict[str, str]) -> Iterator[Store]:
    with ExitStack() as stack:
        yield Store(unmeasured, stack)


@pytest.mark.slow
def test_a_session_ends_with_a_stopped_store_and_names_files(store: Store, tmp_path: Path) -> None:
    store.environment["TMPDIR"] = str(tmp_path)
    session = store.session("--time", "1h")
    store.process.send_signal(signal.SIGSTOP)
    wait_for_line(session.stdout, "replay    gcfuzz replay /")
    session.terminate()
    printed, _ = session.communicate(timeout=PATIENCE_SECONDS)
    assert session.returncode == BAD_INPUT, printed
    [folder] = tmp_path.glob("gcfuzz-corpus-*")
    assert f"the files that are not there are in {folder}" in printed
    assert [*folder.glob("*.jsonl")]


@pytest.mark.slow
def test_a_session_that_fetches_from_a_stopped_store_ends(store: Store, tmp_path: Path) -> None:
    store.environment["TMPDIR"] = str(tmp_path)
    store.process.send_signal(signal.SIGSTOP)
    session = store.start_session("--time", "1h")
    # It fetches from then on.
    wait_until(lambda: [*tmp_path.glob("gcfuzz-corpus-*")], "a local copy", session)
    session.terminate()
    printed, _ = session.communicate(timeout=PATIENCE_SECONDS)
    assert (session.returncode, printed.strip()) == (INCONCLUSIVE, "gcfuzz: interrupted")
    assert [*tmp_path.iterdir()] == []


def test_a_store_without_an_answer_is_not_awaited_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.terminal.addresses.CALL_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/night"
        with pytest.raises(BadInputError, match="cannot be fetched: no answer for 0 s"):
            LocalCopy(address)


@pytest.mark.slow
def test_a_store_that_is_killed_and_comes_back_has_all_failures(store: Store) -> None:
    session = store.session("--actions", "3000")
    store.process.kill()
    store.process.wait(PATIENCE_SECONDS)
    store.start()
    printed, _ = session.communicate(timeout=LONG_SECONDS)
    assert session.returncode == MISMATCH, printed
    replayed = completed(
        [sys.executable, "-m", "fuzz", "replay", "s3://bucket/night"],
        env=store.environment,
        check=False,
    )
    found = {*re.findall(r"replay    gcfuzz replay s3://bucket/night/(\S+)", printed)}
    assert found
    assert [name for name in found if name not in replayed.stdout] == []


def test_a_trace_is_replayed_from_its_address_and_messages_show_that(
    there: dict[str, Any], trace: Trace, gcfuzz: Gcfuzz
) -> None:
    put("/night/a.jsonl", traces.dumps(trace))
    printed = gcfuzz(MISMATCH, "replay", f"{ADDRESS}/a.jsonl", "--target", BUGGY).out
    assert f"gcfuzz replay {ADDRESS}/a.jsonl --target" in printed
    assert f"passed {ADDRESS}/a.jsonl" in gcfuzz(CLEAN, "replay", ADDRESS).out


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nonsense://night", "nonsense://night: cannot be fetched: Protocol not known"),
        (ADDRESS, f"{ADDRESS}: the folder has no traces"),
    ],
)
def test_an_address_without_a_corpus_is_bad_input(
    address: str, message: str, gcfuzz: Gcfuzz
) -> None:
    assert message in gcfuzz(BAD_INPUT, "replay", address).err


@pytest.mark.slow
def test_parts_merged_at_an_address_are_the_whole(there: dict[str, Any], tmp_path: Path) -> None:
    session = ["run", "--target", BUGGY, "--seed", "3", "--actions", "1500", "--corpus"]
    assert run_command_line([*session, str(tmp_path)]) == MISMATCH
    parts = [f"{ADDRESS}/{part}" for part in "12"]
    for part, address in zip("12", parts, strict=True):
        assert run_command_line([*session, address, "--part", f"{part}/2"]) == MISMATCH
    assert run_command_line([*session, parts[0], "--part", "1/2", "--resume"]) == MISMATCH
    assert run_command_line(["merge", *parts, "-o", "memory://whole"]) == CLEAN
    merged = {path: content.getvalue() for path, content in there.items()}
    whole = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*.*")}
    assert len(whole) > 3
    for name, path in whole.items():
        assert left(name, merged.pop(f"/whole/{name}")) == left(name, path.read_bytes())
    assert not [path for path in merged if path.startswith("/whole/")]


def left(name: str, content: bytes) -> object:
    """What does not depend on the parts."""
    if name.endswith(".jsonl"):
        return content
    data = json.loads(content)
    return {key: data[key] for key in data if key != "timing"}
