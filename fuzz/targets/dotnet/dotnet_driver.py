"""The program that is the target `dotnet`, or `dotnet-as-documented`, on its side of the pipe.

`python -m fuzz.targets.dotnet.dotnet_driver PROGRAM [NAME]` begins a process of the mutator's
program for each setting of the collector that traces ask for, and has its threads carry out the
actions.
Invariant: at a header the heap is emptied and the generators are set, so that the samplers say the
same wherever a trace stands in a session; after that none of it is read, but where a thread's
context begins and ends.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping
from random import Random
from typing import ClassVar, NamedTuple

import attrs

from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of
from fuzz.protocol.contract import (
    Contract,
    KindLayout,
    Layout,
    Range,
    SamplingRule,
    Setting,
    chosen_settings,
)
from fuzz.protocol.counting import Contexts
from fuzz.protocol.observation import Observation
from fuzz.targets.dotnet import AS_DOCUMENTED, DOTNET
from fuzz.targets.dotnet.runtime import ENDED, Ask, MutatorAnswer, MutatorThread, Runtime, end_like
from fuzz.targets.process.serve import serve_late

COLLECTORS = {
    "workstation": {"gcServer": "0", "gcConcurrent": "0"},
    "workstation, concurrent": {"gcServer": "0", "gcConcurrent": "1"},
    "server": {"gcServer": "1", "gcConcurrent": "0", "GCHeapCount": "2"},
    "server, concurrent": {"gcServer": "1", "gcConcurrent": "1", "GCHeapCount": "2"},
}
PERIOD_BYTES = 102_400
"""There is no other."""
NURSERY_BYTES = 2**16
"""About so much of small objects is allocated from collection to collection."""
CONTEXT_BYTES = 8192
LAYOUT = Layout(
    kinds={
        "node": KindLayout(type_index=1, fixed_bytes=40),
        "string": KindLayout(type_index=2, fixed_bytes=24, item_bytes=2**15),
        "array": KindLayout(type_index=3, fixed_bytes=24, item_bytes=8),
    },
    large_object_bytes=85_000,
    word_bytes=8,
    object_bytes_max=2**18,
    nonmovable="ignored",
)
"""A string is an array of large items, so that as many are sampled as not."""
SETTINGS = (
    Setting("collector", 0, Range(0, len(COLLECTORS) - 1), choices=(*range(len(COLLECTORS)),)),
    Setting("sampler_seed", 1, Range(0, 2**62)),
    Setting("threads", 1, Range(1, 3), choices=(1, 1, 2, 3)),
)
"""The collector, by its number; from which number the states of the generators are drawn."""
SETTINGS_AS_DOCUMENTED = (
    *SETTINGS[:2],
    Setting("threads", 1, Range(1, 16), choices=(1, 3, 16, 16)),
)
PROMISED = ("samples", "minors", "size", "value", "identity", "graph")
OBSERVES = (*PROMISED, "outside", "at", "buffer", "ended", "offsets")


def contract_under(version: str, seeds: tuple[int, ...]) -> Contract:
    """What .NET 10 does as it is built."""
    return Contract(
        nursery_bytes=NURSERY_BYTES,
        layout=LAYOUT,
        actions=tuple(map(name_of, RuntimeTarget.CARRY_OUT)),
        observes=OBSERVES,
        sampling=SamplingRule(
            period_bytes=Range(PERIOD_BYTES, PERIOD_BYTES),
            surplus="dropped",
            samples_per_allocation="one",
            counting=Contexts(CONTEXT_BYTES, sizes="reported", outside="in_turn"),
            disabling=("drop",),
            enabling="keeps",
            distances="dotnet",
            seeds=seeds,
        ),
        settings=SETTINGS,
        version=version,
    )


def contract_as_documented(as_built: Contract) -> Contract:
    """What the design document promises instead.

    While the event is enabled, each byte of each object that a thread allocates is apart from all
    others sampled with the probability p = 1/102,400, and no object twice (Nasarre and Falk,
    Randomized Allocation Sampling: The sampling model). Of contexts nothing is said there.
    """
    promised = SamplingRule(
        period_bytes=as_built.sampling.period_bytes,
        surplus="dropped",
        samples_per_allocation="one",
        disabling=("drop",),
        distances="random",
        seeds=(0,) * as_built.threads,
    )
    return attrs.evolve(
        as_built,
        sampling=promised,
        observes=PROMISED,
        settings=SETTINGS_AS_DOCUMENTED,
        boundary_bytes=(CONTEXT_BYTES,),
    )


class ThreadContext(NamedTuple):
    """A thread's: where it began, where the thread allocates next, and its end."""

    start: int = 0
    top: int = 0
    end: int = 0


