"""What the rules draw: always legal, all kinds, at every edge, and the simplest choice first."""

from collections.abc import Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectProgress,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Free,
    LoadPrebuilt,
    Read,
    ReadNumber,
    ReadWeakref,
    TakeIdentity,
    Write,
    WriteNumber,
)
from fuzz.contract import Contract, Range, Setting, problem_of_configuration
from fuzz.engines.random import RandomSource
from fuzz.legality import why_illegal
from fuzz.oracles import Bench
from fuzz.problems import BadInputError
from fuzz.rules import (
    NEVER_LEFT_OUT,
    OBJECTS_MAX,
    ROOTS_MAX,
    RULES,
    Situation,
    Source,
    draw_action,
    draw_configuration,
    draw_length,
    draw_menu,
    rules_for,
)
from fuzz.run import Run
from fuzz.targets import make_target
from fuzz.targets.reference import SETTINGS

TRACES = 200
ACTIONS_EACH = 60
DRAWS = 1000


class Same(Source):
    """Always the same choice, or the last if there are not so many."""

    def __init__(self, choice: int) -> None:
        self._choice = choice

    def below(self, bound: int) -> int:
        return min(self._choice, bound - 1)


SIMPLEST = Same(0)
LAST = Same(2**62)


@attrs.frozen
class Drawn:
    """An action, what the oracles knew before it, and what its object costs."""

    action: Action
    problem: str | None
    contract: Contract
    used: int
    until: int
    period: int
    size: int
    outside: bool

    @property
    def large(self) -> int:
        return self.contract.layout.large_object_bytes

    @property
    def nursery(self) -> int:
        return self.contract.nursery_bytes


def drawn_in(run: Run, action: Action) -> Drawn:
    sampling = run.bench.sampling
    used, until = sampling.nursery_used_bytes, sampling.bytes_until_sample
    period, problem = sampling.period_bytes, why_illegal(action, run.contract, run.bench.shadow)
    observation = run.step(action)
    size, outside = observation.size or 0, bool(observation.outside)
    return Drawn(action, problem, run.contract, used, until, period, size, outside)


@pytest.fixture(scope="module")
def draws() -> list[Drawn]:
    """Thousands of draws, in heaps of many configurations."""
    target, draws = make_target("reference"), []
    for number in range(TRACES):
        source = RandomSource(f"test/{number}")
        run = Run(target, draw_configuration(SETTINGS, source))
        menu = draw_menu(rules_for(run.contract), source)
        draws += [
            drawn_in(run, draw_action(run.situation, menu, source)) for _ in range(ACTIONS_EACH)
        ]
    return draws


# What is drawn.


def test_every_drawn_action_is_legal(draws: list[Drawn]) -> None:
    assert [draw for draw in draws if draw.problem] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_drawn(draws: list[Drawn], rule: object) -> None:
    assert any(type(draw.action) is rule.action for draw in draws)  # type: ignore[attr-defined]


EDGES: dict[str, Callable[[Drawn], bool]] = {
    "just fits": lambda d: not d.outside and d.used + d.size == d.nursery,
    "just does not": lambda d: not d.outside and d.used + d.size == d.nursery + 8,
    "stops before the sample point": lambda d: bool(d.period) and d.size == d.until - 8,
    "reaches the sample point": lambda d: bool(d.period) and d.size == d.until,
    "passes it by a word": lambda d: bool(d.period) and d.size == d.until + 8,
    "passes it by a byte": lambda d: bool(d.period) and d.size == d.until + 1,
    "reaches it outside": lambda d: bool(d.period) and d.outside and d.size == d.until,
    "twice the period": lambda d: bool(d.period) and d.size == 2 * d.period,
    "beyond twice the period": lambda d: bool(d.period) and d.size > 2 * d.period,
    "one nursery": lambda d: d.size == d.nursery,
    "several nurseries": lambda d: d.size in (2 * d.nursery, 3 * d.nursery, 4 * d.nursery),
    "just large": lambda d: d.outside and d.size == d.large,
    "not quite large": lambda d: not d.outside and 0 <= d.size - d.large < 8,
    "nonmovable": lambda d: d.outside and 0 < d.size < d.large,
}


