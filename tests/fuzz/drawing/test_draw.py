"""Drawing a trace: its configuration and length, and legal actions by rules and scenarios."""

import math
from collections.abc import Callable, Iterator

import attrs
import pytest

from fuzz.drawing.draw import (
    draw_action,
    draw_configuration,
    draw_from_scenario,
    draw_length,
    menu_of,
)
from fuzz.drawing.rules import RULES, rules_for
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.situation import OBJECTS_MAX, Choices, Scenario, Situation
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol.actions import ACTIONS, NAMES, Action
from fuzz.protocol.contract import Range, SamplingRule, Setting, problem_of_configuration
from fuzz.protocol.target import Target
from fuzz.run import Run
from fuzz.targets import make_target
from fuzz.targets.references.collector import SETTINGS

TRACES = 100
ACTIONS_EACH = 60
DRAWS = 3000
SHARES = 32


@attrs.frozen
class Drawn:
    """An action, what is wrong with it, and whether a scenario goes on after it."""

    action: Action
    problem: str | None
    in_scenario: bool


def draw_trace(seed: str, *without: str, length: int = ACTIONS_EACH) -> list[Drawn]:
    """What is drawn for the reference and found right by all oracles; some actions unsupported."""
    source, drawn = RandomChoices(seed), []
    run = Run(make_target("reference"), draw_configuration(SETTINGS, source))
    supported = tuple(name for name in run.contract.actions if name not in without)
    contract = run.situation.contract = attrs.evolve(run.contract, actions=supported)
    menu = menu_of(rules_for(contract))
    for _ in range(length):
        action = draw_action(run.situation, menu, source)
        problem = why_illegal(action, contract, run.bench.shadow)
        drawn.append(Drawn(action, problem, run.situation.scenario is not None))
        run.step(action)
    return drawn


@pytest.fixture(scope="module")
def draws() -> list[Drawn]:
    """Thousands of draws, in heaps of many configurations."""
    return [each for number in range(TRACES) for each in draw_trace(f"test/{number}")]


def without_end() -> Scenario:
    while True:
        yield do.CollectStep()


# Actions.


@pytest.mark.slow
def test_every_drawn_action_is_legal(draws: list[Drawn]) -> None:
    assert [draw for draw in draws if draw.problem] == []


def test_all_kinds_of_actions_are_drawn(draws: list[Drawn], reference: Target) -> None:
    assert {NAMES[type(draw.action)] for draw in draws} == {*reference.start({}).actions}


def test_scenarios_and_rules_both_have_their_share(draws: list[Drawn]) -> None:
    in_scenario = sum(draw.in_scenario for draw in draws)
    assert len(draws) // 3 < in_scenario < len(draws) * 9 // 10


def test_the_actions_follow_from_the_seed() -> None:
    assert draw_trace("7") == draw_trace("7") != draw_trace("8")


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_that_the_target_does_not_carry_out_is_never_drawn(name: str) -> None:
    drawn = [each for number in range(5) for each in draw_trace(f"without/{number}", name)]
    assert [each for each in drawn if NAMES[type(each.action)] == name or each.problem] == []


def test_a_target_of_few_actions_is_drawn_all_of_them() -> None:
    few = {"allocate_string", "enable_sampling", "pin", "collect_minor", "free"}
    others = [name for name in ACTIONS if name not in few]
    drawn = [each for number in range(20) for each in draw_trace(f"few/{number}", *others)]
    assert [each for each in drawn if each.problem] == []
    assert {NAMES[type(each.action)] for each in drawn} == few


def test_the_simplest_action_is_a_minor_collection(situation: Situation, simplest: Choices) -> None:
    assert draw_action(situation, RULES, simplest) == do.CollectMinor()


@pytest.mark.parametrize("legal", ["collect_minor", "check_heap"])
def test_if_nothing_on_the_menu_is_legal_the_drawn_action_is(
    situation: Situation, simplest: Choices, legal: str
) -> None:
    contract = attrs.evolve(situation.contract, actions=(legal, "free"))
    free = [rule for rule in rules_for(contract) if rule.name == "free"]
    action = draw_action(attrs.evolve(situation, contract=contract), free, simplest)
    assert why_illegal(action, contract, situation.bench.shadow) is None


