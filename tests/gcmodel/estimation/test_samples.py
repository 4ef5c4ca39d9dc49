"""What a sample may say."""

from collections.abc import Callable

import pytest

from gcmodel.estimation.samples import Sample


@pytest.mark.parametrize(
    "figures",
    [
        {"requested_bytes": -1},
        {"allocated_bytes": 0},
        {"counted_bytes": 0},
        {"offset_bytes": -1},
        {"offset_bytes": 16},
        {"period_bytes": 0.5},
        {"period_bytes": float("nan")},
    ],
)
def test_a_figure_outside_its_range_is_refused(
    make_sample: Callable[..., Sample], figures: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match=next(iter(figures))):
        make_sample(**figures)


def test_a_sample_need_not_say_where_it_was_hit(make_sample: Callable[..., Sample]) -> None:
    assert make_sample(offset_bytes=None).offset_bytes is None
