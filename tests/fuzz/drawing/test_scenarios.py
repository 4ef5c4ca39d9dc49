"""Scenarios: what each of them does if nothing comes in between, how it ends, and what it finds."""

from collections.abc import Callable, Iterator

import attrs
import pytest
from typing_extensions import override

from fuzz.drawing.draw import draw_action, draw_configuration, draw_from_scenario, menu_of
from fuzz.drawing.rules import OBJECTS_MAX, ROOTS_MAX, Choices, Scenario, Situation, rules_for
from fuzz.drawing.scenarios import (
    SCENARIOS,
    array_of_many_cards_lives,
    blocks_alternate_in_step,
    callback_is_in_the_way,
    identity_is_taken,
    next_of,
    obstacle_is_left,
    old_object_is_sampled,
    old_object_is_written,
    only_holder_is_let_go,
    pinned_item_is_copied,
    pinned_object_is_known,
    pinned_object_is_let_go,
    prebuilt_object_inherits,
    pressure_comes,
    process_forks,
    reference_is_moved,
    reference_is_moved_beside_dirty_card,
    room_is_made,
    sample_point_goes_far,
    sampling_is_off,
    sampling_pauses,
    weak_reference_is_read,
    young_item_is_copied,
)
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.mutator.shadow import Age
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch
from fuzz.protocol.actions import (
    NAMES,
    SLOT_FIELDS,
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Fork,
    Free,
    LoadPrebuilt,
    Malloc,
    PauseSampling,
    Pin,
    ReadWeakref,
    ResumeSampling,
    SetCallback,
    TakeIdentity,
    Unpin,
    Write,
    WriteNumber,
)
from fuzz.protocol.contract import Contract, KindLayout
from fuzz.run import Run, rerun
from fuzz.targets import make_target
from fuzz.targets.references.collector import SETTINGS

Scenario = Callable[[Situation, Choices], Scenario]
Kinds = tuple[type[Action], ...]

SOURCES = 100
ALL_LEGAL = {"prebuilt_nodes": 0, "pin_while_sampling": 1}
"""Here no scenario is cut short: strings can be pinned, and every prebuilt object is an array."""
ENDINGS = (CollectMinor, CollectFull)
PARENTS = (AllocateNode, AllocateArray)

