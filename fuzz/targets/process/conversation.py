"""A program, and the lines that go to it and come from it.

A conversation always ends: it waits for a line until the timeout, keeps `LINE_BYTES_MAX` of a line
at most, and writes and reads at once, so that neither side waits for a full pipe. Invariant: a
program that was ended leaves no process behind, since all that it starts is in its process group or
inherits a mark in its environment.

This does not reach processes that leave the group and clear the mark, or that run as another user
or on another machine. If this process is killed, the program stays, except that a session ends the
programs of its workers, and they end theirs.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from fuzz.cancellation import checkpoint
from fuzz.problems import BadInputError
from fuzz.protocol.observation import HANG, MEMORY, SILENT
from fuzz.targets.process.earlier import History
from fuzz.targets.process.last_words import most_important_line

if TYPE_CHECKING:
    import psutil

LINE_BYTES_MAX = 2**24
CHUNK_BYTES = 2**16
COMPLAINT_BYTES = 2**18
"""How much of the end of standard error is kept."""
COMPLAINT_READS_MAX = 16
"""Processes that the program started may still write to standard error forever."""
START_SECONDS = 30.0
"""The timeout of a program's first answer, if the general one is less: it has to start."""
POLL_SECONDS_MAX = 0.1
"""How soon a cancellation is noticed while an answer is awaited."""
MARK = "GCFUZZ_PROGRAM"
"""The environment variable that says which process started a program, and which program it is."""
END_ROUNDS_MAX, END_ROUND_SECONDS = 100, 0.01
"""Processes that are being ended may start others meanwhile."""
KERNEL_PID = 2
"""The first thread of Linux's kernel."""
MEMORY_SECONDS = 0.25
"""How often the program's memory is checked while an answer is awaited."""


_starting = threading.Lock()
"""Held while a program is started, and for good before this process ends its programs."""
_is_dying = threading.Event()
"""Set before that. A thread that starts programs in a loop rarely leaves the lock to another."""


class BrokenConversationError(Exception):
    """The program does not answer any more. The message is `KIND: what happened`."""


class NotStartedError(BrokenConversationError):
    """The program cannot be started; it may be gone, or just being written."""


