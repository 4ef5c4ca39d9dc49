"""A trace step by step: each action, the observation, and a picture of the nursery.

Every line fits in 80 columns. The picture is to scale, from the start of the nursery to its top. It
is there only if the target shows its pointers:

      |######=====..............................................|
                  F                    L                       T S>

If threads have buffers (TLABs), it shows the buffer of the thread. Invariant: the picture shows
only what the target observed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from fuzz.descriptions import UNITS, describe_entries, describe_figures, describe_state, listed
from fuzz.plain import counted, plain
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.replay import Step
from fuzz.terminal.explain_finalizers import finalizer_answers
from fuzz.terminal.report import describe_action

COLUMNS = 80
INDENT = " " * 6
WIDTH = 60
POINTERS = ("free", "limit", "top", "sample_point")
EVENTS = {"s": "sample", "M": "minor collection", "R": "report"}
"""The letters of an observation's `order`."""
ALLOCATED = "# allocated  = the object just placed  . free"
LEGEND = (
    ALLOCATED,
    "F nursery_free  L nursery_limit  T nursery_top  S sample_point (S> beyond the top)",
)
LEGEND_OF_TLABS = (
    f"{ALLOCATED}, in the TLAB of the thread",
    "T top  E end, which is the sample point if that comes before A, allocation_end",
)


def shows_pointers(contract: Contract) -> bool:
    """Whether the target has a nursery, and promises to show its pointers."""
    observes = {*contract.observes}
    return contract.nursery_bytes > 0 and ({*POINTERS} <= observes or "tlab" in observes)


def legend_for(contract: Contract) -> tuple[str, ...]:
    """The legend of the pictures."""
    return LEGEND_OF_TLABS if "tlab" in contract.observes else LEGEND


def explain_step(step: Step) -> Iterator[str]:
    """The lines for one step."""
    mark = "→" if step.failure else " "
    yield from _wrap(f"{mark}{step.number:>4} ", describe_action(step.action))
    if step.failure:
        yield from _wrap(INDENT, f"MISMATCH {step.failure.message}")
    answers = answers_of_step(step)
    if answers:
        yield from _wrap(INDENT, answers)
    yield from _picture(step.observation)


def _wrap(indent: str, text: str) -> list[str]:
    return textwrap.wrap(
        plain(text), COLUMNS, initial_indent=indent, subsequent_indent=INDENT + "  "
    )


def answers_of_step(step: Step) -> str:
    """The observation of a step in words, with what it shows of finalizers; empty if nothing."""
    return ", ".join((*answers_of(step.observation, step.contract), *finalizer_answers(step)))


def answers_of(seen: Observation, contract: Contract) -> Iterator[str]:
    """An observation in words."""
    if seen.error is not None or seen.exhausted:
        yield "memory exhausted" if seen.error is None else f"error {seen.error}"
    if seen.size is not None:
        place = " outside the nursery" if seen.outside else ""
        if seen.at is not None:
            place = f" in the nursery at {seen.at}"
            if seen.tlab and not seen.tlab[0] <= seen.at < seen.tlab[1]:
                place += ", outside the TLAB"
        yield f"{seen.size} byte{'' if seen.size == 1 else 's'}{place}"
    yield from _events(seen, contract)
    for name in ("value", "alive", "identity"):
        value = getattr(seen, name)
        if value is not None:
            yield f"{name} {str(value).lower()}"
    yield from _figures(seen)
    for report in seen.reports:
        yield describe_entries(report, contract.layout.kinds)
    if seen.graph is not None and seen.error is None:
        yield f"{counted(len(seen.graph), 'object')} reachable"
    if seen.state:
        yield f"major collection {describe_state(seen.state)}"


def _figures(seen: Observation) -> Iterator[str]:
    for field in UNITS:
        figures = getattr(seen, field)
        if figures is not None:
            yield f"{field} of {describe_figures(field, figures)}"
    if seen.contents is not None:
        yield f"contents of {counted(len(seen.contents), 'object')}"


def _events(seen: Observation, contract: Contract) -> Iterator[str]:
    """The events in their order, or their numbers if the target does not report the order."""
    if seen.order:
        runs = groupby(seen.order)
        yield " then ".join(counted(len([*run]), EVENTS.get(each, each)) for each, run in runs)
    elif "order" not in contract.observes:
        if seen.samples:
            yield counted(seen.samples, EVENTS["s"])
        if seen.minors:
            yield counted(seen.minors, EVENTS["M"])
    lists = (
        ("samples_by_member", seen.samples_by_member if seen.samples else None),
        ("offsets", seen.offsets),
        ("weights", seen.weights),
    )
    for name, numbers in lists:
        if numbers:
            yield f"{name} {listed(numbers)}"


def _picture(seen: Observation) -> Iterator[str]:
    """The nursery or the TLAB with its pointers, if the target shows them."""
    if seen.tlab:
        start, top, end, allocation_end = seen.tlab
        yield from _to_scale(seen, start, (("A", allocation_end), ("E", end), ("T", top)))
        yield f"{INDENT}start {start}  top {top}  end {end}  allocation_end {allocation_end}"
    elif seen.free is not None and seen.limit is not None and seen.top:
        pointers = (("T", seen.top), ("L", seen.limit), ("S", seen.sample_point), ("F", seen.free))
        yield from _to_scale(seen, 0, pointers)
        sample = "off" if seen.sample_point is None else seen.sample_point
        figures = f"free {seen.free}  limit {seen.limit}  top {seen.top}  sample_point {sample}"
        yield f"{INDENT}{figures}"


def _to_scale(
    seen: Observation, start: int, pointers: Sequence[tuple[str, int | None]]
) -> Iterator[str]:
    """A bar from `start` to the first pointer, filled up to the last, and the letters below it."""
    top, free = pointers[0][1], pointers[-1][1]
    assert top is not None
    assert free is not None

    def column(offset: int) -> int:
        return max(0, min(WIDTH, (offset - start) * WIDTH // (top - start)))

    bar = ["."] * WIDTH
    bar[: column(free)] = "#" * column(free)
    if seen.at is not None and seen.size is not None and start <= seen.at < top:
        first = min(column(seen.at), WIDTH - 1)
        stop = max(column(seen.at + seen.size), first + 1)
        bar[first:stop] = "=" * (stop - first)
    marks = [" "] * (WIDTH + 1)
    beyond = ""
    for letter, offset in pointers:
        if offset is not None and offset <= top:
            marks[column(offset)] = letter
        elif offset is not None:
            beyond = f" {letter}>"
    yield f"{INDENT}|{''.join(bar)}|"
    yield f"{INDENT} {''.join(marks)}{beyond}".rstrip()
