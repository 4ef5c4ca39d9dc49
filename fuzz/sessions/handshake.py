"""A handshake: what a contract promises is tried once, each action and each setting.

An action comes after one allocation of each kind, once without sampling and once with it. Then come
more allocations, since chance draws what each asks for; a setting is tried at its bounds.
Invariant: the same contract is tried by the same traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from fuzz.cancellation import after
from fuzz.drawing.draw import check_beginning
from fuzz.drawing.rules import Choices, Rule, Situation, rules_for
from fuzz.engines.random import RandomChoices
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch
from fuzz.protocol.actions import ACTIONS
from fuzz.protocol.contract import Contract, Setting, problem_of_configuration
from fuzz.protocol.observation import HANG, Observation
from fuzz.protocol.target import Target, contract_of
from fuzz.run import Failure, Run, rerun
from fuzz.sessions.reduce import reduce_failure

SECONDS_MAX, REDUCE_SECONDS_MAX = 60.0, 10.0
"""Of all that is tried, and until when a failure is reduced, which has a few actions already."""
FAILURES_MAX = 8
"""More of them are a session's business."""
TRIES_MIN, TRIES_MAX = 2, 16
"""An action is tried so often, and so often until it was legal."""
PREPARED_BY = {"unpin": "pin"}
"""What has nothing to act upon after allocations alone."""
SILENCE = Observation()


@attrs.define
class Handshake:
    """What came of it. `failures` are one of each identity, reduced."""

    contract: Contract
    tried: set[str] = attrs.Factory(set)
    """The actions that were performed."""
    values: int = 0
    """How many values of settings were tried."""
    said: set[str] = attrs.Factory(set)
    """The fields in which something was said."""
    failures: dict[tuple[str, ...], Failure] = attrs.Factory(dict)
    hung: set[str] = attrs.Factory(set)
    """The actions that got no answer in time. They are not tried again, since each try waits."""
    is_cut: bool = False
    """Whether so much fails, or takes so long, that not all was tried."""

    @property
    def untried(self) -> list[str]:
        """Promised actions that were not legal, or not tried any more."""
        return [name for name in self.contract.actions if name not in self.tried]

    @property
    def unpromised_actions(self) -> list[str]:
        """What the contract does not list, so that no session asks for it."""
        return [name for name in ACTIONS if name not in self.contract.actions]

    @property
    def unpromised_fields(self) -> list[str]:
        """What is said all the same, and judged by nobody."""
        return sorted(self.said - {*self.contract.observes, "error"})

    @property
    def silent_fields(self) -> list[str]:
        """Where nothing was ever said, though the contract promises it."""
        return [field for field in self.contract.observes if field not in self.said]

    @property
    def judges(self) -> list[str]:
        """The oracles that have something to judge."""
        names = (type(oracle).__name__ for oracle in Bench(self.contract).oracles.values())
        return [name.removesuffix("Oracle").lower() for name in names]


def shake_hands(target: Target) -> Handshake:
    """Try it all. Raises BadInputError if there is no contract, or none that can be begun with."""
    contract = contract_of(target)
    check_beginning(Situation(contract, Bench(contract)))
    hands = Handshake(contract)
    is_late, is_reduced = after(SECONDS_MAX), after(REDUCE_SECONDS_MAX)
    for configuration, rules, seed in _traces(hands):
        failure = _try(hands, target, configuration, rules, RandomChoices(seed))
        if failure is not None and failure.got.startswith(HANG):
            hands.hung.add(failure.action)
        if failure is not None and failure.identity not in hands.failures:
            hands.failures[failure.identity] = reduce_failure(target, failure, is_reduced)
        hands.is_cut = len(hands.failures) >= FAILURES_MAX or is_late()
        if hands.is_cut:
            break
    return hands


def _traces(hands: Handshake) -> Iterator[tuple[Mapping[str, int], list[Rule], str]]:
    """What to try next: a configuration, an action by each of the rules, and a seed."""
    rules = rules_for(hands.contract)
    allocations = [rule for rule in rules if rule.action.allocates]
    switch = [rule for rule in rules if rule.name == "enable_sampling"]
    for rule in rules:
        helpers = [each for each in rules if each.name == PREPARED_BY.get(rule.name)]
        for attempt in range(TRIES_MAX):
            if attempt >= TRIES_MIN and rule.name in hands.tried:
                break
            first = switch if attempt % 2 else []
            yield {}, [*first, *allocations, *helpers, rule], f"{rule.name}/{attempt}"
    for attempt in range(TRIES_MAX):
        yield {}, [*switch, *allocations, *allocations], f"allocations/{attempt}"
    for configuration in _configurations(hands.contract.settings):
        hands.values += 1
        yield configuration, [*switch, *allocations, *rules[:1]], str(configuration)


def _configurations(settings: tuple[Setting, ...]) -> Iterator[dict[str, int]]:
    """Each setting at its bounds, or with each of its values, the others at their defaults."""
    for setting in settings:
        legal = setting.range
        bounds = legal.nearest(legal.minimum), legal.nearest(legal.maximum)
        for value in dict.fromkeys(setting.choices or bounds):
            configuration = {setting.name: value}
            if problem_of_configuration(configuration, settings) is None:
                yield configuration


def _try(
    hands: Handshake,
    target: Target,
    configuration: Mapping[str, int],
    rules: list[Rule],
    choices: Choices,
) -> Failure | None:
    """Run a trace of one action by each of the rules, as far as it is legal."""
    run = Run(target, configuration)
    try:
        for rule in rules:
            _perform(hands, run, rule, choices)
        run.finish()
        for oracle in RERUN_ORACLES.values():
            rerun(target, run, oracle)
    except Mismatch as mismatch:
        return run.failure(mismatch)
    return None


def _perform(hands: Handshake, run: Run, rule: Rule, choices: Choices) -> None:
    subjects = rule.subjects(run.situation)
    if not subjects or rule.name in hands.hung:
        return
    hands.tried.add(rule.name)
    try:
        run.step(rule.draw_for(run.situation, choices, subjects))
    finally:
        fields = attrs.fields(Observation)
        hands.said |= {
            each.name
            for each in fields
            if getattr(run.last, each.name) != getattr(SILENCE, each.name)
        }
