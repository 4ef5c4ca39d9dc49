"""Forecasts: what is drawn ahead is legal, and foresees when a full nursery is collected."""

import pytest

from fuzz.drawing.draw import draw_action, menu_of
from fuzz.drawing.forecast import Forecast, cost_of
from fuzz.drawing.rules import rules_for
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.mutator.shadow import Age
from fuzz.protocol.actions import (
    Action,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    CollectFull,
    CollectMinor,
    DisableSampling,
    EnableSampling,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.target import Target
from fuzz.run import Run
from fuzz.targets import TargetOptions, make_target

NODE = AllocateNode(0)  # 32 of 256 bytes
WITHOUT_PINS = TargetOptions(without=("pin",))


@pytest.fixture
def forecast(contract: Contract) -> Forecast:
    return Forecast(contract)


def used_bytes(forecast: Forecast) -> int:
    return forecast.situation.bench.sampling.nursery_used_bytes


def test_an_object_that_fits_is_foreseen_to_stay_young(forecast: Forecast) -> None:
    for _ in range(8):
        forecast.follow(NODE)
    assert forecast.situation.roots[0].age is Age.YOUNG


def test_an_object_that_does_not_fit_is_foreseen_to_collect(forecast: Forecast) -> None:
    for _ in range(9):
        forecast.follow(NODE)
    assert forecast.situation.roots[0].age is Age.OLD
    assert used_bytes(forecast) == 32


def test_an_object_outside_is_foreseen_not_to_collect(forecast: Forecast) -> None:
    for _ in range(8):
        forecast.follow(NODE)
    forecast.follow(AllocateString(1000))
    assert used_bytes(forecast) == 256


@pytest.mark.parametrize("action", [CollectMinor(), CollectFull(), DisableSampling(report=True)])
def test_an_action_that_collects_is_foreseen_to(forecast: Forecast, action: Action) -> None:
    forecast.follow(NODE)
    forecast.follow(action)
    assert used_bytes(forecast) == 0
    assert forecast.situation.objects == 3  # With two that are prebuilt.


def test_samples_are_foreseen(forecast: Forecast) -> None:
    forecast.follow(EnableSampling(40))
    forecast.follow(NODE)
    forecast.follow(NODE)
    assert forecast.situation.bench.sampling.bytes_until_sample() == 16


@pytest.mark.parametrize(
    ("action", "cost"),
    [
        (NODE, (32, False)),
        (AllocateNode(0, nonmovable=True), (32, True)),
        (AllocateString(1), (32, False)),
        (AllocateString(100), (125, True)),
        (AllocateOldString(0), (25, True)),
    ],
)
def test_what_an_allocation_costs(contract: Contract, action: Action, cost: object) -> None:
    assert cost_of(contract.layout, action) == cost


@pytest.mark.parametrize("seed", range(5))
def test_what_is_drawn_from_a_forecast_is_legal_whatever_the_target_does(seed: int) -> None:
    target: Target = make_target("reference", WITHOUT_PINS)
    run = Run(target, {"nursery_bytes": 64})
    forecast, source = Forecast(run.contract), RandomChoices(str(seed))
    menu = menu_of(rules_for(run.contract))
    for _ in range(300):
        action = draw_action(forecast.situation, menu, source)
        forecast.follow(action)
        assert why_illegal(action, run.contract, run.bench.shadow) is None
        run.step(action)
