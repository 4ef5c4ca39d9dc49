"""How short a trace of each known bug can be: `python benchmarks/shortest.py --length 3`.

All traces up to that length over a small alphabet of actions are run, under some configurations,
on the reference with the bug planted; bugs of its kin are left out. What fails first is the
shortest; for a bug whose shortest known trace is longer, nothing may fail. The alphabet has the
kinds of actions with the smallest arguments that make a difference, on the first three slots; it is
what makes the search finite. Left out are reading a number or a weak reference, checking the heap,
and collecting with progress.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import click
from rich.console import Console
from rich.table import Table

from fuzz.mutator.legality import why_illegal
from fuzz.oracles import RERUN_ORACLES, Mismatch
from fuzz.protocol.actions import (
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    CollectFull,
    CollectMinor,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Fork,
    Free,
    LoadPrebuilt,
    PauseSampling,
    Pin,
    Read,
    ResumeSampling,
    SetCallback,
    TakeIdentity,
    Unpin,
    Write,
    WriteNumber,
)
from fuzz.run import Run, rerun
from fuzz.targets import REFERENCE, make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

BUGS = {name: bug for name, bug in KNOWN_BUGS.items() if bug.host == REFERENCE}
SLOTS = range(3)
CONFIGURATIONS: tuple[dict[str, int], ...] = (
    {},
    {"nursery_bytes": 64, "large_object_bytes": 64},
    {"single_step_marking": 1},
    {"moving_nursery": 1},
    {"pin_while_sampling": 1},
)
ALPHABET: tuple[Action, ...] = (
    *(CollectMinor(), CollectStep(), CollectFull()),
    *(EnableSampling(8), EnableSampling(264), PauseSampling(), ResumeSampling(), Fork()),
    *(DisableSampling(), DisableSampling(report=True)),
    *(AllocateNode(0), AllocateNode(0, nonmovable=True), AllocateArray(1), AllocateArray(6)),
    *(AllocateString(length) for length in (0, 31, 215, 280)),
    *(AllocateString(0, nonmovable=True), AllocateOldString(0)),
    *(LoadPrebuilt(0), LoadPrebuilt(1), AddMemoryPressure(640), SetCallback(0), SetCallback(31)),
    *(kind(slot) for kind in (Free, AllocateWeakref, TakeIdentity, Pin, Unpin) for slot in SLOTS),
    *(WriteNumber(slot, 1) for slot in SLOTS),
    *(Read(slot, 0) for slot in SLOTS),
    *(Write(slot, field, value) for slot in SLOTS for field in (0, 5) for value in (None, *SLOTS)),
    *(CopyArray(source, dest, 0, 0, 1) for source in SLOTS for dest in SLOTS),
)


def traces(run: Run, length: int, prefix: tuple[Action, ...] = ()) -> Iterator[tuple[Action, ...]]:
    """All traces of that length that are legal by what `run`, after `prefix`, knows."""
    legal = [each for each in ALPHABET if not why_illegal(each, run.contract, run.bench.shadow)]
    for action in legal:
        if length == 1:
            yield (*prefix, action)
        else:
            longer = (*prefix, action)
            yield from traces(_correct(run.configuration, longer), length - 1, longer)


def _correct(configuration: dict[str, int], actions: Sequence[Action]) -> Run:
    """The run of these actions on the reference itself, which says what is legal next."""
    run = Run(make_target(REFERENCE), configuration)
    for action in actions:
        run.step(action)
    return run


def fails(bug: str, configuration: dict[str, int], actions: Sequence[Action]) -> bool:
    """Whether some oracle objects to the trace, with the bug planted."""
    target = make_target(KNOWN_BUGS[bug].target)
    run = Run(target, configuration)
    try:
        for action in actions:
            run.step(action)
        for oracle in RERUN_ORACLES.values():
            rerun(target, run, oracle)
    except Mismatch:
        return True
    return False


def shortest_under(configuration: dict[str, int], length: int) -> dict[str, int]:
    """The length of each bug's shortest trace under that configuration, up to `length`."""
    found: dict[str, int] = {}
    for size in range(1, length + 1):
        left = [bug for bug in BUGS if bug not in found]
        for actions in traces(_correct(configuration, ()), size):
            for bug in left:
                if bug not in found and fails(bug, configuration, actions):
                    found[bug] = size
    return found


@click.command()
@click.option("--length", type=click.IntRange(1, 4), default=2, show_default=True)
def main(length: int) -> None:
    """Search all traces up to a length."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        results = list(pool.map(shortest_under, CONFIGURATIONS, [length] * len(CONFIGURATIONS)))
    table = Table("bug", "shortest known", f"shortest of all up to {length}")
    for bug in BUGS.values():
        sizes = [found[bug.id] for found in results if bug.id in found]
        table.add_row(bug.id, str(bug.shortest), str(min(sizes)) if sizes else f"over {length}")
    Console().print(table)


if __name__ == "__main__":
    main()
