"""The rules draw legal actions of all kinds, at every edge, and the simplest choice first."""

from collections.abc import Callable
from functools import partial
from itertools import product

import attrs
import pytest
from changed_contracts import with_layout, with_rule
from hypothesis import given
from hypothesis import strategies as st

from fuzz.drawing.draw import draw_configuration, menu_of
from fuzz.drawing.rules import RULES, Rule, rules_for
from fuzz.drawing.situation import OBJECTS_MAX, ROOTS_MAX, Choices, Situation
from fuzz.drawing.sizes import period
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import callback_length_max, why_illegal
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Bench
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.layout import KindLayout
from fuzz.run import Run
from fuzz.targets import make_target
from fuzz.targets.references.collector import SETTINGS

TRACES = 600
ACTIONS_EACH = 60
DRAWS = 1000
PICKS_MAX = 1000
PINS_MAX = 2
OF_ONE_ROOT = (do.Free, do.ReadNumber, do.ReadWeakref, do.TakeIdentity, do.Pin, do.Unpin)
"""Actions whose legality depends only on the object in their root."""


@attrs.frozen
class Drawn:
    """An action, what the oracles knew before it, and what its object costs."""

    action: Action
    problem: str | None
    contract: Contract
    used: int
    until: int
    period: int | None
    references: int
    pins: int
    size: int
    outside: bool

    @property
    def large(self) -> int:
        return self.contract.layout.large_object_bytes

    @property
    def nursery(self) -> int:
        return self.contract.nursery_bytes

    @property
    def is_old_string(self) -> bool:
        return isinstance(self.action, do.AllocateOldString)


def drawn_in(run: Run, source: Choices) -> Drawn:
    """What the rules draw without any scenario, in the situation of that run."""
    sampling, shadow = run.bench.sampling, run.bench.shadow
    used, until = sampling.nursery_used_bytes, sampling.bytes_until_sample()
    menu = menu_of(rules_for(run.contract))
    picked = (source.pick(menu) for _ in range(PICKS_MAX))
    rule, subjects = next(
        (rule, subjects) for rule in picked if (subjects := rule.subjects(run.situation))
    )
    action = rule.draw(run.situation, source, subjects)
    period, problem = sampling.period_bytes, why_illegal(action, run.contract, shadow)
    root = getattr(action, "root", None)
    references = 0 if root is None else len(shadow.roots[root].refs)
    pins = len(shadow.pinned)
    observation = run.step(action)
    size, outside = observation.size or 0, bool(observation.outside)
    return Drawn(
        action, problem, run.contract, used, until, period, references, pins, size, outside
    )


def run_of(number: int) -> tuple[Run, Choices]:
    source = RandomChoices(f"test/{number}")
    return Run(make_target("reference"), draw_configuration(SETTINGS, source)), source


@pytest.fixture(scope="module")
def draws() -> list[Drawn]:
    """Thousands of draws, in heaps of many configurations."""
    draws = []
    for number in range(TRACES):
        run, source = run_of(number)
        draws += [drawn_in(run, source) for _ in range(ACTIONS_EACH)]
    return draws


def rule_of(action: type[Action]) -> Rule:
    return next(rule for rule in RULES if rule.action is action)


RULES_OF_REFERENCE = rules_for(make_target("reference").start({}))


# What is drawn.


@pytest.mark.slow
def test_every_action_that_a_rule_draws_is_legal(draws: list[Drawn]) -> None:
    assert [draw for draw in draws if draw.problem] == []


@pytest.mark.slow
def test_every_rule_is_drawn(draws: list[Drawn]) -> None:
    assert {rule.action for rule in RULES_OF_REFERENCE} == {type(draw.action) for draw in draws}


def is_at_sample_point(draw: Drawn, more_bytes: int = 0) -> bool:
    return draw.period is not None and draw.size == draw.until + more_bytes > 0


