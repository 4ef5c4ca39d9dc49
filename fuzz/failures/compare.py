"""Before and after: runs the same traces on two targets, and classifies each difference.

A failure with the same identity on both targets *still fails*; any other failure of the target
after the change is *broken* by it. A field that the target before gets wrong in a trace is excluded
for both, and the trace is judged again from its start, so that the old defect hides no new one. In
the excluded fields a wrong answer is broken, too, unless the target before gives the same one. A
failure of the target before only is *fixed*. If neither fails, both keep to their contracts, and
different answers are *observable*. Traces are drawn for the target after the change. The one before
gets no action that it does not carry out: its trace ends there. Invariants: two equal targets have
no difference; differences depend on the trace alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from typing_extensions import override

from fuzz import run as runs
from fuzz.descriptions import describe_value
from fuzz.failure import BROKE, FIXED, OBSERVABLE, STILL_FAILS, Failure, Reaching
from fuzz.failures.wrong_answers import wrong_answers
from fuzz.oracles import RerunOracle
from fuzz.oracles.excluded import excluded_for, field_of
from fuzz.oracles.oracle import unpromised
from fuzz.protocol.actions import NAMES, Action, BeginThread
from fuzz.protocol.agreement import disagreement
from fuzz.protocol.contract import Contract, problem_of_configuration
from fuzz.protocol.observation import FIELDS, Observation
from fuzz.protocol.target import FullTarget, Target, contract_of, full
from fuzz.protocol.trace import VERSION, EarlierTrace, Header, Trace
from fuzz.run import Run, run_through
from fuzz.targets import TargetOptions, make_target

if TYPE_CHECKING:
    from fuzz.engines.random import Judge

COMPARED = tuple(field for field in FIELDS if field != "graph")
"""Both graphs are right. If only one target shows its graph, the other collects at another time."""


@attrs.frozen
class Before:
    """The target before the change."""

    target: str
    options: TargetOptions

    def make_target(self) -> Target:
        return make_target(self.target, self.options)

    def under_contract(self) -> Before:
        """The same with the contract that the target states. Raises BadInputError."""
        contract = contract_of(self.make_target())
        return attrs.evolve(self, options=attrs.evolve(self.options, contract=contract))


class Pair(FullTarget):
    """Two targets. It behaves like the one after the change; only comparisons use the other."""

    def __init__(self, before: Target, after: Target) -> None:
        self.before, self.after = full(before), full(after)
        self.name = self.after.name
        self._settings = [each.default_contract().settings for each in (self.before, self.after)]
        self.starts_afresh = any(each.starts_afresh for each in (self.before, self.after))

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self.after.start(configuration)

    @override
    def perform(self, action: Action) -> Observation:
        return self.after.perform(action)

    def allows(self, configuration: Mapping[str, int]) -> bool:
        """Whether both targets can be started with this configuration."""
        return not any(problem_of_configuration(configuration, each) for each in self._settings)


def run_again(
    target: Target,
    wanted: Failure | Reaching,
    configuration: Mapping[str, int],
    actions: Sequence[Action],
) -> Failure | Reaching | None:
    """Run actions with all that it takes to see `wanted` again, on one target or on a pair."""
    if not (isinstance(target, Pair) and isinstance(wanted, Failure)):
        return runs.run_again(target, wanted, configuration, actions)
    found = _compare_once(target, wanted, configuration, actions)
    if wanted.earlier and all(each.identity != wanted.identity for each in found):
        for one in (target.after, target.before):
            for shown in runs.run_earlier(one, wanted.earlier):
                # Its configuration and actions are those of the earlier trace that fails.
                found += _compare_once(target, shown, shown.configuration, shown.actions)
    return runs.wanted_among(found, wanted)


def _compare_once(
    pair: Pair, wanted: Failure, configuration: Mapping[str, int], actions: Sequence[Action]
) -> list[Failure]:
    """The differences in a trace that new processes run after the earlier traces of `wanted`."""
    if not pair.allows(configuration):
        return []
    earlier = wanted.earlier

    def judge(excluded: Collection[str]) -> tuple[Run, Failure | None]:
        again = wanted.rerun_oracles
        return _run_after(earlier, pair.after, configuration, actions, again, excluded)

    run, failure = judge(())
    if failure is None and wanted.change in {BROKE, STILL_FAILS} and not earlier:
        return []
    found = differences(pair.before, run, failure, wanted.rerun_oracles, judge, earlier)
    # It is the same difference only if no more fields have to be excluded to see it.
    excluded = {*wanted.excluded}
    same = (each for each in found if {*each.excluded} <= excluded)
    return [attrs.evolve(each, earlier=earlier) for each in same]


def _run_after(  # noqa: PLR0913 - a run, and what comes before it
    earlier: Sequence[EarlierTrace],
    target: Target,
    configuration: Mapping[str, int],
    actions: Sequence[Action],
    oracles: Collection[RerunOracle],
    excluded: Collection[str],
) -> tuple[Run, Failure | None]:
    """Run a trace. If there are earlier ones, a new process carries them out before."""
    if earlier:
        runs.run_earlier(target, earlier)
    return run_through(target, configuration, actions, oracles, excluded)


def differences(  # noqa: PLR0913 - a run, and how to repeat it
    before: Target,
    run: Run,
    failure: Failure | None,
    oracles: Collection[RerunOracle],
    judge: Judge,
    earlier: Sequence[EarlierTrace] = (),
) -> Iterator[Failure]:
    """The differences in a trace that ended with `failure` on the target after the change, if any.

    `oracles` run a trace twice that has not failed after the change. `judge` runs the trace on that
    target again. Each kind of change is reported once at most, because later differences in a trace
    may follow from the first one. If there are `earlier` traces, each run comes after them.
    """
    excluded: frozenset[str] = frozenset()
    reported = set[str]()
    while True:
        asked = oracles if failure is None else failure.rerun_oracles
        run_before, failure_before = _run_after(
            earlier, before, run.configuration, run.actions, asked, excluded
        )
        if failure_before is None:
            if failure is not None:
                yield _difference(failure, BROKE)
                return
            break
        found = _of_both(failure, failure_before)
        if found is not None and found.change not in reported:
            reported.add(found.change)
            yield found
        if failure is None:
            break
        more = excluded_for(failure_before.field) - excluded
        if failure.kind != failure_before.kind and (
            not more or _is_lost(before, earlier, run, failure, excluded | more)
        ):
            yield _difference(failure, BROKE, f"before: {' / '.join(failure_before.kind)}")
            return
        if not more:
            break
        excluded |= more
        run, failure = judge(excluded)
    late = _late(run_before, run, excluded)
    if late is not None:
        yield late
    elif failure is None and failure_before is None:
        yield from _observable(run_before, run)


def _of_both(failure: Failure | None, failure_before: Failure) -> Failure | None:
    """The same failure in both, or one that is fixed; None if that is not yet known.

    If both fail in the same action, one failure may hide the other.
    """
    if failure is not None and failure.kind == failure_before.kind:
        return _difference(failure, STILL_FAILS, "the same failure as before")
    if failure is None or len(failure_before.actions) < len(failure.actions):
        return _difference(failure_before, FIXED)
    return None


def _is_lost(
    before: Target,
    earlier: Sequence[EarlierTrace],
    run: Run,
    failure: Failure,
    excluded: frozenset[str],
) -> bool:
    """Whether excluding the fields would hide a failure that the target before does not have.

    It has the failure if both give the same wrong answer to the same action.
    """
    field = field_of(failure.field)
    # The failure is not in a field that was excluded before.
    if field not in excluded:
        return False
    then, _ = _run_after(earlier, before, run.configuration, run.actions, (), excluded)
    return (
        bool(failure.rerun_oracles)
        or then.answered < run.answered
        or getattr(then.last, field) != getattr(run.last, field)
    )


def _late(before: Run, after: Run, excluded: frozenset[str]) -> Failure | None:
    """The first wrong answer after the change in an excluded field, if the one before is another.

    If chance decides about a field, its wrong answers differ anyway.
    """
    fields = excluded - {*_by_chance(before, after)}
    answers = [*zip(before.answers, after.answers, strict=False)]
    is_alike = before.contract == after.contract
    if is_alike and all(_is_same(field, *both) for both in answers for field in fields):
        return None
    known = {} if is_alike else wrong_answers(before, excluded)
    for (number, field), wrong in wrong_answers(after, excluded).items():
        if field not in fields or number >= len(answers):
            continue
        if _is_same(field, *answers[number]) and (is_alike or (number, field) in known):
            continue
        others = tuple(each for each in after.contract.observes if each in excluded)
        others = tuple(each for each in others if each not in excluded_for(field))
        found = after.failure_after(number + 1, wrong.mismatch, wrong.description, others)
        was = describe_value(field, getattr(answers[number][0], field), after.contract.layout.kinds)
        why = f"before: {was or 'nothing'}; earlier wrong answers are as before"
        return attrs.evolve(_difference(found, BROKE, why), is_late=True)
    return None


def _is_same(field: str, then: Observation, now: Observation) -> bool:
    """Whether two answers agree in a field. Figures of memory are in reports, too."""
    fields = ("memory", "reports") if field == "memory" else (field,)
    return all(getattr(then, each) == getattr(now, each) for each in fields)


def counted_as(failure: Failure) -> str:
    """The name under which a difference is counted: its change and kind, and last the action."""
    what = (each for each in failure.kind if each != failure.action)
    return " / ".join((failure.change, *what, failure.action))


def counted_by_verdict(counts: Counter[str], verdicts: Mapping[str, str]) -> Counter[str]:
    """The counts of differences under what more runs have shown, by the name until then.

    A name has no action if its differences are the same after any action.
    """
    renamed = Counter[str]()
    for name, count in counts.items():
        change, _, what = name.partition(" / ")
        change = verdicts.get(name) or verdicts.get(name.rpartition(" / ")[0]) or change
        renamed[f"{change} / {what}"] += count
    return renamed


def name_of_verdict(failure: Failure) -> str:
    """The name under which the verdict about a difference holds for others, too."""
    name = counted_as(failure)
    return name if failure.action in failure.kind else name.rpartition(" / ")[0]


def _difference(failure: Failure, change: str, before: str = "") -> Failure:
    """A failure as a difference; `before` says what the target before does."""
    why = "; ".join(filter(None, (failure.why, before)))
    return attrs.evolve(failure, change=change, why=why)


def _observable(before: Run, after: Run) -> Iterator[Failure]:
    """The first difference in each field that both observe and that chance does not decide."""
    observed = {*before.contract.observes} & {*after.contract.observes}
    ignored = {*_by_chance(before, after), *before.excluded, *after.excluded}
    fields = [each for each in COMPARED if each in observed - ignored]
    answers = zip(before.answers, after.answers, strict=False)
    for number, (then, now) in enumerate(answers, 1):
        if then == now:
            continue
        for field in list(fields):
            was, is_now = getattr(then, field), getattr(now, field)
            # The order of events matters only if the events are the same.
            if was == is_now or (field == "order" and sorted(was) != sorted(is_now)):
                continue
            fields.remove(field)
            actions = tuple(after.actions[:number])
            header = Header(VERSION, "", contract=before.contract)
            kinds = after.contract.layout.kinds
            yield Failure(
                oracle=OBSERVABLE,
                field=field,
                action=NAMES[type(actions[-1])],
                direction="different",
                expected=describe_value(field, was, kinds) or "nothing",
                got=describe_value(field, is_now, kinds) or "nothing",
                why=disagreement(Trace(header, actions), after.contract)
                or "both keep to their contracts",
                change=OBSERVABLE,
                configuration=after.configuration,
                actions=actions,
            )


def _by_chance(before: Run, after: Run) -> Iterator[str]:
    """The fields in which one of the targets may answer differently in its next run."""
    is_born = any(isinstance(action, BeginThread) for action in after.actions)
    for contract in (before.contract, after.contract):
        yield from unpromised(contract)
        yield from contract.sampling.counting.left_to_chance(is_born)


def contract_changes(before: Contract, after: Contract) -> Iterator[str]:
    """A line for each difference of two contracts."""
    ways = [each.sampling.counting.by for each in (before, after)]
    yield from _changes("sampling.counting.by", *ways)
    yield from _changes("", *(attrs.asdict(each) for each in (before, after)))


def _changes(place: str, then: Any, now: Any) -> Iterator[str]:  # noqa: ANN401 - plain data
    if then == now:
        return
    old, new = _by_name(then), _by_name(now)
    parts = [isinstance(each, dict) for each in (old, new)]
    if None in (old, new) and any(parts):
        yield f"{place} {'new' if old is None else 'gone'}"
        return
    if not all(parts):
        yield f"{place} {json.dumps(then)} → {json.dumps(now)}"
        return
    for key in dict.fromkeys((*old, *new)):
        name = f"{place}.{key}" if place else key
        if key in old and key in new:
            yield from _changes(name, old[key], new[key])
        else:
            yield f"{name} {'gone' if key in old else 'new'}"


def _by_name(data: Any) -> Any:  # noqa: ANN401 - plain data
    """A list as a dictionary, if its items have names, so that their order does not matter."""
    if isinstance(data, tuple | list):
        if all(isinstance(each, str) for each in data):
            return dict.fromkeys(data)
        if all(isinstance(each, dict) and "name" in each for each in data):
            return {each["name"]: each for each in data}
    return data
