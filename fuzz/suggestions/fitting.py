"""Judges recorded answers by the oracles alone, under contracts with a few changed keys.

Only the sampling oracle and those that rely on it judge: what they find wrong is what the changed
keys state. Invariant: a contract fits if they find no answer of any trace wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import attrs

from fuzz.cancellation import checkpoint
from fuzz.mutator.legality import why_illegal
from fuzz.oracles import Bench, Mismatch
from fuzz.oracles.bench import ORACLES
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.protocol.contract import Contract
from fuzz.protocol.contract_problems import problems_of
from fuzz.suggestions.change import Change, Changes, changed
from fuzz.suggestions.collect import Collected

KEYS_MAX = 3
"""With more changed keys, one in a thousand rules would fit by chance."""


def _relies_on_sampling(kind: type[Oracle]) -> bool:
    return kind is SamplingOracle or any(map(_relies_on_sampling, kind.relies_on))


JUDGES = [kind for kind in ORACLES if _relies_on_sampling(kind)]


def first_wrong(contract: Contract, trace: Collected, actions_max: int | None = None) -> int | None:
    """The number of actions up to the first wrong answer under a contract; None if there is none.

    A contract that a target could not state is wrong at once, and so is one whose formula has no
    value for an answer. An action that it does not allow, such as a larger object than any, ends
    the trace.
    """
    if any(problems_of(contract)):
        return 0
    bench = Bench(contract, kinds=JUDGES)
    may_be_illegal = contract.layout != trace.contract.layout
    actions = trace.actions[:actions_max]
    for number, (action, answer) in enumerate(zip(actions, trace.answers, strict=False), 1):
        if may_be_illegal and why_illegal(action, contract, bench.shadow):
            return None
        try:
            bench.judge(action, answer)
        except (Mismatch, ArithmeticError):
            return number
    return None


class Judged:
    """Traces, of which those that refuted a contract are judged first."""

    def __init__(self, traces: Iterable[Collected]) -> None:
        self._traces = [*traces]

    def fits(self, changes: Changes) -> bool:
        """Whether the answers of all traces are right under the changed contracts."""
        for place, trace in enumerate(self._traces):
            checkpoint()
            if first_wrong(changed(trace.contract, changes), trace) is not None:
                self._traces.insert(0, self._traces.pop(place))
                return False
        return True


def fitting(traces: Iterable[Collected], sizes: Changes, others: Sequence[Change]) -> list[Changes]:
    """The changes that fit, with as few of the `others` as possible, and none that is not needed.

    All have the changed `sizes`. The list is empty if more keys would have to change.
    """
    judged = Judged(traces)
    for count in range(KEYS_MAX + 1):
        tried = (sizes + chosen for chosen in combinations(others, count) if _are_apart(chosen))
        if found := [changes for changes in tried if judged.fits(changes)]:
            return found
    return []


def _are_apart(changes: Changes) -> bool:
    return not any(one.excludes(other) for one, other in combinations(changes, 2))


@attrs.frozen
class Prefix:
    """The first actions of a trace, after which each contract with one changed key is refuted."""

    trace: Collected
    length: int


def refuting_prefix(
    traces: Iterable[Collected], sizes: Changes, others: Iterable[Change]
) -> Prefix | None:
    """The shortest one; None if no trace refutes all of them."""
    single = [sizes, *((*sizes, other) for other in others)]
    best: Prefix | None = None
    for trace in traces:
        length: int | None = 0
        for changes in single:
            limit = None if best is None else best.length - 1
            wrong = first_wrong(changed(trace.contract, changes), trace, limit)
            length = None if wrong is None or length is None else max(length, wrong)
            if length is None:
                break
        if length is not None:
            best = Prefix(trace, length)
    return best
