"""Scenarios: the actions of each one, how it ends, and the bug that it finds."""

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from changed_contracts import with_layout
from scenario_plays import SOURCES, AmongSome, is_found, play, play_one, run_on_reference, started

from fuzz.drawing import scenarios
from fuzz.drawing.draw import draw_action, draw_configuration, draw_from_scenario, menu_of
from fuzz.drawing.facts_of_heaps import SWEEPING
from fuzz.drawing.relations import objects_are_related
from fuzz.drawing.rules import rules_for
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.scenarios import SCENARIOS, StartScenario, next_of
from fuzz.drawing.situation import OBJECTS_MAX, ROOTS_MAX, Choices, Scenario, Situation
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.mutator.objects import Age
from fuzz.oracles import RERUN_ORACLES, Bench
from fuzz.protocol import actions as do
from fuzz.protocol.actions import NAMES, SLOT_FIELDS, Action, name_of
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import KindLayout
from fuzz.protocol.target import contract_of
from fuzz.reached.probes import FAR_ITEM
from fuzz.run import Run, rerun
from fuzz.targets import make_target
from fuzz.targets.references.collector import SETTINGS

ESSENTIAL: dict[StartScenario, str] = {
    scenarios.process_forks: "enable_sampling allocate_string fork collect_minor",
    scenarios.sample_point_leaves_nursery: (
        "enable_sampling allocate_string allocate_string allocate_node"
    ),
    scenarios.object_changes_after_identity: "allocate_node take_identity write_number END",
    scenarios.reference_is_moved: (
        "allocate_array allocate_node write free allocate_array collect_step copy_array write "
        "collect_full"
    ),
    scenarios.reference_is_moved_beside_dirty_card: (
        "allocate_array allocate_node write free allocate_array collect_step copy_array write "
        "collect_full"
    ),
    scenarios.prebuilt_array_holds_copy: (
        "allocate_array write collect_minor load_prebuilt copy_array free collect_full"
    ),
    scenarios.prebuilt_array_is_written_after_copy: (
        "collect_step load_prebuilt load_prebuilt copy_array allocate_node write free collect_full"
    ),
    scenarios.pinned_object_has_identity: (
        "allocate_string pin|take_identity pin|take_identity unpin END"
    ),
    scenarios.pinned_object_is_freed: (
        "allocate_node allocate_string pin HOLDER write collect_step unpin free collect_full"
    ),
    scenarios.sampling_starts_beside_obstacle: (
        "allocate_string pin collect_minor unpin enable_sampling allocate_node"
    ),
    scenarios.young_item_is_copied: "allocate_array allocate_node write free copy_array END",
    scenarios.young_item_is_moved: (
        "allocate_array allocate_node write|fill_array free move_array END"
    ),
    scenarios.array_has_many_cards: "allocate_array allocate_node write free END",
    scenarios.pinned_item_is_copied: (
        "allocate_array allocate_array allocate_string write pin collect_minor copy_array unpin END"
    ),
    scenarios.only_holder_is_freed: (
        "HOLDER|load_prebuilt allocate_node|allocate_string allocate_weakref write free free "
        "collect_minor read_weakref collect_full read_weakref"
    ),
}
"""What each scenario does, in that order; all other actions are drawn by chance."""
SHORT = {"HOLDER": "allocate_node|allocate_array", "END": "collect_minor|collect_full"}

FINDS: dict[StartScenario, str] = {
    scenarios.process_forks: "fork-keeps-young-samples",
    scenarios.sample_point_leaves_nursery: "stale-limit-after-large",
    scenarios.object_changes_after_identity: "shadow-keeps-number",
    scenarios.reference_is_moved: "arraycopy-skips-barrier-while-marking",
    scenarios.reference_is_moved_beside_dirty_card: "arraycopy-clean-cards",
    scenarios.prebuilt_array_holds_copy: "arraycopy-prebuilt",
    scenarios.prebuilt_array_is_written_after_copy: "write-after-prebuilt-copy",
    scenarios.pinned_object_has_identity: "pinned-shadow-visited",
    scenarios.pinned_object_is_freed: "pinned-white-object",
    scenarios.sampling_starts_beside_obstacle: "enable-beside-old-obstacle",
    scenarios.young_item_is_moved: "arraymove-keeps-cards",
}
"""The planted bug that a scenario is about; engines/test_misses.py has those of the others."""

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)


def essential_of(scenario: StartScenario) -> list[list[str]]:
    """For each essential action, the names that it may have."""
    text = ESSENTIAL[scenario]
    for short, names in SHORT.items():
        text = text.replace(short, names)
    return [names.split("|") for names in text.split()]


