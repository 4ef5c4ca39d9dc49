"""Tasks on a worker of Dask's: their processes, their messages, and which worker is unable."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import attrs
import pytest
from dask_machines import TARGET
from scripts import shell_script
from waiting import PATIENCE_SECONDS, completed, wait_until, waited_for

from fuzz.failures.compare import Before
from fuzz.failures.corpus import SavedFailure
from fuzz.problems import BadInputError
from fuzz.protocol.target import contract_of
from fuzz.sessions import dask_tasks
from fuzz.sessions.cluster import plain_message
from fuzz.sessions.dask_tasks import PatientConnection, TaskProcess, packed, run_task, why_unable
from fuzz.sessions.plan import Chunk, Plan, SessionTotals
from fuzz.sessions.worker import Message, Search, Searched
from fuzz.targets import TargetOptions, make_target

VERSION = version("gcfuzz")
VERSIONS = {"gcfuzz": VERSION}


def processes() -> list[TaskProcess]:
    return [*dask_tasks._processes.values()]  # noqa: SLF001 - as a target would end one


@pytest.mark.slow
def test_a_task_runs_in_a_process_of_its_own_and_reports_its_answers(plan: Plan) -> None:
    reported: list[tuple[int, Message]] = []
    *failures, end = run_task(plan, Search(plan.chunk(9)), lambda *each: reported.append(each))
    assert isinstance(end, Searched)
    assert end.is_whole
    assert end.totals.actions == plan.chunk(9).actions
    assert failures
    assert [each for each in reported if isinstance(each[1], SavedFailure)] == [
        *enumerate(failures)
    ]
    assert list(plan.corpus.iterdir()) == []


@pytest.mark.slow
def test_a_process_that_dies_loses_its_task_and_the_next_one_has_another(plan: Plan) -> None:
    def kill(_: int, __: Message) -> None:
        [process] = processes()
        process.process.kill()

    with pytest.raises((EOFError, OSError)):
        run_task(plan, Search(Chunk(0, 10**9)), kill)
    assert isinstance(run_task(plan, Search(plan.chunk(1)))[-1], Searched)


@pytest.mark.slow
def test_a_process_that_ended_without_a_task_is_replaced(plan: Plan) -> None:
    run_task(plan, Search(plan.chunk(0)))
    [process] = processes()
    process.process.kill()
    process.process.wait(PATIENCE_SECONDS)
    assert isinstance(run_task(plan, Search(plan.chunk(1)))[-1], Searched)


def test_a_process_without_messages_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_tasks, "IDLE_SECONDS", 0.01)
    ours, theirs = socket.socketpair()
    with ours, PatientConnection(theirs.detach()) as connection, pytest.raises(EOFError):
        waited_for(connection.recv, "the end")


@pytest.mark.slow
def test_a_program_gets_the_environment_of_the_worker(plan: Plan, tmp_path: Path) -> None:
    seen, serve = tmp_path / "seen", f"exec {sys.executable} -m fuzz.targets reference"
    program = shell_script(tmp_path / "program", f"echo $PYTHONPATH >> {seen}\n{serve}")
    plan = attrs.evolve(plan, target="process", options=TargetOptions((str(program),)), actions=1)
    run_task(plan.under_contract(), Search(plan.chunk(0)))
    assert set(seen.read_text().splitlines()) == {os.environ.get("PYTHONPATH", "")}


@pytest.mark.slow
def test_a_search_that_is_cut_off_has_its_failures(plan: Plan) -> None:
    with ThreadPoolExecutor() as threads:
        answers = threads.submit(run_task, plan, Search(Chunk(0, 10**6)))
        wait_until(
            lambda: any(any(each.folder.iterdir()) for each in processes()), "a saved failure"
        )
        dask_tasks.cut_tasks(plan.token, Search)
        *failures, end = answers.result(PATIENCE_SECONDS)
    assert failures
    assert isinstance(end, Searched)
    assert not end.is_whole
    assert run_task(plan, Search(plan.chunk(1))) == [Searched(SessionTotals(), is_whole=False)]


KILLED = """
import os, sys
from pathlib import Path
from fuzz.sessions.dask_tasks import TaskProcess
from fuzz.sessions.plan import Plan
print(TaskProcess(Plan("reference", "random", 1, 1, Path("corpus"))).folder, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_killed_worker_leaves_no_folder(unmeasured: dict[str, str]) -> None:
    # Reading its output to the end waits for the process of its task, too.
    ran = completed([sys.executable, "-c", KILLED], check=False, env=unmeasured)
    assert ran.returncode == -signal.SIGKILL
    assert not Path(ran.stdout.strip()).exists()


class Harmful:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("true",)


def test_a_message_that_is_not_plain_data_is_not_unpickled() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"a worker sent posix.system"):
        plain_message(pickle.dumps(Harmful()))


@pytest.mark.slow
def test_all_that_a_worker_sends_is_plain_data(plan: Plan) -> None:
    answers = run_task(plan, Search(plan.chunk(9)))
    assert [plain_message(packed(each)) for each in answers] == answers


@pytest.mark.slow
def test_a_problem_is_plain_data_also_where_dask_keeps_tracebacks() -> None:
    import_module("distributed")
    with pytest.raises(BadInputError) as raised:
        raise BadInputError("a problem") from ValueError()
    problem = plain_message(packed(raised.value))
    assert (type(problem), str(problem)) == (BadInputError, "a problem")


@pytest.mark.slow
def test_the_end_of_a_session_leaves_another_s_processes(plan: Plan) -> None:
    run_task(plan, Search(plan.chunk(0)))
    before = processes()
    dask_tasks.end_processes("another session's")
    assert processes() == before != []


OTHER_CONTRACT = attrs.evolve(contract_of(make_target(TARGET)), version="1")


@pytest.mark.parametrize(
    ("changes", "versions", "why"),
    [
        ({}, VERSIONS, None),
        ({}, {"gcfuzz": "0"}, f"it has gcfuzz {VERSION}, and the session 0"),
        (
            {"engine": "stateful"},
            {**VERSIONS, "hypothesis": "6.140.0"},
            f"it has hypothesis {version('hypothesis')}, and the session 6.140.0",
        ),
        (
            {"options": TargetOptions(contract=OTHER_CONTRACT)},
            VERSIONS,
            f'its {TARGET} is different: version "1" → ""',
        ),
        (
            {"before": Before("process", TargetOptions(("./x",), contract=OTHER_CONTRACT))},
            VERSIONS,
            "./x: cannot be started: No such file or directory",
        ),
    ],
)
def test_a_worker_is_unable_if_something_is_different(
    changes: dict[str, Any], versions: dict[str, str], why: str | None, plan: Plan
) -> None:
    assert why_unable(attrs.evolve(plan.under_contract(), **changes), versions) == why


def test_a_worker_without_a_target_is_unable(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_a_full_disk(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(dask_tasks, "make_target", on_a_full_disk)
    assert why_unable(plan.under_contract(), VERSIONS) == "[Errno 28] No space left on device"
