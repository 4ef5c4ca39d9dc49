"""A program and the lines that go to it and come from it.

Whatever the program does, this ends: it waits no longer than the time limit for a line, keeps no
more of one than `LINE_BYTES_MAX`, and writes and reads at once, so that neither side waits for a
pipe that the other does not empty. Invariant: a program that was ended leaves no process behind,
since all that it starts is in its process group or inherits a mark in its environment.

Out of reach is what leaves the group and clears the mark, or runs as another user or on another
machine; and a program that hangs while whoever talks to it is killed, but for a session's workers,
whose programs their parent ends, and theirs the workers.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from fuzz.cancellation import checkpoint
from fuzz.problems import BadInputError
from fuzz.protocol.lines import WORDS_MAX
from fuzz.protocol.observation import HANG, MEMORY, SILENT
from fuzz.targets.process.earlier import History

if TYPE_CHECKING:
    import psutil

LINE_BYTES_MAX = 2**24
CHUNK_BYTES = 2**16
COMPLAINT_BYTES = 2**18
"""So much is kept of the last that the program wrote on standard error."""
COMPLAINT_READS_MAX = 16
"""What it started may have standard error still, and complain for ever."""
START_SECONDS = 30.0
"""A program may take so long for its first answer, if the time limit is less: it has to start."""
POLL_SECONDS_MAX = 0.1
"""Whoever waits for an answer can be told to stop so soon."""
MARK = "GCFUZZ_PROGRAM"
"""The environment variable that says who started a program, and which one it is."""
END_ROUNDS_MAX, END_ROUND_SECONDS = 100, 0.01
"""What is ended may start others meanwhile, though hardly for ever."""
MEMORY_SECONDS = 0.25
"""While an answer is awaited, the program's memory is looked at so often."""
END_SECONDS = 1.0
"""A program that has closed its output may take so long to end."""


class BrokenConversationError(Exception):
    """The program cannot be talked to any more. The message is `KIND: what happened`."""


class NotStartedError(BrokenConversationError):
    """The program cannot be started; it may be gone, or just being written."""


class Conversation:
    """One process of the program.

    Raises NotStartedError, or BadInputError if there is no room for any other process.
    """

    def __init__(
        self, command: Sequence[str], timeout_seconds: float, memory_bytes: int | None = None
    ) -> None:
        """`memory_bytes` bounds the program's resident memory, with that of what it started."""
        self._timeout_seconds = timeout_seconds
        self._memory_bytes = memory_bytes
        self._program: psutil.Process | None = None
        self._seconds_allowed = max(timeout_seconds, START_SECONDS)
        mark = f"{_mark_of(os.getpid())}{os.urandom(16).hex()}"
        try:
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
        # Also at the end of this process, should nobody have ended it until then; that of a worker
        # which is a fork is its parent's to see to.
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
        """How many answers nobody waits for any more."""
        self.history = History()

    def send(self, line: str) -> None:
        """Send a line, as soon as the program takes it."""
        self._unsent += line.encode() + b"\n"

    def flush(self) -> None:
        """Send what the program takes at once."""
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
        """The last that it wrote on standard error, as far as that was read."""
        return self._complaint.decode(errors="replace")

    def check_memory(self, with_children: bool = False) -> None:
        """Raises BrokenConversationError if the program takes more than it may.

        To find its children takes milliseconds.
        """
        if self._memory_bytes is None:
            return
        import psutil

        used_bytes = 0
        with suppress(psutil.Error):  # One that has ended takes none.
            self._program = self._program or psutil.Process(self._process.pid)
            children = self._program.children(recursive=True) if with_children else ()
            for each in (self._program, *children):
                used_bytes += each.memory_info().rss
        if used_bytes > self._memory_bytes:
            limit = in_binary_units(self._memory_bytes)
            raise BrokenConversationError(f"{MEMORY}: more than {limit} of resident")

    def hang_up(self) -> bytes | None:
        """Close its input; returns what it says all the same, or None if it ends in peace.

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
                raise BrokenConversationError(self._why_there_is_no_answer())
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
        """Write what the pipe takes, and wait for it to take more if there is more."""
        if self._unsent:
            try:
                written = os.write(self._stdin, self._unsent)
            except BlockingIOError:
                written = 0
            except BrokenPipeError:
                written = len(self._unsent)  # Its output tells how it ended.
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

    def _why_there_is_no_answer(self) -> str:
        # What it started may have its output still, which therefore has no end.
        if self._process.poll() is not None:
            return self._how_it_ended()
        return f"{HANG}: no answer within {self._seconds_allowed:g} s"

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return "crash: it closed its output, and did not end"
        for _ in range(COMPLAINT_READS_MAX):
            try:
                chunk = os.read(self._stderr, CHUNK_BYTES)
            except BlockingIOError:
                break
            self._complaint += chunk
        how = f"crash {_signal_name(-code)}" if code < 0 else f"crash exit code {code}"
        words = _last_words(self.complaint)
        return f"{how}: {words}" if words else f"{how}: {SILENT}"


def in_binary_units(size_bytes: int) -> str:
    """A size as --memory takes it, as short as it can be written."""
    for unit, exponent in (("G", 30), ("M", 20), ("k", 10)):
        if size_bytes % 2**exponent == 0:
            return f"{size_bytes >> exponent}{unit}"
    return f"{size_bytes} bytes"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_words(complaint: str) -> str:
    """What a program said at its end, in one line in which nothing differs from run to run."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    summaries = [line for line in lines if line.startswith("SUMMARY: ")]  # A sanitizer's.
    # A Java virtual machine's: where it crashed, or which of its own checks failed.
    frames = [
        after.removeprefix("# ")
        for line, after in pairwise(lines)
        if line == "# Problematic frame:"
    ]
    checks = [line for line in lines if line.startswith("#  ")]
    last = (summaries or frames or checks or lines or [""])[-1]
    return re.sub(r"0x[0-9a-f]+|==\d+==|, [pt]id=\d+", "…", last)[: 4 * WORDS_MAX]


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a process and all that it started, which belong to its group or have its mark."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _end_marked(mark)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def end_programs_of(pid: int) -> None:
    """End all programs that a process has started, and all that they started."""
    _end_marked(_mark_of(pid))


def _mark_of(pid: int) -> str:
    """How the marks of a process's programs begin; all are of one length, as are environments."""
    return f"{pid:010}-"


def _end_marked(mark: str) -> None:
    """End the processes whose mark begins like that."""
    # It measures the machine when it is imported, and takes memory by what it finds: drivers that
    # import this module need theirs to be the same in each process.
    import psutil

    def is_marked(process: psutil.Process) -> bool:
        # Asked for by `process_iter`, it costs twice as much.
        with suppress(psutil.Error):
            return process.environ().get(MARK, "").startswith(mark)
        return False

    for _ in range(END_ROUNDS_MAX):
        marked = [each for each in psutil.process_iter() if is_marked(each)]
        if not marked:
            return
        for each in marked:
            with suppress(psutil.Error):
                each.kill()
        time.sleep(END_ROUND_SECONDS)
