"""`gcfuzz check`: tries each action and each setting of a contract once.

An action follows one allocation of each kind, once without sampling and once with it. More
allocations follow, because chance decides what each asks for. A setting is tried at its bounds.
Invariant: the same contract is tried by the same traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from fuzz.cancellation import after
from fuzz.drawing.draw import check_beginning, drawn_by
from fuzz.drawing.rules import Rule, rules_for
from fuzz.drawing.situation import Choices, Situation
from fuzz.engines.random import RandomChoices
from fuzz.failure import Failure
from fuzz.failures.reduce import reduce_failure
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch
from fuzz.oracles.sampling import SamplingOracle
from fuzz.protocol.actions import ACTIONS
from fuzz.protocol.contract import Contract, problem_of_configuration
from fuzz.protocol.observation import HANG, Observation
from fuzz.protocol.target import Target, contract_of
from fuzz.run import Run, rerun

SECONDS_MAX, REDUCE_SECONDS_MAX = 60.0, 10.0
"""The time for all tries, and for reductions of failures, which have few actions already."""
FAILURES_MAX = 8
"""A session finds more."""
TRIES_MIN, TRIES_MAX = 2, 16
"""How often an action is tried, and how often until it is legal."""
DEATH = ("register_finalizer", *["free"] * 6, "collect_full")
PREPARED_BY = {
    "begin_thread": ("end_thread",),
    "unpin": ("pin",),
    "resume_sampling": ("enable_sampling", "pause_sampling"),
    "unregister_finalizer": ("register_finalizer",),
    "run_finalizers": DEATH,
    "resurrect": (*DEATH, "run_finalizers"),
}
"""Actions that are not legal after allocations alone, or have no effect."""


@attrs.define
class Handshake:
    """The results. `failures` has one failure of each identity, reduced."""

    contract: Contract
    tried: set[str] = attrs.Factory(set)
    """The actions that were performed."""
    values: int = 0
    """How many values of settings were tried."""
    observed: set[str] = attrs.Factory(set)
    """The fields that had a value."""
    failures: dict[tuple[str, ...], Failure] = attrs.Factory(dict)
    hung: set[str] = attrs.Factory(set)
    """The actions that got no answer in time. They are not tried again, because each try waits."""
    is_cut: bool = False
    """Whether not all was tried, because too much fails or it takes too long."""

    @property
    def untried(self) -> list[str]:
        """Promised actions that were never legal, or not tried any more."""
        return [name for name in self.contract.actions if name not in self.tried]

    @property
    def unpromised_actions(self) -> list[str]:
        """Actions that the contract does not list, so that no session performs them."""
        return [name for name in ACTIONS if name not in self.contract.actions]

    @property
    def unpromised_fields(self) -> list[str]:
        """Fields that are reported but not promised, so that no oracle judges them."""
        return sorted(self.observed - {*self.contract.observes, "error"})

    @property
    def silent_fields(self) -> list[str]:
        """Fields that are promised but were never reported."""
        return [field for field in self.contract.observes if field not in self.observed]

    @property
    def judges(self) -> list[str]:
        """The oracles that can judge this contract.

        The sampling oracle also judges what an object costs. If nothing is sampled, its fields are
        named, and if the contract observes none of these, it is left out.
        """
        names = {kind: kind.__name__ for kind in Bench(self.contract).oracles}
        judges = {kind: name.removesuffix("Oracle").lower() for kind, name in names.items()}
        if not self.contract.samples:
            fields = [each for each in SamplingOracle.judges if each in self.contract.observes]
            name = judges.pop(SamplingOracle)
            if fields:
                judges[SamplingOracle] = f"{name} (only {' and '.join(fields)})"
        return [*judges.values()]


def shake_hands(target: Target) -> Handshake:
    """Try it all. Raises BadInputError if there is no contract, or no first action."""
    contract = contract_of(target)
    check_beginning(Situation(contract, Bench(contract)))
    handshake = Handshake(contract)
    is_late, is_reduced = after(SECONDS_MAX), after(REDUCE_SECONDS_MAX)
    for configuration, rules, seed in _traces(handshake):
        failure = _try(handshake, target, configuration, rules, RandomChoices(seed))
        if failure is not None:
            if failure.got.startswith(HANG):
                handshake.hung.add(failure.action)
            if failure.identity not in handshake.failures:
                reduced = reduce_failure(target, failure, is_reduced)
                handshake.failures[failure.identity] = reduced
        handshake.is_cut = len(handshake.failures) >= FAILURES_MAX or is_late()
        if handshake.is_cut:
            break
    return handshake


def _traces(handshake: Handshake) -> Iterator[tuple[Mapping[str, int], list[Rule], str]]:
    """The next trace: a configuration, the rules that draw one action each, and a seed."""
    rules = rules_for(handshake.contract)
    allocations = [rule for rule in rules if rule.action.allocates]
    switch = [rule for rule in rules if rule.name == "enable_sampling"]
    for rule in rules:
        prepared = PREPARED_BY.get(rule.name, ())
        helpers = [each for name in prepared for each in rules if each.name == name]
        for attempt in range(TRIES_MAX):
            if attempt >= TRIES_MIN and rule.name in handshake.tried:
                break
            first = switch if attempt % 2 else []
            yield {}, [*first, *allocations, *helpers, rule], f"{rule.name}/{attempt}"
    for attempt in range(TRIES_MAX):
        yield {}, [*switch, *allocations, *allocations], f"allocations/{attempt}"
    settings = handshake.contract.settings
    for setting in settings:  # The others have their defaults.
        legal = setting.range
        bounds = legal.nearest(legal.minimum), legal.nearest(legal.maximum)
        for value in dict.fromkeys(setting.choices or bounds):
            configuration = {setting.name: value}
            if problem_of_configuration(configuration, settings) is None:
                handshake.values += 1
                yield configuration, [*switch, *allocations, *rules[:1]], str(configuration)


def _try(
    handshake: Handshake,
    target: Target,
    configuration: Mapping[str, int],
    rules: list[Rule],
    choices: Choices,
) -> Failure | None:
    """Perform an action by each rule, if one is legal; returns what fails."""
    run, nothing = Run(target, configuration), Observation()
    try:
        for rule in rules:
            # A setting may decide which actions the program carries out.
            is_skipped = rule.name in handshake.hung or rule.name not in run.contract.actions
            action = None if is_skipped else drawn_by(rule, run.situation, choices)
            if action is None:
                continue
            handshake.tried.add(rule.name)
            try:
                run.step(action)
            finally:
                fields = attrs.fields_dict(Observation)
                handshake.observed |= {
                    name for name in fields if getattr(run.last, name) != getattr(nothing, name)
                }
        run.finish()
        for oracle in RERUN_ORACLES.values():
            rerun(target, run, oracle)
    except Mismatch as mismatch:
        return run.failure(mismatch)
    return None