def enables(draw: Drawn, is_edge: Callable[[int], bool]) -> bool:
    return isinstance(draw.action, do.EnableSampling) and is_edge(draw.action.period_bytes)


def copies(draw: Drawn, is_edge: Callable[[do.CopyArray], object]) -> bool:
    return isinstance(draw.action, do.CopyArray) and bool(is_edge(draw.action))


def calls_back(draw: Drawn, is_edge: Callable[[int, int], bool]) -> bool:
    if not isinstance(draw.action, do.SetCallback) or draw.action.length is None:
        return False
    return is_edge(draw.action.length, callback_length_max(draw.contract))


def presses(draw: Drawn, nurseries: int) -> bool:
    return draw.action == do.AddMemoryPressure(nurseries * draw.nursery)


EDGES: dict[str, Callable[[Drawn], bool]] = {
    "just fits": lambda d: d.size > 0 and not d.outside and d.used + d.size == d.nursery,
    "just does not": lambda d: d.size > 0 and not d.outside and d.used + d.size == d.nursery + 8,
    "stops before the sample point": lambda d: is_at_sample_point(d, -8),
    "reaches the sample point": is_at_sample_point,
    "passes it by a word": lambda d: is_at_sample_point(d, 8),
    "passes it by a byte": lambda d: is_at_sample_point(d, 1),
    "reaches it outside": lambda d: d.outside and is_at_sample_point(d),
    "twice the period": lambda d: d.period is not None and 0 < d.size == 2 * d.period,
    "beyond twice the period": lambda d: d.period is not None and d.size > 2 * d.period,
    "one nursery": lambda d: d.size == d.nursery,
    "several nurseries": lambda d: d.size in (2 * d.nursery, 3 * d.nursery, 4 * d.nursery),
    "just large": lambda d: d.outside and d.size == d.large,
    "not quite large": lambda d: d.size > 0 and not d.outside and 0 <= d.size - d.large < 8,
    "nonmovable": lambda d: d.outside and 0 < d.size < d.large and not d.is_old_string,
    "old from the start, and small": lambda d: d.is_old_string and d.size < d.large,
    "old from the start, and reaches it": lambda d: d.is_old_string and is_at_sample_point(d),
    "a period of a word": lambda d: enables(d, lambda period: period == 8),
    "of the room that is left": lambda d: enables(d, lambda p: 0 < d.used == d.nursery - p),
    "of the nursery": lambda d: enables(d, lambda period: period == d.nursery),
    "of several nurseries": lambda d: enables(d, lambda period: period == 3 * d.nursery),
    "between": lambda d: enables(d, lambda period: 128 < period < d.nursery - d.used),
    "enables beside a pin": lambda d: isinstance(d.action, do.EnableSampling) and d.pins > 0,
    "resumes beside a pin": lambda d: isinstance(d.action, do.ResumeSampling) and d.pins > 0,
    "drops samples": lambda d: d.action == do.DisableSampling(),
    "reports samples": lambda d: d.action == do.DisableSampling(report=True),
    "writes null": lambda d: isinstance(d.action, do.Write) and d.action.value is None,
    "writes a reference": lambda d: isinstance(d.action, do.Write) and d.action.value is not None,
    "copies a part": lambda d: copies(d, lambda copy: copy.source_start and copy.dest_start),
    "copies from the start": lambda d: copies(d, lambda c: c.source_start == c.dest_start == 0),
    "no callback": lambda d: d.action == do.SetCallback(None),
    "an empty callback": lambda d: calls_back(d, lambda length, longest: length == 0 < longest),
    "the longest callback": lambda d: calls_back(d, lambda length, longest: length == longest > 0),
    "a short callback": lambda d: calls_back(d, lambda length, longest: 0 < length < longest),
    "pressure of a nursery": lambda d: presses(d, 1),
    "pressure of eight nurseries": lambda d: presses(d, 8),
}


@pytest.mark.parametrize("edge", EDGES)
def test_each_edge_is_drawn(draws: list[Drawn], edge: str) -> None:
    assert any(map(EDGES[edge], draws))


