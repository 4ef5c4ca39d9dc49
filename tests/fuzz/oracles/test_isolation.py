"""Each oracle sees something that no other does: a bug that it alone catches in a fuzz run."""

import pytest

from fuzz.engines.random import RandomEngine
from fuzz.reached.probes import ProbeCounter
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

ACTIONS = 20_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("oracle", "bug"),
    [
        ("sampling", "one-sample-per-object"),
        ("heap", "shadow-keeps-number"),
        ("survival", "nonyoung-reported-dead"),
        ("pointers", "word-lost-by-large"),
        ("transparency", "sampled-bytes-count-twice"),
    ],
)
def test_a_bug_that_one_oracle_alone_catches(oracle: str, bug: str) -> None:
    engine, probes = RandomEngine(make_target(KNOWN_BUGS[bug].target), "alone"), ProbeCounter()
    number = done = 0
    failing = set()
    while done < ACTIONS:
        slice_ = engine.run_slice(number, ACTIONS, probes)
        number += 1
        done += slice_.actions
        failing |= {failure.oracle for failure in slice_.failures}
    assert failing == {oracle}