ESSENTIAL: dict[Scenario, tuple[Kinds, ...]] = {
    old_object_is_written: (PARENTS, (CollectMinor,), (AllocateNode,), (Write,), ENDINGS),
    sampling_is_off: ((DisableSampling,), (AllocateNode,)),
    process_forks: ((EnableSampling,), (AllocateString,), (Fork,), (CollectMinor,)),
    sampling_pauses: ((EnableSampling,), (PauseSampling,), (ResumeSampling,)),
    old_object_is_sampled: ((EnableSampling,), (AllocateOldString,), (CollectMinor,)),
    sample_point_goes_far: (
        *((EnableSampling,), (AllocateString,), (AllocateString,), (AllocateNode,)),
    ),
    pressure_comes: ((EnableSampling,), (AddMemoryPressure,), (AllocateNode,)),
    identity_is_taken: ((AllocateNode,), (TakeIdentity,), (WriteNumber,), ENDINGS),
    reference_is_moved: (
        *((AllocateArray,), (AllocateNode,), (Write,), (Free,), (AllocateArray,)),
        *((CollectStep,), (CopyArray,), (Write,), (CollectFull,)),
    ),
    reference_is_moved_beside_dirty_card: (
        *((AllocateArray,), (AllocateNode,), (Write,), (Free,), (AllocateArray,)),
        *((CollectStep,), (Write,), (CopyArray,), (Write,), (CollectFull,)),
    ),
    prebuilt_object_inherits: (
        *((AllocateArray,), (Write,), (CollectMinor,), (LoadPrebuilt,)),
        *((CopyArray,), (Free,), (CollectFull,)),
    ),
    pinned_object_is_known: (
        *((AllocateString,), (Pin, TakeIdentity), (Pin, TakeIdentity)),
        *((CollectFull,), (Unpin,), (CollectMinor,)),
    ),
    pinned_object_is_let_go: (
        *((AllocateNode,), (AllocateString,), (Pin,), PARENTS, (Write,)),
        *((CollectStep,), (Unpin,), (Free,), (CollectFull,)),
    ),
    obstacle_is_left: (
        *((AllocateString,), (Pin,), (CollectMinor,), (Unpin,)),
        *((EnableSampling,), (AllocateNode,)),
    ),
    callback_is_in_the_way: (
        *((SetCallback,), (EnableSampling,), (AllocateString,), (SetCallback,)),
    ),
    young_item_is_copied: (
        *((AllocateArray,), (AllocateNode,), (Write,), (Free,), (CopyArray,), ENDINGS),
    ),
    array_of_many_cards_lives: ((AllocateArray,), (AllocateNode,), (Write,), (Free,), ENDINGS),
    pinned_item_is_copied: (
        *((AllocateArray,), (AllocateArray,), (AllocateString,), (Write,), (Pin,)),
        *((CollectMinor,), (CopyArray,), (Unpin,), ENDINGS),
    ),
    weak_reference_is_read: (
        *((*PARENTS, AllocateString), (AllocateWeakref,), (Free,), ENDINGS, (ReadWeakref,)),
    ),
    only_holder_is_let_go: (
        *((*PARENTS, LoadPrebuilt), (AllocateNode, AllocateString), (AllocateWeakref,)),
        *((Write,), (Free,), (Free,), (CollectMinor,), (ReadWeakref,)),
        *((CollectFull,), (ReadWeakref,)),
    ),
}
"""What each scenario does, in that order; what else it does is by chance."""

FINDS: dict[Scenario, str] = {
    old_object_is_written: "forgotten-remembered-entry",
    sampling_is_off: "disable-before-enable",
    process_forks: "fork-keeps-young-samples",
    sampling_pauses: "restart-loses-period",
    old_object_is_sampled: "nonyoung-reported-dead",
    sample_point_goes_far: "stale-limit-after-large",
    pressure_comes: "pressure-taken-for-sample",
    identity_is_taken: "shadow-keeps-number",
    reference_is_moved: "arraycopy-skips-barrier-while-marking",
    reference_is_moved_beside_dirty_card: "arraycopy-clean-cards",
    prebuilt_object_inherits: "arraycopy-prebuilt",
    pinned_object_is_known: "pinned-shadow-visited",
    pinned_object_is_let_go: "pinned-white-object",
    obstacle_is_left: "enable-beside-old-obstacle",
    callback_is_in_the_way: "second-minor-reads-null",
}
"""The planted bug that a scenario is about; for the others there are engines/test_misses.py."""

WITH_OBJECTS = (
    *(old_object_is_written, identity_is_taken, reference_is_moved, prebuilt_object_inherits),
    reference_is_moved_beside_dirty_card,
    *(pinned_object_is_known, pinned_object_is_let_go, obstacle_is_left),
    *(young_item_is_copied, weak_reference_is_read, only_holder_is_let_go),
    *(array_of_many_cards_lives, pinned_item_is_copied),
)
"""The scenarios that name an object which they made."""

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)


def run_on(target: str, configuration: dict[str, int]) -> Run:
    return Run(make_target(target), configuration)


def play_one(run: Run, scenario: Scenario) -> bool:
    """Perform the next action; whether it is legal, or the scenario is over. Raises a Mismatch."""
    action = next_of(scenario)
    if action is None or why_illegal(action, run.situation.contract, run.bench.shadow):
        return False
    run.step(action)
    return True


def play(run: Run, scenario: Scenario) -> list[Action]:
    """Tell a scenario without any interruption, up to what is not legal. Raises a Mismatch."""
    while play_one(run, scenario):
        pass
    return run.actions


