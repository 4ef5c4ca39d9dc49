"""What tests of scenarios share: a scenario is played on the reference, without interruptions."""

from __future__ import annotations

from typing_extensions import override

from fuzz.drawing.draw import draw_configuration
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.scenarios import StartScenario, next_of
from fuzz.drawing.situation import Choices, Scenario
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.oracles import RERUN_ORACLES, Mismatch
from fuzz.protocol.actions import Action
from fuzz.run import Run, rerun
from fuzz.targets import make_target
from fuzz.targets.references.collector import SETTINGS

SOURCES = 100
ALL_LEGAL = {"prebuilt_nodes": 0, "pin_while_sampling": 1}
"""Here no scenario is cut short: strings can be pinned, and every prebuilt object is an array."""


def started(scenario: StartScenario, run: Run, choices: Choices) -> Scenario:
    return scenario(ScenarioMutator(run.situation, choices), choices)


def run_on_reference(**configuration: int) -> Run:
    return Run(make_target("reference"), configuration or ALL_LEGAL)


def play_one(run: Run, scenario: Scenario) -> bool:
    """Perform the next action, if there is one and it is legal. Raises a Mismatch."""
    action = next_of(scenario)
    if action is None or why_illegal(action, run.situation.contract, run.bench.shadow):
        return False
    run.step(action)
    return True


def play(run: Run, scenario: StartScenario, choices: Choices) -> list[Action]:
    """The actions of an uninterrupted scenario, up to the first illegal one. Raises a Mismatch."""
    before, actions = len(run.actions), started(scenario, run, choices)
    while play_one(run, actions):
        pass
    return run.actions[before:]


class AmongSome(RandomChoices):
    """Refuses to choose among none, as Hypothesis does."""

    @override
    def below(self, bound: int) -> int:
        assert bound > 0
        return super().below(bound)


def is_found(bug: str, scenario: StartScenario) -> bool:
    """Whether the scenario alone shows the planted bug to an oracle, with one of some seeds."""
    target = make_target(f"reference+{bug}")
    for number in range(SOURCES):
        source = RandomChoices(f"found/{number}")
        run = Run(target, draw_configuration(SETTINGS, source))
        try:
            play(run, scenario, source)
            for oracle in RERUN_ORACLES.values():
                rerun(target, run, oracle)
        except Mismatch:
            return True
    return False
