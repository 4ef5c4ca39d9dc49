"""Before and after: the same traces on two targets, and what the change from one to the other did.

What fails with one identity on both still fails; all else that the target after the change does
wrong, the change broke. A field that the target before gets wrong in a trace is excluded for both,
and the trace is judged again from its start, so that it hides nothing behind it. What only the
target before does wrong is fixed. Where neither fails, each keeps to its contract, and what they
answer differently is observable. Traces are drawn for the target after the change. The one before
gets no action that it does not carry out, and its trace ends there. Invariants: two equal targets
have no difference; differences depend on the trace alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from typing_extensions import override

from fuzz.descriptions import describe_value
from fuzz.drawing.rules import Choices
from fuzz.engines.engine import reruns
from fuzz.engines.random import Judge, RandomEngine
from fuzz.oracles import RerunOracle
from fuzz.oracles.excluded import excluded_for, field_of
from fuzz.oracles.oracle import unpromised
from fuzz.protocol.actions import Action, BeginThread
from fuzz.protocol.agreement import disagreement
from fuzz.protocol.contract import Contract, problem_of_configuration
from fuzz.protocol.observation import FIELDS, Observation
from fuzz.protocol.target import FullTarget, Target, contract_of, full
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.run import BROKE, FIXED, OBSERVABLE, STILL_FAILS, Failure, Run, run_through
from fuzz.sessions.corpus import Finder
from fuzz.targets import TargetOptions, is_program, make_target

COMPARED = tuple(field for field in FIELDS if field != "graph")
"""Both heaps are right; where only one of them is shown, the other collects at another time."""


@attrs.frozen
class Before:
    """Which target there was before the change."""

    target: str
    options: TargetOptions

    def make_target(self) -> Target:
        """It, made anew."""
        return make_target(self.target, self.options)

    def under_contract(self) -> Before:
        """The same with what it promises. Raises BadInputError if that cannot be learned."""
        contract = contract_of(self.make_target())
        return attrs.evolve(self, options=attrs.evolve(self.options, contract=contract))


class Pair(FullTarget):
    """Two targets. To who knows nothing of that, it is the one after the change."""

    def __init__(self, before: Target, after: Target) -> None:
        self.before, self.after, self.name = full(before), full(after), after.name
        self._settings = [each.default_contract().settings for each in (self.before, self.after)]
        self.starts_afresh = any(each.starts_afresh for each in (self.before, self.after))

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self.after.start(configuration)

    @override
    def perform(self, action: Action) -> Observation:
        return self.after.perform(action)

    def allows(self, configuration: Mapping[str, int]) -> bool:
        """Whether both can be started so."""
        return not any(problem_of_configuration(configuration, each) for each in self._settings)


@attrs.frozen
class Difference(Failure):
    """What a change did, seen in the last of the actions."""

    @property
    @override
    def kind(self) -> tuple[str, ...]:
        """What can be observed is told once a field, with the shortest trace after any action."""
        return (self.field,) if self.change == OBSERVABLE else super().kind

    @property
    @override
    def message(self) -> str:
        if self.change != OBSERVABLE:
            return super().message
        return f"{self.field}: before {self.expected}, after {self.got} ({self.why})"

    @override
    def again(
        self, target: Target, configuration: Mapping[str, int], actions: Sequence[Action]
    ) -> Failure | None:
        """Of one target alone it is asked whether it fails."""
        if not isinstance(target, Pair):
            return super().again(target, configuration, actions)
        if not target.allows(configuration):
            return None

        def judge(excluded: Collection[str]) -> tuple[Run, Failure | None]:
            return run_through(target.after, configuration, actions, self.rerun_oracles, excluded)

        run, failure = judge(())
        if failure is None and self.change in {BROKE, STILL_FAILS}:
            return None
        found = differences(target.before, run, failure, self.rerun_oracles, judge)
        return next((each for each in found if self._is_like(each)), None)

    def _is_like(self, other: Difference) -> bool:
        """Whether the other is this difference, and needs no more fields excluded to be seen."""
        return other.identity == self.identity and {*other.excluded} <= {*self.excluded}


def differences(
    before: Target,
    run: Run,
    failure: Failure | None,
    oracles: Collection[RerunOracle],
    judge: Judge,
) -> Iterator[Difference]:
    """What differs where `run`, on the target after the change, came to `failure`, or to none.

    `oracles` run a trace once more that has not failed after the change. `judge` runs the trace on
    that target again. Each kind of change is reported once at most, because what comes behind the
    first failure of a trace may follow from it.
    """
    excluded: frozenset[str] = frozenset()
    reported = set[str]()
    while True:
        asked = oracles if failure is None else failure.rerun_oracles
        earlier, failure_before = run_through(
            before, run.configuration, run.actions, asked, excluded
        )
        if failure_before is None:
            if failure is None:
                yield from _observable(earlier, run)
            else:
                yield _difference(failure, BROKE)
            return
        found = _of_both(failure, failure_before)
        if found is not None and found.change not in reported:
            reported.add(found.change)
            yield found
        if failure is None:
            return
        more = excluded_for(failure_before.field) - excluded
        if failure.kind != failure_before.kind and (
            not more or _is_lost(before, run, failure, excluded, more)
        ):
            yield _difference(failure, BROKE, f"before: {' / '.join(failure_before.kind)}")
            return
        if not more:
            return
        excluded |= more
        run, failure = judge(excluded)


def _of_both(failure: Failure | None, failure_before: Failure) -> Difference | None:
    """What is known at once where the target before fails: the same failure, or that it is fixed.

    Where both fail in one action, the one failure may hide the other.
    """
    if failure is not None and failure.kind == failure_before.kind:
        return _difference(failure, STILL_FAILS, "so it was before")
    if failure is None or len(failure_before.actions) < len(failure.actions):
        return _difference(failure_before, FIXED)
    return None


def _is_lost(
    before: Target, run: Run, failure: Failure, excluded: frozenset[str], more: frozenset[str]
) -> bool:
    """Whether the failure is no longer seen without `more`, and is not in the target before.

    It is there too if both give the same wrong answer to the same action.
    """
    field = field_of(failure.field)
    if field not in more:
        return False
    earlier, _ = run_through(before, run.configuration, run.actions, (), excluded | more)
    return (
        bool(failure.rerun_oracles)
        or earlier.answered < run.answered
        or getattr(earlier.last, field) != getattr(run.last, field)
    )


def counted_as(failure: Failure) -> str:
    """By what a difference is counted: what became of what, and last the action."""
    what = (each for each in failure.kind if each != failure.action)
    return " / ".join((failure.change, *what, failure.action))


def _difference(failure: Failure, change: str, before: str = "") -> Difference:
    """A failure as a difference; `before` is what the target before does."""
    why = "; ".join(filter(None, (failure.why, before)))
    changes = {"change": change, "why": why, "earlier": ()}
    return Difference(**attrs.asdict(failure, recurse=False) | changes)


def _observable(before: Run, after: Run) -> Iterator[Difference]:
    """Each judged field that both observe, where they first differ in it, but for chance."""
    contracts = before.contract, after.contract
    ignored = {each for contract in contracts for each in _left_to_chance(contract, after.actions)}
    ignored |= {*before.excluded, *after.excluded}
    fields = [
        each
        for each in COMPARED
        if all(each in contract.observes for contract in contracts) and each not in ignored
    ]
    answers = zip(before.answers, after.answers, strict=False)
    for number, (then, now) in enumerate(answers, 1):
        if then == now:
            continue
        for field in [each for each in fields if _differ(each, then, now)]:
            fields.remove(field)
            actions = tuple(after.actions[:number])
            header = Header(VERSION, "", contract=before.contract)
            kinds = after.contract.layout.kinds
            yield Difference(
                configuration=after.configuration,
                actions=actions,
                oracle=OBSERVABLE,
                field=field,
                direction="different",
                expected=describe_value(field, getattr(then, field), kinds) or "nothing",
                got=describe_value(field, getattr(now, field), kinds) or "nothing",
                why=disagreement(Trace(header, actions), after.contract)
                or "both keep to their contracts",
                change=OBSERVABLE,
            )


def _left_to_chance(contract: Contract, actions: Sequence[Action]) -> Iterator[str]:
    """The fields in which the same target may answer otherwise the next time."""
    yield from unpromised(contract)
    is_born = any(isinstance(action, BeginThread) for action in actions)
    yield from contract.sampling.counting.left_to_chance(is_born)


def _differ(field: str, then: Observation, now: Observation) -> bool:
    """What happened, other fields say; the order says only when of the same."""
    was, is_now = getattr(then, field), getattr(now, field)
    return was != is_now and (field != "order" or sorted(was) == sorted(is_now))


class ComparingEngine(RandomEngine):
    """The random engine, whose failures are differences."""

    compares = True

    def __init__(self, pair: Pair, seed: str, process_seed: str | None = None) -> None:
        super().__init__(pair.after, seed, process_seed)
        self._pair = pair

    @override
    def draw_configuration(self, choices: Choices, number: int) -> dict[str, int]:
        """A setting is left out whose value one of them does not allow."""
        drawn: dict[str, int] = {}
        for name, value in super().draw_configuration(choices, number).items():
            if self._pair.allows({**drawn, name: value}):
                drawn[name] = value
        return drawn

    @override
    def failures_of(
        self, run: Run, failure: Failure | None, number: int, judge: Judge
    ) -> Iterable[Failure]:
        return differences(self._pair.before, run, failure, [*reruns(number)], judge)


@attrs.frozen(kw_only=True)
class ComparingFinder(Finder):
    """A finder of differences; what the change did not break has a folder of its own."""

    before: Before

    @override
    def make_target(self) -> Target:
        return Pair(self.before.make_target(), super().make_target())

    @property
    @override
    def may_be_alone(self) -> bool:
        return super().may_be_alone and is_program(self.before.target)

    @override
    def alone(self) -> ComparingFinder:
        both = (self, self.before)
        now, then = (attrs.evolve(each.options, fresh_process=True) for each in both)
        return attrs.evolve(self, options=now, before=attrs.evolve(self.before, options=then))

    @override
    def save(self, trace: Trace, stem: str, complaint: str = "") -> Path:
        (self.folder / stem).parent.mkdir(exist_ok=True)
        return super().save(trace, stem, complaint)


def contract_changes(before: Contract, after: Contract) -> Iterator[str]:
    """What is promised otherwise after a change, a line each."""
    return _changes("", *(attrs.asdict(each) for each in (before, after)))


def _changes(place: str, then: Any, now: Any) -> Iterator[str]:  # noqa: ANN401 - plain data
    if then == now:
        return
    old, new = _by_name(then), _by_name(now)
    if not isinstance(old, dict) or not isinstance(new, dict):
        yield f"{place} {json.dumps(then)} → {json.dumps(now)}"
        return
    for key in dict.fromkeys((*old, *new)):
        name = f"{place}.{key}" if place else key
        if key in old and key in new:
            yield from _changes(name, old[key], new[key])
        else:
            yield f"{name} {'gone' if key in old else 'new'}"


def _by_name(data: Any) -> Any:  # noqa: ANN401
    """What is listed, by its name if it has one, so that an order makes no difference."""
    if isinstance(data, tuple | list):
        if all(isinstance(each, str) for each in data):
            return dict.fromkeys(data)
        if all(isinstance(each, dict) and "name" in each for each in data):
            return {each["name"]: each for each in data}
    return data
