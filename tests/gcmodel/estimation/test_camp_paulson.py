"""The Camp-Paulson approximation, against scipy's exact distribution."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import nbinom

from gcmodel.estimation import camp_paulson, intervals

PERIOD = 100_000


def worst(samples: int) -> float:
    """The largest error of the CDF over 4,000 numbers of failures."""
    failures = np.unique(np.geomspace(1, 20 * samples * PERIOD, 4000).astype(np.int64)).tolist()
    exact = nbinom.cdf(failures, samples, 1 / PERIOD)
    close = [camp_paulson.cdf(each, samples, PERIOD) for each in failures]
    return float(np.abs(exact - close).max())


@pytest.mark.parametrize(("samples", "error"), [(1, 0.0122), (5, 0.00127), (50, 0.000111)])
def test_the_cdf_has_the_errors_of_the_docstring(samples: int, error: float) -> None:
    assert worst(samples) == pytest.approx(error, rel=0.01)


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
    ("call", "arguments"),
    [
        *[(camp_paulson.cdf, each) for each in ((-1, 1, 10), (0, 0, 10), (0, 1, 1))],
        *[(camp_paulson.failed_trials_below, (quantile, 1, PERIOD)) for quantile in (0, 1)],
    ],
)
def test_bad_figures_are_refused(call: Callable[..., float], arguments: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must be"):
        call(*arguments)
