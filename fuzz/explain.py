"""A trace step by step: each action, what came of it, and a picture of the nursery.

Every line fits in 80 columns. The picture is to scale, from the start of the nursery to its top:

      |######=====..............................................|
                  F                    L                       T S>

Invariant: what the picture shows is what the target observed, nothing else.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from fuzz.contract import KindLayout
from fuzz.observation import MAJOR_STATES, OUTSIDE, SURVIVED, TYPE_SHIFT, Observation
from fuzz.report import describe_action
from fuzz.run import Step

COLUMNS = 80
INDENT = " " * 6
WIDTH = 60
LEGEND = (
    "# allocated  = the object just placed  . free",
    "F nursery_free  L nursery_limit  T nursery_top  S sample_point (S> beyond the top)",
)


def explain_step(step: Step) -> Iterator[str]:
    """The lines for one step."""
    mark = "→" if step.failure else " "
    yield from _wrap(f"{mark}{step.number:>4} ", describe_action(step.action))
    if step.failure:
        yield from _wrap(INDENT, f"MISMATCH {step.failure.message}")
    facts = ", ".join(facts_of(step.observation, step.contract.layout.kinds))
    if facts:
        yield from _wrap(INDENT, facts)
    yield from _picture(step.observation)


def _wrap(indent: str, text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, initial_indent=indent, subsequent_indent=INDENT + "  ")


def facts_of(seen: Observation, kinds: Mapping[str, KindLayout]) -> Iterator[str]:
    """What an observation says, in words."""
    if seen.error is not None:
        yield f"error {seen.error}"
    if seen.size is not None:
        place = " outside the nursery" if seen.outside else ""
        if seen.at is not None:
            place = f" in the nursery at {seen.at}"
        yield f"{seen.size} bytes{place}"
    if seen.order:
        yield f"events {seen.order}"
    for name in ("value", "alive", "identity"):
        value = getattr(seen, name)
        if value is not None:
            yield f"{name} {str(value).lower()}"
    for report in seen.reports:
        yield "reported " + " and ".join(_entry(entry, kinds) for entry in report.entries)
    if seen.graph is not None:
        yield f"{len(seen.graph)} objects reachable"
    if seen.state:
        yield f"major collection {MAJOR_STATES[seen.state]}"


def _entry(entry: int, kinds: Mapping[str, KindLayout]) -> str:
    """An entry of a report in words."""
    names = {layout.type_index: name for name, layout in kinds.items()}
    place = " outside" if entry & OUTSIDE else ""
    kind = names.get(entry >> TYPE_SHIFT, entry >> TYPE_SHIFT)
    return f"{kind}{place} {'survived' if entry & SURVIVED else 'died'}"


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
