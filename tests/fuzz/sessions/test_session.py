"""Sessions, run for real: what they leave on disk, what is reproducible, and how they end."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest
from command_line import Gcfuzz
from night import part_of, rest_at_night
from waiting import LONG_SECONDS, PATIENCE_SECONDS, completed, is_gone, wait_until

from fuzz.protocol import trace as traces
from fuzz.sessions.pool import WorkerPool
from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE, _, UNFINISHED_MISMATCH = range(6)
BUG, OTHER_BUG = "one-sample-per-object", "sample-on-equality"
PLANTED = f"reference+{BUG}"
ORDERS = (f"reference+{BUG}+{OTHER_BUG}", f"reference+{OTHER_BUG}+{BUG}")
SHORT = ("--actions", "3000", "--seed", "5")
SEARCHING_SECONDS = {"random": 0.8, "stateful": 5.0}
"""A worker that has used this much processor time searches. Hypothesis takes long to start."""

# Each starts processes and waits for them.
pytestmark = pytest.mark.slow

Summary = dict[str, Any]
Corpus = dict[str, bytes]


@attrs.frozen
class Result:
    """What a session left."""

    code: int
    summary: Summary
    corpus: Corpus

    @property
    def reproducible(self) -> tuple[int, Summary, Corpus]:
        """All except the timing."""
        rest = {key: value for key, value in self.summary.items() if key != "timing"}
        return self.code, rest, self.corpus

    @property
    def headers(self) -> list[traces.Header]:
        return [traces.loads(data.decode(), name).header for name, data in self.corpus.items()]


def contents_of(folder: Path) -> Corpus:
    """The traces in a corpus."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def run(folder: Path, *options: str) -> Result:
    """A session in `folder`."""
    folder.mkdir(exist_ok=True)
    places = ["--corpus", str(folder / "corpus"), "--summary", str(folder / "summary.json")]
    code = run_command_line(["run", *options, *places])
    summary = json.loads((folder / "summary.json").read_text())
    return Result(code, summary, contents_of(folder / "corpus"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A session that found a planted bug."""
    return run(tmp_path_factory.mktemp("found"), *SHORT, "--target", PLANTED)


# The summary.


def test_the_summary_has_exactly_its_keys(found: Result) -> None:
    assert list(found.summary) == [
        *("gcfuzz_session", "totals", "plan", "pieces", "failures", "stop_reason", "beyond"),
        "timing",
    ]


def test_the_summary_has_the_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git") is None:
        pytest.skip("install Debian's git")
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a"]):
        subprocess.run([*git, *command], check=True, timeout=PATIENCE_SECONDS)
    head = completed([*git, "rev-parse", "HEAD"])
    [timing] = run(tmp_path, "--actions", "1").summary["timing"]
    versions = {"gcfuzz": version("gcfuzz"), "python": platform.python_version()}
    assert timing["versions"] == {**versions, "commit": head.stdout.strip()}


def test_the_summary_lists_each_failure_once_with_its_reduced_trace(found: Result) -> None:
    failures = found.summary["failures"]
    assert failures
    assert sorted(each["path"] for each in failures) == sorted(found.corpus)
    keys = ("oracle", "field", "action", "direction")
    assert len({tuple(each["failure"][key] for key in keys) for each in failures}) == len(failures)
    for each in failures:
        header = traces.loads(found.corpus[each["path"]].decode(), each["path"]).header
        assert header.found is not None
        assert header.found.oracle == each["failure"]["oracle"]
        assert each["failure"]["why"] in header.found.message
        assert (header.found.engine, header.found.reduced_from) == ("random", each["reduced_from"])


def test_a_session_with_a_failure_exits_with_1_and_names_the_bug(found: Result) -> None:
    assert found.code == MISMATCH
    assert {header.kills for header in found.headers} == {(BUG,)}


# What is reproducible.


@pytest.mark.parametrize(
    ("engine", "workers", "actions", "target"),
    [
        ("random", 1, 1000, ORDERS[0]),
        ("random", 2, 3000, ORDERS[0]),
        pytest.param("random", 2, 50_000, ORDERS[0], marks=pytest.mark.night),
        ("random", 3, 1, "reference"),
        ("random", 2, part_of(50_000), "reference"),
        pytest.param("stateful", 1, 400, ORDERS[0], marks=pytest.mark.night),
        ("stateful", 2, 400, ORDERS[0]),
        pytest.param("stateful", 1, 5000, ORDERS[0], marks=pytest.mark.night),
    ],
)
def test_a_session_of_actions_is_reproducible(
    engine: str, workers: int, actions: int, target: str, tmp_path: Path
) -> None:
    options = ("--engine", engine, "--workers", str(workers), "--actions", str(actions))
    planted = ("--seed", "3", "--target", target)
    first, second = (run(tmp_path / name, *options, *planted) for name in ("first", "second"))
    assert first.summary["totals"]["actions"] == actions
    assert bool(first.corpus) == (target != "reference")
    assert first.reproducible == second.reproducible


@pytest.mark.parametrize(("engine", "actions"), [("random", "1000"), ("stateful", "200")])
def test_different_seeds_differ(engine: str, actions: str, tmp_path: Path) -> None:
    options = ("--engine", engine, "--actions", actions)
    one, two = (run(tmp_path / seed, *options, "--seed", seed).summary for seed in ("1", "2"))
    assert one["totals"]["probes"] != two["totals"]["probes"]


def test_the_seed_repeats_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    budget = ("--actions", "500")
    first = run(tmp_path / "first", *budget)
    match = re.search(r"seed (\d+)", capsys.readouterr().out.splitlines()[0])
    assert match
    second = run(tmp_path / "second", *budget, "--seed", match[1])
    assert first.reproducible == second.reproducible


# The budget.


@pytest.mark.parametrize("engine", ["random", "stateful"])
def test_a_budget_of_time_is_kept(engine: str, tmp_path: Path) -> None:
    assert run(tmp_path, "--time", "1s", "--engine", engine).summary["stop_reason"] == "time"


# Failures.


@pytest.mark.parametrize(
    ("engine", "actions", "target"),
    [
        *[("random", "20000", target) for target in ORDERS],
        *[pytest.param("stateful", "5000", each, marks=pytest.mark.night) for each in ORDERS],
    ],
)
def test_two_bugs_are_both_reported(engine: str, actions: str, target: str, tmp_path: Path) -> None:
    options = ("--engine", engine, "--actions", actions, "--seed", "1", "--target", target)
    result = run(tmp_path, *options)
    assert {bug for header in result.headers for bug in header.kills} == {BUG, OTHER_BUG}
    directions = {each["failure"]["direction"] for each in result.summary["failures"]}
    assert directions >= {"more", "less"}


def test_a_bug_that_only_a_second_run_shows_is_found_and_can_be_replayed(tmp_path: Path) -> None:
    target = ("--target", "reference+sampled-bytes-count-twice")
    result = run(tmp_path, "--actions", "20000", "--seed", "1", *target)
    oracles = {each["failure"]["oracle"] for each in result.summary["failures"]}
    assert oracles == {"transparency"}
    assert run_command_line(["replay", str(tmp_path / "corpus"), *target]) == MISMATCH
    assert run_command_line(["replay", str(tmp_path / "corpus"), "--target", "reference"]) == CLEAN


def test_a_session_does_not_change_files_in_the_corpus(tmp_path: Path) -> None:
    first = run(tmp_path, *SHORT, "--target", PLANTED, "--workers", "2")
    (tmp_path / "corpus" / "notes.txt").write_text("mine")
    longer = next(iter(first.corpus)).replace(".jsonl", "-longer.jsonl")
    (tmp_path / "corpus" / longer).write_text("mine too")
    before = contents_of(tmp_path / "corpus")
    second = run(tmp_path, *SHORT, "--target", PLANTED, "--workers", "2", "--seed", "6")
    assert before.items() <= second.corpus.items()


# Processes.


@attrs.frozen
class Running:
    """A session in a process of its own, and its output on disk."""

    process: subprocess.Popen[bytes]
    folder: Path

    def workers(self, count: int = 1) -> list[psutil.Process]:
        """The workers, in the order of their start, once there are that many."""
        parent = psutil.Process(self.process.pid)
        workers: list[psutil.Process] = []

        def are_there() -> bool:
            workers[:] = [each for each in parent.children() if is_worker(each)]
            return len(workers) == count

        wait_until(are_there, f"{count} workers", self.process)
        return sorted(workers, key=lambda worker: worker.pid)

    def searching_workers(self, count: int = 1, engine: str = "random") -> list[psutil.Process]:
        """The same once all of them search."""
        workers, seconds = self.workers(count), SEARCHING_SECONDS[engine]
        wait_until(
            lambda: all(worker.cpu_times().user > seconds for worker in workers), "the search"
        )
        return workers

    def wait_for_failure(self) -> None:
        """Wait until a failure is on disk."""
        corpus = self.folder / "corpus"
        wait_until(lambda: any(corpus.glob("*.jsonl")), "a saved failure", self.process)

    def end(self) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(LONG_SECONDS)

    @property
    def summary(self) -> Summary:
        summary: Summary = json.loads((self.folder / "summary.json").read_text())
        return summary

    @property
    def printed(self) -> str:
        return " ".join((self.folder / "printed").read_text().split())


Start = Callable[..., Running]


def is_worker(process: psutil.Process) -> bool:
    """Whether it leads a POSIX session, as workers do, and has not just ended."""
    with suppress(ProcessLookupError):
        return os.getsid(process.pid) == process.pid and not is_gone(process)
    return False


@pytest.fixture
def start(tmp_path: Path, unmeasured: dict[str, str]) -> Iterator[Start]:
    """Start a session in a process group of its own; what it leaves running is killed."""
    started: list[Running] = []

    def start(*options: str) -> Running:
        places = ["--corpus", "corpus", "--summary", "summary.json"]
        command = [sys.executable, "-m", "fuzz", "run", *places, *options]
        # All sessions of a test append to it.
        with (tmp_path / "printed").open("ab") as printed:
            process = subprocess.Popen(
                command,
                cwd=tmp_path,
                env=unmeasured,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
        started.append(Running(process, tmp_path))
        return started[-1]

    yield start
    for each in started:
        with suppress(ProcessLookupError):
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("engine", "number"),
    [
        *[("random", each) for each in (signal.SIGTERM, signal.SIGHUP)],
        *rest_at_night(("stateful", each) for each in (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_a_signal_ends_a_session_early(engine: str, number: signal.Signals, start: Start) -> None:
    session = start("--time", "1h", "--workers", "2", "--engine", engine)
    workers = session.searching_workers(2, engine)
    session.process.send_signal(number)
    assert session.end() == INCONCLUSIVE
    assert session.summary["stop_reason"] == "interrupted"
    assert session.summary["totals"]["actions"] > 0
    assert [worker for worker in workers if not is_gone(worker)] == []


def test_ctrl_c_while_the_workers_start_shows_no_traceback(start: Start) -> None:
    session = start("--time", "1h", "--workers", "2")
    session.workers(2)
    os.killpg(session.process.pid, signal.SIGINT)  # As a terminal does.
    session.end()
    assert "Traceback" not in session.printed
    assert "goes on without it" not in session.printed


def test_a_worker_that_is_killed_is_named_and_the_session_goes_on(start: Start) -> None:
    session = start("--time", "1h", "--workers", "2")
    session.searching_workers(2)[1].kill()
    death = "worker 1 died (exit code -9)"
    wait_until(lambda: death in session.printed, death, session.process)
    session.process.send_signal(signal.SIGINT)
    session.end()
    assert session.summary["stop_reason"] == "interrupted"


def test_failures_survive_an_interrupt_and_killed_workers(start: Start) -> None:
    session = start("--time", "1h", "--workers", "2", "--target", PLANTED)
    workers = session.searching_workers(2)
    session.wait_for_failure()
    for worker in workers:
        worker.kill()
    wait_until(lambda: session.printed.count("(exit code -9)") == 2, "two deaths", session.process)
    session.process.send_signal(signal.SIGINT)
    assert session.end() == UNFINISHED_MISMATCH
    assert session.summary["failures"]


def test_no_worker_outlives_its_killed_parent_or_reports_it(start: Start) -> None:
    session = start("--time", "1h", "--workers", "3", "--target", PLANTED)
    workers = session.searching_workers(3)
    session.process.kill()
    session.process.wait(PATIENCE_SECONDS)
    wait_until(lambda: all(map(is_gone, workers)), "the end of the workers")
    assert "Traceback" not in session.printed


def test_failures_that_cannot_be_saved_are_printed_and_the_session_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gcfuzz: Gcfuzz
) -> None:
    corpus, start_workers = tmp_path / "corpus", WorkerPool.start

    def start_without_corpus(pool: WorkerPool, count: int) -> None:
        corpus.rename(tmp_path / "elsewhere")
        start_workers(pool, count)

    monkeypatch.setattr(WorkerPool, "start", start_without_corpus)
    options = ["--actions", "20000", "--target", PLANTED]
    printed = gcfuzz(BAD_INPUT, "run", "--corpus", corpus, *options)
    assert "FAILURE 1: sampling / samples" in printed.out
    assert '{"gcfuzz": 2, "target": "reference+one-sample-per-object"' in printed.out
    assert "corpus: not all failures could be saved there" in printed.err


def test_sessions_may_share_a_corpus(start: Start) -> None:
    sessions = [
        start("--actions", "3000", "--seed", str(1 + number // 2), "--target", ORDERS[number % 2])
        for number in range(4)
    ]
    assert {session.end() for session in sessions} == {MISMATCH}
    replays = re.findall(r"gcfuzz replay (corpus/\S+)", sessions[0].printed)
    assert replays
    assert [each for each in replays if not (sessions[0].folder / each).exists()] == []


def test_a_session_leaves_only_the_traces_that_it_reports(start: Start) -> None:
    session = start("--actions", "3000", "--workers", "2", "--target", ORDERS[0])
    assert session.end() == MISMATCH
    reported = {each["path"] for each in session.summary["failures"]}
    assert {*contents_of(session.folder / "corpus")} == reported


def test_the_failures_of_a_killed_session_are_on_disk(start: Start) -> None:
    session = start("--time", "1h", "--target", PLANTED)
    workers = session.workers()
    session.wait_for_failure()
    os.killpg(session.process.pid, signal.SIGKILL)
    session.process.wait(PATIENCE_SECONDS)
    # They may be saving other failures.
    wait_until(lambda: all(map(is_gone, workers)), "the end of the workers")
    assert run_command_line(["replay", str(session.folder / "corpus")]) == MISMATCH
