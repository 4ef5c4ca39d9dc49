"""The driver of `dotnet`: `python -m fuzz.targets.dotnet.driver NAME PROGRAM`.

It starts a process of the mutator's program for each collector that traces ask for, and its threads
carry out the actions. Invariant: a header empties the heap and sets the generators,
so the answers to a trace do not depend on the traces before it. After that the driver reads only
where a thread's allocation context starts and ends, and which machine code allocates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, ClassVar, NamedTuple

from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Setting
from fuzz.protocol.observation import Observation
from fuzz.protocol.written import row_of
from fuzz.targets.dotnet.contract import (
    COLLECTORS,
    SETTINGS,
    SETTINGS_AS_DOCUMENTED,
    STRING,
    TIERS,
    as_documented,
    contract,
)
from fuzz.targets.dotnet.runtime import (
    ENDED,
    Ask,
    MutatorAnswer,
    MutatorProcess,
    MutatorThread,
    Runtime,
    end_like,
)
from fuzz.targets.process.driver import CarryOut, Driver
from fuzz.targets.process.serve import serve_late
from fuzz.targets.process.timed import TimedAllocation, allocation_of


class ThreadContext(NamedTuple):
    """A thread's allocation context: its start, where the thread allocates next, and its end."""

    start: int = 0
    top: int = 0
    end: int = 0