def has_in_order(actions: list[Action], essential: list[list[str]]) -> bool:
    """Whether these actions follow one another, with any others in between."""
    left: Iterator[str] = map(name_of, map(type, actions))
    return all(any(name in names for name in left) for names in essential)


# Uninterrupted.


@each_scenario
def test_simplest_choices_skip_what_is_optional(scenario: StartScenario, simplest: Choices) -> None:
    actions = play(run_on_reference(), scenario, simplest)
    assert len(actions) == len(essential_of(scenario))
    assert has_in_order(actions, essential_of(scenario))


@each_scenario
def test_any_choices_keep_a_scenario_s_essential_actions_in_order(scenario: StartScenario) -> None:
    for number in range(SOURCES):
        actions = play(run_on_reference(), scenario, RandomChoices(str(number)))
        assert has_in_order(actions, essential_of(scenario))


def copies_in(scenario: StartScenario) -> list[do.CopyArray]:
    return [
        action
        for number in range(SOURCES)
        for action in play(run_on_reference(), scenario, RandomChoices(str(number)))
        if isinstance(action, do.CopyArray)
    ]


@pytest.mark.parametrize(
    "scenario",
    [each for each, names in ESSENTIAL.items() if "copy_array" in names],
    ids=lambda each: each.__name__,
)
def test_many_copies_of_a_scenario_are_of_several_items(scenario: StartScenario) -> None:
    # PyPy copies a single item as it writes one, so that alone shows no mistake of its copies.
    lengths = [copy.length for copy in copies_in(scenario)]
    assert 1 in lengths
    assert sum(length > 1 for length in lengths) > len(lengths) // 3


def test_a_copy_beside_a_dirty_card_has_no_item_of_that_card() -> None:
    ends = [copy.length for copy in copies_in(scenarios.reference_is_moved_beside_dirty_card)]
    assert max(ends) <= FAR_ITEM < scenarios.LARGE_ITEMS - 1


def test_a_reference_is_moved_between_large_arrays_without_dirty_cards_too() -> None:
    written = set()
    for number in range(SOURCES):
        run, source = run_on_reference(), RandomChoices(str(number))
        actions = play(run, scenarios.reference_is_moved_beside_dirty_card, source)
        written.add(sum(isinstance(action, do.Write) for action in actions))
    assert written == {2, 3}


def test_an_array_with_cards_is_copied_into_a_prebuilt_one_too() -> None:
    lengths = set()
    for number in range(SOURCES):
        run, source = run_on_reference(), RandomChoices(str(number))
        first = play(run, scenarios.prebuilt_array_holds_copy, source)[0]
        assert isinstance(first, do.AllocateArray)
        lengths.add(first.length)
    assert lengths == {2, 3, scenarios.LARGE_ITEMS}


def test_a_pinned_object_with_an_identity_dies_or_lives() -> None:
    freed = set()
    for number in range(SOURCES):
        run, source = run_on_reference(), RandomChoices(str(number))
        actions = play(run, scenarios.pinned_object_has_identity, source)
        freed.add(any(isinstance(action, do.Free) for action in actions))
    assert freed == {False, True}


def test_an_object_with_an_identity_is_unpinned_while_the_collector_sweeps() -> None:
    states: Counter[int | None] = Counter()
    for number in range(SOURCES):
        run = run_on_reference()
        choices = RandomChoices(str(number))
        actions = started(scenarios.pinned_object_has_identity, run, choices)
        while (action := next_of(actions)) is not None:
            if isinstance(action, do.Unpin):
                states[run.situation.state] += 1
            run.step(action)
    assert states[SWEEPING] > SOURCES // 4


@pytest.mark.slow
@each_scenario
def test_a_scenario_passes_all_oracles_under_any_configuration(scenario: StartScenario) -> None:
    for number in range(SOURCES):
        source = RandomChoices(f"configured/{number}")
        run = run_on_reference(**draw_configuration(SETTINGS, source))
        play(run, scenario, source)
        run.step(do.CheckHeap())
        for oracle in RERUN_ORACLES.values():
            rerun(make_target("reference"), run, oracle)


@pytest.mark.slow
@each_scenario
def test_a_scenario_has_its_essential_actions_in_a_heap_in_use_too(scenario: StartScenario) -> None:
    complete = 0
    for number in range(SOURCES):
        source = RandomChoices(f"used/{number}")
        run = run_on_reference()
        menu = menu_of(rules_for(run.contract))
        for _ in range(10):
            run.step(draw_action(run.situation, menu, source))
        complete += has_in_order(play(run, scenario, source), essential_of(scenario))
    # Sampling, a callback or a pinned object may exclude it by then, but not often.
    assert complete > SOURCES // 2


