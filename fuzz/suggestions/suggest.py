"""Suggests the contracts that the answers of a target fit.

Traces are collected without judging them, sizes are solved, and then contracts with as few changed
keys as possible are judged. What fits is confirmed by fresh traces, which are drawn from it.
Invariant: nothing is written into a contract. Which of the two is right, the target or its
contract, only the documentation can say.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol.contract import Contract
from fuzz.protocol.target import Target, full
from fuzz.suggestions.candidates import candidates_for
from fuzz.suggestions.change import Changes, changed
from fuzz.suggestions.collect import Collected, collect
from fuzz.suggestions.fitting import Judged, Prefix, fitting, refuting_prefix
from fuzz.suggestions.seen_costs import SeenCost, agree, costs_in, solved_sizes, unsolved

TRACES, FRESH_TRACES = 150, 400
ROUNDS = 3
"""How often fresh traces may refute all that fitted before."""


@attrs.frozen
class Suggestion:
    """What was found."""

    stated: Contract
    """The contract of the default configuration."""
    traces: int
    """How many traces were collected before the fresh ones."""
    fresh: int
    """How many fresh traces confirm what fits."""
    actions: int
    fits: Sequence[Changes]
    """The changes of each contract that fits; one that is empty stands for the stated contract."""
    has_defaults: bool
    """Whether all traces have the default configuration, since sizes depend on settings."""
    errors: Sequence[str]
    """The errors that ended traces."""
    size_keys: Changes | None = ()
    """What objects cost; None if no sizes explain the answers."""
    prefix: Prefix | None = None
    """If nothing fits: what refutes each contract with one changed key, if one trace does."""
    unsolved: Sequence[SeenCost] = ()
    """A few costs that no sizes explain together."""

    @property
    def is_clean(self) -> bool:
        """Whether the target keeps to the contract that it states."""
        return () in self.fits and not self.errors


def suggest(target: Target) -> Suggestion:
    """Find what fits. Raises BadInputError if the contract observes nothing of a rule."""
    target = full(target)
    stated = target.default_contract()
    if not {"samples", "size", "outside"} & {*stated.observes}:
        raise BadInputError(
            "check --suggest needs samples, size or outside in observes: nothing else shows a rule"
        )
    search = _Search(target, stated)
    for _ in range(ROUNDS):
        if (found := search.round()) is not None:
            return found
    return search.result([])


class _Search:
    def __init__(self, target: Target, stated: Contract) -> None:
        self._target, self._stated = target, stated
        self._others = candidates_for(stated)
        self._traces = collect(target, range(TRACES))
        self._drawn = TRACES
        self._has_defaults = not agree(self._traces) and self._sizes_vary()
        if self._has_defaults:
            self._traces = self._collected(TRACES)
        self._sizes: Changes | None = ()

    def _collected(self, count: int, fits: Sequence[Changes] = ((),)) -> list[Collected]:
        """Fresh traces, drawn from each of the contracts that fit in turn."""
        numbers = range(self._drawn, self._drawn + count)
        self._drawn += count
        return collect(
            self._target,
            numbers,
            lambda number, contract: changed(contract, fits[number % len(fits)]),
            self._has_defaults,
        )

    def _sizes_vary(self) -> bool:
        return any(
            trace.contract.layout != self._traces[0].contract.layout for trace in self._traces
        )

    def round(self) -> Suggestion | None:
        """What fits all traces so far; None if fresh ones refute it."""
        self._sizes = ()
        if not agree(self._traces):
            costs = [cost for trace in self._traces for cost in costs_in(trace)]
            self._sizes = solved_sizes(self._stated.layout, costs)
            if self._sizes is None:
                unsolved_costs = unsolved(self._stated.layout, costs)
                return attrs.evolve(self.result([]), unsolved=unsolved_costs)
        fits = fitting(self._traces, self._sizes, self._others)
        if not fits:
            return self.result([])
        fresh = self._collected(FRESH_TRACES, fits)
        confirming = Judged(fresh)
        confirmed = [changes for changes in fits if confirming.fits(changes)]
        if confirmed:
            return self.result(confirmed, fresh)
        self._traces += fresh
        return None

    def result(self, fits: Sequence[Changes], fresh: Sequence[Collected] = ()) -> Suggestion:
        """The result, with a prefix if nothing fits."""
        traces = [*self._traces, *fresh]
        prefix = None
        if not fits and self._sizes is not None:
            prefix = refuting_prefix(self._traces, self._sizes, self._others)
        return Suggestion(
            self._stated,
            len(self._traces),
            len(fresh),
            sum(len(trace.actions) for trace in traces),
            fits,
            self._has_defaults,
            [trace.error for trace in traces if trace.error is not None],
            self._sizes,
            prefix,
        )
