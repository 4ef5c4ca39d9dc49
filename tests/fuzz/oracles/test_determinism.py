"""The determinism oracle: the same actions, a second time, give the same observations."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from fuzz.oracles.determinism import DeterminismOracle
from fuzz.oracles.oracle import Mismatch
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import Buffers, Contexts
from fuzz.protocol.observation import Observation, Report
from fuzz.protocol.target import Target
from fuzz.run import run_actions
from fuzz.targets import make_target

ORACLE = DeterminismOracle()
SEEN = Observation(2, 1, "ssMR", 32, outside=False, at=0, reports=[Report([5], 0, 0, 0)], free=32)


class Remembering:
    """A target that goes wrong in its second trace, as `change` does it."""

    name = "remembering"

    def __init__(self, change: Callable[[Observation], None]) -> None:
        self._target = make_target("reference")
        self._change = change
        self._traces = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self._traces += 1
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        if self._traces > 1:
            self._change(observation)
        return observation


# Judged directly.


def test_equal_observations_agree() -> None:
    ORACLE.check(SEEN, attrs.evolve(SEEN, reports=[Report([5], 0, 0, 0)]))
    with pytest.raises(Mismatch, match=r"^determinism: "):
        ORACLE.check(SEEN, Observation())


@pytest.mark.parametrize(
    ("field", "other"),
    [
        *(("samples", 1), ("minors", 2), ("order", "sMRs"), ("size", 40), ("outside", True)),
        *(("at", None), ("value", 3), ("alive", False), ("identity", 7), ("graph", [[1, 0]])),
        *(("reports", [Report([5], 8, 0, 0)]), ("free", 40), ("limit", 256), ("top", 0)),
        *(("sample_point", 8), ("state", 1), ("error", "HeapError: no")),
    ],
)
def test_a_field_that_differs_is_named_with_both_answers(field: str, other: Any) -> None:
    changed = attrs.evolve(SEEN, **{field: other})
    with pytest.raises(Mismatch, match=r"^determinism: ") as raised:
        ORACLE.check(SEEN, changed)
    mismatch = raised.value
    assert (mismatch.oracle, mismatch.field) == ("determinism", field)
    assert (mismatch.expected, mismatch.got) == (getattr(SEEN, field), other)


@pytest.mark.parametrize(
    ("samples", "minors", "field"), [(9, 1, "samples"), (2, 9, "minors"), (9, 9, "samples")]
)
def test_of_several_fields_the_first_is_named(samples: int, minors: int, field: str) -> None:
    changed = attrs.evolve(SEEN, samples=samples, minors=minors)
    with pytest.raises(Mismatch, match=r"^determinism: ") as raised:
        ORACLE.check(SEEN, changed)
    assert (raised.value.field, raised.value.direction) == (field, "more")


@pytest.mark.parametrize("actions", [(), (do.Pin(0), do.SetCallback(0), do.Fork())], ids=str)
def test_each_trace_is_run_again(contract: Contract, actions: tuple[Action, ...]) -> None:
    assert ORACLE.configuration(contract, {"nursery_bytes": 64}, actions) == {"nursery_bytes": 64}
    assert [ORACLE.instead(action) for action in actions] == [*actions]


# On targets.


def test_the_reference_is_deterministic(reference: Target) -> None:
    actions = (
        *(do.EnableSampling(8), do.AllocateNode(0), do.SetCallback(0), do.CollectMinor()),
        do.Fork(),
    )
    assert run_actions(reference, {}, actions, [ORACLE]) is None


def test_a_pointer_that_is_elsewhere_the_second_time_is_found() -> None:
    def move(observation: Observation) -> None:
        observation.state = 3

    actions = (do.AllocateNode(0), do.CheckHeap())
    failure = run_actions(Remembering(move), {}, actions, [ORACLE])
    assert failure is not None
    assert failure.identity == ("determinism", "state", "allocate_node", "more")


def test_an_error_that_comes_only_the_second_time_is_found() -> None:
    def fail(observation: Observation) -> None:
        observation.error = "HeapError: full" if observation.minors else None

    actions = (do.AllocateNode(0), do.CollectMinor(), do.CheckHeap())
    failure = run_actions(Remembering(fail), {}, actions, [ORACLE])
    assert failure is not None
    assert failure.identity == ("determinism", "error", "collect_minor", "HeapError")
    assert failure.actions == actions[:2]


def test_where_buffers_may_be_of_another_size_nothing_is_the_same(contract: Contract) -> None:
    in_order = Buffers(64, 64, 16, 8, 8, "ahead")
    anywhere = attrs.evolve(in_order, taken="anywhere")
    for counting, configuration in (
        (in_order, {}),
        (anywhere, None),
        (Contexts(64, sizes="reported"), None),
    ):
        rule = attrs.evolve(contract.sampling, counting=counting)
        changed = attrs.evolve(contract, sampling=rule)
        assert ORACLE.configuration(changed, {}, [do.EnableSampling(8)]) == configuration


def test_unpromised_collections_may_draw_random_distances(contract: Contract) -> None:
    rule = attrs.evolve(contract.sampling, distances="random")
    random = attrs.evolve(contract, promises=(), sampling=rule)
    once, again = Observation(samples=1, weights=[64]), Observation()
    ORACLE.compare(random, once, again)
    for stricter in (
        attrs.evolve(random, promises=("collections",)),
        attrs.evolve(random, sampling=contract.sampling),
    ):
        with pytest.raises(Mismatch, match=r"^determinism: samples: expected 1, got 0"):
            ORACLE.compare(stricter, once, again)