def test_a_contract_must_have_a_legal_action(situation: Situation, simplest: Choices) -> None:
    contract = attrs.evolve(situation.contract, actions=("free",))
    with pytest.raises(BadInputError, match="no action that is legal here"):
        draw_action(attrs.evolve(situation, contract=contract), rules_for(contract), simplest)


def test_a_menu_repeats_each_rule_by_its_weight() -> None:
    menu = menu_of(RULES)
    assert [menu.count(rule) for rule in RULES] == [rule.weight for rule in RULES]


# The trace prefers what it has not done.


class Scripted(Choices):
    """The first choice starts no scenario, the others are these."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = iter((0, *numbers))

    def below(self, bound: int) -> int:
        return next(self._numbers) % bound


MENU = [
    rule for name in ("collect_minor", "check_heap", "free") for rule in RULES if rule.name == name
]
MINOR, CHECK, FREE = range(3)


@pytest.fixture
def collected(situation: Situation) -> Situation:
    """The trace has done a minor collection."""
    situation.done[do.CollectMinor, None] += 1
    return situation


def test_what_the_trace_has_not_done_is_taken_at_once(collected: Situation) -> None:
    assert draw_action(collected, MENU, Scripted(CHECK)) == do.CheckHeap()


def test_what_the_trace_has_done_gives_way(collected: Situation) -> None:
    assert draw_action(collected, MENU, Scripted(MINOR, CHECK)) == do.CheckHeap()


def test_of_equals_the_first_is_taken(collected: Situation) -> None:
    collected.done[do.CheckHeap, None] += 1
    four = Scripted(MINOR, CHECK, CHECK, MINOR)
    assert draw_action(collected, MENU, four) == do.CollectMinor()


def test_the_same_is_new_in_another_phase(collected: Situation) -> None:
    collected.state = 1
    assert draw_action(collected, MENU, Scripted(MINOR)) == do.CollectMinor()


def test_a_rule_without_subjects_gives_way(collected: Situation) -> None:
    four = Scripted(FREE, MINOR, FREE, FREE)
    assert draw_action(collected, MENU, four) == do.CollectMinor()


def test_each_action_is_counted_in_its_phase(situation: Situation) -> None:
    draw_action(situation, MENU, Scripted(MINOR))
    assert situation.done == {(do.CollectMinor, None): 1}


# Scenarios start, and rules interrupt them.


def test_every_second_action_starts_a_scenario(
    situation: Situation, same: Callable[[int], Choices]
) -> None:
    drawn = [draw_from_scenario(attrs.evolve(situation), same(choice)) for choice in range(2)]
    assert [action is not None for action in drawn] == [False, True]


def test_where_there_is_no_room_some_roots_are_freed(situation: Situation, last: Choices) -> None:
    for _ in range(8):
        situation.bench.shadow.follow(do.AllocateNode(0), minors=0)
    situation.objects = OBJECTS_MAX
    drawn = [draw_from_scenario(situation, same) for same in (last, last)]
    assert drawn == [do.Free(7), None]


def test_without_room_and_roots_no_scenario_starts(situation: Situation, last: Choices) -> None:
    situation.objects = OBJECTS_MAX
    assert draw_from_scenario(situation, last) is None
    assert situation.scenario is None


def test_where_there_is_no_room_a_scenario_goes_on(situation: Situation, simplest: Choices) -> None:
    situation.objects = OBJECTS_MAX
    situation.scenario = without_end()
    assert draw_from_scenario(situation, simplest) == do.CollectStep()


def test_one_action_in_thirty_two_interrupts_a_scenario(
    situation: Situation, same: Callable[[int], Choices]
) -> None:
    situation.scenario = without_end()
    drawn = [draw_from_scenario(situation, same(choice)) for choice in range(SHARES)]
    assert [action is None for action in drawn] == [False] * (SHARES - 1) + [True]


def test_an_interruption_is_an_action_by_a_rule(situation: Situation, last: Choices) -> None:
    situation.scenario = without_end()
    assert draw_action(situation, RULES, last) == do.CheckHeap()


def test_an_action_that_the_scenario_found_legal_is_not_judged_again(
    situation: Situation, simplest: Choices, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutator = ScenarioMutator(situation, simplest)
    situation.scenario = mutator.if_legal(do.CollectStep)
    monkeypatch.setattr("fuzz.drawing.draw.why_illegal", lambda *_: pytest.fail("judged twice"))
    assert draw_from_scenario(situation, simplest) == do.CollectStep()


def test_an_action_is_judged_although_an_earlier_one_was_found_legal(
    situation: Situation, simplest: Choices
) -> None:
    def scenario() -> Scenario:
        yield from ScenarioMutator(situation, simplest).if_legal(do.CollectStep)
        yield do.Free(99)

    situation.scenario = scenario()
    drawn = [draw_from_scenario(situation, simplest) for _ in range(2)]
    assert drawn == [do.CollectStep(), None]


def test_interrupted_scenarios_end(situation: Situation, simplest: Choices, last: Choices) -> None:
    situation.scenario = iter((do.CollectStep(), do.CollectFull()))
    sources = (simplest, last, simplest, simplest)
    drawn = [draw_from_scenario(situation, source) for source in sources]
    assert drawn == [do.CollectStep(), None, do.CollectFull(), None]
    assert situation.scenario is None


def test_an_illegal_action_ends_its_scenario(situation: Situation, simplest: Choices) -> None:
    situation.scenario = iter((do.Free(0), do.CollectStep()))
    assert draw_from_scenario(situation, simplest) is None
    assert situation.scenario is None


def test_after_the_end_of_a_scenario_a_rule_draws_and_another_one_starts(
    situation: Situation, simplest: Choices, last: Choices
) -> None:
    situation.scenario = iter(())
    assert draw_action(situation, RULES, simplest) == do.CollectMinor()
    draw_action(situation, RULES, last)
    assert situation.scenario is not None


def test_a_scenario_draws_from_the_situation_after_an_interruption(
    situation: Situation, simplest: Choices, last: Choices
) -> None:
    def scenario() -> Iterator[Action]:
        while True:
            yield do.AllocateNode(len(situation.roots))

    situation.scenario = scenario()
    for source in (simplest, last, simplest):
        draw_from_scenario(situation, source)
        situation.bench.shadow.follow(do.AllocateNode(0), minors=0)
    assert draw_from_scenario(situation, simplest) == do.AllocateNode(3)


@pytest.mark.slow
def test_actions_are_legal_after_any_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.drawing.draw.INTERRUPTED_SHARE", 2)
    drawn = [each for number in range(100) for each in draw_trace(f"interrupted/{number}")]
    assert [each for each in drawn if each.problem] == []


# Lengths, configurations.


REFERENCE = make_target("reference").start({})


@pytest.fixture(scope="module")
def lengths() -> list[int]:
    return [draw_length(RandomChoices(str(seed)), REFERENCE) for seed in range(DRAWS)]


def test_shortest_and_longest_trace(lengths: list[int], simplest: Choices, last: Choices) -> None:
    assert (draw_length(simplest, REFERENCE), draw_length(last, REFERENCE)) == (10, 500)
    assert 10 <= min(lengths) <= max(lengths) <= 500


@pytest.mark.parametrize(("least_bytes", "longest"), [(2**15, 500), (2**16, 2048)])
def test_rare_samples_judged_by_chance_need_long_traces(least_bytes: int, longest: int) -> None:
    rule = SamplingRule(Range(least_bytes, 2**20), distances="random")
    contract = attrs.evolve(REFERENCE, sampling=rule)
    lengths = [draw_length(RandomChoices(str(seed)), contract) for seed in range(DRAWS)]
    assert max(lengths) in range(longest - 100, longest + 1)
    assert (sum(length == 2048 for length in lengths) > DRAWS // 16) is (longest == 2048)


@pytest.mark.parametrize(
    ("shortest", "longest", "least", "most"),
    [
        *((10, 20, DRAWS // 5, DRAWS), (20, 40, DRAWS // 5, DRAWS), (32, 64, DRAWS // 5, DRAWS)),
        (65, 500, DRAWS // 32, DRAWS // 8),
        *((65, 128, 0, DRAWS), (129, 256, 0, DRAWS), (257, 500, 0, DRAWS)),
    ],
)
def test_traces_of_all_lengths_are_drawn_but_few_long_ones(
    lengths: list[int], shortest: int, longest: int, least: int, most: int
) -> None:
    assert least < sum(shortest <= length <= longest for length in lengths) < most


@pytest.fixture(scope="module")
def configurations() -> list[dict[str, int]]:
    seeds = range(2 * DRAWS)
    return [draw_configuration(SETTINGS, RandomChoices(str(seed))) for seed in seeds]


@pytest.mark.slow
def test_drawn_configurations_are_legal(configurations: list[dict[str, int]]) -> None:
    assert [each for each in configurations if problem_of_configuration(each, SETTINGS)] == []


def test_extreme_configurations_are_legal(simplest: Choices, last: Choices) -> None:
    drawn = [draw_configuration(SETTINGS, source) for source in (simplest, last)]
    assert [each for each in drawn if problem_of_configuration(each, SETTINGS)] == []


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_settings_reach_both_bounds(configurations: list[dict[str, int]], setting: Setting) -> None:
    drawn = {each[setting.name] for each in configurations}
    assert {setting.range.minimum, setting.range.maximum} <= drawn


def test_a_bounded_setting_often_equals_its_bound(configurations: list[dict[str, int]]) -> None:
    larger = [each for each in configurations if each["nursery_bytes"] > 64]
    equal = sum(each["large_object_bytes"] == each["nursery_bytes"] for each in larger)
    # A sixth by design, within four standard deviations, and a few by chance.
    count = len(larger)
    assert count / 6 - 4 * math.sqrt(count * 5 / 36) < equal < count / 4


def test_a_bounded_setting_often_has_its_default(configurations: list[dict[str, int]]) -> None:
    larger = [each for each in configurations if each["nursery_bytes"] > 64]
    default = sum(each["large_object_bytes"] == 64 for each in larger)
    count = len(larger)
    assert count / 2 - 4 * math.sqrt(count / 4) < default < count * 2 / 3


def test_settings_are_small_more_often_than_large(configurations: list[dict[str, int]]) -> None:
    small = sum(each["nursery_bytes"] < 2048 for each in configurations)
    assert small > len(configurations) * 2 // 3


def test_every_choice_of_a_setting_is_drawn(configurations: list[dict[str, int]]) -> None:
    switches = [setting.name for setting in SETTINGS if setting.range.maximum == 1]
    assert [{each[name] for each in configurations} for name in switches] == [{0, 1}] * 4
    assert {each["card_items"] for each in configurations} == {0, 4, 32}


NURSERY = Setting("nursery", 256, Range(64, 1024, 8))


@pytest.mark.parametrize(
    "settings",
    [
        (Setting("size", 24, Range(17, 100, 8)),),
        (Setting("size", 0, Range(0, 64, 8)),),
        (NURSERY, Setting("size", 0, Range(0, 2000), at_most="nursery")),
        (Setting("size", 1, Range(1, 2000), at_most="nursery"), NURSERY),
    ],
    ids=["uneven minimum", "multiple from 0", "bounded from 0", "bounded by a later one"],
)
def test_configurations_drawn_for_any_contract_are_legal(settings: tuple[Setting, ...]) -> None:
    drawn = [draw_configuration(settings, RandomChoices(str(seed))) for seed in range(DRAWS)]
    assert [each for each in drawn if problem_of_configuration(each, settings)] == []
