"""A process of the mutator's program: its threads, and the places of their samplers' state.

The places are found once, when the process has started: a thread's allocation context by the
addresses of new objects, its generator by words that change in the generator's steps. Both are in
the thread's own storage, at the same distance from its end in all threads. Invariant: after `begin`
only a context's bounds are read, which come with every answer: where the thread allocates next, and
the end. Neither the combined limit nor the generator is read.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, NoReturn

from fuzz.problems import BadInputError
from fuzz.targets.dotnet.contract import CALL, NEW, JitTier
from fuzz.targets.dotnet.diagnostics import (
    Compiled,
    RundownSession,
    Sampled,
    samples_in,
    version_of,
)

MESSAGE = struct.Struct("<8q")
WORD_BYTES = 8
WORD, HALF_WORD = 2**64 - 1, 2**32 - 1
STORAGE_BYTES = 1024
"""How much of a thread's own storage is searched."""
PROBE_LENGTH = 4
"""The length of an array of large items: two numbers decide whether it is sampled."""
STEPS_MAX = 4
COLLECTIONS_MAX = 10
"""If a thread has a context after this many, it allocates by itself."""
SESSIONS_MAX, CALLS = 20, 100
"""How many sessions a method may take to reach its tier, and its calls in each."""
OWN_VARIABLES = ("DOTNET_", "COMPlus_")
"""A runtime reads the variables that begin like this. It must not read the user's."""
_SETTINGS = {
    "SYSTEM_GLOBALIZATION_INVARIANT": "1",
    "TieredCompilation": "0",
    "EnableDiagnostics_Debugger": "0",
    "EnableDiagnostics_Profiler": "0",
    # In hexadecimal: 256 MiB, and a collection after about 64 KiB of small objects.
    "GCHeapHardLimit": "10000000",
    "GCgen0size": "10000",
}


ENDED = (EOFError, ConnectionError)
"""What a question raises after the process has ended."""


class Ask(IntEnum):
    """The questions to a thread. (See mutator.cs, finalizers.cs and sessions.cs.)"""

    NODE, STRING, ARRAY, FREE, WRITE, READ, SET_NUMBER, COPY, HASH, COLLECT = range(10)
    WALK, NUMBER, PEEK, POKE, THREAD, BOUNDS, CLEAR, CONTENTS = range(10, 18)
    BEGIN, FINALIZABLE, WEAKREF, EPHEMERON, READ_WEAKREF, READ_EPHEMERON = range(18, 24)
    COLLECT_YOUNG, REGISTER, UNREGISTER, RUN_FINALIZERS, RESURRECT, CODE = range(24, 30)
    ENABLE, DISABLE = range(30, 32)


FOLLOWED = frozenset({Ask.WALK, Ask.CONTENTS, Ask.READ_EPHEMERON, Ask.RUN_FINALIZERS})
"""More numbers follow the answers to these questions."""


class MutatorAnswer(NamedTuple):
    """A thread's answer: the address and size of a new object, and the times around it."""

    value: int
    address: int
    size_bytes: int
    top: int
    """Where the thread allocates next in its context; `end` is the context's end."""
    end: int
    collections: int
    before: int
    after: int