class AmongSome(RandomChoices):
    """It refuses to choose among none, as Hypothesis does."""

    @override
    def below(self, bound: int) -> int:
        assert bound > 0
        return super().below(bound)


def has_in_order(actions: list[Action], essential: tuple[Kinds, ...]) -> bool:
    """Whether an action of each of these kinds follows one of those before."""
    left: Iterator[Action] = iter(actions)
    return all(any(isinstance(action, kinds) for action in left) for kinds in essential)


def test_every_scenario_has_its_essential_actions_here() -> None:
    assert set(ESSENTIAL) == set(SCENARIOS)


# Undisturbed.


@each_scenario
def test_by_the_simplest_choices_a_scenario_is_what_is_essential(
    scenario: Scenario, simplest: Choices
) -> None:
    run = run_on("reference", ALL_LEGAL)
    actions = play(run, scenario(run.situation, simplest))
    essential = ESSENTIAL[scenario]
    assert len(actions) == len(essential)
    assert has_in_order(actions, essential)


@each_scenario
def test_by_any_choices_a_scenario_has_its_essential_actions_in_order(scenario: Scenario) -> None:
    for number in range(SOURCES):
        run = run_on("reference", ALL_LEGAL)
        actions = play(run, scenario(run.situation, RandomChoices(str(number))))
        assert has_in_order(actions, ESSENTIAL[scenario])


@pytest.mark.slow
@each_scenario
def test_a_scenario_passes_all_oracles_under_any_configuration(scenario: Scenario) -> None:
    for number in range(SOURCES):
        source = RandomChoices(f"configured/{number}")
        run = run_on("reference", draw_configuration(SETTINGS, source))
        play(run, scenario(run.situation, source))
        run.step(CheckHeap())
        for oracle in RERUN_ORACLES.values():
            rerun(make_target("reference"), run, oracle)


@pytest.mark.slow
@each_scenario
def test_a_scenario_has_its_essential_actions_in_a_heap_in_use_too(scenario: Scenario) -> None:
    told = 0
    for number in range(SOURCES):
        source = RandomChoices(f"used/{number}")
        run = run_on("reference", ALL_LEGAL)
        menu = menu_of(rules_for(run.contract))
        for _ in range(10):
            run.step(draw_action(run.situation, menu, source))
        before = len(run.actions)
        told += has_in_order(
            play(run, scenario(run.situation, source))[before:], ESSENTIAL[scenario]
        )
    # Sampling, a callback or something pinned may exclude it by then, but not often.
    assert told > SOURCES // 2


@each_scenario
def test_the_same_choices_tell_the_same_story(scenario: Scenario) -> None:
    told = [
        play(run, scenario(run.situation, RandomChoices("7")))
        for run in (run_on("reference", ALL_LEGAL), run_on("reference", ALL_LEGAL))
    ]
    assert told[0] == told[1]


# How a scenario ends.


@pytest.mark.parametrize("scenario", WITH_OBJECTS, ids=lambda each: each.__name__)
def test_a_scenario_is_over_when_it_would_name_an_object_that_is_gone(
    scenario: Scenario, simplest: Choices
) -> None:
    whole = run_on("reference", ALL_LEGAL)
    told = play(whole, scenario(whole.situation, simplest))
    naming = [step for step, action in enumerate(told) if SLOT_FIELDS[type(action)]]
    assert naming
    for step in naming:
        run = run_on("reference", ALL_LEGAL)
        started = scenario(run.situation, simplest)
        for action in told[:step]:
            assert next_of(started) == action
            run.step(action)
        while run.situation.roots:
            run.step(Free(0))
        assert next_of(started) is None


@each_scenario
def test_a_scenario_whose_roots_all_go_at_any_time_does_nothing_illegal(
    scenario: Scenario, simplest: Choices
) -> None:
    for step in range(len(ESSENTIAL[scenario])):
        run = run_on("reference", ALL_LEGAL)
        situation = run.situation
        situation.scenario = scenario(situation, simplest)
        while situation.scenario is not None:
            action = draw_from_scenario(situation, simplest)
            if action is not None:
                assert why_illegal(action, run.contract, run.bench.shadow) is None
                run.step(action)
            if len(run.actions) == step + 1:
                while situation.roots:
                    run.step(Free(0))


