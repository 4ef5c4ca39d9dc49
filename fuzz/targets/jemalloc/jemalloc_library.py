"""The stock libjemalloc.so.2 in this process, called through ctypes.

No interface shows its state for a thread's sampling; `ThreadSampler` finds it by its pattern in the
thread's memory and sets it. Invariant: nothing here decides what is sampled. jemalloc counts, draws
each distance, also the one that `begin` requests, and reports samples through its own hook.
(Source: jemalloc 5.3.0, src/thread_event.c, src/prof.c, include/jemalloc/internal/tsd.h.)
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_bool, c_char_p, c_int, c_int8, c_int32, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, ClassVar

from fuzz.problems import BadInputError
from fuzz.targets.allocators.stock_library import Allocator, declared, load
from fuzz.targets.jemalloc import CONFIGURATION

LIBRARY = "libjemalloc.so.2"
VERSION = "5.3.0"
HOW_TO_INSTALL = "apt install libjemalloc2"

STACK = (0x1000,)
"""The default stack of samples."""
HEAD_BYTES = 256
"""At most this much of a dump has its sums."""
TICKS_MAX, TICKS_LAST = 1000, 2**31 - 1
"""The start of a thread's ticker, which nothing else in its state equals; the largest value."""
STATE_BYTES_MAX = 1024
"""The state starts at most this far before the thread's count of bytes (824 in Debian's build)."""

Hook = ctypes.CFUNCTYPE(None, ctypes.POINTER(c_void_p), ctypes.POINTER(c_uint), c_uint)


class JemallocLibrary(Allocator):
    """The library; calls concern the calling thread.

    Raises BadInputError if the library is missing, or is not the one whose state is known.
    """

    def __init__(self, name: str = LIBRARY) -> None:
        library = load(name, HOW_TO_INSTALL)
        address, size = c_void_p, c_size_t
        try:
            super().__init__(library, "", "malloc_usable_size")
            self._control = declared(library, "mallctl", c_int, c_char_p, *[address] * 3, size)
        except AttributeError as problem:
            raise _unknown_build(str(problem)) from problem
        version, *_commit = (self._get("version", c_char_p) or b"").decode().split("-")
        self.version = f"jemalloc {version}"
        if version != VERSION:
            raise _unknown_build(f"is {self.version}")
        if not self._get("opt.prof", c_bool) or self._get("opt.tcache", c_bool):
            raise BadInputError(f"{LIBRARY} must be loaded under {CONFIGURATION}")
        self.stack: Sequence[int] = STACK
        """The return addresses of the next samples, at most 128."""
        self.backtraces = 0
        """How often jemalloc has asked for a stack, as it does for each sample."""
        self._hook = Hook(self._give_stack)  # jemalloc keeps only its address.
        self._set("experimental.hooks.prof_backtrace", self._hook)
        self._is_active = bool(self._get("prof.active", c_bool))

    def _give_stack(self, addresses: Any, length: Any, most: int) -> None:  # noqa: ANN401 - pointers of ctypes
        self.backtraces += 1
        for index, address in enumerate(self.stack):
            addresses[index] = address
        length[0] = len(self.stack)

    @property
    def is_active(self) -> bool:
        """Whether samples are recorded (`prof.active`)."""
        return self._is_active

    @is_active.setter
    def is_active(self, value: bool) -> None:
        if value != self._is_active:
            self._set("prof.active", c_bool(value))
            self._is_active = value

    def reset(self, lg_period: int) -> None:
        """Drop all records, and draw distances with a mean of 2 ** lg_period bytes."""
        self._set("prof.reset", c_size_t(lg_period))

    def replace_arena(self, old: int | None) -> int:
        """Give the calling thread a new arena, and destroy the one that it had; returns its number.

        Which large block can grow where it is then depends only on the blocks that follow.
        """
        new = int(self._get("arenas.create", c_uint))
        self._set("thread.arena", c_uint(new))
        if old is not None:
            self._call(f"arena.{old}.destroy", None, None, None, 0)
        return new

    def dumped(self) -> list[int]:
        """The sums in the head of a dump: living objects and bytes, then those of all."""
        sums = re.search(r"t\*: (\d+): (\d+) \[(\d+): (\d+)\]", self.dump_head())
        if sums is None:
            raise _unknown_build("does not write its dump as expected")
        return [*map(int, sums.groups())]

    def dump_head(self) -> str:
        """The beginning of a dump."""
        file = os.memfd_create("dump")
        try:
            with _one_more_file(file):
                self._set("prof.dump", c_char_p(f"/proc/self/fd/{file}".encode()))
            return os.pread(file, HEAD_BYTES, 0).decode()
        finally:
            os.close(file)

    def allocated_address(self) -> int:
        """The address of the thread's count of allocated bytes, 64 bits."""
        return int(self._get("thread.allocatedp", c_void_p))

    def _get(self, name: str, kind: Any) -> Any:  # noqa: ANN401 - as the control's kind is
        value = kind()
        size = c_size_t(ctypes.sizeof(value))
        self._call(name, ctypes.addressof(value), ctypes.addressof(size), None, 0)
        return value.value

    def _set(self, name: str, value: Any) -> None:  # noqa: ANN401 - any value of ctypes
        self._call(name, None, None, ctypes.addressof(value), ctypes.sizeof(value))

    def _call(self, name: str, *arguments: int | None) -> None:
        """Raises BadInputError if jemalloc answers with an error."""
        error = self._control(name.encode(), *arguments)
        if error:
            raise _unknown_build(f"mallctl answers {name} with error {error}")


