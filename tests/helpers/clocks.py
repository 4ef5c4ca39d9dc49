"""Clocks of threads by the rules that contracts state, and what they predict."""

from collections.abc import Sequence
from typing import Any

from fuzz.oracles.counting import clocks_of
from fuzz.oracles.counting.clock import Clock
from fuzz.oracles.counting.expected import ExpectedSample, Request
from fuzz.protocol.contract import Contract, Range, SamplingRule
from fuzz.protocol.counting import Contexts
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.protocol.observation import Observation

NOTHING = Observation()
PERIOD = 100
DRAWS = (128, 169, 145, 81, 22)
"""What System.Random(0) draws for a period of 100 bytes."""
ONE: dict[str, Any] = {"surplus": "dropped", "samples_per_allocation": "one"}
CONTEXT: dict[str, Any] = {"counting": Contexts(64), "distances": "dotnet_document", **ONE}


def rule_of(**fields: Any) -> SamplingRule:
    return SamplingRule(Range(1, 2**40), **fields)


def clocks_by(rule: SamplingRule) -> Sequence[Clock[Any]]:
    layout = Layout({"node": KindLayout(1, 32)}, 2**20, 1, 2**20)
    return clocks_of(Contract(2**20, layout, (), (), rule))


def clock_of(period_bytes: int = PERIOD, **fields: Any) -> Clock[Any]:
    clock = clocks_by(rule_of(**fields))[0]
    clock.start(period_bytes)
    return clock


def offsets(hits: Sequence[ExpectedSample]) -> list[int]:
    return [hit.offset for hit in hits]


def allocate(
    clock: Clock[Any],
    size_bytes: int,
    outside: bool,
    period_bytes: int | None,
    observation: Observation = NOTHING,
) -> Sequence[ExpectedSample]:
    return clock.allocated(Request(size_bytes, outside, "node", period_bytes), observation)
