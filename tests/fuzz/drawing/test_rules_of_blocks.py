"""Actions drawn for an allocator of blocks and for several threads, without a target."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from fuzz.drawing.draw import draw_action, draw_from_scenario, menu_of
from fuzz.drawing.forecast import Forecast
from fuzz.drawing.rules import RULES, Rule, rules_for
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.scenarios import sampling_is_on_for_moments
from fuzz.drawing.situation import ROOTS_MAX, Choices, Situation
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.oracles import Bench
from fuzz.protocol import actions as do
from fuzz.protocol.actions import NAMES, Action, requested_bytes
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.counting import Contexts, NetBytes
from fuzz.protocol.layout import KindLayout

TRACES = 60
ACTIONS_EACH = 200
DRAWS = 1000
LARGEST = 128
"""The largest size class."""


@attrs.frozen
class Drawn:
    """An action, what is wrong with it, and what the oracles knew before it."""

    action: Action
    problem: str | None
    until: int
    room: int
    """The room of the block that is resized."""

    @property
    def size(self) -> int:
        """The size of the block; -1 if the action has none."""
        if isinstance(self.action, do.Malloc | do.Calloc | do.Realloc):
            return requested_bytes(self.action)
        return -1


def with_profile(blocks: Contract, **rule: Any) -> Contract:
    """The allocator of conftest, which reports its profile too."""
    contract = attrs.evolve(
        blocks,
        actions=(*blocks.actions, "read_profile"),
        observes=(*blocks.observes, "profile"),
        sampling=attrs.evolve(blocks.sampling, estimates="probability", **rule),
    )
    assert list(problems_of(contract)) == []
    return contract


def draw_trace(contract: Contract, seed: int) -> list[Drawn]:
    """The actions drawn for a contract, as if each had been performed."""
    forecast, source = Forecast(contract), RandomChoices(f"blocks/{seed}")
    situation, menu = forecast.situation, menu_of(rules_for(contract))
    drawn = []
    for _ in range(ACTIONS_EACH):
        action = draw_action(situation, menu, source)
        problem = why_illegal(action, contract, situation.bench.shadow)
        until = situation.bench.sampling.bytes_until_sample(action.thread)
        room = situation.roots[action.root].size_bytes if isinstance(action, do.Realloc) else 0
        drawn.append(Drawn(action, problem, until, room))
        forecast.follow(action)
    return drawn


@pytest.fixture(scope="module")
def draws(blocks: Contract) -> list[Drawn]:
    """Thousands of draws."""
    contract = with_profile(blocks)
    return [each for seed in range(TRACES) for each in draw_trace(contract, seed)]


def rule_of(action: type[Action]) -> Rule:
    return next(rule for rule in RULES if rule.action is action)


@pytest.mark.slow
def test_every_action_that_is_drawn_is_legal(draws: list[Drawn]) -> None:
    assert [draw for draw in draws if draw.problem] == []


def test_every_rule_is_drawn(draws: list[Drawn], blocks: Contract) -> None:
    assert {NAMES[type(draw.action)] for draw in draws} == {*with_profile(blocks).actions}


@pytest.mark.parametrize(
    "action", [do.Malloc, do.Calloc, do.Realloc, do.SetPeriod, do.EnableSampling]
)
@pytest.mark.parametrize("thread", range(3))
def test_each_thread_does_everything(draws: list[Drawn], action: type[Action], thread: int) -> None:
    assert any(type(draw.action) is action and draw.action.thread == thread for draw in draws)


def test_the_threads_take_turns_by_chance(draws: list[Drawn]) -> None:
    counts = Counter(draw.action.thread for draw in draws)
    assert all(abs(counts[thread] / len(draws) - 1 / 3) < 0.05 for thread in range(3))


EDGES: dict[str, Callable[[Drawn], bool]] = {
    "stops before the sample": lambda d: d.size == d.until - 1,
    "reaches the sample": lambda d: d.size == d.until,
    "passes the sample": lambda d: d.size == d.until + 1,
    "of the largest class": lambda d: d.size == LARGEST,
    "beyond the largest class": lambda d: d.size == LARGEST + 1,
    "a byte below a class": lambda d: d.size == 31,
    "of a class": lambda d: d.size == 32,
    "a byte above a class": lambda d: d.size == 33,
    "of several pages": lambda d: 512 < d.size < 4096,
    "as large as can be": lambda d: d.size == 4096,
    "a byte": lambda d: d.size == 1,
}


@pytest.mark.parametrize("kind", [do.Malloc, do.Realloc])
@pytest.mark.parametrize("edge", EDGES)
def test_sizes_hit_each_edge(draws: list[Drawn], kind: type[Action], edge: str) -> None:
    assert any(EDGES[edge](draw) for draw in draws if isinstance(draw.action, kind))


@pytest.mark.parametrize("kind", [do.Malloc, do.Calloc])
def test_empty_blocks_are_drawn(draws: list[Drawn], kind: type[Action]) -> None:
    assert any(draw.size == 0 for draw in draws if isinstance(draw.action, kind))


REALLOC_EDGES: dict[str, Callable[[Drawn], bool]] = {
    "stays as it is": lambda d: d.size == d.room,
    "a byte more": lambda d: d.size == d.room + 1,
    "half": lambda d: d.size == d.room // 2,
    "a byte less than half": lambda d: d.size == d.room // 2 - 1,
    "a byte less than a quarter more": lambda d: d.size == d.room + d.room // 4 - 1,
    "a quarter more": lambda d: d.size == d.room + d.room // 4,
    "twice": lambda d: d.size == 2 * d.room,
    "something else": lambda d: d.size > 3 * d.room,
}


@pytest.mark.parametrize("edge", REALLOC_EDGES)
def test_blocks_are_resized_to_each_edge(draws: list[Drawn], edge: str) -> None:
    assert any(REALLOC_EDGES[edge](draw) for draw in draws if draw.room > 8)


def test_all_values_of_other_arguments_are_drawn(draws: list[Drawn]) -> None:
    actions = [draw.action for draw in draws]
    assert {each.count for each in actions if isinstance(each, do.Calloc)} == {1, 2, 3, 8}
    assert {each.root for each in actions if isinstance(each, do.Realloc)} == {*range(8)}
    periods = [each.period_bytes for each in actions if isinstance(each, do.SetPeriod)]
    assert min(periods) == 1
    assert max(periods) > 2048
    assert any(16 < period < 256 for period in periods)


@pytest.mark.parametrize(("edge", "edge_bytes"), [(0, 64), (1, 32), (2, 80), (3, 128)])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_block_is_resized_to_half_a_quarter_more_or_twice_its_room_or_nearly(
    blocks: Contract, listed: Callable[..., Choices], edge: int, edge_bytes: int, more: int
) -> None:
    forecast = Forecast(blocks)
    forecast.follow(do.Malloc(64))
    newest, at_an_edge = 0, 1
    source = listed(newest, at_an_edge, edge, more + 1)
    drawn = rule_of(do.Realloc).draw(forecast.situation, source, [0])
    assert drawn == do.Realloc(0, edge_bytes + more)


@pytest.mark.parametrize("action", [do.SetPeriod, do.EnableSampling])
def test_where_the_periods_are_listed_each_of_them_is_drawn(
    blocks: Contract, action: type[do.SetPeriod | do.EnableSampling]
) -> None:
    contract = with_profile(blocks, periods=(1, 64, 100, 4096))
    drawn = [each.action for seed in range(5) for each in draw_trace(contract, seed)]
    periods = {each.period_bytes for each in drawn if isinstance(each, action)}
    assert periods == {1, 64, 100, 4096}


def drawn_by_rule(contract: Contract, action: type[Action]) -> list[Action]:
    situation = Situation(contract, Bench(contract))
    sources = (RandomChoices(str(seed)) for seed in range(DRAWS))
    return [rule_of(action).draw_for(situation, source, (0,)) for source in sources]


def test_sizes_hit_the_next_sample_of_the_thread(blocks: Contract) -> None:
    """The threads' first distances are a thousand bytes apart."""
    first_bytes = (1000, 2000, 3000)
    hits = Counter(
        action.thread
        for action in drawn_by_rule(with_profile(blocks, first_bytes=first_bytes), do.Malloc)
        if isinstance(action, do.Malloc)
        and abs(action.size_bytes - first_bytes[action.thread]) <= 1
    )
    # A quarter of all sizes are at an edge, and this one is half of the edges.
    assert min(hits[thread] for thread in range(3)) > DRAWS / 3 / 16


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("boundary", ["class", "unsampled_bytes", "boundary_bytes", "size_classes"])
def test_sizes_hit_classes_and_boundaries(blocks: Contract, boundary: str, more: int) -> None:
    header_bytes = 0 if boundary == "class" else 34
    kinds = {"block": KindLayout(1, header_bytes, 1)}
    classes = {"class": (100, 1000, 2000), "size_classes": (500, 1000, 2000)}.get(boundary, ())
    counting = NetBytes(unsampled_bytes=1000)
    net: dict[str, Any] = {
        "distances": "period",
        "crosses": "at",
        "first_bytes": (),
        "counting": counting,
    }
    contract = attrs.evolve(
        blocks,
        layout=attrs.evolve(blocks.layout, kinds=kinds, size_classes=classes),
        sampling=attrs.evolve(blocks.sampling, **net if boundary == "unsampled_bytes" else {}),
        boundary_bytes=(1000,) if boundary == "boundary_bytes" else (),
    )
    assert list(problems_of(contract)) == []
    drawn = drawn_by_rule(contract, do.Malloc)
    hits = sum(action.by(0) == do.Malloc(1000 - header_bytes + more) for action in drawn)
    assert hits > DRAWS / (72 if boundary == "class" else 120)


