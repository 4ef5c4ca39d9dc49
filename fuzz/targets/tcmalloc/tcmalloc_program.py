"""Google's TCMalloc in the program that contains it, which makes calls for this process.

`mutator.c` is compiled and preloaded into that program, whose main never runs. Its memory is read
and written through the kernel. Invariant: nothing here counts, draws or decides: TCMalloc reports
each sample and its weight to its own hook.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory
from typing import NamedTuple

from typing_extensions import override

from fuzz.problems import BadInputError
from fuzz.targets.allocators.stock_library import Allocator
from fuzz.targets.process.asked_process import AskedProcess
from fuzz.targets.process.user_programs import compiled
from fuzz.targets.tcmalloc.elf import ElfFile
from fuzz.targets.tcmalloc.find import find_program, version_of

COMPILER = "gcc"
CALLS = Path(__file__).with_name("mutator.c")
SYMBOLS = (
    "malloc",
    "calloc",
    "realloc",
    "free",
    "malloc_usable_size",
    "MallocExtension_Internal_SetProfileSamplingInterval",
    "_ZN8tcmalloc10MallocHook17AddSampledNewHookEPFvRKNS0_12SampledAllocEE",
    "MallocExtension_Internal_SnapshotCurrent",
    "tcmalloc_sampler",
)
CALL, ANSWER, SUMS = Struct("=4Q"), Struct("=3Qd2Q"), Struct("=2q")
SAMPLER = Struct("=QQQq")
"""The period, the generator, whether it has started, and the bytes until the next sample."""
NEVER_BYTES = 2**62
READER = 63
"""The thread that reads profiles. It allocates for that, and takes no sample itself."""


class Answer(NamedTuple):
    """The answer to a call: `struct answer` in mutator.c."""

    result: int
    samples: int
    hook: int
    weight_bytes: float
    """Of the last sample."""
    thread_pointer: int
    add_up: int


class TcmallocProgram(Allocator):
    """The program. The thread `thread` of it makes each call."""

    def __init__(self, *library: str) -> None:
        """Raises BadInputError if there is no such program, or if it cannot be called."""
        path = find_program(*map(Path, library))
        program = ElfFile(path)
        *functions, self._sampler = program.symbols(*SYMBOLS)
        self._storage_bytes = program.thread_storage_bytes
        self.version = version_of(path)
        self.thread = 0
        compiler = shutil.which(COMPILER)
        if compiler is None:
            raise BadInputError(f"{CALLS.name} must be compiled: apt install gcc libc6-dev")
        with TemporaryDirectory(prefix="gcfuzz-") as folder:
            made = Path(folder, "calls.so")
            options = ["-O1", "-shared", "-fPIC", "-o", str(made), str(CALLS)]
            compiled(made, [compiler, *options])
            self.asked = AskedProcess([path], {"LD_PRELOAD": str(made)})
            moved_bytes = self._call(0) - functions[0]
        self._memory = os.open(f"/proc/{self.asked.process.pid}/mem", os.O_RDWR)
        places = [moved_bytes + value for value in functions]
        calls = (partial(self._call, place) for place in places[:-1])
        self._malloc, self._calloc, self._realloc, self.free, self.usable_bytes, *more = calls
        self.set_period, add_hook, self._snapshot = *more, places[-1]
        add_hook(self.answer.hook)
        self.thread = READER
        sampler = self.find_sampler()
        *others, _ = SAMPLER.unpack(self.read(sampler, SAMPLER.size))
        self.write(sampler, SAMPLER.pack(*others, NEVER_BYTES))
        self.thread = 0

    def _call(self, function: int, first: int = 0, second: int = 0) -> int:
        """The result of a function. Raises EOFError if the program has ended."""
        self.asked.send(CALL.pack(self.thread, function, first, second))
        self.answer = Answer(*ANSWER.unpack(self.asked.receive(ANSWER.size)))
        return self.answer.result

    def read_profile(self) -> tuple[int, int]:
        """The blocks and bytes in a profile of the program's living blocks."""
        thread, self.thread = self.thread, READER
        sums = self._call(self.answer.add_up, self._snapshot)
        self.thread = thread
        blocks, size_bytes = SUMS.unpack(self.read(sums, SUMS.size))
        return blocks, size_bytes

    def find_sampler(self) -> int:
        """The address of the present thread's sampler: `Sampler` in tcmalloc/sampler.h."""
        self.free(self.malloc(1))
        return self.answer.thread_pointer - self._storage_bytes + self._sampler

    def begin(self, sampler: int, state: int) -> None:
        """Have the present thread draw its first distance from this state of its generator."""
        period_bytes, _, has_started, _ = SAMPLER.unpack(self.read(sampler, SAMPLER.size))
        self.write(sampler, SAMPLER.pack(period_bytes, state, has_started, 0))
        self.free(self.malloc(1))

    @override
    def read(self, address: int, length: int) -> bytes:
        return os.pread(self._memory, length, address)

    @override
    def holds(self, address: int, expected: bytes) -> bool:
        return self.read(address, len(expected)) == expected

    @override
    def write(self, address: int, data: bytes) -> None:
        os.pwrite(self._memory, data, address)