class Unsettled:
    """An allocation of which it is not known yet whether it was sampled."""

    def __init__(self, thread: MutatorThread, answer: MutatorAnswer, said: Observation) -> None:
        self.thread, self.answer, self.said = thread, answer, said


class RuntimeTarget:
    """See LateTarget."""

    def __init__(self, program: str, name: str = DOTNET) -> None:
        self.name = name
        self._program = program
        self._settings = SETTINGS_AS_DOCUMENTED if name == AS_DOCUMENTED else SETTINGS
        self._runtimes: dict[int, Runtime] = {}
        self._unsettled: list[Unsettled] = []

    def close(self) -> None:
        """End all processes."""
        for runtime in self._runtimes.values():
            runtime.close()

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """Raises BadInputError also if the program has no runtime that is known."""
        chosen = chosen_settings(configuration, self._settings)
        random = Random(chosen["sampler_seed"])  # noqa: S311 - no secret
        seeds = tuple(random.getrandbits(64) for _ in range(chosen["threads"]))
        collector = chosen["collector"]
        try:
            if self._runtimes:
                self._disable()
            if collector not in self._runtimes:
                settings = [*COLLECTORS.values()][collector]
                threads = self._settings[-1].range.maximum
                self._runtimes[collector] = Runtime(self._program, settings, threads)
            self.runtime = self._runtimes[collector]
            self.runtime.begin(seeds)
        except ENDED:
            end_like(self.runtime.exit_code)
        self._threads = self.runtime.threads[: len(seeds)]
        self._collections = self._threads[0].ask(Ask.THREAD).collections
        self._contexts: dict[MutatorThread, ThreadContext] = {}
        self._identities: dict[int, int] = {}
        as_built = contract_under(f".NET {self.runtime.version}", seeds)
        return as_built if self.name == DOTNET else contract_as_documented(as_built)

    def perform(self, action: Action) -> Observation:
        """Nothing that goes wrong ends the process, but the end of the runtime."""
        said = Observation()
        try:
            self._run(action, said)
        except ENDED:
            end_like(self.runtime.exit_code)
        except Exception as problem:  # noqa: BLE001 - also what nobody thought of is an answer
            return Observation(error=f"{type(problem).__name__}: {problem}")
        return said

    def _run(self, action: Action, said: Observation) -> None:
        if action.thread not in range(len(self._threads)):
            raise ValueError(f"there is no thread {action.thread}")
        carry_out = self.CARRY_OUT.get(type(action))
        if carry_out is None:
            raise ValueError(f"{self.name} carries out no {name_of(type(action))}")
        thread = self._threads[action.thread]
        answer = carry_out(self, thread, action, said)
        if answer is None:
            return
        said.minors = answer.collections - self._collections
        self._collections = answer.collections
        context = self._contexts.pop(thread, ThreadContext())
        if said.minors:
            self._contexts.clear()
        if action.allocates:
            said.size = answer.size_bytes
            if self.name == DOTNET:
                self._place(thread, answer, said, context)
            if self.runtime.is_sampling:
                self._unsettled.append(Unsettled(thread, answer, said))
        if said.minors:
            said.graph = self._graph(thread)

    def _place(
        self,
        thread: MutatorThread,
        answer: MutatorAnswer,
        said: Observation,
        context: ThreadContext,
    ) -> None:
        """Where in its thread's context the object lies, and how large that is if it is new.

        A collection in the background ends all contexts once more, in its last pause, and nothing
        counts that.
        """
        has_ended = context.end != answer.value
        if has_ended and context.top < context.end:
            said.ended = True
        if has_ended or said.minors:
            context = ThreadContext()
        said.outside = answer.top != answer.address + answer.size_bytes
        if not said.outside:
            start = context.start
            if context.end != answer.end:
                start = answer.address
                said.buffer = answer.end - start
            said.at = answer.address - start
            context = ThreadContext(start, answer.top, answer.end)
        self._contexts[thread] = context

    def settle(self) -> None:
        """Find out which allocations were sampled, by a break in which nothing is allocated."""
        if self._unsettled and self.runtime.is_sampling:
            self._disable()
            self.runtime.enable()

    def _disable(self) -> None:
        """Tell each allocation its samples: by thread and time, since addresses come again."""
        unsettled, self._unsettled = self._unsettled, []
        of_threads = {thread.number: thread for thread in self._threads}
        for sample in self.runtime.disable():
            if sample.thread not in of_threads or not unsettled:
                continue  # One of the runtime's own threads, or one that answers to misuse.
            after = bisect_right(unsettled, sample.time, key=lambda each: each.answer.before)
            found = unsettled[after - 1] if after else None
            if (
                found is None
                or found.thread is not of_threads[sample.thread]
                or sample.time > found.answer.after
                or (sample.address, sample.size_bytes) != found.answer[1:3]
            ):
                unsettled[-1].said.error = f"nobody has allocated what was sampled: {sample}"
                return
            found.said.samples += 1
            if self.name == DOTNET:
                found.said.offsets.append(sample.offset)

    # Each action, and what is said of it. What neither allocates nor collects has no answer.

    def _allocate_node(
        self, thread: MutatorThread, action: actions.AllocateNode, said: Observation
    ) -> MutatorAnswer:
        return thread.ask(Ask.NODE, action.number)

    def _allocate_string(
        self, thread: MutatorThread, action: actions.AllocateString, said: Observation
    ) -> MutatorAnswer:
        return thread.ask(Ask.STRING, action.length)

    def _allocate_array(
        self, thread: MutatorThread, action: actions.AllocateArray, said: Observation
    ) -> MutatorAnswer:
        return thread.ask(Ask.ARRAY, action.length)

    def _free(self, thread: MutatorThread, action: actions.Free, said: Observation) -> None:
        thread.ask(Ask.FREE, action.root)

    def _read(self, thread: MutatorThread, action: actions.Read, said: Observation) -> None:
        found = thread.ask(Ask.READ, action.root, action.field).value
        said.value = None if found < 0 else found

    def _read_number(
        self, thread: MutatorThread, action: actions.ReadNumber, said: Observation
    ) -> None:
        said.value = self._look(thread, self._roots(thread)[action.root])[1]

    def _write(self, thread: MutatorThread, action: actions.Write, said: Observation) -> None:
        value = -1 if action.value is None else action.value
        thread.ask(Ask.WRITE, action.root, action.field, value)

    def _write_number(
        self, thread: MutatorThread, action: actions.WriteNumber, said: Observation
    ) -> None:
        thread.ask(Ask.SET_NUMBER, action.root, action.number)

    def _copy_array(
        self, thread: MutatorThread, action: actions.CopyArray, said: Observation
    ) -> None:
        starts = action.source_start, action.dest_start
        thread.ask(Ask.COPY, action.source, action.dest, *starts, action.length)

    def _take_identity(
        self, thread: MutatorThread, action: actions.TakeIdentity, said: Observation
    ) -> None:
        code = thread.ask(Ask.HASH, action.root).value
        said.identity = self._identities.setdefault(code, len(self._identities) + 1)

    def _collect_full(
        self, thread: MutatorThread, action: actions.CollectFull, said: Observation
    ) -> MutatorAnswer:
        return thread.ask(Ask.COLLECT)

    def _check_heap(
        self, thread: MutatorThread, action: actions.CheckHeap, said: Observation
    ) -> None:
        said.graph = self._graph(thread)

    def _enable(
        self, thread: MutatorThread, action: actions.EnableSampling, said: Observation
    ) -> None:
        self.runtime.enable()

    def _disable_sampling(
        self, thread: MutatorThread, action: actions.DisableSampling, said: Observation
    ) -> None:
        self._disable()

    CARRY_OUT: ClassVar[Mapping[type[Action], Callable[..., MutatorAnswer | None]]] = {
        actions.AllocateNode: _allocate_node,
        actions.AllocateString: _allocate_string,
        actions.AllocateArray: _allocate_array,
        actions.Free: _free,
        actions.Read: _read,
        actions.ReadNumber: _read_number,
        actions.Write: _write,
        actions.WriteNumber: _write_number,
        actions.CopyArray: _copy_array,
        actions.TakeIdentity: _take_identity,
        actions.CollectFull: _collect_full,
        actions.CheckHeap: _check_heap,
        actions.EnableSampling: _enable,
        actions.DisableSampling: _disable_sampling,
    }

    def _roots(self, thread: MutatorThread) -> tuple[int, ...]:
        thread.ask(Ask.ROOTS)
        return thread.more

    def _look(self, thread: MutatorThread, address: int) -> tuple[int, ...]:
        """An object's kind, its number or length, and its references: the field, and the object."""
        thread.ask(Ask.LOOK, address)
        return thread.more

    def _graph(self, thread: MutatorThread) -> list[list[int]]:
        """What a walk from the roots finds. Nobody allocates meanwhile, so that nothing moves."""
        rows: dict[int, int] = {}
        for root in self._roots(thread):
            rows.setdefault(root, len(rows))
        graph: list[list[int]] = []
        queue = list(rows)
        for address in queue:  # It grows meanwhile.
            kind, number, *references = self._look(thread, address)
            row = [kind, number]
            for field, found in zip(references[::2], references[1::2], strict=True):
                if found not in rows:
                    rows[found] = len(rows)
                    queue.append(found)
                row += field, rows[found]
            graph.append(row)
        return graph


if __name__ == "__main__":
    target = RuntimeTarget(*sys.argv[1:])
    serve_late(target, sys.stdin, sys.stdout)
    target.close()
