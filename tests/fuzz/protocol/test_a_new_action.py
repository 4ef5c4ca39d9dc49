"""A new action needs its declaration, one rule, and a target that carries it out."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated
from unittest.mock import patch

import attrs
import pytest

from fuzz.drawing import rules
from fuzz.drawing.rules import Rule, roots_for
from fuzz.drawing.situation import Choices, Situation
from fuzz.engines.random import RandomEngine
from fuzz.failures.reduce import reduce_failure
from fuzz.mutator.legality import why_illegal
from fuzz.mutator.objects import Age
from fuzz.mutator.shadow import Shadow
from fuzz.protocol import actions
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action, LengthOf, SlotOf
from fuzz.protocol.contract import Contract
from fuzz.protocol.lines import action_from_data, action_to_data
from fuzz.protocol.observation import Observation
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets import make_target
from fuzz.targets.process.serve import serve
from fuzz.targets.references import REFERENCES
from fuzz.targets.references.collector import CARRY_OUT, ReferenceTarget
from fuzz.terminal.report import describe_action
from gcmodel import Heap, Parts

NAME = "allocate_near"
SLICES = 120
ACTIONS_EACH = 60


@attrs.frozen
class AllocateNear(Action, kind="array", allocates=True):
    """An array of `length` null references, as near as can be to the string in slot `root`."""

    root: Annotated[int, SlotOf(("string",))]
    length: Annotated[int, LengthOf("array")]
    nonmovable: bool = False


def draw(situation: Situation, source: Choices, slots: Sequence[int]) -> Action:
    return AllocateNear(source.pick(slots), source.below(12), bool(source.below(2)))


Placed = tuple[int, int | None]


def allocate_near(heap: Heap, action: AllocateNear) -> Placed:
    return heap.allocate_array(action.length, action.nonmovable)


def allocate_short(heap: Heap, action: AllocateNear) -> Placed:
    """One of two items or more takes a byte, or so it says."""
    size_bytes, at = allocate_near(heap, action)
    return 1 if action.length > 1 else size_bytes, at


class NearTarget(ReferenceTarget):
    def __init__(self, allocate: Callable[[Heap, AllocateNear], Placed] = allocate_near) -> None:
        super().__init__("near", Parts())
        self.carry_out = {**CARRY_OUT, AllocateNear: allocate}
        self.performed: list[Action] = []

    def perform(self, action: Action) -> Observation:
        self.performed.append(action)
        return super().perform(action)


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    """While a test runs, the class is one of those in fuzz.protocol.actions."""
    tables = (actions.ACTIONS, actions.NAMES, actions.BOUNDS, actions.SLOT_FIELDS)
    patches = [patch.dict(table) for table in tables]
    for each in patches:
        each.start()
    actions.register(AllocateNear)
    yield
    for each in patches:
        each.stop()


@pytest.fixture
def ruled(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule(AllocateNear, 20, roots_for(AllocateNear), draw)
    monkeypatch.setattr(rules, "RULES", (*rules.RULES, rule))


@pytest.fixture
def contract(contract: Contract) -> Contract:
    return attrs.evolve(contract, actions=(*contract.actions, NAME))


def test_it_is_legal_where_its_declaration_says_so(contract: Contract, shadow: Shadow) -> None:
    for action in (do.AllocateString(1), do.AllocateNode(1)):
        shadow.follow(action, minors=0)
    reasons = {
        AllocateNear(0, 0): None,
        AllocateNear(0, 131070): None,
        AllocateNear(1, 0): "root 1 is a node; it must be a string",
        AllocateNear(2, 0): "root is 2; there are 2 roots, from 0 up",
        AllocateNear(0, 131071): "length is 131071; it must be from 0 to 131070",
        AllocateNear(0, -1): "length is -1; it must be from 0 to 131070",
    }
    assert {each: why_illegal(each, contract, shadow) for each in reasons} == reasons


def test_the_shadow_follows_it(shadow: Shadow) -> None:
    for action in (do.AllocateString(1), AllocateNear(0, 3), AllocateNear(0, 9)):
        shadow.follow(action, minors=0)
    _, near, far = shadow.roots
    assert (near.kind, near.number, near.refs, near.outside) == ("array", 3, [None] * 3, False)
    assert far.outside
    shadow.follow(do.Free(1), minors=0)
    shadow.follow(do.CollectMinor(), minors=1)
    assert (near.age, far.age) == (Age.DEAD, Age.OLD)


@pytest.mark.slow
@pytest.mark.usefixtures("ruled")
def test_it_is_drawn_and_every_oracle_knows_what_it_does() -> None:
    target, probes = NearTarget(), ProbeCounter()
    engine = RandomEngine(target, "new")
    slices = [engine.run_slice(number, ACTIONS_EACH, probes) for number in range(SLICES)]
    assert [failure for each in slices for failure in each.failures] == []
    drawn = {each for each in target.performed if isinstance(each, AllocateNear)}
    assert len(drawn) > 30


def test_it_goes_over_the_wire() -> None:
    action = AllocateNear(0, 3, nonmovable=True, thread=1)
    line = {"do": NAME, "root": 0, "length": 3, "nonmovable": True, "thread": 1}
    assert action_to_data(action) == line
    assert action_from_data(line) == action
    lines = ['{"gcfuzz": 2}', '{"do": "allocate_string", "length": 1}']
    out = io.StringIO()
    serve(NearTarget(), [*lines, json.dumps({"do": NAME, "root": 0, "length": 3})], out)
    contract, _, answer = map(json.loads, out.getvalue().splitlines())
    assert NAME in contract["contract"]["actions"]
    assert (answer["size"], answer["at"]) == (40, 32)


def test_it_is_reduced() -> None:
    target = NearTarget(allocate_short)
    found = run_actions(
        target,
        {},
        (
            *(do.AllocateNode(7), do.EnableSampling(64), do.AllocateString(30), AllocateNear(1, 1)),
            *(do.Free(0), do.CollectMinor()),
            *(AllocateNear(0, 5, nonmovable=True), do.CollectMinor()),
        ),
    )
    assert found is not None
    reduced = reduce_failure(target, found)
    assert reduced.actions == (do.AllocateString(0), AllocateNear(0, 2))


def test_it_is_documented(row_of: Callable[[type[Action]], str]) -> None:
    action = AllocateNear(0, 3, nonmovable=True)
    assert describe_action(action) == "allocate_near root=0 length=3 nonmovable"
    assert row_of(AllocateNear) == (
        "| `allocate_near` root, length, nonmovable | An array of `length` null references, as near"
        " as can be to the string in slot `root`. | size, outside, at |"
    )


@pytest.mark.parametrize("name", REFERENCES)
def test_no_target_promises_it_that_does_not_list_it(name: str) -> None:
    assert NAME not in make_target(name).start({}).actions
