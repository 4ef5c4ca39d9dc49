"""Prints what `gcfuzz check --suggest` found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from fuzz.plain import counted
from fuzz.protocol.contract import Contract
from fuzz.protocol.lines import to_line, unstructured
from fuzz.suggestions.change import Change, Changes
from fuzz.suggestions.fitting import KEYS_MAX, Prefix
from fuzz.suggestions.seen_costs import SeenCost
from fuzz.suggestions.suggest import Suggestion
from fuzz.terminal.report import describe_action, describe_configuration
from fuzz.terminal.screen import Screen


def print_suggestion(screen: Screen, found: Suggestion) -> None:
    """What fits in a sentence for each contract, or what refutes all."""
    collected = f"collected {counted(found.traces + found.fresh, 'trace')}"
    defaults = ", all settings at their defaults, since sizes depend on them"
    screen.print(
        f"{collected} with {counted(found.actions, 'action')}{defaults * found.has_defaults}"
    )
    if found.errors:
        ended = counted(len(found.errors), "trace")
        screen.print(f"{ended} ended early with an error, the first: {found.errors[0]}", "yellow")
    lines = _fits(found) if found.fits else _nothing_fits(found)
    for number, line in enumerate(lines):
        screen.print(line, "" if number else "bold")
    if found.prefix is not None:
        _print_prefix(screen, found.prefix)


def _fits(found: Suggestion) -> Iterator[str]:
    judged = f"All {found.traces} traces"
    if found.errors:
        judged = "All answers before these errors"
    if not any(found.fits):
        what = "sizes and sampling" if "samples" in found.stated.observes else "sizes alone"
        yield f"{judged} fit what the contract states of {what}: no key has to change."
    else:
        for number, changes in enumerate(found.fits):
            who = "They also" if number else judged
            yield f"{who} behave like {_values(changes)}; {_stated(found.stated, changes)}."
        yield f"If your documentation says {_documented(found)}, this is a bug: keep the contract."
    yield f"confirmed by {found.fresh} fresh traces; nothing was written into the contract"


def _values(changes: Changes) -> str:
    return _listed([change.text for change in changes])


def _stated(contract: Contract, changes: Changes) -> str:
    stated = _listed([change.stated_text(contract) for change in changes])
    return f"the contract states {stated}"


def _documented(found: Suggestion) -> str:
    keys: dict[str, Change] = {change.key: change for each in found.fits for change in each}
    if len(keys) > 1:
        return "what the contract states"
    (change,) = keys.values()
    return _listed([change.stated_text(found.stated)])


def _listed(texts: Sequence[str]) -> str:
    *others, last = (f"`{text}`" for text in texts)
    return f"{', '.join(others)} and {last}" if others else last


def _nothing_fits(found: Suggestion) -> Iterator[str]:
    if found.size_keys is None:
        yield (
            "No fixed_bytes, item_bytes, word_bytes and large_object_bytes explain all answers in "
            "size and outside, such as these:"
        )
        yield from map(_cost, found.unsolved)
        return
    yield (
        f"No contract fits: the answers refute each one with up to {KEYS_MAX} changed keys. Either "
        "the target has a bug, or its rule needs what is not tried: a generator, or a number, such "
        "as initial_period_bytes."
    )
    if found.size_keys:
        stated = _stated(found.stated, found.size_keys)
        yield f"sizes behave like {_values(found.size_keys)}; {stated}"
    if found.prefix is None:
        yield "no trace refutes all contracts with one changed key by itself"


def _cost(cost: SeenCost) -> str:
    outside = {None: "", True: " outside the nursery", False: " in the nursery"}[cost.outside]
    size = "" if cost.size_bytes is None else f" of {cost.size_bytes} bytes"
    length = "" if cost.kind == "node" else f" length={cost.length}"
    return f"  {cost.kind}{length}{' nonmovable' * cost.nonmovable}:{size}{outside}"


def _print_prefix(screen: Screen, prefix: Prefix) -> None:
    """The actions, with the answers as a program would write them, without graphs."""
    trace, length = prefix.trace, prefix.length
    refute = "action refutes" if length == 1 else "actions refute"
    screen.print(f"{length} {refute} the contract, and each one with a single changed key:")
    screen.print(f"  config    {describe_configuration(trace.configuration)}", indent=12)
    for number, (action, answer) in enumerate(zip(trace.actions, trace.answers, strict=True), 1):
        if number > length:
            break
        shown = {"samples": answer.samples} if action.allocates else {}
        shown |= unstructured(attrs.evolve(answer, graph=None))
        screen.print(f"{number:>5}  {describe_action(action)}")
        screen.print(f"       {to_line(shown)}", indent=9)
