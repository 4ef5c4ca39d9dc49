"""The best chances under a budget, and how near sampling per byte comes to them."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from optimal_chances import optimal_chances, period_for, variance_per_allocation_bytes2
from sampling_strategies import Floats, chances_per_byte
from scipy.optimize import minimize_scalar

SIZES = np.array([16.0, 64.0, 1024.0, 16384.0, 1048576.0])
ALLOCATED = np.array([0.6, 0.3, 0.08, 0.019, 0.001])
LIVE = np.array([0.01, 0.03, 0.02, 0.001, 0.0009])
BUDGET = 0.01


def variance(chances: Floats) -> float:
    return variance_per_allocation_bytes2(SIZES, LIVE, chances)


@pytest.fixture
def best() -> Floats:
    return optimal_chances(SIZES, ALLOCATED, LIVE, BUDGET)


def test_the_budget_is_used_up(best: Floats) -> None:
    assert (ALLOCATED * best).sum() == pytest.approx(BUDGET)


def test_what_would_be_above_one_is_one_and_the_rest_in_proportion(best: Floats) -> None:
    assert best[-1] == 1
    assert best[:-1] / (SIZES * np.sqrt(LIVE / ALLOCATED))[:-1] == pytest.approx(
        best[0] / (16 * np.sqrt(0.01 / 0.6))
    )
    assert (best < 1)[:-1].all()


def least(function: Callable[[float], float], bounds: tuple[float, float]) -> float:
    """The least value of a function that has one minimum, up to the upper bound itself."""
    found = minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return min(float(found.fun), function(bounds[1]))


def least_variance_if_samples_cost(price: float) -> float:
    """No chances within the budget have a lower variance, whatever the price of a sample is.

    What a sample costs more than its variance is worth is not taken: so each size has a best chance
    by itself, and what the budget would cost is given back.
    """

    def of_size(size: float, allocated: float, live: float) -> float:
        def cost(log_chance: float) -> float:
            chance = math.exp(log_chance)
            return size**2 * live * (1 - chance) / chance + price * allocated * chance

        return least(cost, (-25, 0))

    return sum(map(of_size, SIZES, ALLOCATED, LIVE)) - price * BUDGET


def test_no_chances_within_the_budget_are_better(best: Floats) -> None:
    """By Lagrange's duality: at the right price, what cannot be beaten is reached."""
    bound = -least(lambda price: -least_variance_if_samples_cost(math.exp(price)), (0, 50))
    assert variance(best) == pytest.approx(bound, rel=1e-12)


def test_no_other_chances_of_that_budget_are_better(best: Floats) -> None:
    generator = np.random.default_rng(3)
    for _ in range(1000):
        other = np.minimum(best * np.exp(generator.normal(0, 0.2, len(best))), 1)
        other *= min(1, BUDGET / (ALLOCATED * other).sum())
        assert variance(other) >= variance(best)


def test_a_budget_that_sizes_of_chance_one_use_up_in_part_is_shared_by_the_rest() -> None:
    chances = optimal_chances(
        np.array([1.0, 1000.0]), np.array([0.5, 0.5]), np.array([0.5, 0.5]), 0.75
    )
    assert chances.tolist() == [0.5, 1.0]


def test_a_size_of_which_nothing_is_live_is_not_sampled() -> None:
    chances = optimal_chances(
        np.array([8.0, 16.0]), np.array([0.5, 0.5]), np.array([0.0, 0.1]), 0.1
    )
    assert chances.tolist() == [0, 0.2]


def test_with_nothing_live_nothing_is_sampled() -> None:
    assert optimal_chances(SIZES, ALLOCATED, np.zeros(5), BUDGET).tolist() == [0] * 5


def test_a_period_is_found_that_keeps_to_the_budget() -> None:
    chances = chances_per_byte(SIZES, period_for(SIZES, ALLOCATED, BUDGET))
    assert (ALLOCATED * chances).sum() == pytest.approx(BUDGET)


def test_sampling_per_byte_is_nearly_optimal_where_every_size_lives_as_long() -> None:
    live = 0.1 * ALLOCATED
    period = period_for(SIZES, ALLOCATED, BUDGET)
    per_byte = variance_per_allocation_bytes2(SIZES, live, chances_per_byte(SIZES, period))
    best = optimal_chances(SIZES, ALLOCATED, live, BUDGET)
    ratio = per_byte / variance_per_allocation_bytes2(SIZES, live, best)
    assert 1 < ratio < 1.5


def test_sampling_per_byte_can_be_far_from_optimal_where_sizes_live_differently_long() -> None:
    budget = BUDGET / 10
    per_byte = chances_per_byte(SIZES, period_for(SIZES, ALLOCATED, budget))
    assert variance(per_byte) > 2 * variance(optimal_chances(SIZES, ALLOCATED, LIVE, budget))


@pytest.mark.parametrize("chance", [0.0, 1.1])
def test_live_objects_need_a_chance(chance: float) -> None:
    with pytest.raises(ValueError, match="live objects"):
        variance(np.full(5, chance))


@pytest.mark.parametrize("budget", [0, 1, -0.5])
def test_a_budget_is_between_0_and_1(budget: float) -> None:
    with pytest.raises(ValueError, match="budget is"):
        optimal_chances(SIZES, ALLOCATED, LIVE, budget)


@pytest.mark.parametrize(
    ("sizes", "allocated", "live"), [(0.0, 0.5, 0.5), (8.0, 0.0, 0.5), (8.0, 0.5, -0.1)]
)
def test_figures_outside_their_ranges_are_refused(
    sizes: float, allocated: float, live: float
) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        optimal_chances(np.array([sizes]), np.array([allocated]), np.array([live]), BUDGET)
