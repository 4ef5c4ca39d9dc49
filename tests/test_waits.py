"""Each wait of a test has a limit, and says what it waited for."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
import waiting
from waiting import (
    PATIENCE_SECONDS,
    check_none_is_left,
    killed_at_end,
    processes_with,
    wait_for_line,
    wait_until,
    waited_for,
)

HERE = Path(__file__).parent
PYTHON = sys.executable, "-E", "-S", "-c"
ARGUMENTS = {
    **dict.fromkeys(("get", "join", "readline", "recv", "result", "wait"), 1),
    **dict.fromkeys(("communicate", "wait_procs"), 2),
}
"""With as many arguments a wait has a limit, or it is another function of that name."""
RUNS = {"call", "check_call", "check_output", "run"}
"""Functions of `subprocess`, which take their limit only by its name."""


def name_of(node: ast.AST) -> str:
    """The last name of a call's function; "" if it is not a call."""
    if not isinstance(node, ast.Call):
        return ""
    return ast.unparse(node.func).rpartition(".")[2]


def is_unlimited(call: ast.Call) -> bool:
    limits = [each.value for each in call.keywords if each.arg == "timeout"]
    if limits:
        return ast.unparse(limits[0]) == "None"
    if ast.unparse(call.func).startswith("subprocess."):
        return name_of(call) in RUNS
    return len(call.args) < ARGUMENTS.get(name_of(call), 0)


def unlimited(code: str) -> Iterator[str]:
    """The waits without a limit in a module."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call() if is_unlimited(node):
                yield ast.unparse(node)
            case ast.While() if "sleep" in map(name_of, ast.walk(node)):
                yield ast.unparse(node)
            # Its end waits for the process.
            case ast.withitem(context_expr=process) if name_of(process) == "Popen":
                yield ast.unparse(node)
            case (
                ast.comprehension(iter=ast.Attribute(attr="stdout" | "stderr"))
                | ast.For(iter=ast.Attribute(attr="stdout" | "stderr"))
            ):
                yield ast.unparse(node)


@pytest.mark.slow
def test_each_wait_has_a_limit() -> None:
    found = {
        str(path.relative_to(HERE)): [*unlimited(path.read_text("utf-8"))]
        for path in HERE.rglob("*.py")
        if path != Path(waiting.__file__)
    }
    assert {path: waits for path, waits in found.items() if waits} == {}


@pytest.mark.parametrize(
    "code",
    [
        "process.wait()",
        "process.communicate()",
        "process.communicate(b'input')",
        "process.communicate(timeout=None)",
        "connection.recv()",
        "future.result()",
        "queue.get()",
        "psutil.wait_procs(processes)",
        "subprocess.run(['true'], check=True)",
        "subprocess.check_output(['true'])",
        "while not path.exists():\n    time.sleep(0.1)",
        "with subprocess.Popen(['true']) as process:\n    pass",
        "any(line for line in process.stdout)",
        "for line in process.stderr:\n    pass",
    ],
)
def test_a_wait_without_a_limit_is_found(code: str) -> None:
    assert [*unlimited(code)]


@pytest.mark.parametrize(
    "code",
    [
        "process.wait(9)",
        "process.communicate(timeout=9)",
        "process.communicate(b'input', 9)",
        "thread.join(timeout=9)",
        "' '.join(words)",
        "numbers.get('one')",
        "socket.recv(9)",
        "psutil.wait_procs(processes, timeout=9)",
        "subprocess.run(['true'], check=True, timeout=9)",
        "process = subprocess.Popen(['true'])",
        "while not path.exists():\n    step()",
        "for line in done.stdout.splitlines():\n    pass",
    ],
)
def test_a_wait_with_a_limit_is_not_found(code: str) -> None:
    assert [*unlimited(code)] == []


# The helpers.


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
def test_a_wait_fails_with_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.1 s for the adapter"):
        wait_until(lambda: False, "the adapter")


def test_a_wait_fails_when_its_process_has_ended() -> None:
    process = subprocess.Popen(["true"])
    with pytest.raises(AssertionError, match=r"returncode: 0 .* waited for the adapter"):
        wait_until(lambda: False, "the adapter", process)


@pytest.mark.usefixtures("impatient")
def test_a_call_without_a_limit_gets_one() -> None:
    never = threading.Event()
    with pytest.raises(AssertionError, match=r"waited 0\.1 s for the adapter"):
        waited_for(lambda: never.wait(PATIENCE_SECONDS), "the adapter")
    never.set()


def test_a_call_s_error_is_raised() -> None:
    def ended() -> NoReturn:
        raise EOFError

    with pytest.raises(EOFError):
        waited_for(ended, "the adapter")


def test_an_output_that_ends_without_the_line_fails() -> None:
    process = subprocess.Popen(["echo", "started"], stdout=subprocess.PIPE, text=True)
    with (
        killed_at_end(process),
        pytest.raises(AssertionError, match=r"no 'ready' in \['started\\n'\]"),
    ):
        wait_for_line(process.stdout, "ready")


def test_a_process_is_killed_if_a_test_fails() -> None:
    process = subprocess.Popen(["sleep", "600"])
    with pytest.raises(ZeroDivisionError), killed_at_end(process):
        raise ZeroDivisionError
    assert process.returncode == -9


def test_processes_that_stay_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([*PYTHON, "import time; time.sleep(600)", str(tmp_path)])
    # Its arguments are not there at once.
    wait_until(lambda: processes_with(str(tmp_path)), "the process")
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(AssertionError, match=rf"still running after 0\.1 s: .* {tmp_path}"):
        check_none_is_left(str(tmp_path))
    assert process.wait(PATIENCE_SECONDS) == -9