# How a scenario ends.


@pytest.mark.parametrize(
    "scenario",
    [each for each, names in ESSENTIAL.items() if re.search(r"write|free|pin|identity", names)],
    ids=lambda each: each.__name__,
)
def test_a_scenario_ends_with_its_last_object(scenario: StartScenario, simplest: Choices) -> None:
    actions = play(run_on_reference(), scenario, simplest)
    for step, naming in enumerate(actions):
        if not SLOT_FIELDS[type(naming)]:
            continue
        run = run_on_reference()
        scenario_of_run = started(scenario, run, simplest)
        for action in actions[:step]:
            assert next_of(scenario_of_run) == action
            run.step(action)
        while run.situation.roots:
            run.step(do.Free(0))
        assert next_of(scenario_of_run) is None


@each_scenario
def test_a_scenario_may_lose_all_its_roots(scenario: StartScenario, simplest: Choices) -> None:
    for step in range(len(essential_of(scenario))):
        run = run_on_reference()
        situation = run.situation
        situation.scenario = started(scenario, run, simplest)
        while situation.scenario is not None:
            action = draw_from_scenario(situation, simplest)
            if action is not None:
                assert why_illegal(action, run.contract, run.bench.shadow) is None
                run.step(action)
            if len(run.actions) == step + 1:
                while situation.roots:
                    run.step(do.Free(0))


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        pytest.param(scenario, name, id=f"{scenario.__name__}-{name}")
        for scenario in SCENARIOS
        for name in dict.fromkeys(names[0] for names in essential_of(scenario))
    ],
)
def test_without_one_of_its_actions_a_scenario_goes_as_far_as_it_is_legal(
    scenario: StartScenario, name: str, simplest: Choices, same: Callable[[int], Choices]
) -> None:
    for source in (simplest, same(1)):
        whole = play(run_on_reference(), scenario, source)
        run = run_on_reference()
        run.situation.contract = run.contract.without((name,))
        names = [NAMES[type(action)] for action in whole]
        first = names.index(name) if name in names else len(whole)
        without = play(run, scenario, source)
        assert without[:first] == whole[:first]
        # A full collection may take the place of a minor one.
        assert without[first:] == [] or without[first] == do.CollectFull()


@pytest.mark.slow
@each_scenario
def test_a_scenario_always_has_a_choice_after_an_interruption(scenario: StartScenario) -> None:
    for number in range(SOURCES):
        choices = AmongSome(f"between/{number}")
        run = run_on_reference()
        actions = started(scenario, run, choices)
        while play_one(run, actions):
            if not choices.below(4):
                run.step(do.AllocateString(0))


