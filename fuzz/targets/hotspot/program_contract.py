"""The contract of a trace that is one method: what it reads, and the heap that it leaves."""

from __future__ import annotations

import attrs

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting
from fuzz.protocol.layout import Layout
from fuzz.targets.hotspot.compilers import C1, C2, INTERPRETER
from fuzz.targets.hotspot.machines import (
    BUFFER_BYTES,
    COLLECTOR,
    EPSILON,
    SETTINGS_OF_KINDS,
    collectors_of,
    process_setting,
)
from fuzz.targets.hotspot.program_tiers import has_generations, has_virtual_threads
from fuzz.targets.hotspot.structs import Structs
from fuzz.targets.hotspot.trace_method import CALLS, PARTS, TRIMMINGS

OBJECT_BYTES_MAX = 2**13
"""Larger ones would make the rounds before the one that answers slow."""
PERIODS = (0, 512, 2**14)
"""With 0, no allocation is inline. With 512, a sample is taken every few objects."""
OBSERVES = ("samples", "value", "identity", "graph")
TIER = Setting(
    "tier",
    INTERPRETER,
    Range(INTERPRETER, C2),
    choices=(INTERPRETER, C1, C2, C2, C2),
    of_process=True,
)


def _trimming(name: str) -> Setting:
    return Setting(name, 0, Range(0, PARTS), choices=(*[0] * PARTS, *range(1, PARTS + 1)))


NOTHING, ALLOCATE, YOUNG, FULL, DEOPTIMIZE, TRAP = range(6)
"""What the callback of each sample does."""
CALLBACK = Setting(
    "callback",
    NOTHING,
    Range(NOTHING, DEOPTIMIZE),
    choices=(*[NOTHING] * 6, *[ALLOCATE, YOUNG, DEOPTIMIZE] * 2, FULL),
)
CALLBACK_AS_DOCUMENTED = attrs.evolve(
    CALLBACK,
    range=Range(NOTHING, TRAP),
    choices=(NOTHING, ALLOCATE, YOUNG, FULL, DEOPTIMIZE, *[TRAP] * 8),
)
"""A callback may call Java code, also if its machine code is left then. That ends the machine
(docs/findings/hotspot)."""
EACH_TIME, EVERY_SECOND_TIME = 1, 2
VIRTUAL_THREAD = "virtual_thread"
"""The setting that says when a program's virtual thread is unmounted, so that its frames are in the
heap: for each action that the driver carries out, or for those with an odd number. With 0 the
program runs in a platform thread."""
LINES = Setting("lines", 0, Range(0, 1), choices=(0, 0, 0, 1))
"""With 1, an event has the line of its allocation, also if that is made up for in a trap: JVMTI
promises a "stack trace of the allocation" (docs/findings/hotspot/line-of-trap.md)."""
_SETTINGS = (
    *(process_setting("pointer_bytes", 4, 4, 8), TIER, *SETTINGS_OF_KINDS),
    Setting("rounds_inside", 0, Range(0, 1)),
    *map(_trimming, (*TRIMMINGS, CALLS)),
    process_setting("buffer_bytes", *[BUFFER_BYTES] * 5, 0),
    process_setting("stress", *[0] * 4, 1, 2, 3),
    process_setting("verify", 0, 0, 0, 1),
)
"""`rounds_inside`: the program is compiled while it runs, and entered in a loop. `stress`: the seed
with which C2 orders what it may order at random. `verify`: each collection verifies the heap."""


def _virtual_thread(library: str) -> Setting:
    drawn = [0, 0, 0, EACH_TIME, EACH_TIME, EVERY_SECOND_TIME]
    choices = drawn if has_virtual_threads(library) else [0]
    return Setting(VIRTUAL_THREAD, 0, Range(0, max(choices)), tuple(choices))


def settings_of(library: str, structs: Structs, is_as_documented: bool) -> tuple[Setting, ...]:
    """The settings that the library allows."""
    collectors = [number for number, name in collectors_of(structs) if name != EPSILON]
    return (
        process_setting(COLLECTOR, *collectors),
        *_SETTINGS,
        process_setting("generations", 0, *([0, 0, 1, 1] if has_generations(library) else [])),
        *((CALLBACK_AS_DOCUMENTED, LINES) if is_as_documented else (CALLBACK,)),
        _virtual_thread(library),
    )


def contract(actions: tuple[str, ...], nursery_bytes: int, layout: Layout) -> Contract:
    """The contract without the version.

    When it collects is not observed, since roots would have to leave their registers then. The
    graph is that of `check_heap`, and that after the last action. It is not stated which objects
    are sampled: C2 leaves some out.
    """
    return Contract(
        nursery_bytes=nursery_bytes,
        layout=layout,
        actions=actions,
        observes=OBSERVES,
        sampling=SamplingRule(
            period_bytes=Range(0, max(PERIODS)),
            periods=PERIODS,
            surplus="dropped",
            samples_per_allocation="one",
            disabling=("drop",),
            distances="unstated",
        ),
        batch=True,
        tier_setting=TIER.name,
    )