@contextmanager
def _one_more_file(file: int) -> Iterator[None]:
    """Let this process open one file more: the dump, which is written to an open `file`.

    A dump ends with a copy of /proc/self/maps, which takes several times as long as what comes
    before it. If jemalloc cannot open that file, it leaves the copy out (src/prof_sys.c,
    prof_dump_maps).
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(file)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def _unknown_build(what: str) -> BadInputError:
    return BadInputError(
        f"{LIBRARY}: {what}, but the target needs jemalloc {VERSION} with profiling, as "
        f"Debian 12 has it on x86-64: {HOW_TO_INSTALL}"
    )


class ThreadState(ctypes.Structure):
    """The beginning of jemalloc's state for a thread, with its own names (tsd_t)."""

    _fields_: ClassVar = [
        ("tcache_enabled", c_bool),
        ("reentrancy_level", c_int8),
        ("thread_allocated_last_event", c_uint64),
        ("thread_allocated_next_event", c_uint64),
        ("thread_deallocated_last_event", c_uint64),
        ("thread_deallocated_next_event", c_uint64),
        ("tcache_gc_event_wait", c_uint64),
        ("tcache_gc_dalloc_event_wait", c_uint64),
        ("prof_sample_event_wait", c_uint64),
        ("prof_sample_last_event", c_uint64),
        ("stats_interval_event_wait", c_uint64),
        ("stats_interval_last_event", c_uint64),
        ("peak_alloc_event_wait", c_uint64),
        ("peak_dalloc_event_wait", c_uint64),
        ("prof_tdata", c_void_p),
        ("prng_state", c_uint64),
        ("san_extents_until_guard_small", c_uint64),
        ("san_extents_until_guard_large", c_uint64),
        ("iarena", c_void_p),
        ("arena", c_void_p),
        ("ticks", c_int32),
        ("ticks_max", c_int32),
    ]
    thread_allocated_last_event: int
    thread_allocated_next_event: int
    prof_sample_event_wait: int
    prof_sample_last_event: int
    prng_state: int
    ticks: int
    ticks_max: int


class ThreadSampler:
    """jemalloc's sampler of the calling thread. Raises BadInputError if its layout is unknown."""

    def __init__(self, jemalloc: JemallocLibrary) -> None:
        self._jemalloc = jemalloc
        self._arena: int | None = None
        address = jemalloc.allocated_address()
        self._allocated = c_uint64.from_address(address)
        nearest = address - ctypes.sizeof(ThreadState)
        for place in range(nearest, address - STATE_BYTES_MAX, -8):
            self.state = state = ThreadState.from_address(place)
            last, following = state.thread_allocated_last_event, state.thread_allocated_next_event
            if state.ticks_max == TICKS_MAX and last <= self.allocated_bytes < following:
                return
        raise _unknown_build("does not keep its state as expected")

    @property
    def allocated_bytes(self) -> int:
        return self._allocated.value

    def begin(self, seed: int) -> None:
        """Set the generator's state, and have jemalloc draw the distance to the next sample.

        The thread gets an arena of its own; its former blocks must have been freed. Nothing is
        recorded. The ticker draws a number when it has counted down to 0, so it is set to its
        largest value.
        """
        jemalloc, state, was_active = self._jemalloc, self.state, self._jemalloc.is_active
        self._arena = jemalloc.replace_arena(self._arena)
        jemalloc.is_active = False
        state.prng_state = seed
        state.prof_sample_event_wait = 1
        state.thread_allocated_last_event = self.allocated_bytes
        state.thread_allocated_next_event = self.allocated_bytes + 1
        jemalloc.free(jemalloc.malloc(1))
        if state.prof_sample_last_event != self.allocated_bytes:
            raise _unknown_build("does not keep its state as expected")
        state.ticks = TICKS_LAST
        jemalloc.is_active = was_active
