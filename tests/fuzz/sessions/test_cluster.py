"""Sessions on Dask's workers: they leave what a session on one machine leaves, whatever is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fuzz.sessions import cluster
from fuzz.sessions.cluster import Errand, run_task
from fuzz.sessions.plan import Plan
from fuzz.sessions.worker import Raw, Search, Searched
from fuzz.terminal.cli import run_command_line

MISMATCH, BAD_INPUT = 1, 2
TARGET = "reference+one-sample-per-object"
SESSION = ("run", "--target", TARGET, "--seed", "3", "--actions", "3000", "--corpus")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What one worker on this machine leaves."""
    corpus = tmp_path_factory.mktemp("alone")
    assert run_command_line([*SESSION, str(corpus)]) == MISMATCH
    return left_in(corpus)


def left_in(corpus: Path) -> dict[str, object]:
    finds: dict[str, object] = {path.name: path.read_bytes() for path in corpus.glob("*.jsonl")}
    [path] = corpus.glob("sessions/*.json")
    record = json.loads(path.read_bytes())
    return {**finds, path.name: {key: record[key] for key in record if key != "timing"}}


@pytest.fixture
def started(unmeasured: dict[str, str]) -> Iterator[ExitStack]:
    """What is started is ended."""
    with ExitStack() as stack:
        yield stack


def start(stack: ExitStack, environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-m", *words], env=environment, stdout=subprocess.PIPE, text=True
        )
    )
    stack.callback(process.kill)
    return process


@pytest.mark.slow
def test_two_workers_of_dask_s_leave_the_same(
    alone: dict[str, object], started: ExitStack, unmeasured: dict[str, str], tmp_path: Path
) -> None:
    words = (*SESSION, str(tmp_path), "--cluster", "local:2")
    session = start(started, unmeasured, "fuzz", *words)
    printed, _ = session.communicate()
    assert session.returncode == MISMATCH, printed
    assert left_in(tmp_path) == alone


@pytest.mark.slow
def test_a_machine_that_is_lost_is_survived(
    alone: dict[str, object], started: ExitStack, unmeasured: dict[str, str], tmp_path: Path
) -> None:
    place = tmp_path / "scheduler.json"
    file = ("--scheduler-file", str(place))
    quiet = {**unmeasured, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}
    dask = "distributed.cli.dask_"
    start(started, quiet, f"{dask}scheduler", *file, "--port", "0", "--no-dashboard")
    options = (*file, "--nthreads", "1", "--no-nanny", "--no-dashboard")
    workers = [start(started, quiet, f"{dask}worker", *options) for _ in range(2)]
    while not place.exists():
        time.sleep(0.05)
    address = json.loads(place.read_text())["address"]
    corpus = tmp_path / "corpus"
    session = start(started, quiet, "fuzz", *SESSION, str(corpus), "--cluster", address)
    assert session.stdout is not None
    for line in session.stdout:
        if line.startswith("FAILURE"):
            break
    workers[0].kill()
    session.communicate()
    assert session.returncode == MISMATCH
    assert left_in(corpus) == alone


# What a worker of Dask's does.


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    yield Plan(TARGET, "random", 3, 1, tmp_path, actions=3000)
    cluster.end_errands()


def test_a_task_is_done_in_a_process_of_its_own(plan: Plan) -> None:
    *raws, end = run_task(plan, Search(plan.chunk(9)))
    assert isinstance(end, Searched)
    assert end.is_whole
    assert end.totals.actions == plan.chunk(9).actions
    assert raws
    assert all(isinstance(raw, Raw) for raw in raws)
    assert list(plan.corpus.iterdir()) == []


def test_a_process_that_dies_is_told_and_the_next_task_has_another(plan: Plan) -> None:
    run_task(plan, Search(plan.chunk(0)))
    [errand] = cluster._errands.values()  # noqa: SLF001 - as a target would end it
    assert isinstance(errand, Errand)
    os.kill(errand.pid, 9)
    with pytest.raises((EOFError, OSError)):
        run_task(plan, Search(plan.chunk(1)))
    assert isinstance(run_task(plan, Search(plan.chunk(1)))[-1], Searched)
