"""What is read from a line is what was declared, or a mistake that is told."""

import pytest

from fuzz.lines import observation_from_data
from fuzz.observation import Observation


@pytest.mark.parametrize("field", ["samples", "minors"])
@pytest.mark.parametrize("count", [-1, 2**62 + 1, 10**400], ids=["negative", "large", "huge"])
def test_what_no_target_can_have_counted_is_a_mistake(field: str, count: int) -> None:
    with pytest.raises(ValueError, match=rf"{field} is .{{1,41}}; it must be from 0 to"):
        observation_from_data({field: count})


@pytest.mark.parametrize("count", [0, 2**62])
def test_what_a_target_may_have_counted_is_read(count: int) -> None:
    assert observation_from_data({"samples": count}) == Observation(samples=count)
