"""The Camp-Paulson approximation, against scipy's exact distribution."""

import numpy as np
import pytest
from scipy.stats import nbinom

from gcmodel.estimation import camp_paulson, intervals

PERIOD = 100_000


def worst(samples: int) -> float:
    """The largest error of the CDF over 4,000 numbers of failures, wherever it is not almost 1."""
    failures = np.unique(np.geomspace(1, 20 * samples * PERIOD, 4000).astype(np.int64)).tolist()
    exact = nbinom.cdf(failures, samples, 1 / PERIOD)
    close = [camp_paulson.cdf(each, samples, PERIOD) for each in failures]
    return float(np.abs(exact - close).max())


@pytest.mark.parametrize(("samples", "bound"), [(1, 0.0125), (5, 0.0013), (50, 0.00012)])
def test_the_cdf_is_as_near_as_the_docstring_says(samples: int, bound: float) -> None:
    assert worst(samples) <= bound


def test_the_docstring_s_figures_are_not_too_modest() -> None:
    assert (worst(1), worst(5)) == (
        pytest.approx(0.0122, rel=0.01),
        pytest.approx(0.00127, rel=0.01),
    )


def test_it_gets_nearer_with_every_sample() -> None:
    errors = [worst(samples) for samples in (1, 2, 3, 5, 10, 30)]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("samples", [1, 8, 400])
def test_a_bound_is_the_largest_count_below_the_quantile(samples: int) -> None:
    found = camp_paulson.failed_trials_below(0.975, samples, PERIOD)
    cdf = [camp_paulson.cdf(each, samples, PERIOD) for each in (found, found + 1)]
    assert cdf[0] < 0.975 <= cdf[1]


@pytest.mark.parametrize(("samples", "relative"), [(5, 0.015), (50, 1e-4), (1000, 1e-6)])
def test_bounds_are_near_the_exact_ones(samples: int, relative: float) -> None:
    for quantile in (0.025, 0.975):
        exact = intervals.failed_trials_below(quantile, samples, 102_400)
        near = camp_paulson.failed_trials_below(quantile, samples, 102_400)
        assert near == pytest.approx(exact, rel=relative)


@pytest.mark.parametrize(
    ("failed_trials", "samples", "period_bytes"), [(-1, 1, 10), (0, 0, 10), (0, 1, 1)]
)
def test_figures_outside_their_ranges_are_refused(
    failed_trials: int, samples: int, period_bytes: float
) -> None:
    with pytest.raises(ValueError, match="must be"):
        camp_paulson.cdf(failed_trials, samples, period_bytes)


@pytest.mark.parametrize("quantile", [0, 1])
def test_a_quantile_is_between_0_and_1(quantile: float) -> None:
    with pytest.raises(ValueError, match="quantile is"):
        camp_paulson.failed_trials_below(quantile, 1, PERIOD)
