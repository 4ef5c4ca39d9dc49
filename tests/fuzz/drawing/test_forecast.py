"""Forecasts: actions drawn ahead are legal, and a full nursery is predicted to be collected."""

import pytest

from fuzz.drawing.draw import draw_action, menu_of
from fuzz.drawing.forecast import Forecast, cost_of
from fuzz.drawing.rules import rules_for
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.run import Run
from fuzz.targets import TargetOptions, make_target

NODE = do.AllocateNode(0)  # 32 of 256 bytes


@pytest.mark.parametrize(
    ("actions", "used_bytes", "objects"),
    [
        pytest.param([NODE] * 8, 256, 0, id="fits"),
        pytest.param([NODE] * 9, 32, 11, id="does not fit"),
        pytest.param([NODE] * 8 + [do.AllocateString(1000)], 256, 0, id="outside"),
        pytest.param([NODE, do.CollectMinor()], 0, 3, id="minor"),
        pytest.param([NODE, do.CollectFull()], 0, 3, id="full"),
        pytest.param([NODE, do.DisableSampling(report=True)], 0, 3, id="reporting"),
    ],
)
def test_collections_are_predicted(
    contract: Contract, actions: list[Action], used_bytes: int, objects: int
) -> None:
    """A collection counts the objects, with two prebuilt ones."""
    forecast = Forecast(contract)
    for action in actions:
        forecast.follow(action)
    assert forecast.situation.bench.sampling.nursery_used_bytes == used_bytes
    assert forecast.situation.objects == objects


def test_samples_are_predicted(contract: Contract) -> None:
    forecast = Forecast(contract)
    for action in (do.EnableSampling(40), NODE, NODE):
        forecast.follow(action)
    assert forecast.situation.bench.sampling.bytes_until_sample() == 16


@pytest.mark.parametrize(
    ("action", "cost"),
    [
        (NODE, (32, False)),
        (do.AllocateNode(0, nonmovable=True), (32, True)),
        (do.AllocateString(1), (32, False)),
        (do.AllocateString(100), (125, True)),
        (do.AllocateOldString(0), (25, True)),
    ],
)
def test_the_cost_of_an_allocation(contract: Contract, action: Action, cost: object) -> None:
    assert cost_of(contract.layout, action) == cost


@pytest.mark.parametrize("seed", range(5))
def test_actions_drawn_from_a_forecast_are_legal_on_the_target(seed: int) -> None:
    run = Run(make_target("reference", TargetOptions(without=("pin",))), {"nursery_bytes": 64})
    forecast, source = Forecast(run.contract), RandomChoices(str(seed))
    menu = menu_of(rules_for(run.contract))
    for _ in range(300):
        action = draw_action(forecast.situation, menu, source)
        forecast.follow(action)
        assert why_illegal(action, run.contract, run.bench.shadow) is None
        run.step(action)
