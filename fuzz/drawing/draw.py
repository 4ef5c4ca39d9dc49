"""Draws what a trace is made of: a configuration, a length, and one action after another.

An action is the next one of a scenario, or else one that a rule on the menu draws. The random
engine prefers rules whose action the trace has done least often. Invariant: each trace counts what
it has done by itself, so the same choices give the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from types import MappingProxyType

from fuzz.drawing.rules import Rule, rules_for
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.scenarios import next_of, roots_are_freed, scenarios_for, starts_of_long_traces
from fuzz.drawing.situation import Choices, Situation
from fuzz.mutator.legality import why_illegal, why_too_often
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, Setting

NO_SETTINGS: Mapping[str, int] = MappingProxyType({})
CANDIDATES = 4
"""Of that many rules, the one is taken whose action is rarest in the trace so far.

Without it, known bugs of the allocators take 58 actions, and not 41
(docs/evidence/effectiveness.md).
"""
TRIES_MAX = 64
"""How many rules are tried at random until one has subjects."""
ACTIONS_MIN, ACTIONS_MAX, LONG_ACTIONS_MAX = 10, 64, 500
"""With fewer traces of up to 1,000 actions, known bugs took 5 % more actions."""
LONG_SHARE = 16
"""One trace in 16 is longer than ACTIONS_MAX."""
STARTED_ACTIONS = 150
"""Most traces of the random engine that are at least this long start with a scenario for long
traces. With a long life in half of them, there are nine in 20,000 actions."""
SUMS_ACTIONS = 8192
"""How long a trace may be if weights are judged only by what many of them add up to."""
RARE_SAMPLES_BYTES = 2**16
RARE_SAMPLES_ACTIONS = 2048
"""How long a trace may be if no period is shorter than RARE_SAMPLES_BYTES.

What .NET leaves of a context unsampled after enabling takes about 45 rounds of 16 threads to show:
1,600 actions.
"""
STARTED_SHARE = 2
"""Outside a scenario, one action in 2 starts one."""
INTERRUPTED_SHARE = 32
"""One action in 32 interrupts a scenario.

It was one in 16 until commit 03fd69a, whose changes together let known bugs take an eighth fewer
actions."""


class NothingLegalError(BadInputError):
    """The contract leaves no action that is legal here."""

    def __init__(self, why: str = "the contract supports no action that is legal here") -> None:
        # An argument, since pickle passes the message to the class.
        super().__init__(why)


def check_beginning(situation: Situation, configuration: Mapping[str, int] = NO_SETTINGS) -> None:
    """Raises NothingLegalError if no trace can start there, under this configuration."""
    if any(rule.subjects(situation) for rule in rules_for(situation.contract)):
        return
    if not configuration:
        raise NothingLegalError
    settings = ", ".join(f"{name}={value}" for name, value in configuration.items())
    raise NothingLegalError(f"with {settings}, the contract supports no action that is legal here")


@cache
def menu_of(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Each of the rules, repeated by its weight."""
    return tuple(rule for rule in rules for _ in range(rule.weight))


def draw_action(
    situation: Situation, menu: Sequence[Rule], choices: Choices, prefers_new: bool = True
) -> Action:
    """A legal action: the next one of a scenario, or else one that a rule on the menu draws.

    If no rule that is tried has subjects, the first rule that has some draws the action. Raises
    NothingLegalError if there is none. `prefers_new` means that it depends on earlier actions.
    """
    action = draw_from_scenario(situation, choices)
    if action is None and prefers_new:
        action = _draw_new(situation, menu, choices)
    if action is None:
        action = _draw_by_rule(situation, menu, choices)
    situation.done[type(action), situation.state] += 1
    return action


def _draw_new(situation: Situation, menu: Sequence[Rule], choices: Choices) -> Action | None:
    """Of a few rules, the one draws whose action the trace has done least often in this state.

    None if none of them has subjects, or if it draws nothing.
    """
    done, state = situation.done, situation.state
    chosen, least = None, 0
    for _ in range(CANDIDATES):
        rule = menu[choices.below(len(menu))]
        times = done.get((rule.action, state), 0)
        if (chosen is None or times < least) and rule.subjects(situation):
            chosen, least = rule, times
            if not times:
                break
    return None if chosen is None else drawn_by(chosen, situation, choices)


def _draw_by_rule(situation: Situation, menu: Sequence[Rule], choices: Choices) -> Action:
    tried = (menu[choices.below(len(menu))] for _ in range(TRIES_MAX))
    for rule in chain(tried, rules_for(situation.contract)):
        action = drawn_by(rule, situation, choices)
        if action is not None:
            return action
    raise NothingLegalError


