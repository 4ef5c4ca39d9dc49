"""A trace step by step: each action, what came of it, and a picture of the nursery.

Every line fits in 80 columns. The picture is to scale, from the start of the nursery to its top,
and stands only where the target shows its pointers:

      |######=====..............................................|
                  F                    L                       T S>

Invariant: what the picture shows is what the target observed, nothing else.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby

from fuzz.plain import counted, plain
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.run import Step
from fuzz.terminal.report import describe_action
from fuzz.words import UNITS, entries_in_words, figures_in_words, listed, state_in_words

COLUMNS = 80
INDENT = " " * 6
WIDTH = 60
POINTERS = ("free", "limit", "top", "sample_point")
EVENTS = {"s": "sample", "M": "minor collection", "R": "report"}
"""What the letters of an observation's `order` mean."""
LEGEND = (
    "# allocated  = the object just placed  . free",
    "F nursery_free  L nursery_limit  T nursery_top  S sample_point (S> beyond the top)",
)


def shows_pointers(contract: Contract) -> bool:
    """Whether there is a nursery to draw: the target has one, and promises to show its pointers."""
    return contract.nursery_bytes > 0 and {*POINTERS} <= {*contract.observes}


def explain_step(step: Step) -> Iterator[str]:
    """The lines for one step."""
    mark = "→" if step.failure else " "
    yield from _wrap(f"{mark}{step.number:>4} ", describe_action(step.action))
    if step.failure:
        yield from _wrap(INDENT, f"MISMATCH {step.failure.message}")
    facts = ", ".join(facts_of(step.observation, step.contract))
    if facts:
        yield from _wrap(INDENT, facts)
    yield from _picture(step.observation)


def _wrap(indent: str, text: str) -> list[str]:
    return textwrap.wrap(
        plain(text), COLUMNS, initial_indent=indent, subsequent_indent=INDENT + "  "
    )


def facts_of(seen: Observation, contract: Contract) -> Iterator[str]:
    """What an observation says, in words."""
    if seen.error is not None:
        yield f"error {seen.error}"
    if seen.size is not None:
        place = " outside the nursery" if seen.outside else ""
        if seen.at is not None:
            place = f" in the nursery at {seen.at}"
        yield f"{seen.size} bytes{place}"
    yield from _events(seen, contract)
    for name in ("value", "alive", "identity"):
        value = getattr(seen, name)
        if value is not None:
            yield f"{name} {str(value).lower()}"
    yield from _figures(seen)
    for report in seen.reports:
        yield entries_in_words(report, contract.layout.kinds)
    if seen.graph is not None:
        yield f"{len(seen.graph)} objects reachable"
    if seen.state:
        yield f"major collection {state_in_words(seen.state)}"


def _events(seen: Observation, contract: Contract) -> Iterator[str]:
    """What happened meanwhile; only numbers where the target does not tell in which order."""
    if seen.order:
        runs = (
            counted(len([*run]), EVENTS.get(event, event)) for event, run in groupby(seen.order)
        )
        yield " then ".join(runs)
    elif "order" not in contract.observes:
        if seen.samples:
            yield counted(seen.samples, EVENTS["s"])
        if seen.minors:
            yield counted(seen.minors, EVENTS["M"])
    for name, numbers in (("offsets", seen.offsets), ("weights", seen.weights)):
        if numbers:
            yield f"{name} {listed(numbers)}"


def _figures(seen: Observation) -> Iterator[str]:
    for field in UNITS:
        figures = getattr(seen, field)
        if figures is not None:
            yield f"{field} of {figures_in_words(field, figures)}"


def _picture(seen: Observation) -> Iterator[str]:
    """The nursery to scale and its pointers, where the target shows them."""
    if seen.free is None or seen.limit is None or not seen.top:
        return
    top = seen.top

    def column(offset: int) -> int:
        return max(0, min(WIDTH, offset * WIDTH // top))

    bar = ["."] * WIDTH
    bar[: column(seen.free)] = "#" * column(seen.free)
    if seen.at is not None and seen.size is not None:
        start = min(column(seen.at), WIDTH - 1)
        stop = max(column(seen.at + seen.size), start + 1)
        bar[start:stop] = "=" * (stop - start)
    marks = [" "] * (WIDTH + 1)
    for letter, offset in (
        ("T", top),
        ("L", seen.limit),
        ("S", seen.sample_point),
        ("F", seen.free),
    ):
        if offset is not None and offset <= top:
            marks[column(offset)] = letter
    beyond = " S>" if seen.sample_point is not None and seen.sample_point > top else ""
    yield f"{INDENT}|{''.join(bar)}|"
    yield f"{INDENT} {''.join(marks)}{beyond}".rstrip()
    sample = "off" if seen.sample_point is None else seen.sample_point
    yield f"{INDENT}free {seen.free}  limit {seen.limit}  top {top}  sample_point {sample}"