@pytest.mark.parametrize(
    "layout",
    [
        {"object_bytes_max": 1, "size_classes": ()},
        {"object_bytes_max": 7},
        {"size_classes": (), "page_bytes": 1},
        {"object_bytes_max": 2**40, "page_bytes": 2**20},
    ],
    ids=str,
)
@pytest.mark.parametrize("legal", [Range(1, 1), Range(4000, 4096), Range(96, 2**40, 96)], ids=str)
def test_drawn_actions_are_legal_under_any_contract(
    blocks: Contract, layout: dict[str, Any], legal: Range
) -> None:
    rule = {"period_bytes": legal, "initial_period_bytes": legal.nearest(0)}
    changed = attrs.evolve(blocks, layout=attrs.evolve(blocks.layout, **layout))
    assert [each for each in draw_trace(with_profile(changed, **rule), 1) if each.problem] == []


@pytest.mark.parametrize(
    "rule",
    [
        {"distances": "unstated", "first_bytes": ()},
        {"distances": "random", "first_bytes": ()},
        {"distances": "period", "first_bytes": (), "initial_period_bytes": 0},
        {"initial_period_bytes": 0},
    ],
    ids=str,
)
def test_actions_are_legal_under_any_sampling_rule(blocks: Contract, rule: dict[str, Any]) -> None:
    contract = attrs.evolve(blocks, sampling=attrs.evolve(blocks.sampling, **rule))
    assert list(problems_of(contract)) == []
    assert [each for each in draw_trace(contract, 1) if each.problem] == []


