"""What the docstrings say of the chance that a right estimator fails a test with another seed."""

import pytest
from scipy.stats import binom, norm


def test_four_standard_errors_are_missed_six_times_in_a_hundred_thousand() -> None:
    assert 2 * norm.sf(4) == pytest.approx(0.000063, abs=5e-7)


def test_9413_or_more_of_10000_are_missed_five_times_in_a_hundred_thousand() -> None:
    assert binom.cdf(9412, 10_000, 0.95) == pytest.approx(0.000045, abs=5e-7)


def test_9413_to_9587_of_10000_are_missed_six_times_in_a_hundred_thousand() -> None:
    assert binom.cdf(9412, 10_000, 0.95) + binom.sf(9587, 10_000, 0.95) == pytest.approx(
        0.000063, abs=5e-7
    )
