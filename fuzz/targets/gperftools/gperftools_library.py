"""The malloc of gperftools, loaded beside the program's own, and the samplers of its threads.

The library is the stock one. It is not preloaded: only the calls made here reach it, so that its
samplers count nothing else. A sampler is part of the thread's cache, which no symbol names; it is
found by its pattern. Invariant: nothing here counts, draws or decides. The library samples blocks
itself, and its list of live samples shows which.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_ssize_t, c_uint64, c_void_p
from itertools import pairwise
from mmap import PAGESIZE
from struct import Struct

from fuzz.problems import BadInputError
from fuzz.targets.allocators.stock_library import Allocator, declared, load, there
from fuzz.targets.gperftools.contract import SIZE_CLASSES

LIBRARY = "libtcmalloc.so.4"
HOW_TO_INSTALL = "apt install libgoogle-perftools4"
FLAG = (
    "_ZN61FLAG__namespace_do_not_use_directly_use_DECLARE_int64_instead"
    "31FLAGS_tcmalloc_sample_parameterE"
)
INIT, PICK = "_ZN8tcmalloc7Sampler4InitEm", "_ZN8tcmalloc7Sampler21PickNextSamplingPointEv"
READ = "_ZN22TCMallocImplementation15ReadStackTracesEPi"
"""The names of Sampler::Init, PickNextSamplingPoint and ReadStackTraces in C++."""
TLS_BYTES = 8192
"""How much of a thread's static storage is searched, down from its thread pointer."""
UNREACHED = 2**62
"""More bytes than are ever allocated."""
POINTER = Struct("=Q")


class LibrarySampler(ctypes.Structure):
    """A thread's sampler in the library's memory: `class Sampler` in src/sampler.h."""

    bytes_until: int
    """How many bytes may be allocated before an allocation is sampled."""
    generator: int
    initialized: bool
    """False until the first trigger, which restarts the generator from `address`."""
    _fields_ = (("bytes_until", c_int64), ("generator", c_uint64), ("initialized", ctypes.c_bool))

    @property
    def address(self) -> int:
        return ctypes.addressof(self)


class FreeList(ctypes.Structure):
    """A cache's free blocks of one size: `ThreadCache::FreeList` in src/thread_cache.h."""

    block_bytes: int
    _fields_ = (
        ("head", c_void_p),
        ("lengths", ctypes.c_uint32 * 4),
        ("block_bytes", ctypes.c_int32),
    )


class LibraryThreadCache(ctypes.Structure):
    """The library's data for one thread: `class ThreadCache`, as far as its `tid_`."""

    thread: int
    _fields_ = (
        ("lists", FreeList * 128),
        ("sizes", ctypes.c_int32 * 2),
        ("sampler", LibrarySampler),
        ("thread", c_uint64),
    )

    @property
    def classes(self) -> tuple[int, ...]:
        """The sizes of its blocks; the first list is not used."""
        return tuple(each.block_bytes for each in self.lists[1 : len(SIZE_CLASSES) + 1])


class Library(Allocator):
    """The library. Raises BadInputError if it is missing, or not as expected."""

    def __init__(self, name: str = LIBRARY) -> None:
        library = load(name, HOW_TO_INSTALL)
        try:
            super().__init__(library, "tc_", "tc_malloc_size")
            self._period = c_int64.in_dll(library, FLAG)
            version = declared(library, "tc_version", c_char_p, *[c_void_p] * 3)
            self.version = version(None, None, None).decode()
            self._init = declared(library, INIT, None, c_void_p, c_uint64)
            self._pick = declared(library, PICK, c_ssize_t, c_void_p)
            self._class_of = declared(library, "tc_nallocx", c_size_t, c_size_t, c_int)
            self._read = declared(library, READ, c_void_p, c_void_p, ctypes.POINTER(c_int))
        except (AttributeError, ValueError) as problem:
            raise BadInputError(
                f"{name} is not gperftools 2.10's: {problem}; {HOW_TO_INSTALL}"
            ) from problem

    @property
    def period_bytes(self) -> int:
        """The mean of the distances between samples; 0 takes no samples."""
        return self._period.value

    @period_bytes.setter
    def period_bytes(self, period_bytes: int) -> None:
        self._period.value = period_bytes

    def begin(self, sampler: LibrarySampler, seed: int) -> None:
        """Start a sampler from a seed: steps of the generator, and the first distance."""
        self._init(sampler.address, seed)

    def pick(self, sampler: LibrarySampler) -> int:
        """Draw the next distance, in bytes."""
        return int(self._pick(sampler.address))

    def live_samples(self, sampler: LibrarySampler) -> list[int]:
        """The requested size of each sampled block that is not freed yet, oldest first.

        The library lists them in a block of its own, which this thread's `sampler` must not count.
        """
        before, sampler.bytes_until = sampler.bytes_until, UNREACHED
        try:
            listed = there(self._read(None, c_int()))
            try:
                return list(_sizes_in(listed))
            finally:
                self.free(listed)
        finally:
            sampler.bytes_until = before

    def counted_bytes(self, requested_bytes: int) -> int:
        """What a block counts: its class, or what was requested beyond all classes."""
        is_large = requested_bytes > SIZE_CLASSES[-1]
        return requested_bytes if is_large else int(self._class_of(requested_bytes, 0))

    def sampler_of_this_thread(self) -> LibrarySampler:
        """The calling thread's sampler. Raises BadInputError if it cannot be found."""
        self.free(self.malloc(0))  # A thread has no cache before its first block.
        with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - a device
            caches = {*_caches_of_this_thread(memory.fileno())}
        if len(caches) != 1:
            raise BadInputError(
                f"{LIBRARY} is not gperftools 2.10's on 64-bit Linux with glibc: of what this "
                f"thread has, {len(caches)} places look like its cache; {HOW_TO_INSTALL}"
            )
        return LibrarySampler.from_address(caches.pop() + LibraryThreadCache.sampler.offset)


def _caches_of_this_thread(memory: int) -> Iterator[int]:
    """The addresses that can only be this thread's cache.

    Its static storage has two equal pointers to the cache, side by side: `ThreadLocalData` in
    src/thread_cache.h. The kernel reads them, since other words there are not pointers.
    """
    thread = threading.get_ident()
    storage = bytes_before(memory, thread)
    for first, second in pairwise(address for (address,) in POINTER.iter_unpack(storage)):
        if first == second:
            with suppress(OSError, OverflowError, ValueError):
                found = os.pread(memory, ctypes.sizeof(LibraryThreadCache), first)
                cache = LibraryThreadCache.from_buffer_copy(found)
                if cache.thread == thread and cache.classes == SIZE_CLASSES:
                    yield first


def bytes_before(memory: int, address: int) -> bytes:
    """The readable bytes before an address, in whole pages, as far as storage is searched."""
    found = b""
    with suppress(OSError, ValueError):
        while len(found) < TLS_BYTES:
            end = address - len(found)
            start = (end - 1) // PAGESIZE * PAGESIZE
            found = os.pread(memory, end - start, start) + found
    return found


def _sizes_in(listed: int) -> Iterator[int]:
    """The sizes in a list of samples: each is a count, a size, a depth, and frames."""
    word = POINTER.size
    while c_uint64.from_address(listed).value:
        yield c_uint64.from_address(listed + word).value
        depth = c_uint64.from_address(listed + 2 * word).value
        listed += (3 + depth) * word