def test_the_simplest_choices_give_the_simplest_blocks(blocks: Contract, simplest: Choices) -> None:
    contract = with_profile(blocks)
    situation = Situation(contract, Bench(contract))
    situation.bench.shadow.follow(do.Malloc(9), 0)
    expected = (do.Malloc(0), do.Calloc(1, 0), do.Realloc(0, 1), do.SetPeriod(1), do.ReadProfile())
    for action in expected:
        rule = rule_of(type(action))
        assert rule.draw_for(situation, simplest, rule.subjects(situation)) == action


def test_where_there_is_no_block_none_is_resized(blocks: Contract) -> None:
    assert not rule_of(do.Realloc).subjects(Situation(blocks, Bench(blocks)))


# Threads of a collector.


@pytest.mark.parametrize("is_freed", [True, False])
def test_a_trace_has_room_for_many_blocks(blocks: Contract, is_freed: bool) -> None:
    contract = blocks if is_freed else blocks.without({"free"})
    situation = Situation(contract, Bench(contract))
    for _ in range(ROOTS_MAX):
        situation.bench.shadow.follow(do.Malloc(1), minors=0)
    assert situation.may_allocate() is not is_freed


@pytest.fixture
def collector(contract: Contract) -> Contract:
    """Three threads that allocate in contexts."""
    rule = attrs.evolve(
        contract.sampling,
        surplus="dropped",
        samples_per_allocation="one",
        distances="dotnet_document",
        counting=Contexts(64),
        seeds=(1, 2, 3),
    )
    return attrs.evolve(contract.without({"set_callback"}), sampling=rule)