@pytest.mark.parametrize("edge", EDGES)
def test_sizes_hit_each_edge(draws: list[Drawn], edge: str) -> None:
    assert any(map(EDGES[edge], [draw for draw in draws if draw.size]))


PERIODS: dict[str, Callable[[Drawn, int], bool]] = {
    "a word": lambda _, period: period == 8,
    "the room that is left": lambda d, period: 0 < d.used == d.nursery - period,
    "the nursery": lambda d, period: period == d.nursery,
    "several nurseries": lambda d, period: period == 3 * d.nursery,
    "something between": lambda d, period: 128 < period < d.nursery - d.used,
}


@pytest.mark.parametrize("edge", PERIODS)
def test_periods_hit_each_edge(draws: list[Drawn], edge: str) -> None:
    assert any(
        PERIODS[edge](draw, draw.action.period_bytes)
        for draw in draws
        if isinstance(draw.action, EnableSampling)
    )


@pytest.mark.parametrize("report", [False, True])
def test_both_ways_of_disabling_are_drawn(draws: list[Drawn], report: bool) -> None:
    assert any(draw.action == DisableSampling(report) for draw in draws)


def test_references_and_null_are_written(draws: list[Drawn]) -> None:
    written = {d.action.value is None for d in draws if isinstance(d.action, Write)}
    assert written == {True, False}


def test_parts_of_arrays_are_copied(draws: list[Drawn]) -> None:
    copies = [draw.action for draw in draws if isinstance(draw.action, CopyArray)]
    assert any(copy.source_start and copy.dest_start for copy in copies)


@pytest.mark.parametrize("legal", [Range(24, 48, 12), Range(10, 100, 8), Range(8, 100, 8)], ids=str)
def test_drawn_periods_are_legal_whatever_the_contract_says(
    situation: Situation, legal: Range
) -> None:
    rule = attrs.evolve(situation.contract.sampling, period_bytes=legal)
    situation.contract = attrs.evolve(situation.contract, sampling=rule)
    enable = next(each for each in RULES if each.action is EnableSampling)
    sources = [RandomSource(str(seed)) for seed in range(DRAWS)]
    drawn = {enable.draw(situation, source, (0,)).period_bytes for source in sources}  # type: ignore[attr-defined]
    assert [period for period in drawn if period not in legal] == []


def test_a_target_that_disables_in_one_way_is_asked_for_that(situation: Situation) -> None:
    rule = attrs.evolve(situation.contract.sampling, disabling=("report",))
    situation.contract = attrs.evolve(situation.contract, sampling=rule)
    disable = next(each for each in RULES if each.action is DisableSampling)
    assert disable.draw(situation, SIMPLEST, (0,)) == DisableSampling(report=True)


# The simplest choices.

NODE, STRING, ARRAY, WEAKREF = range(4)
ROOTS = (AllocateNode(9), AllocateString(9), AllocateArray(3), AllocateWeakref(0))


@pytest.mark.parametrize(
    "action",
    [
        *(CollectMinor(), CollectStep(), CollectProgress(), CollectFull(), CheckHeap()),
        *(DisableSampling(), EnableSampling(8), LoadPrebuilt(0)),
        *(AllocateNode(0), AllocateString(0), AllocateArray(0), AllocateWeakref(WEAKREF)),
        *(Free(WEAKREF), TakeIdentity(WEAKREF), Read(ARRAY, 0), ReadNumber(ARRAY)),
        *(ReadWeakref(WEAKREF), Write(ARRAY, 0, None), WriteNumber(NODE, 0)),
        CopyArray(ARRAY, ARRAY, 0, 0, 3),
    ],
    ids=str,
)
def test_the_simplest_choices_give_the_simplest_action(
    situation: Situation, action: Action
) -> None:
    for each in ROOTS:
        situation.bench.shadow.follow(each, minors=0)
    rule = next(each for each in RULES if each.action is type(action))
    assert rule.draw(situation, SIMPLEST, rule.subjects(situation)) == action