class DotnetDriver(Driver):
    """See LateTarget."""

    FATAL = ENDED
    process: MutatorProcess

    def __init__(self, name: str, program: str) -> None:
        super().__init__(name)
        self._program = program
        self._runtimes: dict[tuple[int, int], Runtime] = {}
        """By collector and tier."""
        self._threads: list[MutatorThread] = []
        self._unsettled: list[TimedAllocation] = []
        self._has_failed = False

    @property
    def settings(self) -> tuple[Setting, ...]:
        return SETTINGS_AS_DOCUMENTED if self.is_as_documented else SETTINGS

    def close(self) -> None:
        for runtime in self._runtimes.values():
            runtime.close()

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        random = Random(chosen["sampler_seed"])  # noqa: S311 - no secret
        seeds = tuple(random.getrandbits(64) for _ in range(self.thread_count))
        key, self._maker = (chosen["collector"], chosen["tier"]), chosen["maker"]
        try:
            if self._runtimes:
                self.disable()
            if key not in self._runtimes:
                flags = [*COLLECTORS.values()][chosen["collector"]]
                threads = self.settings[-1].range.maximum
                tier = TIERS[chosen["tier"]]
                self._runtimes[key] = Runtime(self._program, flags, tier, threads)
            self.process = self.runtime = self._runtimes[key]
            self.runtime.begin(seeds)
        except ENDED:
            end_like(self.runtime.exit_code)
        self._threads = self.runtime.threads[: len(seeds)]
        self.thread = self._threads[0]
        self.collections = self.thread.ask(Ask.THREAD).collections
        self._contexts: dict[MutatorThread, ThreadContext] = {}
        self.identities: dict[int, int] = {}
        self._string_count = 0
        self._has_failed = False
        stated = contract(f".NET {self.runtime.version}", self.actions, seeds, self._maker)
        return as_documented(stated) if self.is_as_documented else stated

    def perform(self, action: Action) -> Observation:
        try:
            observation = super().perform(action)
        except ENDED:
            end_like(self.process.exit_code)
        self._has_failed |= observation.error is not None
        return observation

    def call(self, entry: Callable[[Any, Any], object], action: Action) -> object:
        self.thread = self._threads[action.thread]
        return entry(self, action)

    def allocate(self, what: Ask, number: int, string: int = 0) -> int:
        """The object's size."""
        answer = self.thread.ask(what, number, string, self._maker)
        has_collected = answer.collections != self.collections
        context = self._collected(answer)
        if not self.is_as_documented:
            self._place(answer, context, has_collected)
        if self.runtime.is_sampling:
            made = self.thread.number, answer.address, answer.size_bytes
            timed = TimedAllocation(answer.before, answer.after, made, self.observation)
            self._unsettled.append(timed)
        return answer.size_bytes

    def new_string(self, length: int) -> int:
        """The string's size. The mutator fills it with the bytes of its number."""
        size_bytes = self.allocate(Ask.STRING, length, self._string_count + 1)
        self._string_count += 1
        return size_bytes

    def collect(self) -> None:
        self._collected(self.thread.ask(Ask.COLLECT))

    def _collected(self, answer: MutatorAnswer) -> ThreadContext:
        """Count the collections, which end all contexts; returns the thread's before them."""
        context = self._contexts.pop(self.thread, ThreadContext())
        if answer.collections != self.collections:
            self._contexts.clear()
        self.collections = answer.collections
        return context

    def _place(self, answer: MutatorAnswer, context: ThreadContext, has_collected: bool) -> None:
        """Observe where in its thread's context the object is, and the size of a new context.

        The last pause of a background collection ends all contexts once more, and is not counted.
        """
        observation = self.observation
        has_ended = context.end != answer.value
        if has_ended and context.top < context.end:
            observation.ended = True
        if has_ended or has_collected:
            context = ThreadContext()
        observation.outside = answer.top != answer.address + answer.size_bytes
        if not observation.outside:
            start = context.start
            if context.end != answer.end:
                start = answer.address
                observation.buffer = answer.end - start
            observation.at = answer.address - start
            context = ThreadContext(start, answer.top, answer.end)
        self._contexts[self.thread] = context

    def settle(self) -> None:
        """Find out which allocations were sampled, in a pause without allocations.

        A method that has left its tier never returns to that code, so it is enough to look now.
        """
        if not self._runtimes:
            return  # It was refused.
        try:
            if self.runtime.is_sampling:
                self.disable()
                self.runtime.enable()
            if self.runtime.code() != self.runtime.proved_code:
                self.observation.error = "the method that allocates did not stay in its tier"
        except ENDED:
            end_like(self.process.exit_code)

    def disable(self) -> None:
        """Give each allocation its samples."""
        unsettled, self._unsettled = self._unsettled, []
        threads = {thread.number for thread in self._threads}
        for sample in self.runtime.disable():
            if sample.thread not in threads or self._has_failed:
                continue  # A thread of the runtime's own, or perhaps the exception of an error.
            made = sample.thread, sample.address, sample.size_bytes
            found = allocation_of(unsettled, sample.time, made)
            if found is None:
                observation = unsettled[-1].observation if unsettled else self.observation
                observation.error = f"a sample of no allocation: {sample}"
                return
            found.observation.samples += 1
            if not self.is_as_documented:
                found.observation.offsets.append(sample.offset)

    def read(self, root: int, field: int) -> int | None:
        found = self.thread.ask(Ask.READ, root, field).value
        return None if found < 0 else found

    def write(self, root: int, field: int, value: int | None) -> None:
        self.thread.ask(Ask.WRITE, root, field, -1 if value is None else value)

    def identity(self, root: int) -> int:
        code = self.thread.ask(Ask.HASH, root).value
        return self.identities.setdefault(code, len(self.identities) + 1)

    def after_collection(self) -> None:
        self.observation.graph = self.graph()

    def graph(self) -> list[list[int]]:
        """What a walk from the roots finds."""
        return [row[:2] if row[0] == STRING else row for row in self.thread.walk()]

    def contents(self) -> list[list[int]]:
        """What `check_contents` answers. The number of a string is read from its bytes."""
        strings = [row[2] for row in self.thread.walk() if row[0] == STRING]
        return [row_of(self._bytes_of(address)) for address in strings]

    def _bytes_of(self, string: int) -> bytes:
        self.thread.ask(Ask.CONTENTS, string)
        return self.thread.data

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.AllocateNode: lambda driver, each: driver.allocate(Ask.NODE, each.number),
        actions.AllocateString: lambda driver, each: driver.new_string(each.length),
        actions.AllocateArray: lambda driver, each: driver.allocate(Ask.ARRAY, each.length),
        actions.Free: lambda driver, each: driver.thread.ask(Ask.FREE, each.root),
        actions.Read: lambda driver, each: driver.read(each.root, each.field),
        actions.ReadNumber: lambda driver, each: driver.thread.ask(Ask.NUMBER, each.root).value,
        actions.Write: lambda driver, each: driver.write(each.root, each.field, each.value),
        actions.WriteNumber: lambda driver, each: driver.thread.ask(
            Ask.SET_NUMBER, each.root, each.number
        ),
        actions.CopyArray: lambda driver, each: driver.thread.ask(
            *(Ask.COPY, each.source, each.dest, each.source_start, each.dest_start, each.length)
        ),
        actions.TakeIdentity: lambda driver, each: driver.identity(each.root),
        actions.CollectFull: lambda driver, _: driver.collect(),
        actions.CheckHeap: lambda driver, _: driver.graph(),
        actions.CheckContents: lambda driver, _: driver.contents(),
        actions.EnableSampling: lambda driver, _: driver.runtime.enable(),
        actions.DisableSampling: lambda driver, _: driver.disable(),
    }


if __name__ == "__main__":
    DotnetDriver.main(serve_late)
