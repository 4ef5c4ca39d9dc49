"""Prints as JSON the opcodes of an allocation that fits, for each way of sampling.

test_same_bytecode runs it in a process of its own, without another tracer. Each variant has the
events of the measured allocation, and its opcodes in order as [function, offset, name]. Offsets and
names are the compiler's, not those of the interpreter's specialisation.
"""

from __future__ import annotations

import dis
import inspect
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING

import attrs

from gcmodel import CONTEXTS, Configuration, Heap, Parts
from gcmodel.memory.nursery import Nursery
from gcmodel.profiling.profile import ProfileHeader
from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.recording import RecordingWriter
from gcmodel.profiling.stacks import PythonStacks

if TYPE_CHECKING:
    from _typeshed import TraceFunction

NURSERY_BYTES = 4096
PERIOD_BYTES = 2048
CONTEXT_BYTES = 2048
LONG_PERIOD_BYTES = 8192
WARM_UP_ALLOCATIONS = 20

Opcode = tuple[str, int, str]


class CountingNursery(Nursery):
    """Counts the bytes beside the limit, as in the paper's listing 3, which it calls inefficient.

    (Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual
    Machine, section 3.1.)
    """

    def __init__(self, size_bytes: int, moving: bool, reserve: Callable[[int], int]) -> None:
        super().__init__(size_bytes, moving, reserve)
        self.allocated_bytes = 0
        self.samples = 0

    def allocate(self, size_bytes: int) -> int:
        self.allocated_bytes += size_bytes
        if self.allocated_bytes > PERIOD_BYTES:
            self.allocated_bytes -= PERIOD_BYTES
            self.samples += 1
        result = self.nursery_free
        self.nursery_free = result + size_bytes
        if self.nursery_free > self.nursery_limit:
            result = self._reserve(size_bytes)
        return result


def executed_opcodes(act: Callable[[int], object]) -> list[Opcode]:
    """All opcodes of the functions that `act(7)` runs."""
    opcodes: list[Opcode] = []
    names: dict[CodeType, dict[int, str]] = {}

    def trace(frame: FrameType, event: str, _argument: object) -> TraceFunction:
        frame.f_trace_opcodes = True
        code = frame.f_code
        if event == "opcode":
            if code not in names:
                instructions = dis.get_instructions(code, adaptive=False)
                names[code] = {each.offset: each.opname for each in instructions}
            opcodes.append((code.co_name, frame.f_lasti, names[code][frame.f_lasti]))
        return trace

    # CPython 3.12 sends opcode events only if a frame asked for them before settrace.
    own_frame = inspect.currentframe()
    assert own_frame is not None
    own_frame.f_trace_opcodes = True
    # This function is not traced itself: tracing begins with the next call.
    sys.settrace(trace)
    act(7)
    sys.settrace(None)
    return opcodes


def measure(heap: Heap) -> dict[str, object]:
    """One allocation, after others like it have warmed up the interpreter."""
    for _ in range(WARM_UP_ALLOCATIONS):
        heap.allocate_node(7)
    heap.events.take()
    opcodes = executed_opcodes(heap.allocate_node)
    return {"events": heap.events.take()[0], "opcodes": opcodes}


def main() -> None:
    """All variants."""
    configuration = Configuration(nursery_bytes=NURSERY_BYTES)
    in_contexts = attrs.evolve(configuration, context_bytes=CONTEXT_BYTES)
    # Nothing can be written to a closed recording: an allocation that fits must not try.
    header = ProfileHeader.of_now(
        "a program", period_bytes=PERIOD_BYTES, is_random=False, nursery_bytes=NURSERY_BYTES
    )
    with RecordingWriter(Path(os.devnull), header, sys.maxsize) as writer:
        recorder = Recorder(writer, PythonStacks(writer.line, "a program").of_allocation)
    variants = {
        "never": Heap(configuration),
        "recorded": Heap(configuration, events=recorder),
        "enabled": Heap(configuration),
        "random": Heap(attrs.evolve(configuration, random_periods=True)),
        "disabled": Heap(configuration),
        "counting": Heap(configuration, Parts(nursery=CountingNursery)),
        "contexts": Heap(in_contexts, CONTEXTS),
        "sampled contexts": Heap(in_contexts, CONTEXTS),
    }
    for name in ("recorded", "enabled", "random", "disabled"):
        variants[name].enable_sampling(PERIOD_BYTES)
    variants["disabled"].disable_sampling(report=False)
    variants["sampled contexts"].enable_sampling(LONG_PERIOD_BYTES)
    measured = {name: measure(heap) for name, heap in variants.items()}
    # A recorder keeps no events, but counts them.
    measured["recorded"]["events"] = "s" * recorder.hits
    json.dump(measured, sys.stdout)


if __name__ == "__main__":
    main()