# What a scenario is told for.


def test_a_young_item_is_copied_between_two_old_arrays_too() -> None:
    told = 0
    for number in range(SOURCES):
        run = run_on("reference", ALL_LEGAL)
        scenario = young_item_is_copied(run.situation, RandomChoices(str(number)))
        while (action := next_of(scenario)) is not None:
            if isinstance(action, CopyArray) and action.source != action.dest:
                ages = [run.situation.roots[each].age for each in (action.source, action.dest)]
                told += ages == [Age.OLD, Age.OLD]
            run.step(action)
    assert told > SOURCES // 10


def test_where_there_is_no_room_up_to_four_roots_are_let_go(last: Choices) -> None:
    run = run_on("reference", {})
    for _ in range(ROOTS_MAX):
        run.step(AllocateNode(0))
    assert play(run, room_is_made(run.situation, last))[ROOTS_MAX:] == [
        Free(root) for root in (7, 6, 5, 4)
    ]


def test_by_the_simplest_choices_the_oldest_root_alone_is_let_go(simplest: Choices) -> None:
    run = run_on("reference", {})
    for _ in range(ROOTS_MAX):
        run.step(AllocateNode(0))
    assert play(run, room_is_made(run.situation, simplest))[ROOTS_MAX:] == [Free(0)]


@pytest.mark.parametrize(
    ("without", "collection"), [("", CollectMinor()), ("collect_minor", CollectFull())]
)
def test_where_there_are_many_objects_they_are_counted_again(
    without: str, collection: Action, simplest: Choices
) -> None:
    run = run_on("reference", {})
    supported = tuple(name for name in run.contract.actions if name != without)
    run.situation.contract = attrs.evolve(run.contract, actions=supported)
    run.step(AllocateNode(0))
    run.situation.objects = OBJECTS_MAX
    assert play(run, room_is_made(run.situation, simplest))[1:] == [Free(0), collection]
    assert run.situation.objects < OBJECTS_MAX


def test_the_slots_of_objects_are_looked_up_when_they_are_named(simplest: Choices) -> None:
    run = run_on("reference", {})
    for _ in range(3):
        run.step(AllocateNode(0))
    scenario = identity_is_taken(run.situation, simplest)
    for _ in range(2):
        action = next_of(scenario)
        assert action is not None
        run.step(action)
        run.step(Free(0))
    assert next_of(scenario) == WriteNumber(1, 1)


def test_what_a_rule_puts_on_top_of_an_object_takes_its_part(simplest: Choices) -> None:
    run = run_on("reference", {})
    scenario = identity_is_taken(run.situation, simplest)
    for _ in range(2):
        run.step(AllocateNode(0))
    next_of(scenario)
    run.step(AllocateNode(0))
    run.step(AllocateArray(0))
    assert next_of(scenario) == TakeIdentity(3)