def test_the_simplest_action_of_all_is_a_minor_collection(situation: Situation) -> None:
    assert draw_action(situation, RULES, SIMPLEST) == CollectMinor()


# When a rule applies.


def test_nothing_that_appends_a_root_is_legal_in_a_heap_of_many_roots(
    situation: Situation,
) -> None:
    for _ in range(ROOTS_MAX):
        situation.bench.shadow.follow(LoadPrebuilt(0), minors=0)
    appending = (*ROOTS, LoadPrebuilt(0), Read(0, 0))
    legal = {rule.action for rule in RULES if rule.subjects(situation)}
    assert legal.isdisjoint(map(type, appending))
    assert Free in legal


@pytest.mark.parametrize(
    ("roots", "objects", "has_room"),
    [
        (ROOTS_MAX - 1, OBJECTS_MAX - 1, True),
        (ROOTS_MAX, 0, False),
        (0, OBJECTS_MAX, False),
    ],
)
def test_many_roots_or_many_objects_leave_no_room_for_another(
    situation: Situation, roots: int, objects: int, has_room: bool
) -> None:
    situation.objects = objects
    for _ in range(roots):
        situation.bench.shadow.follow(AllocateNode(0), minors=0)
    assert situation.has_room() is has_room


def test_in_an_empty_heap_no_action_on_a_root_is_legal(situation: Situation) -> None:
    legal = [rule.action for rule in RULES if rule.subjects(situation)]
    assert not [each for each in legal if "root" in attrs.fields_dict(each)]


def test_an_array_of_no_items_has_no_references_to_act_on(situation: Situation) -> None:
    for action in (AllocateArray(0), AllocateArray(1), AllocateNode(0)):
        situation.bench.shadow.follow(action, minors=0)
    write = next(rule for rule in RULES if rule.action is Write)
    assert write.subjects(situation) == [1, 2]


def test_a_heap_of_many_objects_and_no_root_can_still_lose_some(situation: Situation) -> None:
    situation.objects = OBJECTS_MAX
    load = next(rule for rule in RULES if rule.action is LoadPrebuilt)
    assert load.subjects(situation)


def test_nothing_prebuilt_can_be_loaded_where_nothing_is(contract: Contract) -> None:
    bare = attrs.evolve(contract, prebuilt=())
    load = next(rule for rule in RULES if rule.action is LoadPrebuilt)
    assert not load.subjects(Situation(bare, Bench(bare)))


def test_the_rules_are_those_of_the_actions_that_the_target_carries_out(
    contract: Contract,
) -> None:
    smaller = attrs.evolve(contract, actions=("free", "allocate_node"))
    assert [rule.name for rule in rules_for(smaller)] == ["allocate_node", "free"]


@pytest.mark.parametrize("legal", ["collect_minor", "check_heap"])
def test_if_nothing_on_the_menu_is_legal_the_drawn_action_is(
    situation: Situation, legal: str
) -> None:
    contract = attrs.evolve(situation.contract, actions=(legal, "free"))
    free = [rule for rule in rules_for(contract) if rule.name == "free"]
    action = draw_action(attrs.evolve(situation, contract=contract), free, SIMPLEST)
    assert why_illegal(action, contract, situation.bench.shadow) is None


def test_a_contract_without_a_legal_action_is_bad_input(situation: Situation) -> None:
    contract = attrs.evolve(situation.contract, actions=("free",))
    with pytest.raises(BadInputError, match="no action that is legal here"):
        draw_action(attrs.evolve(situation, contract=contract), rules_for(contract), SIMPLEST)