class MutatorThread:
    """A thread of the process."""

    def __init__(self, questions: int, answers: int) -> None:
        self._questions, self._answers = questions, answers
        self.storage_end = self.number = 0
        self.data = b""
        """What followed the last answer that more numbers follow."""

    @property
    def more(self) -> tuple[int, ...]:
        """The numbers in it."""
        return struct.unpack(f"<{len(self.data) // WORD_BYTES}q", self.data)

    def ask(self, what: Ask, *numbers: int) -> MutatorAnswer:
        """Raises EOFError if the process has ended, and ValueError if it cannot do that."""
        with suppress(BrokenPipeError):  # `_read` raises EOFError then.
            os.write(self._questions, MESSAGE.pack(what, *numbers, *[0] * (7 - len(numbers))))
        answer = MutatorAnswer(*MESSAGE.unpack(self._read(MESSAGE.size)))
        if answer.address < 0:
            raise ValueError("the runtime cannot do that")
        if what in FOLLOWED:
            self.data = self._read(WORD_BYTES * answer.value)
        return answer

    def walk(self) -> list[list[int]]:
        """The rows of a graph; that of a string has its address as a third number."""
        self.ask(Ask.WALK)
        numbers = iter(self.more)
        return [[next(numbers) for _ in range(count)] for count in numbers]

    def close(self) -> None:
        os.close(self._questions)
        os.close(self._answers)

    def _read(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            part = os.read(self._answers, size_bytes - len(data))
            if not part:
                raise EOFError
            data += part
        return data


class MutatorProcess:
    """A process of the mutator's program, with threads."""

    def __init__(
        self,
        program: str,
        settings: Mapping[str, str],
        thread_count: int,
        output: int = subprocess.DEVNULL,
    ) -> None:
        pipes = [(os.pipe(), os.pipe()) for _ in range(thread_count)]
        ends_there = [(asked[0], answers[1]) for asked, answers in pipes]
        named = {f"DOTNET_{name}": value for name, value in {**_SETTINGS, **settings}.items()}
        others = {key: os.environ[key] for key in os.environ if not key.startswith(OWN_VARIABLES)}
        self._process = subprocess.Popen(  # noqa: S603 - the program that was made
            [program],
            stdin=subprocess.PIPE,
            stdout=output,
            env={**others, **named, "TMPDIR": str(_socket_folder())},
            pass_fds=[end for ends in ends_there for end in ends],
        )
        for ends in ends_there:
            os.close(ends[0])
            os.close(ends[1])
        assert self._process.stdin is not None
        packed = [questions | answers << 32 for questions, answers in ends_there]
        self.threads = [MutatorThread(asked[1], answers[0]) for asked, answers in pipes]
        # If the process has ended, the first question raises EOFError.
        with suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(struct.pack(f"<{len(packed)}q", *packed))

    @property
    def exit_code(self) -> int:
        return self._process.wait()

    def close(self) -> None:
        for thread in self.threads:
            thread.close()
        self._process.wait()


class Runtime(MutatorProcess):
    """One that samples. Raises BadInputError if its runtime's sampler or tier is not known."""

    def __init__(
        self, program: str, settings: Mapping[str, str], tier: JitTier, thread_count: int
    ) -> None:
        self._samples = os.memfd_create("samples")
        """The file of each sampling session."""
        super().__init__(program, {**settings, **tier.flags}, thread_count, self._samples)
        try:
            for thread in self.threads:
                answer = thread.ask(Ask.THREAD)
                thread.storage_end, thread.number = answer.value, answer.size_bytes
            [self._socket] = _socket_folder().glob(f"dotnet-diagnostic-{self._process.pid}-*")
            self.version = version_of(self._socket)
            self._session = 0
            self._find_places()
            self.proved_code = self._reach(tier)
            """The machine code that allocates in this tier."""
        except ENDED:
            end_like(self.exit_code)

    # Sampling.

    @property
    def is_sampling(self) -> bool:
        return self._session != 0

    def enable(self) -> None:
        if not self.is_sampling:
            self._session = self.threads[0].ask(Ask.ENABLE).value
            if not self.is_sampling:
                raise RuntimeError("the runtime refuses a session")

    def disable(self) -> list[Sampled]:
        """End the session, which writes all its samples first."""
        if not self.is_sampling:
            return []
        self.threads[0].ask(Ask.DISABLE, self._session)
        self._session = 0
        return samples_in(os.pread(self._samples, os.fstat(self._samples).st_size, 0))

    def close(self) -> None:
        super().close()
        os.close(self._samples)

    # The tier.

    def code(self) -> int:
        """The address of the machine code that allocates."""
        return self.threads[0].ask(Ask.CODE).value

    def _reach(self, tier: JitTier) -> int:
        """Call the method that allocates until it runs in the tier; returns its machine code."""
        thread = self.threads[0]
        for _ in range(SESSIONS_MAX):
            session = RundownSession(self._socket)
            for _ in range(CALLS):
                thread.ask(Ask.NODE, 0)
            thread.ask(Ask.CLEAR)
            code = self.code()
            if is_in(tier, session.end(), code):
                return code
        self.close()
        raise BadInputError(
            f".NET {self.version} did not compile the mutator in the tiers {tier.levels}"
        )

    # Places.

    def begin(self, states: Iterable[int]) -> None:
        """Empty the heap, which takes the threads' contexts away, and set the generators."""
        self.disable()
        self.threads[0].ask(Ask.CLEAR)
        # A collection allocates in its thread when its code has just been compiled again.
        for _ in range(COLLECTIONS_MAX):
            self.threads[0].ask(Ask.COLLECT)
            if not any(thread.ask(Ask.THREAD).end for thread in self.threads):
                break
        else:
            raise RuntimeError("a thread has a context after full collections")
        for thread, state in zip(self.threads, states, strict=False):
            for place, word in enumerate((state & WORD, state >> 64)):
                address = thread.storage_end - self.generator + WORD_BYTES * place
                thread.ask(Ask.POKE, address, word - (word >> 63 << 64))

    def _unknown_sampler(self) -> BadInputError:
        return BadInputError(
            f"the sampler of .NET {self.version} is not known; "
            "name a program or an SDK of .NET 10 with --dotnet"
        )

    def _find_places(self) -> None:
        """Find the places, and have each thread do everything once: first times allocate.

        Sampling is on meanwhile, since only then a thread's generator exists and changes.
        """
        try:
            self.enable()
        except RuntimeError as problem:
            raise self._unknown_sampler() from problem
        found = Counter(
            (self._find_context(thread), self._find_generator(thread)) for thread in self.threads
        )
        self.disable()
        places, count = found.most_common(1)[0]
        # All threads have the same layout. On a busy machine one thread of 500 misleads,
        # since what runs there for the first time allocates.
        if 2 * count <= len(self.threads) or 0 in places:
            raise self._unknown_sampler()
        self.context, self.generator = places
        for thread in self.threads:
            thread.ask(Ask.BOUNDS, thread.storage_end - self.context)
            for maker in (NEW, CALL):
                for what in (Ask.ARRAY, Ask.STRING, Ask.NODE):
                    thread.ask(what, 2, 0, maker)
            for what in (Ask.WRITE, Ask.READ, Ask.SET_NUMBER, Ask.NUMBER, Ask.HASH, Ask.COPY):
                thread.ask(what, 2 if what is Ask.SET_NUMBER else 0)
            _, string, *_ = thread.walk()
            thread.ask(Ask.CONTENTS, string[2])
            thread.ask(Ask.FREE, 0)
            thread.ask(Ask.COLLECT)
            thread.ask(Ask.CLEAR)

    def _find_context(self, thread: MutatorThread) -> int:
        """The distance of a context's bounds from the end of the thread's storage."""
        places: set[int] = set()
        for attempt in range(3):
            made = thread.ask(Ask.NODE, 0)
            top = made.address + made.size_bytes
            found = {place for place, word in _storage(thread).items() if word == top}
            places = places & found if attempt else found
        thread.ask(Ask.CLEAR)
        return places.pop() if len(places) == 1 else 0

    def _find_generator(self, thread: MutatorThread) -> int:
        # The first use creates it.
        thread.ask(Ask.STRING, PROBE_LENGTH)
        before = _storage(thread)
        thread.ask(Ask.STRING, PROBE_LENGTH)
        after = _storage(thread)
        thread.ask(Ask.CLEAR)
        found = [
            place
            for place in before
            if place >= 2 * WORD_BYTES and _has_stepped(_state(before, place), _state(after, place))
        ]
        return found[0] if len(found) == 1 else 0


def is_in(tier: JitTier, compiled: Sequence[Compiled], code: int) -> bool:
    """Whether the method with that machine code has been compiled in the tier."""
    found = next((each for each in compiled if each.address == code), None)
    if found is None or found.tier != tier.levels[-1]:
        return False
    return {each.tier for each in compiled if each.method == found.method} == {*tier.levels}


def _socket_folder() -> Path:
    """The folder of the runtimes' sockets; those of killed processes are removed."""
    folder = Path(tempfile.gettempdir()) / f"gcfuzz-dotnet-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.glob("dotnet-diagnostic-*"):
        if not Path("/proc", path.name.split("-")[2]).exists():
            path.unlink(missing_ok=True)
    return folder


def _storage(thread: MutatorThread) -> dict[int, int]:
    return {
        place: thread.ask(Ask.PEEK, thread.storage_end - place).value & WORD
        for place in range(STORAGE_BYTES, 0, -WORD_BYTES)
    }


def _state(storage: Mapping[int, int], place: int) -> tuple[int, ...]:
    low, high = storage[place], storage[place - WORD_BYTES]
    return low & HALF_WORD, low >> 32, high & HALF_WORD, high >> 32


def _has_stepped(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether a few steps of xoshiro128++ lead from one state to the other."""
    a, b, c, d = before
    for _ in range(STEPS_MAX):
        shifted = b << 9 & HALF_WORD
        c ^= a
        d ^= b
        a, b, c, d = a ^ d, b ^ c, c ^ shifted, (d << 11 | d >> 21) & HALF_WORD
        if any(before) and (a, b, c, d) == after:
            return True
    return False


def end_like(code: int) -> NoReturn:
    """End this process as another one has ended."""
    if code < 0:
        os.kill(os.getpid(), signal.Signals(-code))
    raise SystemExit(code or 1)