def test_pressure_is_from_one_nursery_to_eight(draws: list[Drawn]) -> None:
    drawn = [draw for draw in draws if isinstance(draw.action, do.AddMemoryPressure)]
    assert all(any(presses(draw, each) for each in range(1, 9)) for draw in drawn)


@pytest.mark.parametrize(
    ("choices", "period_bytes"),
    [
        pytest.param((1,), 256 - 32, id="what is left of the nursery"),
        pytest.param((2, 0), 256, id="the nursery"),
        pytest.param((2, 2), 3 * 256, id="three nurseries"),
        pytest.param((3, 0, 0), 8, id="the shortest"),
        pytest.param((3, 8, 0), 8 * 256, id="the longest, eight nurseries"),
    ],
)
def test_periods_are_measured_by_the_nursery(
    listed: Callable[..., Choices], choices: tuple[int, ...], period_bytes: int
) -> None:
    run = Run(make_target("reference"), {})
    run.step(do.AllocateNode(0))
    assert period(run.situation, listed(*choices)) == period_bytes


@pytest.mark.parametrize("kind", [do.Read, do.Write])
def test_the_last_item_is_accessed_more_often_than_by_chance(
    draws: list[Drawn], kind: type[do.Read | do.Write]
) -> None:
    fields = [
        (draw.action.field, draw.references)
        for draw in draws
        if isinstance(draw.action, kind) and draw.references > 8
    ]
    last = sum(field == references - 1 for field, references in fields)
    assert len(fields) // 8 < last < len(fields)


def test_as_many_objects_are_pinned_as_can_be() -> None:
    run, source = Run(make_target("reference"), {"nursery_bytes": 512}), RandomChoices("pins")
    pinning = [rule_of(do.AllocateString), rule_of(do.Pin)]
    for _ in range(ACTIONS_EACH):
        rule = source.pick([rule for rule in pinning if rule.subjects(run.situation)])
        run.step(rule.draw(run.situation, source, rule.subjects(run.situation)))
        if len(run.bench.shadow.pinned) == run.contract.pins_max:
            break
    assert len(run.bench.shadow.pinned) == run.contract.pins_max > 1


def drawn_by_rule(contract: Contract, action: type[Action], count: int = DRAWS) -> list[Action]:
    situation, rule = Situation(contract, Bench(contract)), rule_of(action)
    return [rule.draw(situation, RandomChoices(str(seed)), (0,)) for seed in range(count)]


PERIODS = Range(24, 48, 12), Range(10, 100, 8), Range(8, 100, 8), Range(1, 2**40, 2**20)
WIDE = {"string": KindLayout(4, 8, 4)}
OTHER_CONTRACTS: list[tuple[type[Action], Callable[[Contract], Contract]]] = [
    *((do.EnableSampling, partial(with_rule, period_bytes=legal)) for legal in PERIODS),
    *((do.SetCallback, partial(with_layout, large_object_bytes=each)) for each in (17, 25, 26, 64)),
    *(
        (action, partial(with_layout, object_bytes_max=32))
        for action in (do.SetCallback, do.AllocateString, do.AllocateArray, do.AllocateOldString)
    ),
    (
        do.SetCallback,
        lambda contract: with_layout(contract, kinds={**contract.layout.kinds, **WIDE}),
    ),
    (do.AddMemoryPressure, lambda contract: attrs.evolve(contract, nursery_bytes=2**45)),
]


@pytest.mark.parametrize(("action", "change"), OTHER_CONTRACTS)
def test_drawn_actions_are_legal_under_any_contract(
    contract: Contract, action: type[Action], change: Callable[[Contract], Contract]
) -> None:
    changed = change(contract)
    drawn = drawn_by_rule(changed, action)
    assert [each for each in drawn if why_illegal(each, changed, Shadow(contract))] == []