@pytest.mark.parametrize(
    ("scenario", "before"),
    [
        (pinned_object_is_known, [AllocateString]),
        (pinned_object_is_let_go, [AllocateNode, AllocateString]),
        (obstacle_is_left, [AllocateString]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_where_nothing_can_be_pinned_a_scenario_ends_before_it_pins(
    scenario: Scenario, before: list[type[Action]], last: Choices, simplest: Choices
) -> None:
    run = run_on("reference", {"nursery_bytes": 64, "large_object_bytes": 64})
    assert run.contract.pins_max == 0
    # By the simplest choices an identity is taken before the object is pinned.
    source = last if scenario is pinned_object_is_known else simplest
    actions = play(run, scenario(run.situation, source))
    assert [type(action) for action in actions] == before


def test_what_excludes_pins_ends_a_scenario_that_pins(simplest: Choices) -> None:
    run = run_on("reference", {"pin_while_sampling": 0})
    run.step(EnableSampling(64))
    actions = play(run, obstacle_is_left(run.situation, simplest))
    assert [type(action) for action in actions] == [EnableSampling, AllocateString]


def test_a_prebuilt_object_that_cannot_inherit_ends_the_scenario(simplest: Choices) -> None:
    run = run_on("reference", {"prebuilt_nodes": 1, "prebuilt_arrays": 0})
    actions = play(run, prebuilt_object_inherits(run.situation, simplest))
    assert isinstance(actions[-1], LoadPrebuilt)


def test_where_nothing_is_prebuilt_nothing_inherits(simplest: Choices) -> None:
    run = run_on("reference", {"prebuilt_nodes": 0, "prebuilt_arrays": 0})
    actions = play(run, prebuilt_object_inherits(run.situation, simplest))
    assert isinstance(actions[-1], CollectMinor)


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        pytest.param(scenario, kind, id=f"{scenario.__name__}-{NAMES[kind]}")
        for scenario in SCENARIOS
        for kind in dict.fromkeys(kinds[0] for kinds in ESSENTIAL[scenario])
    ],
)
def test_without_one_of_its_actions_a_scenario_goes_as_far_as_it_is_legal(
    scenario: Scenario, kind: type[Action], simplest: Choices, same: Callable[[int], Choices]
) -> None:
    for source in (simplest, same(1)):
        whole = run_on("reference", ALL_LEGAL)
        told = play(whole, scenario(whole.situation, source))
        run = run_on("reference", ALL_LEGAL)
        supported = tuple(name for name in run.contract.actions if name != NAMES[kind])
        run.situation.contract = attrs.evolve(run.contract, actions=supported)
        kinds = [type(action) for action in told]
        first = kinds.index(kind) if kind in kinds else len(told)
        without = play(run, scenario(run.situation, source))
        assert without[:first] == told[:first]
        # A full collection may take the place of a minor one.
        assert without[first:] == [] or without[first] == CollectFull()


@pytest.mark.slow
@each_scenario
def test_whatever_comes_between_its_actions_a_scenario_always_has_a_choice(
    scenario: Scenario,
) -> None:
    for number in range(SOURCES):
        choices = AmongSome(f"between/{number}")
        run = run_on("reference", ALL_LEGAL)
        started = scenario(run.situation, choices)
        while play_one(run, started):
            if not choices.below(4):
                run.step(AllocateString(0))


# What it finds.


def is_found(bug: str, scenario: Scenario) -> bool:
    """Whether some telling of it, by itself, shows that planted bug to an oracle."""
    target = make_target(f"reference+{bug}")
    for number in range(SOURCES):
        source = RandomChoices(f"found/{number}")
        run = Run(target, draw_configuration(SETTINGS, source))
        try:
            play(run, scenario(run.situation, source))
            for oracle in RERUN_ORACLES.values():
                rerun(target, run, oracle)
        except Mismatch:
            return True
    return False


@pytest.mark.parametrize("scenario", FINDS, ids=lambda each: each.__name__)
def test_a_scenario_alone_finds_the_bug_that_it_is_about(scenario: Scenario) -> None:
    assert is_found(FINDS[scenario], scenario)


def test_two_blocks_take_a_period_together(
    blocks: Contract, simplest: Choices, last: Choices
) -> None:
    """Of 100 bytes, each block with a header of 34. Most scenarios of blocks are empty."""
    kinds = {"block": KindLayout(1, 34, 1)}
    layout = attrs.evolve(blocks.layout, kinds=kinds, size_classes=(), page_bytes=1)
    contract = attrs.evolve(blocks, layout=layout)
    situation = Situation(contract, Bench(contract))
    assert [*blocks_alternate_in_step(situation, simplest)] == [Malloc(32), Malloc(0)]
    assert [*blocks_alternate_in_step(situation, last)] == []