class Conversation:
    """One process of the program.

    Raises NotStartedError, or BadInputError if the system cannot start another process.
    """

    def __init__(
        self, command: Sequence[str], timeout_seconds: float, memory_bytes: int | None = None
    ) -> None:
        """`memory_bytes` limits the resident memory of the program and of what it started."""
        self._timeout_seconds = timeout_seconds
        self._memory_bytes = memory_bytes
        self._program: psutil.Process | None = None
        self._seconds_allowed = max(timeout_seconds, START_SECONDS)
        mark = f"{_mark_of(os.getpid())}{os.urandom(16).hex()}"
        if _is_dying.is_set():
            threading.Event().wait()
        try:
            with _starting:
                self._process = subprocess.Popen(  # noqa: S603 - what the user names is run
                    command,
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**os.environ, MARK: mark},
                    process_group=0,
                )
        except (OSError, ValueError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else problem
            if isinstance(problem, OSError) and problem.filename is None:
                raise BadInputError(f"{command[0]}: cannot be started: {reason}") from problem
            raise NotStartedError(f"cannot be started: {reason}") from problem
        # It also runs at the end of this process; for a worker that is a fork, its parent does it.
        self.close = weakref.finalize(self, _end, self._process, mark)
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._stdin, self._stdout, self._stderr = (pipe.fileno() for pipe in pipes if pipe)
        self._poll = select.poll()
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe, False)
        self._poll.register(self._stdout, select.POLLIN)
        self._poll.register(self._stderr, select.POLLIN)
        self._unsent = bytearray()
        self._is_blocked = False
        self._lines: deque[bytes] = deque()
        self._partial = bytearray()
        self._complaint = bytearray()
        self.unread = 0
        """How many answers are not needed any more."""
        self.history = History()
        self.headers = 0
        """How many were sent."""

    def send(self, line: str) -> None:
        """Queue a line for the program."""
        self._unsent += line.encode() + b"\n"

    def flush(self) -> None:
        if not self._is_blocked:
            self._write()

    def receive(self) -> bytes:
        """The next line. Raises BrokenConversationError."""
        if not self._lines:
            self._write()
            self._wait_for_line()
        self._seconds_allowed = self._timeout_seconds
        return self._lines.popleft()

    @property
    def complaint(self) -> str:
        """The end of what it wrote to standard error, as far as that was read."""
        return self._complaint.decode(errors="replace")

    def check_memory(self, with_children: bool = False) -> None:
        """Raises BrokenConversationError if the program uses too much memory.

        Finding its children takes milliseconds.
        """
        if self._memory_bytes is None:
            return
        import psutil  # See _end_marked.

        used_bytes = 0
        with suppress(psutil.Error):  # A process that has ended uses none.
            self._program = self._program or psutil.Process(self._process.pid)
            children = self._program.children(recursive=True) if with_children else ()
            for each in (self._program, *children):
                used_bytes += each.memory_info().rss
        if used_bytes > self._memory_bytes:
            limit = in_binary_units(self._memory_bytes)
            raise BrokenConversationError(f"{MEMORY}: more than {limit} of resident")

    def hang_up(self) -> bytes | None:
        """Close its input. Returns a line that it still writes, or None if it ends with code 0.

        Raises BrokenConversationError.
        """
        self._unsent.clear()
        self._write()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self.receive()
        except BrokenConversationError:
            if self._process.poll() == 0:
                return None
            raise

    def _wait_for_line(self) -> None:
        until = time.monotonic() + self._seconds_allowed
        check_at = time.monotonic() + MEMORY_SECONDS
        while not self._lines:
            checkpoint()
            now = time.monotonic()
            if now >= until:
                # Processes that it started may still have its output, which then has no end.
                if self._process.poll() is not None:
                    raise BrokenConversationError(self._how_it_ended())
                seconds = self._seconds_allowed
                raise BrokenConversationError(f"{HANG}: no answer within {seconds:g} s")
            if now >= check_at:
                self.check_memory(with_children=True)
                check_at = now + MEMORY_SECONDS
            for pipe, _ in self._poll.poll(min(until - now, POLL_SECONDS_MAX) * 1000):
                if pipe == self._stdin:
                    self._write()
                elif pipe == self._stderr:
                    self._read_complaint()
                else:
                    self._read()

    def _write(self) -> None:
        """Write what the pipe takes; if there is more, poll until it takes that."""
        if self._unsent:
            try:
                written = os.write(self._stdin, self._unsent)
            except BlockingIOError:
                written = 0
            except BrokenPipeError:
                written = len(self._unsent)  # The end of its output says how it ended.
            del self._unsent[:written]
        if self._unsent and not self._is_blocked:
            self._poll.register(self._stdin, select.POLLOUT)
        elif self._is_blocked and not self._unsent:
            self._poll.unregister(self._stdin)
        self._is_blocked = bool(self._unsent)

    def _read(self) -> None:
        chunk = os.read(self._stdout, CHUNK_BYTES)
        if not chunk:
            raise BrokenConversationError(self._how_it_ended())
        self._partial += chunk
        if b"\n" in chunk:
            *lines, self._partial = self._partial.split(b"\n")
            self._lines.extend(map(bytes, lines))
        if len(self._partial) > LINE_BYTES_MAX:
            raise BrokenConversationError(f"garbage: a line of more than {LINE_BYTES_MAX} bytes")

    def _read_complaint(self) -> None:
        chunk = os.read(self._stderr, CHUNK_BYTES)
        if not chunk:
            self._poll.unregister(self._stderr)
        self._complaint += chunk
        del self._complaint[:-COMPLAINT_BYTES]

    def _how_it_ended(self) -> str:
        try:
            # A Java virtual machine on a busy machine needs more than a second for it.
            code = self._process.wait(self._seconds_allowed)
        except subprocess.TimeoutExpired:
            return "crash: it closed its output, and did not end"
        for _ in range(COMPLAINT_READS_MAX):
            try:
                self._complaint += os.read(self._stderr, CHUNK_BYTES)
            except BlockingIOError:
                break
        how = f"crash {_signal_name(-code)}" if code < 0 else f"crash exit code {code}"
        return f"{how}: {most_important_line(self.complaint) or SILENT}"


def in_binary_units(size_bytes: int) -> str:
    """A size as --memory takes it, as short as possible."""
    for unit, exponent in (("G", 30), ("M", 20), ("k", 10)):
        if size_bytes % 2**exponent == 0:
            return f"{size_bytes >> exponent}{unit}"
    return f"{size_bytes} bytes"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _end_marked(mark)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def stop_starting() -> None:
    """Start no more programs: each thread that would start one waits until this process ends."""
    _is_dying.set()
    _starting.acquire()


def end_programs_of(pid: int) -> None:
    """End all programs that a process has started, and all that they started."""
    _end_marked(_mark_of(pid))


def _mark_of(pid: int) -> str:
    """The start of the marks of a process's programs. All have one length, so environments do."""
    return f"{pid:010}-"


def _end_marked(mark: str) -> None:
    # Importing it measures the machine and takes memory accordingly. Drivers that import this
    # module need the same memory layout in each process.
    import psutil

    def is_starting(process: psutil.Process) -> bool:
        return not process.cmdline() and process.ppid() not in (0, KERNEL_PID)

    for _ in range(END_ROUNDS_MAX):
        marked, waits = [], False
        for each in psutil.process_iter():
            with suppress(psutil.Error):
                # Requested from `process_iter`, it costs twice as much.
                variables = each.environ()
                if variables.get(MARK, "").startswith(mark):
                    marked.append(each)
                # Linux shows no variables and no arguments until a process has loaded its program.
                # The kernel's own threads never have any.
                waits |= not variables and is_starting(each)
        if not marked and not waits:
            return
        for each in marked:
            with suppress(psutil.Error):
                each.kill()
        time.sleep(END_ROUND_SECONDS)