def test_a_target_that_disables_in_one_way_is_asked_for_that(contract: Contract) -> None:
    drawn = drawn_by_rule(with_rule(contract, disabling=("report",)), do.DisableSampling)
    assert {*drawn} == {do.DisableSampling(report=True)}


@pytest.mark.parametrize("string_item_bytes", [1, 2**15, None])
def test_where_no_string_can_an_array_has_the_size_at_which_objects_become_large(
    contract: Contract, string_item_bytes: int | None
) -> None:
    """Of shorter items a string can, and then no array becomes that long."""
    kinds = {**contract.layout.kinds, "array": KindLayout(3, 24, 8)}
    del kinds["string"]
    if string_item_bytes:
        kinds["string"] = KindLayout(4, 24, string_item_bytes)
    contract = attrs.evolve(contract, nursery_bytes=2**16)
    layout = {"kinds": kinds, "large_object_bytes": 85_000, "object_bytes_max": 2**18}
    drawn = drawn_by_rule(with_layout(contract, **layout), do.AllocateArray)
    hits = drawn.count(do.AllocateArray((85_000 - 24) // 8))
    assert (hits > DRAWS / 72) is (string_item_bytes != 1)


def test_sizes_hit_a_boundary_beyond_the_nursery(contract: Contract) -> None:
    contract = attrs.evolve(contract, boundary_bytes=(100_000,))
    drawn = drawn_by_rule(
        with_layout(contract, object_bytes_max=2**18), do.AllocateString, 4 * DRAWS
    )
    exact = 100_000 - contract.layout.kinds["string"].fixed_bytes
    assert {do.AllocateString(exact + more) for more in (-1, 0, 8)} <= {*drawn}


# The simplest choices.

NODE, STRING, ARRAY, WEAKREF = range(4)
ROOTS = (do.AllocateNode(9), do.AllocateString(9), do.AllocateArray(3), do.AllocateWeakref(0))


SIMPLEST_ACTIONS = (
    *(do.CollectMinor(), do.CollectStep(), do.CollectProgress(), do.CollectFull(), do.CheckHeap()),
    *(do.CheckContents(), do.Fork()),
    *(do.DisableSampling(), do.EnableSampling(8), do.PauseSampling(), do.ResumeSampling()),
    *(do.AllocateNode(0), do.AllocateString(0), do.AllocateArray(0), do.AllocateWeakref(WEAKREF)),
    *(do.AllocateOldString(0), do.LoadPrebuilt(0), do.AddMemoryPressure(256), do.SetCallback(0)),
    *(do.Free(WEAKREF), do.TakeIdentity(WEAKREF), do.Read(ARRAY, 0), do.ReadNumber(ARRAY)),
    *(do.ReadWeakref(WEAKREF), do.Write(ARRAY, 0, None), do.WriteNumber(NODE, 0)),
    *(do.CopyArray(ARRAY, ARRAY, 0, 0, 3), do.Pin(STRING), do.Unpin(STRING)),
    *(do.FillArray(ARRAY, None), do.MoveArray(ARRAY, 0, 0, 1)),
)


def test_every_rule_has_an_action_in_the_next_test() -> None:
    drawn = {rule.action for rule in RULES_OF_REFERENCE}
    assert {type(action) for action in SIMPLEST_ACTIONS} == drawn


@pytest.mark.parametrize("action", SIMPLEST_ACTIONS, ids=str)
def test_the_simplest_choices_give_the_simplest_action(
    pinning: Situation, simplest: Choices, action: Action
) -> None:
    follow(pinning, *ROOTS)
    if isinstance(action, do.Unpin):
        follow(pinning, do.Pin(STRING))
    rule = rule_of(type(action))
    assert rule.draw(pinning, simplest, rule.subjects(pinning)) == action


# When a rule applies.


@pytest.fixture
def pinning(contract: Contract) -> Situation:
    """Under a contract that allows two pins, though not while sampling."""
    allowing = attrs.evolve(contract, pins_max=PINS_MAX)
    return Situation(allowing, Bench(allowing))


def follow(situation: Situation, *actions: Action, minors: int = 0) -> None:
    """The mutator does that, and the target collects that often at each."""
    for action in actions:
        assert why_illegal(action, situation.contract, situation.bench.shadow) is None
        situation.bench.shadow.follow(action, minors)


@pytest.mark.slow
def test_the_subjects_of_a_rule_are_the_roots_on_which_its_action_is_legal() -> None:
    for number in range(TRACES // 4):
        run, source = run_of(number)
        for _ in range(ACTIONS_EACH):
            for kind in OF_ONE_ROOT:
                legal = [
                    slot
                    for slot in range(len(run.situation.roots))
                    if why_illegal(kind(slot), run.contract, run.bench.shadow) is None
                ]
                assert list(rule_of(kind).subjects(run.situation)) == legal
            drawn_in(run, source)


@pytest.mark.parametrize(
    "before",
    [
        (),
        (do.SetCallback(0),),
        (do.EnableSampling(8),),
        (do.AllocateString(0), do.Pin(2), do.Pin(1)),
    ],
    ids=["old", "callback", "sampling", "pins_max"],
)
def test_an_illegal_pin_is_not_drawn(pinning: Situation, before: tuple[Action, ...]) -> None:
    follow(pinning, do.AllocateNode(0), do.AllocateString(0))
    assert rule_of(do.Pin).subjects(pinning) == [1]
    follow(pinning, *before or (do.CollectMinor(),), minors=not before)
    assert not rule_of(do.Pin).subjects(pinning)


PAUSED = (do.EnableSampling(8), do.PauseSampling())


def test_sampling_is_resumed_after_a_pause_only(pinning: Situation) -> None:
    follow(pinning, PAUSED[0])
    assert not rule_of(do.ResumeSampling).subjects(pinning)
    follow(pinning, PAUSED[1])
    assert rule_of(do.ResumeSampling).subjects(pinning)


def test_without_a_nursery_sampling_is_resumed_once_without_a_pause(pinning: Situation) -> None:
    pinning.contract = attrs.evolve(pinning.contract, nursery_bytes=0)
    assert rule_of(do.ResumeSampling).subjects(pinning)
    pinning.done[do.ResumeSampling, pinning.state] += 1
    assert not rule_of(do.ResumeSampling).subjects(pinning)


@pytest.mark.parametrize("kind", [do.EnableSampling, do.ResumeSampling, do.SetCallback])
def test_a_pinned_object_excludes_sampling(pinning: Situation, kind: type[Action]) -> None:
    follow(pinning, *PAUSED, do.AllocateString(0))
    assert rule_of(kind).subjects(pinning)
    follow(pinning, do.Pin(0))
    assert not rule_of(kind).subjects(pinning)


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        (do.EnableSampling(8), do.Pin),
        (do.Pin(0), do.EnableSampling),
        (do.Pin(0), do.ResumeSampling),
    ],
)
def test_where_it_is_allowed_objects_are_pinned_while_sampling(
    pinning: Situation, before: Action, kind: type[Action]
) -> None:
    pinning.contract = with_rule(pinning.contract, pinning="allowed")
    follow(pinning, *PAUSED, do.AllocateString(0), before)
    assert rule_of(kind).subjects(pinning)


def values_written(situation: Situation) -> list[int | None]:
    sources = (RandomChoices(str(seed)) for seed in range(DRAWS))
    drawn = [rule_of(do.Write).draw(situation, source, (0,)) for source in sources]
    return [action.value for action in drawn if isinstance(action, do.Write)]


def test_a_pinned_object_is_written_every_second_time_and_by_chance(pinning: Situation) -> None:
    follow(pinning, do.AllocateNode(0), do.AllocateString(0), *[do.AllocateNode(0)] * 8, do.Pin(1))
    assert DRAWS // 2 < values_written(pinning).count(1) < DRAWS * 2 // 3


def test_a_pinned_object_without_a_root_is_never_written(pinning: Situation) -> None:
    follow(
        pinning, do.AllocateNode(0), do.AllocateString(0), do.Pin(1), do.Write(0, 0, 1), do.Free(1)
    )
    assert {*values_written(pinning)} == {None, 0}


def test_nothing_that_appends_a_root_is_legal_in_a_heap_of_many_roots(situation: Situation) -> None:
    for _ in range(ROOTS_MAX):
        situation.bench.shadow.follow(do.LoadPrebuilt(0), minors=0)
    appending = (*ROOTS, do.AllocateOldString(0), do.LoadPrebuilt(0), do.Read(0, 0))
    legal = {rule.action for rule in RULES if rule.subjects(situation)}
    assert legal.isdisjoint(map(type, appending))
    assert do.Free in legal


@pytest.mark.parametrize(
    ("roots", "objects", "may_allocate"),
    [(ROOTS_MAX - 1, OBJECTS_MAX - 1, True), (ROOTS_MAX, 0, False), (0, OBJECTS_MAX, False)],
)
def test_many_roots_or_many_objects_leave_no_room_for_another(
    situation: Situation, roots: int, objects: int, may_allocate: bool
) -> None:
    situation.objects = objects
    for _ in range(roots):
        situation.bench.shadow.follow(do.AllocateNode(0), minors=0)
    assert situation.may_allocate() is may_allocate


def test_in_an_empty_heap_no_action_on_a_root_is_legal(situation: Situation) -> None:
    legal = [rule.action for rule in RULES if rule.subjects(situation)]
    assert not [each for each in legal if "root" in attrs.fields_dict(each)]


def test_an_array_of_no_items_has_no_references_to_act_on(situation: Situation) -> None:
    for action in (do.AllocateArray(0), do.AllocateArray(1), do.AllocateNode(0)):
        situation.bench.shadow.follow(action, minors=0)
    assert rule_of(do.Write).subjects(situation) == [1, 2]


def test_a_heap_of_many_objects_and_no_root_can_still_lose_some(situation: Situation) -> None:
    situation.objects = OBJECTS_MAX
    assert rule_of(do.LoadPrebuilt).subjects(situation)


def test_a_contract_may_leave_a_rule_without_subjects(contract: Contract) -> None:
    bare = attrs.evolve(with_rule(contract, disabling=()), prebuilt=())
    situation = Situation(bare, Bench(bare))
    assert not rule_of(do.LoadPrebuilt).subjects(situation)
    assert not rule_of(do.DisableSampling).subjects(situation)


def test_the_rules_are_those_of_the_actions_that_the_target_carries_out(contract: Contract) -> None:
    smaller = attrs.evolve(contract, actions=("free", "allocate_node"))
    assert [rule.name for rule in rules_for(smaller)] == ["allocate_node", "free"]


# Sources.


@pytest.mark.slow
@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers())
def test_a_number_by_octaves_lies_within_its_bounds(minimum: int, more: int, seed: int) -> None:
    number = RandomChoices(str(seed)).log_between(minimum, minimum + more)
    assert minimum <= number <= minimum + more


def test_a_number_by_octaves_reaches_both_bounds(simplest: Choices, last: Choices) -> None:
    for minimum, more in product([1, 2, 8, 10, 1000, 10**6], [0, 1, 5, 190, 10**6]):
        assert simplest.log_between(minimum, minimum + more) == minimum
        assert last.log_between(minimum, minimum + more) == minimum + more


def test_other_choices_reach_both_bounds(simplest: Choices, last: Choices) -> None:
    assert (simplest.between(-1, 5), last.between(-1, 5)) == (-1, 5)
    assert (simplest.pick("abc"), last.pick("abc")) == ("a", "c")
    assert (simplest.one_in(3), last.one_in(3)) == (False, True)
