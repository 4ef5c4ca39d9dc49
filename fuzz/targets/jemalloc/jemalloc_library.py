"""The stock libjemalloc.so.2 in this process, driven through ctypes.

What it keeps of a thread's sampling it shows nobody; `ThreadSampler` finds that by its pattern in
the thread's own memory, where it can be read and set.

Invariant: nothing here decides what is sampled. jemalloc counts, draws each distance, also the one
that `begin` asks for, and says through its own hook what it records. (Source: jemalloc 5.3.0,
src/thread_event.c, src/prof.c, include/jemalloc/internal/tsd.h.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_bool, c_char_p, c_int, c_int8, c_int32, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any, ClassVar

from fuzz.problems import BadInputError
from fuzz.targets.allocators.stock_library import Allocator, declared, load
from fuzz.targets.jemalloc.find import ENVIRONMENT

LIBRARY = "libjemalloc.so.2"
VERSION = "5.3.0"
HOW_TO_INSTALL = "apt install libjemalloc2"

STACK = (0x1000,)
"""What samples are recorded under, unless another stack is set."""
TICKS_MAX = 1000
"""The ticker of a thread begins with so many; nothing else in its state has this value."""
TICKS_LAST = 2**31 - 1
STATE_BYTES_MAX = 1024
"""The state begins at most so far before the thread's count of bytes (824 in Debian's build)."""

Hook = ctypes.CFUNCTYPE(None, ctypes.POINTER(c_void_p), ctypes.POINTER(c_uint), c_uint)


class JemallocLibrary(Allocator):
    """The library; every call concerns the thread that makes it.

    Raises BadInputError where the library is not there, or is not the one whose state is known.
    """

    def __init__(self, name: str = LIBRARY) -> None:
        library = load(name, HOW_TO_INSTALL)
        address, size = c_void_p, c_size_t
        try:
            super().__init__(library, "", "malloc_usable_size")
            self._control = declared(library, "mallctl", c_int, c_char_p, *[address] * 3, size)
            self._xallocx = declared(library, "xallocx", size, address, size, size, c_int)
        except AttributeError as problem:
            raise _unknown_build(str(problem)) from problem
        self._check()
        self.stack: Sequence[int] = STACK
        """The return addresses that samples are recorded under from here on, at most 128."""
        self.backtraces = 0
        """How often jemalloc has asked for a stack, which it does where it samples."""
        self._hook = Hook(self._give_stack)  # jemalloc keeps only its address.
        self._set("experimental.hooks.prof_backtrace", self._hook)
        self._is_active = bool(self._get("prof.active", c_bool))

    def _check(self) -> None:
        version, *_commit = (self._get("version", c_char_p) or b"").decode().split("-")
        self.version = f"jemalloc {version}"
        if version != VERSION:
            raise _unknown_build(f"is {self.version}")
        if not self._get("opt.prof", c_bool) or self._get("opt.tcache", c_bool):
            wanted = ENVIRONMENT["MALLOC_CONF"]
            raise BadInputError(f"{LIBRARY} must be loaded under MALLOC_CONF={wanted}")

    def _give_stack(self, addresses: Any, length: Any, most: int) -> None:  # noqa: ANN401 - pointers of ctypes
        self.backtraces += 1
        for index, address in enumerate(self.stack):
            addresses[index] = address
        length[0] = len(self.stack)

    def xallocx(self, block: int, size_bytes: int, extra_bytes: int) -> int:
        """Make a block so large where it lies, with up to so much more; its usable bytes then."""
        return int(self._xallocx(block, size_bytes, extra_bytes, 0))

    @property
    def is_active(self) -> bool:
        """Whether what is sampled is recorded (`prof.active`)."""
        return self._is_active

    @is_active.setter
    def is_active(self, value: bool) -> None:
        self._set("prof.active", c_bool(value))
        self._is_active = value

    def reset(self, lg_period: int) -> None:
        """Drop all that is recorded, and draw distances with a mean of 2 ** lg_period bytes."""
        self._set("prof.reset", c_size_t(lg_period))

    def dump(self, path: Path) -> None:
        """Write the profile to a file, in jemalloc's own format."""
        self._set("prof.dump", c_char_p(bytes(path)))

    def allocated_address(self) -> int:
        """Where the thread's count of allocated bytes is, 64 bits."""
        return int(self._get("thread.allocatedp", c_void_p))

    def _get(self, name: str, kind: Any) -> Any:  # noqa: ANN401 - as the control's kind is
        value = kind()
        size = c_size_t(ctypes.sizeof(value))
        error = self._control(name.encode(), _at(value), _at(size), None, 0)
        _check_answer(name, error)
        return value.value

    def _set(self, name: str, value: Any) -> None:  # noqa: ANN401 - any value of ctypes
        error = self._control(name.encode(), None, None, _at(value), ctypes.sizeof(value))
        _check_answer(name, error)


def _check_answer(name: str, error: int) -> None:
    if error:
        raise _unknown_build(f"mallctl answers {name} with error {error}")


def _at(value: Any) -> int:  # noqa: ANN401 - any value of ctypes
    return ctypes.addressof(value)


def _unknown_build(what: str) -> BadInputError:
    return BadInputError(
        f"{LIBRARY}: {what}, and the target knows jemalloc {VERSION} with profiling only, as "
        f"Debian 12 has it on x86-64: {HOW_TO_INSTALL}"
    )


class ThreadState(ctypes.Structure):
    """The beginning of what jemalloc keeps of a thread, under its own names (tsd_t)."""

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
    """jemalloc's sampler in the thread that makes this, and only there.

    Raises BadInputError where the library has another layout than the one that is known.
    """

    def __init__(self, jemalloc: JemallocLibrary) -> None:
        self._jemalloc = jemalloc
        address = jemalloc.allocated_address()
        self._allocated = c_uint64.from_address(address)
        state = next(_states_before(address), None)
        if state is None:
            raise _unknown_build("does not keep its state as expected")
        self.state = state

    @property
    def allocated_bytes(self) -> int:
        """How much the thread has allocated."""
        return self._allocated.value

    def begin(self, seed: int) -> None:
        """Set the generator's state, and have jemalloc draw the distance to the next sample.

        Nothing is recorded. The ticker, which counts calls and draws a number whenever it has run
        down, is set to so many that it never does.
        """
        jemalloc, state, was_active = self._jemalloc, self.state, self._jemalloc.is_active
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

    def allocate(self, call: Callable[[], int]) -> tuple[int, int]:
        """Make a call that allocates; returns its block, and how many samples were recorded.

        A large block that is not sampled is placed within a page at random. What that took from
        the generator is put back, and there is no option against it.
        """
        jemalloc, state = self._jemalloc, self.state
        generator, last = state.prng_state, state.prof_sample_last_event
        backtraces = jemalloc.backtraces
        block = call()
        if state.prof_sample_last_event == last:
            state.prng_state = generator
        elif not jemalloc.is_active:
            # A sample was due, so the place was drawn first, and the next distance after it.
            self.begin(generator)
        return block, jemalloc.backtraces - backtraces


def _states_before(allocated_address: int) -> Iterator[ThreadState]:
    """What looks like a thread's state, nearest first."""
    allocated_bytes = c_uint64.from_address(allocated_address).value
    nearest = allocated_address - ctypes.sizeof(ThreadState)
    for address in range(nearest, allocated_address - STATE_BYTES_MAX, -8):
        state = ThreadState.from_address(address)
        last, following = state.thread_allocated_last_event, state.thread_allocated_next_event
        if state.ticks_max == TICKS_MAX and last <= allocated_bytes < following:
            yield state
