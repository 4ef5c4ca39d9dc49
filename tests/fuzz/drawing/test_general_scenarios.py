"""The general scenarios: facts meet, and objects are related, under any configuration."""

from __future__ import annotations

import pytest
from scenario_plays import SOURCES, AmongSome, is_found, play, run_on_reference, started

from fuzz.drawing.draw import draw_configuration, draw_from_scenario
from fuzz.drawing.planner import facts_meet
from fuzz.drawing.relations import objects_are_related
from fuzz.drawing.scenarios import StartScenario, next_of
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.mutator.objects import ShadowObject
from fuzz.oracles import RERUN_ORACLES
from fuzz.protocol import actions as do
from fuzz.protocol.actions import NAMES, Action
from fuzz.run import Run, rerun
from fuzz.targets import make_target
from fuzz.targets.references.collector import SETTINGS

GENERAL = (facts_meet, objects_are_related)
each_general_one = pytest.mark.parametrize("scenario", GENERAL, ids=lambda each: each.__name__)


@pytest.mark.slow
@each_general_one
def test_where_facts_meet_all_oracles_agree_under_any_configuration(
    scenario: StartScenario,
) -> None:
    for number in range(2 * SOURCES):
        source = RandomChoices(f"configured/{number}")
        run = run_on_reference(**draw_configuration(SETTINGS, source))
        actions = started(scenario, run, source)
        while (action := next_of(actions)) is not None:
            assert why_illegal(action, run.contract, run.bench.shadow) is None
            run.step(action)
        run.step(do.CheckHeap())
        for oracle in RERUN_ORACLES.values():
            rerun(make_target("reference"), run, oracle)


EVENTS = ("resume_sampling", "fork")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "action"),
    [
        (scenario, action)
        for scenario in GENERAL
        for action in (
            *("pin", "unpin", "take_identity", "allocate_weakref", "read_weakref", "load_prebuilt"),
            *("write", "copy_array", "enable_sampling", "disable_sampling", "pause_sampling"),
            *("set_callback", "collect_minor", "collect_step"),
            *(EVENTS if scenario is facts_meet else ()),
        )
    ],
)
def test_each_fact_is_brought_about_or_left_out(scenario: StartScenario, action: str) -> None:
    """Without the action, the scenario goes on to its last collection."""
    names: set[str] = set()
    for number in range(SOURCES):
        whole = play(run_on_reference(), scenario, RandomChoices(str(number)))
        names |= {NAMES[type(each)] for each in whole}
        run = run_on_reference()
        run.situation.contract = run.contract.without((action,))
        without = {NAMES[type(each)] for each in play(run, scenario, RandomChoices(str(number)))}
        assert action not in without
        assert "collect_full" in without
    assert action in names


@pytest.mark.slow
@each_general_one
def test_facts_of_objects_that_are_gone_are_left_out(scenario: StartScenario) -> None:
    for number in range(SOURCES):
        source, run = RandomChoices(f"gone/{number}"), run_on_reference()
        run.situation.scenario = started(scenario, run, source)
        while run.situation.scenario is not None:
            action = draw_from_scenario(run.situation, source)
            if action is not None:
                run.step(action)
            if run.situation.roots and source.one_in(4):
                run.step(do.Free(0))


def test_sampling_pauses_where_it_excludes_a_pin() -> None:
    for number in range(SOURCES):
        run = run_on_reference(pin_while_sampling=0, nursery_bytes=1024)
        play(run, facts_meet, RandomChoices(f"pins/{number}"))
        names = [NAMES[type(each)] for each in run.actions]
        if "pin" in names and "enable_sampling" in names[: names.index("pin")]:
            return
    raise AssertionError


@pytest.mark.parametrize(
    ("scenario", "bug"),
    [
        *((scenario, "forgotten-remembered-entry") for scenario in GENERAL),
        (facts_meet, "restart-loses-period"),
    ],
)
def test_facts_meet_in_a_known_bug(scenario: StartScenario, bug: str) -> None:
    assert is_found(bug, scenario)


def only_held(run: Run) -> set[ShadowObject]:
    """What the mutator can reach, and has no root for."""
    return run.bench.shadow.reachable() - {*run.bench.shadow.roots, *run.bench.shadow.prebuilt}


def test_relations_keep_objects_alone_at_a_collection_and_look_at_them_later() -> None:
    kept = seen = 0
    for number in range(SOURCES):
        source, run = AmongSome(f"held/{number}"), run_on_reference()
        actions, held = started(objects_are_related, run, source), set[ShadowObject]()
        while (action := next_of(actions)) is not None:
            if isinstance(action, do.CollectMinor | do.CollectStep | do.CollectFull):
                held |= only_held(run)
            run.step(action)
            seen += isinstance(action, do.Read) and run.situation.roots[-1] in held
        kept += bool(held)
    assert kept > SOURCES / 2
    assert seen > SOURCES / 2


def test_relations_are_followed_by_full_collections_if_there_are_no_others() -> None:
    for number in range(SOURCES):
        run = run_on_reference()
        run.situation.contract = run.contract.without(("collect_minor", "collect_step"))
        actions = play(run, objects_are_related, RandomChoices(str(number)))
        # One follows a round, and one comes at the end.
        assert sum(isinstance(action, do.CollectFull) for action in actions) >= 2


def test_relations_are_followed_by_steps_without_minor_collections_too() -> None:
    kinds: list[type[Action]] = []
    for number in range(SOURCES):
        run = run_on_reference()
        run.situation.contract = run.contract.without(("collect_minor",))
        actions = play(run, objects_are_related, RandomChoices(str(number)))
        kinds += map(type, actions)
    assert kinds.count(do.CollectStep) > kinds.count(do.CollectFull)


def test_relations_end_no_callback_where_nothing_is_ever_pinned() -> None:
    names: set[str] = set()
    for number in range(SOURCES):
        run = run_on_reference()
        run.situation.contract = run.contract.without(("pin",))
        actions = play(run, objects_are_related, RandomChoices(str(number)))
        names |= {NAMES[type(action)] for action in actions}
        assert do.SetCallback(None) not in actions
    assert "set_callback" in names
