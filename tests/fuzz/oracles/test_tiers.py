"""The tiers oracle: compiled code answers as interpreted code does."""

from collections.abc import Mapping

import attrs
import pytest

from fuzz.oracles import RERUN_ORACLES
from fuzz.oracles.oracle import Mismatch
from fuzz.oracles.tiers import TiersOracle
from fuzz.protocol.actions import Action, AllocateNode, AllocateString, ReadNumber
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.observation import Observation
from fuzz.run import run_actions
from fuzz.targets.references.collector import ReferenceTarget
from gcmodel import Parts

ORACLE = TiersOracle()
TIER = Setting("tier", 2, Range(0, 2))


def with_tiers(contract: Contract) -> Contract:
    settings = (*contract.settings, TIER)
    return attrs.evolve(contract, settings=settings, tier_setting="tier")


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [({}, {"tier": 0}), ({"tier": 1, "cards": 0}, {"tier": 0, "cards": 0}), ({"tier": 0}, None)],
)
def test_a_second_run_is_in_the_first_tier(
    configuration: Mapping[str, int], expected: Mapping[str, int] | None, contract: Contract
) -> None:
    assert ORACLE.configuration(with_tiers(contract), configuration, ()) == expected


def test_without_tiers_there_is_no_second_run(contract: Contract) -> None:
    assert ORACLE.configuration(contract, {}, ()) is None


@pytest.mark.parametrize(
    "second",
    [Observation(value=2), Observation(value=1, error="Error: too deep")],
    ids=["value", "error"],
)
def test_both_tiers_read_the_same(second: Observation) -> None:
    with pytest.raises(Mismatch, match=r"^tiers: .*the same actions in the first tier"):
        ORACLE.check(Observation(value=1), second)


def test_both_tiers_leave_the_same_graph() -> None:
    with pytest.raises(Mismatch, match=r"^tiers: graph: "):
        ORACLE.check(Observation(graph=[[1, 5]]), Observation(graph=[[1, 0]]))


def test_tiers_may_collect_at_different_actions_and_sample_others() -> None:
    ORACLE.check(Observation(2, 1, "sMs", graph=[[1, 5]]), Observation(1, alive=False))


class TieredTarget(ReferenceTarget):
    """The reference without pins, whose first tier forgets all numbers, and has other costs."""

    object_bytes_max = 1024

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self._tier = configuration.get("tier", TIER.default)
        others = {name: value for name, value in configuration.items() if name != "tier"}
        contract = with_tiers(super().start(others).without(("pin",)))
        if self._tier != TIER.least:
            return contract
        layout = attrs.evolve(
            contract.layout, word_bytes=16, object_bytes_max=self.object_bytes_max
        )
        return attrs.evolve(contract, layout=layout)

    def perform(self, action: Action) -> Observation:
        observation = super().perform(action)
        if isinstance(action, ReadNumber) and self._tier == TIER.least:
            observation.value = 0
        return observation


def test_only_a_second_run_finds_that_tiers_differ() -> None:
    target, actions = TieredTarget("tiered", Parts()), (AllocateNode(7), ReadNumber(0))
    assert run_actions(target, {}, actions) is None
    failure = run_actions(target, {}, actions, RERUN_ORACLES.values())
    assert failure is not None
    assert (failure.oracle, failure.action) == ("tiers", "read_number")


def test_a_trace_that_is_illegal_in_the_first_tier_does_not_run_there() -> None:
    target, actions = TieredTarget("tiered", Parts()), (AllocateNode(7), ReadNumber(0))
    target.object_bytes_max = 64
    too_long = AllocateString(target.object_bytes_max)
    assert run_actions(target, {}, (*actions, too_long), RERUN_ORACLES.values()) is None
    assert run_actions(target, {}, actions, RERUN_ORACLES.values()) is not None
