"""Drawing: what a trace is made of, from `Choices` and the rules.

A configuration, a length, a menu of rules, and then one action after another: the next of a
scenario, or else by a rule on the menu.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from fuzz.drawing.rules import Choices, Rule, Situation, rules_for
from fuzz.drawing.scenarios import next_of, room_is_made, scenarios_for
from fuzz.mutator.legality import why_illegal
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, Setting

AT_MOST_SHARE = 3
"""A setting that has an upper bound in another one is equal to it once in so many, at least."""
TRIES_MAX = 64
"""So many rules are tried by chance."""
ACTIONS_MIN = 10
ACTIONS_MAX = 64
LONG_SHARE = 32
"""One trace in so many is a long one."""
LONG_ACTIONS_MAX = 1000
RARE_SAMPLES_BYTES = 2**16
RARE_SAMPLES_SHARE = 8
RARE_SAMPLES_ACTIONS = 2048
"""Where every period has so many bytes, one trace in eight has 2,048 actions."""
SCENARIO_SHARE = 2
"""One action in so many begins a scenario, unless one has begun."""
INTERRUPTED_SHARE = 32
"""One action in so many interrupts a scenario."""


class NothingLegalError(BadInputError):
    """The contract leaves no action that is legal here."""

    def __init__(self) -> None:
        super().__init__("the contract supports no action that is legal here")


def check_beginning(situation: Situation) -> None:
    """Raises NothingLegalError if no trace can begin there."""
    if not any(rule.subjects(situation) for rule in rules_for(situation.contract)):
        raise NothingLegalError


@cache
def menu_of(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Each of the rules as often as it is to be drawn."""
    return tuple(rule for rule in rules for _ in range(rule.weight))


def draw_action(situation: Situation, menu: Sequence[Rule], choices: Choices) -> Action:
    """A legal action: the next of a scenario, or else by one of the rules on the menu.

    If chance finds no rule that has subjects, it is the first of all that has some. Raises
    NothingLegalError if there is none.
    """
    action = draw_from_scenario(situation, choices)
    if action is not None:
        return action
    for _ in range(TRIES_MAX):
        rule = menu[choices.below(len(menu))]
        subjects = rule.subjects(situation)
        if subjects:
            return rule.draw_for(situation, choices, subjects)
    for rule in rules_for(situation.contract):
        subjects = rule.subjects(situation)
        if subjects:
            return rule.draw_for(situation, choices, subjects)
    raise NothingLegalError


def draw_from_scenario(situation: Situation, choices: Choices) -> Action | None:
    """The next action of a scenario: one that begins now, or one that goes on uninterrupted.

    None if there is none. A scenario ends when it has told all, and when what comes next in it is
    not legal.
    """
    if situation.scenario is None:
        if choices.below(SCENARIO_SHARE) < SCENARIO_SHARE - 1:
            return None
        scenarios = scenarios_for(situation.contract)
        if not scenarios:
            return None
        begin = choices.pick(scenarios) if situation.has_room() else room_is_made
        situation.scenario = begin(situation, choices)
    elif choices.below(INTERRUPTED_SHARE) == INTERRUPTED_SHARE - 1:
        return None
    # The thread comes first, since what a scenario draws leans on that thread's sampler.
    if situation.threads > 1:
        situation.take_turn(choices)
    action = next_of(situation.scenario)
    if action is None or why_illegal(action, situation.contract, situation.bench.shadow):
        situation.scenario = None
        return None
    return action.by(situation.thread) if situation.thread else action


def draw_length(choices: Choices, contract: Contract) -> int:
    """How many actions a trace has: 10 to 64, and sometimes up to 1,000.

    Many short traces, each in a heap of its own kind, reach more than a few long ones; but what
    takes time to build up needs some of these. More and longer ones are needed where the number of
    samples is judged by chance, and no period is short.
    """
    rule = contract.sampling
    if rule.distances == "random" and rule.period_bytes.minimum >= RARE_SAMPLES_BYTES:
        if choices.below(RARE_SAMPLES_SHARE) == RARE_SAMPLES_SHARE - 1:
            return RARE_SAMPLES_ACTIONS
    elif choices.below(LONG_SHARE) == LONG_SHARE - 1:
        return choices.log_between(ACTIONS_MAX, LONG_ACTIONS_MAX)
    return choices.log_between(ACTIONS_MIN, ACTIONS_MAX)


def draw_configuration(settings: Sequence[Setting], choices: Choices) -> dict[str, int]:
    """A legal configuration; every setting is drawn, small ones as likely as large ones."""
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
        # From 1 up there are logarithms.
        shift = 1 - legal.minimum
        return legal.nearest(choices.log_between(1, legal.maximum + shift) - shift)
    if setting.at_most and choices.below(AT_MOST_SHARE) == AT_MOST_SHARE - 1:
        return legal.nearest(legal.maximum)
    # Large values cost time and reach little, so the smallest of three draws is taken.
    return legal.nearest(min(choices.log_between(legal.minimum, legal.maximum) for _ in range(3)))