def drawn_by(rule: Rule, situation: Situation, choices: Choices) -> Action | None:
    """An action that the rule draws; None if it has no subjects, or too little memory is left."""
    subjects = rule.subjects(situation)
    if not subjects:
        return None
    action = rule.draw_for(situation, choices, subjects)
    return None if why_too_often(action, situation.contract, situation.bench.shadow) else action


def start_long(situation: Situation, choices: Choices) -> None:
    """Start three of four traces with a scenario for long traces, if there is one."""
    starts = starts_of_long_traces(situation.contract)
    if starts and choices.below(4):
        start = choices.pick(starts)
        situation.scenario = start(ScenarioMutator(situation, choices), choices)


def draw_from_scenario(situation: Situation, choices: Choices) -> Action | None:
    """The next action of a scenario: one that starts now, or one that goes on uninterrupted.

    None if there is none. A scenario ends after its last action, and when its next action is not
    legal.
    """
    if situation.scenario is None:
        if not choices.one_in(STARTED_SHARE):
            return None
        is_late = sum(situation.done.values()) > ACTIONS_MAX
        scenarios = scenarios_for(situation.contract, is_late)
        if not scenarios:
            return None
        # If the roots are full, any other scenario would end at once. Before some of them were
        # freed, half of the traces had no scenario (commit 03fd69a).
        start = choices.pick(scenarios) if situation.may_allocate() else roots_are_freed
        situation.scenario = start(ScenarioMutator(situation, choices), choices)
    elif choices.one_in(INTERRUPTED_SHARE):
        return None
    # The thread comes first: what a scenario draws depends on the sampler of that thread.
    if situation.threads > 1:
        situation.take_turn(choices)
    situation.found_legal = None
    action = next_of(situation.scenario)
    if action is None:
        situation.scenario = None
        return None
    is_legal = action is situation.found_legal
    if situation.thread:
        action = action.by(situation.thread)
    # A rule may have ended the thread that a scenario has chosen.
    if not is_legal and why_illegal(action, situation.contract, situation.bench.shadow):
        situation.scenario = None
        return None
    return action


def draw_length(choices: Choices, contract: Contract) -> int:
    """How many actions a trace has: 10 to 64, and sometimes up to 500.

    Many short traces, each in a heap of its own kind, reach more than a few long ones, but some
    states need long ones. If samples are judged by their number alone and no period is short, more
    traces are long; also if weights are judged by their sums.
    """
    rule = contract.sampling
    if rule.distances == "random" and rule.period_bytes.minimum >= RARE_SAMPLES_BYTES:
        if choices.one_in(8):
            return RARE_SAMPLES_ACTIONS
    elif rule.weights == "sums":
        if choices.one_in(8):
            return SUMS_ACTIONS
    elif choices.one_in(LONG_SHARE):
        return choices.log_between(ACTIONS_MAX, LONG_ACTIONS_MAX)
    return choices.log_between(ACTIONS_MIN, ACTIONS_MAX)


def draw_configuration(settings: Sequence[Setting], choices: Choices) -> dict[str, int]:
    """A legal configuration; every setting is drawn, small values as likely as large ones."""
    configuration: dict[str, int] = {}
    for setting in sorted(settings, key=lambda setting: setting.at_most is not None):
        legal = setting.range
        if setting.at_most:
            most = min(configuration[setting.at_most], legal.maximum)
            legal = Range(legal.minimum, most, legal.multiple)
        configuration[setting.name] = _draw_setting(setting, legal, choices)
    return configuration


def _draw_setting(setting: Setting, legal: Range, choices: Choices) -> int:
    if setting.choices:
        return choices.pick([choice for choice in setting.choices if choice <= legal.maximum])
    if legal.minimum <= 0:
        shift = 1 - legal.minimum  # Logarithms need numbers from 1 up.
        return legal.nearest(choices.log_between(1, legal.maximum + shift) - shift)
    if setting.at_most:
        # Most other values leave no room for pinned objects, or for any objects inside.
        if not choices.one_in(2):
            return legal.nearest(min(setting.default, legal.maximum))
        # A bug may show only if a setting is equal to the one that bounds it.
        if choices.one_in(3):
            return legal.nearest(legal.maximum)
    # Large values cost time and reach little, so the smallest of three draws is taken.
    return legal.nearest(min(choices.log_between(legal.minimum, legal.maximum) for _ in range(3)))