@pytest.mark.parametrize(
    ("scenario", "before"),
    [
        (scenarios.pinned_object_has_identity, "allocate_string"),
        (scenarios.pinned_object_is_freed, "allocate_node allocate_string"),
        (scenarios.sampling_starts_beside_obstacle, "allocate_string"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
@pytest.mark.parametrize("is_sampling", [False, True])
def test_where_nothing_can_be_pinned_a_scenario_ends_before_it_pins(
    scenario: StartScenario, before: str, is_sampling: bool, last: Choices, simplest: Choices
) -> None:
    """The nursery is too small for pins, or sampling excludes them."""
    size = {} if is_sampling else {"nursery_bytes": 64, "large_object_bytes": 64}
    run = run_on_reference(pin_while_sampling=0, **size)
    if is_sampling:
        run.step(do.EnableSampling(64))
    # By the simplest choices an identity is taken before the object is pinned.
    source = last if scenario is scenarios.pinned_object_has_identity else simplest
    actions = play(run, scenario, source)
    assert " ".join(NAMES[type(action)] for action in actions) == before


@pytest.mark.parametrize("prebuilt_nodes", [0, 1])
def test_without_a_prebuilt_array_nothing_is_copied_into_one(
    prebuilt_nodes: int, simplest: Choices
) -> None:
    """A prebuilt node is not loaded instead."""
    run = run_on_reference(prebuilt_nodes=prebuilt_nodes, prebuilt_arrays=0)
    actions = play(run, scenarios.prebuilt_array_holds_copy, simplest)
    assert isinstance(actions[-1], do.CollectMinor)


# Objects and their slots.


def test_a_young_item_is_copied_between_two_old_arrays_too() -> None:
    copies = 0
    for number in range(SOURCES):
        run = run_on_reference()
        scenario = started(scenarios.young_item_is_copied, run, RandomChoices(str(number)))
        while (action := next_of(scenario)) is not None:
            if isinstance(action, do.CopyArray) and action.source != action.dest:
                ages = [run.situation.roots[each].age for each in (action.source, action.dest)]
                copies += ages == [Age.OLD, Age.OLD]
            run.step(action)
    assert copies > SOURCES // 10


def test_a_scenario_finds_its_object_in_another_slot(simplest: Choices) -> None:
    run = run_on_reference()
    for _ in range(3):
        run.step(do.AllocateNode(0))
    scenario = started(scenarios.object_changes_after_identity, run, simplest)
    for _ in range(2):
        action = next_of(scenario)
        assert action is not None
        run.step(action)
        run.step(do.Free(0))
    assert next_of(scenario) == do.WriteNumber(1, 1)


def test_a_scenario_goes_on_with_an_object_on_top_of_its_own(simplest: Choices) -> None:
    run = run_on_reference()
    scenario = started(scenarios.object_changes_after_identity, run, simplest)
    for _ in range(2):
        run.step(do.AllocateNode(0))
    next_of(scenario)
    run.step(do.AllocateNode(0))
    run.step(do.AllocateArray(0))
    assert next_of(scenario) == do.TakeIdentity(3)


# Room for other scenarios.


@pytest.mark.parametrize(("choice", "freed"), [(0, [0]), (2**62, [7, 6, 5, 4])])
def test_from_one_root_to_four_are_freed(
    choice: int, freed: list[int], same: Callable[[int], Choices]
) -> None:
    run = run_on_reference()
    for _ in range(ROOTS_MAX):
        run.step(do.AllocateNode(0))
    assert play(run, scenarios.roots_are_freed, same(choice)) == list(map(do.Free, freed))


@pytest.mark.parametrize(
    ("without", "collection"), [((), do.CollectMinor()), (("collect_minor",), do.CollectFull())]
)
def test_a_collection_counts_the_objects_again(
    without: tuple[str, ...], collection: Action, simplest: Choices
) -> None:
    run = run_on_reference(nursery_bytes=256)
    run.situation.contract = run.contract.without(without)
    run.step(do.AllocateNode(0))
    run.situation.objects = OBJECTS_MAX
    assert play(run, scenarios.roots_are_freed, simplest) == [do.Free(0), collection]
    assert run.situation.objects < OBJECTS_MAX


# Finalizers.


def test_scenarios_take_back_only_finalizers_that_have_not_run() -> None:
    taken_back = 0
    for number in range(2 * SOURCES):
        run = Run(make_target("reference-finalizers"), {})
        scenario = started(objects_are_related, run, RandomChoices(str(number)))
        while (action := next_of(scenario)) is not None:
            if isinstance(action, do.UnregisterFinalizer):
                waiting = run.bench.shadow.finalizers.waiting.values()
                assert run.situation.roots[action.root] in waiting
                taken_back += 1
            run.step(action)
    assert taken_back


# What a scenario finds.


@pytest.mark.parametrize("scenario", FINDS, ids=lambda each: each.__name__)
def test_a_scenario_alone_finds_the_bug_that_it_is_about(scenario: StartScenario) -> None:
    assert is_found(FINDS[scenario], scenario)


# Blocks and threads.


def test_two_blocks_take_one_period(blocks: Contract, simplest: Choices, last: Choices) -> None:
    """The period has 100 bytes, and each block a header of 34. Most of these are empty."""
    kinds = {"block": KindLayout(1, 34, 1)}
    contract = with_layout(blocks, kinds=kinds, size_classes=(), page_bytes=1)
    situation = Situation(contract, Bench(contract))
    drawn = [
        [*scenarios.blocks_alternate_in_step(ScenarioMutator(situation, source), source)]
        for source in (simplest, last)
    ]
    assert drawn == [[do.Malloc(32), do.Malloc(0)], []]


def test_a_scenario_does_not_use_a_thread_that_a_rule_has_ended(simplest: Choices) -> None:
    contract = contract_of(make_target("reference-threads"))
    situation = Situation(contract, Bench(contract))
    situation.bench.shadow.ended_threads.add(1)

    def by_that_thread() -> Scenario:
        situation.thread = 1
        yield do.AllocateNode(0)

    situation.scenario = by_that_thread()
    assert draw_from_scenario(situation, simplest) is None
    assert situation.scenario is None
