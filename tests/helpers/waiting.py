"""Waits with a limit, for tests: what does not happen fails the test, and its message names it."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any, TypeVar

import psutil

PATIENCE_SECONDS = 300.0
"""Longer than anything takes on a busy computer: no test measures time with it.

It is less than the 600 s after which the programs that hang in tests end by themselves.
"""
LONG_SECONDS = 1000.0
"""The limit of builds, translations and sessions; pytest ends a test after 1200 s."""
POLL_SECONDS = 0.02

Result = TypeVar("Result")
Started = TypeVar("Started", bound="subprocess.Popen[Any]")


def wait_until(
    is_true: Callable[[], object], what: str, process: subprocess.Popen[Any] | None = None
) -> None:
    """Wait until a function returns something true. The failure says that it waited for `what`.

    If `process` ends first, it fails at once.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        # Asked before the condition, which the process may make true as its last act.
        has_ended = process is not None and process.poll() is not None
        if is_true():
            return
        assert not has_ended, f"{process} ended; waited for {what}"
        assert time.monotonic() < until, f"waited {PATIENCE_SECONDS:g} s for {what}"
        time.sleep(POLL_SECONDS)


def waited_for(call: Callable[[], Result], what: str) -> Result:
    """What a call returns that has no limit itself; it waits in a thread."""
    result = Future[Result]()

    def wait() -> None:
        try:
            result.set_result(call())
        except BaseException as problem:  # noqa: BLE001 - it is raised where the result is needed
            result.set_exception(problem)

    thread = Thread(target=wait, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), f"waited {PATIENCE_SECONDS:g} s for {what}"
    return result.result(0)


def completed(
    command: Sequence[str | Path] | str, *, check: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    """A program that has ended, with its output as text; with `check` its exit code is 0.

    Other options are those of `subprocess.run`.
    """
    usual = {"capture_output": True, "text": True, "timeout": PATIENCE_SECONDS}
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, check=False, **{**usual, **options}
    )
    assert not check or done.returncode == 0, done
    return done


def wait_for_line(output: IO[str] | None, text: str) -> None:
    """Read a process's output up to a line with a text."""
    assert output is not None
    lines: list[str] = []

    def is_there() -> bool:
        for line in output:
            lines.append(line)
            if text in line:
                return True
        return False

    assert waited_for(is_there, f"a line with {text!r}"), f"no {text!r} in {lines}"


@contextmanager
def killed_at_end(process: Started) -> Iterator[Started]:
    """A process that ends with the block, also if a test fails there."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def is_gone(process: psutil.Process) -> bool:
    """Whether a process has ended. Without a parent that waits it stays as a zombie."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def processes_with(argument: str) -> list[psutil.Process]:
    """All living processes that were started with an argument.

    Linux may show no arguments of a process for some time after its start: wait for it first.
    """
    return [
        each
        for each in psutil.process_iter(["cmdline", "status"])
        if argument in (each.info["cmdline"] or []) and each.info["status"] != psutil.STATUS_ZOMBIE
    ]


def check_none_is_left(argument: str) -> None:
    """Wait for the end of all processes with an argument. Those that stay are killed and named."""
    with suppress(AssertionError):
        wait_until(lambda: not processes_with(argument), argument)
    left = processes_with(argument)
    for each in left:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    commands = [shlex.join(each.info["cmdline"]) for each in left]
    assert not left, f"still running after {PATIENCE_SECONDS:g} s: {commands}"