def test_every_thread_acts_in_scenarios(collector: Contract) -> None:
    assert {draw.action.thread for draw in draw_trace(collector, 1)} == {0, 1, 2}


def test_a_scenario_draws_an_action_for_a_known_thread(collector: Contract) -> None:
    situation, seen = Situation(collector, Bench(collector)), []

    def scenario() -> Any:
        while True:
            seen.append(situation.thread)
            yield do.AllocateNode(0)

    situation.scenario = scenario()
    source = RandomChoices("threads")
    actions = [draw_from_scenario(situation, source) for _ in range(100)]
    threads = [action.thread for action in actions if action is not None]
    assert threads == seen
    assert {*threads} == {0, 1, 2}


def test_sampling_is_on_for_moments_in_which_each_thread_allocates(collector: Contract) -> None:
    """A small array before, and one that takes what is left up to the boundary of 64 bytes."""
    contract = attrs.evolve(collector, boundary_bytes=(64,))
    situation = Situation(contract, Bench(contract))
    source = RandomChoices("moments")
    situation.scenario = sampling_is_on_for_moments(ScenarioMutator(situation, source), source)
    actions: list[Action] = []
    while len(actions) < 9:
        action = draw_from_scenario(situation, RandomChoices("uninterrupted"))
        assert action is not None
        actions.append(action)
    kinds = [NAMES[type(action)] for action in actions]
    array = "allocate_array"
    on, off = "enable_sampling", "disable_sampling"
    assert kinds == ["collect_minor", array, array, array, on, array, array, array, off]
    lengths = [action.length for action in actions if isinstance(action, do.AllocateArray)]
    fixed_bytes = contract.layout.kinds["array"].fixed_bytes
    assert lengths == [0, 0, 0, *[(64 - 2 * fixed_bytes) // 8] * 3]
    threads = [action.thread for action in actions if isinstance(action, do.AllocateArray)]
    assert threads == [0, 1, 2] * 2


def test_sizes_hit_the_room_in_the_context_of_the_thread(collector: Contract) -> None:
    kinds = {**collector.layout.kinds, "string": KindLayout(4, 0, 1)}
    layout = attrs.evolve(collector.layout, kinds=kinds, large_object_bytes=1000)
    rule = attrs.evolve(collector.sampling, counting=Contexts(1000))
    collector = attrs.evolve(collector, layout=layout, sampling=rule)
    situation = Situation(collector, Bench(collector))
    for thread, used_bytes in enumerate((896, 800, 696)):
        situation.bench.predict(do.AllocateString(used_bytes, thread=thread), minors=0)
    sources = (RandomChoices(str(seed)) for seed in range(DRAWS))
    drawn = {rule_of(do.AllocateString).draw_for(situation, source, (0,)) for source in sources}
    lengths = (104, 200, 304)
    assert {do.AllocateString(each, thread=thread) for thread, each in enumerate(lengths)} <= drawn


def test_a_target_of_one_thread_is_drawn_no_other(contract: Contract) -> None:
    assert {draw.action.thread for draw in draw_trace(contract, 1)} == {0}