# Menus, lengths, configurations.


def test_by_the_simplest_choices_each_rule_stands_on_the_menu_by_its_weight() -> None:
    menu = draw_menu(RULES, SIMPLEST)
    assert {rule.name: menu.count(rule) for rule in RULES} == {
        rule.name: rule.weight for rule in RULES
    }


def test_some_rules_are_left_out_and_some_are_frequent() -> None:
    menu = draw_menu(RULES, RandomSource("swarm"))
    assert {menu.count(rule) // rule.weight for rule in RULES} == {0, 1, 3}


def test_a_menu_from_which_all_rules_were_left_out_has_them_all() -> None:
    rules = [rule for rule in RULES if rule.action not in NEVER_LEFT_OUT]
    assert draw_menu(rules, Same(3)) == rules


def test_a_menu_always_has_the_ways_to_get_rid_of_objects() -> None:
    assert {rule.action for rule in draw_menu(RULES, Same(3))} == set(NEVER_LEFT_OUT)


def test_lengths_are_from_10_to_1000() -> None:
    lengths = [draw_length(RandomSource(str(seed))) for seed in range(DRAWS)]
    assert [length for length in lengths if not 10 <= length <= 1000] == []


@pytest.mark.parametrize(("source", "length"), [(SIMPLEST, 10), (LAST, 1000)])
def test_the_shortest_and_the_longest_trace(source: Source, length: int) -> None:
    assert draw_length(source) == length


@pytest.mark.parametrize(("shortest", "longest"), [(10, 20), (100, 200), (500, 1000)])
def test_short_and_long_traces_are_about_as_likely(shortest: int, longest: int) -> None:
    lengths = [draw_length(RandomSource(str(seed))) for seed in range(DRAWS)]
    assert sum(shortest <= length <= longest for length in lengths) > DRAWS // 10


def test_drawn_configurations_are_legal() -> None:
    drawn = [draw_configuration(SETTINGS, RandomSource(str(seed))) for seed in range(DRAWS)]
    assert [each for each in drawn if problem_of_configuration(each, SETTINGS)] == []


@pytest.mark.parametrize("choose", [SIMPLEST, LAST], ids=["first", "last"])
def test_extreme_configurations_are_legal(choose: Source) -> None:
    assert problem_of_configuration(draw_configuration(SETTINGS, choose), SETTINGS) is None


def test_every_choice_of_a_setting_is_drawn() -> None:
    drawn = [draw_configuration(SETTINGS, RandomSource(str(seed))) for seed in range(DRAWS)]
    assert {each["card_items"] for each in drawn} == {0, 4, 32}


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
def test_drawn_configurations_are_legal_whatever_the_contract_says(
    settings: tuple[Setting, ...],
) -> None:
    drawn = [draw_configuration(settings, RandomSource(str(seed))) for seed in range(DRAWS)]
    assert [each for each in drawn if problem_of_configuration(each, settings)] == []


# Sources.


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.text(max_size=3))
def test_a_number_by_octaves_lies_within_its_bounds(minimum: int, more: int, seed: str) -> None:
    number = RandomSource(seed).log_between(minimum, minimum + more)
    assert minimum <= number <= minimum + more


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_number_by_octaves_reaches_both_bounds(minimum: int, more: int) -> None:
    assert SIMPLEST.log_between(minimum, minimum + more) == minimum
    assert LAST.log_between(minimum, minimum + more) == minimum + more


@pytest.mark.parametrize(("source", "number"), [(SIMPLEST, -1), (LAST, 5)])
def test_a_number_between_two_reaches_both(source: Source, number: int) -> None:
    assert source.between(-1, 5) == number


@pytest.mark.parametrize(("source", "choice"), [(SIMPLEST, "a"), (LAST, "c")])
def test_the_first_choice_is_the_simplest(source: Source, choice: str) -> None:
    assert source.pick("abc") == choice
