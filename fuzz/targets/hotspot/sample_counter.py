"""A callback for samples that does not need Python's lock: some instructions of x86-64.

Its second argument is the thread's `JNIEnv`, the sixth is the size of the sampled object. Each
thread has a row in a cache line of its own: its `JNIEnv`, the number of its samples, and their
bytes. The row after the last is that of all other threads.
"""

from __future__ import annotations

import mmap
import struct
from ctypes import addressof, c_char, c_uint64

ROW_WORDS, ROWS = 8, 64
CODE = (
    b"\x48\xb8%s"  # mov rax, rows
    b"\x48\x39\x30\x74\x0a"  # next: cmp [rax], rsi; je found
    b"\x48\x83\xc0\x40"  # add rax, 64
    b"\x48\x83\x38\x00\x75\xf1"  # cmp qword [rax], 0; jne next
    b"\xf0\x48\xff\x40\x08"  # found: lock inc qword [rax + 8]
    b"\xf0\x4c\x01\x48\x10"  # lock add [rax + 16], r9
    b"\xc3"  # ret
)


class SampleCounter:
    """Counts the samples of each thread. `callback` is the function's address."""

    def __init__(self) -> None:
        self._rows = (c_uint64 * (ROW_WORDS * ROWS))()
        rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=rights)
        self._code.write(CODE % struct.pack("<Q", addressof(self._rows)))
        self.callback = addressof(c_char.from_buffer(self._code))

    def add(self, thread: int, env: int) -> None:
        """Give a thread the row of its number."""
        self._rows[ROW_WORDS * thread] = env

    def counts(self, threads: int) -> list[tuple[int, int]]:
        """The samples of each thread and their bytes, then those of all other threads."""
        starts = range(0, ROW_WORDS * (threads + 1), ROW_WORDS)
        return [(self._rows[start + 1], self._rows[start + 2]) for start in starts]
