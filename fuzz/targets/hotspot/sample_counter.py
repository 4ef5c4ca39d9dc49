"""A callback for samples that does not need Python's lock: some instructions of x86-64.

Its arguments are JVMTI's, the thread's `JNIEnv`, the thread, the object, its class and its size.
Each thread has a row in a cache line of its own: its `JNIEnv`, the number of its samples, their
bytes, and a log of its first ones, which has JNI's global references. The row after the last is
that of all other threads, which have no log.
"""

from __future__ import annotations

import mmap
import struct
from ctypes import addressof, c_char, c_uint64
from typing import NamedTuple

ROW_WORDS, ROWS = 8, 64
LOGGED, LOGGED_WORDS = 16, 4
"""How many samples a log has, and how large each is."""
CODE = (
    b"\x48\xb8%s"  # mov rax, rows.
    b"\x48\x39\x30\x74\x0a"  # next: cmp [rax], rsi; je found.
    b"\x48\x83\xc0\x40"  # add rax, 64.
    b"\x48\x83\x38\x00\x75\xf1"  # cmp qword [rax], 0; jne next.
    b"\xf0\x48\xff\x40\x08"  # found: lock inc qword [rax + 8].
    b"\xf0\x4c\x01\x48\x10"  # lock add [rax + 16], r9.
    b"\x4c\x8b\x58\x20\x4d\x85\xdb\x74\x67"  # mov r11, [rax + 32]; test r11, r11; je end.
    b"\x41\xba\x20\x00\x00\x00\xf0\x4c\x0f\xc1\x50\x18"  # mov r10d, 32; lock xadd [rax + 24], r10.
    b"\x49\x81\xfa\x00\x02\x00\x00\x73\x52"  # cmp r10, 512; jae end.
    b"\x53\x41\x54\x41\x55\x4b\x8d\x1c\x13"  # push rbx, r12, r13; lea rbx, [r11 + r10].
    b"\x49\x89\xf4\x4c\x8b\x2e"  # mov r12, rsi; mov r13, [rsi].
    b"\x48\x89\x13\x4c\x89\x43\x10\x4c\x89\x4b\x18"  # mov [rbx], rdx; [rbx + 16], r8; …, r9.
    b"\x48\x89\xf7\x48\x89\xce"  # mov rdi, rsi; mov rsi, rcx.
    b"\x41\xff\x95\xa8\x00\x00\x00"  # call [r13 + 168], which is NewGlobalRef.
    b"\x48\x89\x43\x08\x4c\x89\xe7\x48\x8b\x73\x10"  # mov [rbx + 8], rax; rdi, r12; rsi, …16].
    b"\x41\xff\x95\xa8\x00\x00\x00"  # call [r13 + 168].
    b"\x48\x89\x43\x10\x4c\x89\xe7\x48\x8b\x33"  # mov [rbx + 16], rax; rdi, r12; rsi, [rbx].
    b"\x41\xff\x95\xa8\x00\x00\x00"  # call [r13 + 168].
    b"\x48\x89\x03\x41\x5d\x41\x5c\x5b"  # mov [rbx], rax; pop r13, r12, rbx.
    b"\xc3"  # end: ret.
)


class LoggedSample(NamedTuple):
    """A sample as the machine reported it. Its references are global."""

    thread: int
    object: int
    kind: int
    size_bytes: int


class SampleCounter:
    """Counts the samples of each thread. `callback` is the function's address."""

    def __init__(self) -> None:
        self._rows = (c_uint64 * (ROW_WORDS * ROWS))()
        self._logs = (c_uint64 * (LOGGED * LOGGED_WORDS * ROWS))()
        rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=rights)
        self._code.write(CODE % struct.pack("<Q", addressof(self._rows)))
        self.callback = addressof(c_char.from_buffer(self._code))

    def add(self, thread: int, env: int) -> None:
        """Give a thread the row of its number."""
        row = ROW_WORDS * thread
        log_bytes = 8 * LOGGED * LOGGED_WORDS
        self._rows[row], self._rows[row + 4] = env, addressof(self._logs) + thread * log_bytes

    def counts(self, threads: int) -> list[tuple[int, int]]:
        """The samples of each thread and their bytes, then those of all other threads."""
        starts = range(0, ROW_WORDS * (threads + 1), ROW_WORDS)
        return [(self._rows[start + 1], self._rows[start + 2]) for start in starts]

    def take_logged(self, thread: int) -> list[LoggedSample]:
        """The first samples of a thread since the last call. Their references must be freed."""
        row, start = ROW_WORDS * thread, LOGGED * LOGGED_WORDS * thread
        count = min(self._rows[row + 3] // (8 * LOGGED_WORDS), LOGGED)
        self._rows[row + 3] = 0
        starts = range(start, start + LOGGED_WORDS * count, LOGGED_WORDS)
        return [LoggedSample(*self._logs[each : each + LOGGED_WORDS]) for each in starts]
