"""The oracles against recorded sessions of PyPy's own collector, without the reference."""

from __future__ import annotations

import attrs
from recorded_sessions import (
    COMMANDS,
    DEFAULT_LARGE_OBJECT_BYTES,
    JsonObject,
    Session,
    each_session,
    has_pinned,
    is_beyond_room,
    is_limit_stale,
)

from fuzz.oracles import Bench, Mismatch
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, SamplingRule
from fuzz.protocol.layout import Layout
from fuzz.protocol.observation import Observation
from fuzz.protocol.observation import Report as ObservedReport
from fuzz.targets.references.collector import KINDS

OBSERVED = (
    *("samples", "minors", "size", "outside", "value", "alive", "identity"),
    *("reports", "limit", "state"),
)


def contract_of(setup: JsonObject) -> Contract:
    """The contract of incminimark, as far as it was recorded."""
    return Contract(
        nursery_bytes=setup["nursery_size"],
        layout=Layout(
            kinds=KINDS,
            large_object_bytes=setup["large_object"] or DEFAULT_LARGE_OBJECT_BYTES,
            word_bytes=8,
            object_bytes_max=2**20,
        ),
        sampling=SamplingRule(period_bytes=Range(8, 2**40, 8)),
        settings=(),
        actions=(),
        observes=OBSERVED,
        promises=("collections",),
    )


class Witness:
    """Lets the oracles judge a recording: one action or more for a command, with its answer."""

    def __init__(self, setup: JsonObject) -> None:
        self.bench = Bench(contract_of(setup))
        self._ids: list[int] = []
        """The id of the object in each slot, by which the recordings name the objects."""

    def actions_of(self, command: JsonObject, answer: JsonObject) -> list[Action]:
        """The actions of a command, without those that have no effect or only look."""
        if answer.get("pin_result") is False:
            return []
        if command["op"] == "write" and not self.bench.shadow.roots[command["root"]].refs:
            return []
        all_actions = COMMANDS[command["op"]](command, len(self._ids), answer.get("id", 0))
        return [
            each for each in all_actions if not isinstance(each, do.TakeIdentity | do.CheckHeap)
        ]

    def judge(self, command: JsonObject, answer: JsonObject) -> set[tuple[str, str]]:
        """The oracles that object to a recorded step, with the fields."""
        actions = self.actions_of(command, answer)
        seen = self._observation(command, answer)
        objections = set()
        for action in actions:
            try:
                self.bench.judge(action, seen)
            except Mismatch as mismatch:
                objections.add((mismatch.oracle, mismatch.field))
            # The other actions fill a new object, and nothing happens in them.
            seen = attrs.evolve(seen, samples=0, minors=0, reports=[])
        return objections

    def _observation(self, command: JsonObject, answer: JsonObject) -> Observation:
        value = self._slots_after(command, answer)
        return Observation(
            samples=answer["samples"],
            minors=answer["minors"],
            size=answer.get("size"),
            outside=answer.get("outside"),
            at=answer.get("at"),
            value=value,
            alive=answer.get("alive"),
            reports=[
                ObservedReport(report["array"][:-3], *report["array"][-3:])
                for report in answer.get("reports", [])
            ],
            free=answer["free"],
            limit=answer["top"],
            top=answer["real_top"],
            sample_point=answer["sample_point"],
            state=answer["gc_state"],
        )

    def _slots_after(self, command: JsonObject, answer: JsonObject) -> int | None:
        """Follow the slots; returns what was read, for an object its lowest slot."""
        value: int | None = answer.get("value")
        if "id" in answer:
            self._ids.append(answer["id"])
        elif command["op"] == "drop":
            del self._ids[command["root"]]
        elif value is not None and command["field"] != "x":
            self._ids.append(value)
            return self._ids.index(value)
        return value


def is_beyond_contracts(command: JsonObject, answer: JsonObject) -> bool:
    """Whether sampling is or was enabled beside a pinned object, or the collector has failed."""
    if command["op"] == "enable_sampling" and answer["pinned"]:
        return True
    return "error" in answer or is_beyond_room(answer)


@each_session
def test_the_oracles_object_to_the_stale_limits_and_to_nothing_else(session: Session) -> None:
    steps = session.steps()
    witness = Witness(steps[0][0])
    for step, (command, answer) in enumerate(steps):
        if is_beyond_contracts(command, answer):
            break
        if not witness.actions_of(command, answer):
            continue  # The command only looks.
        expected = {("pointers", "limit")} if is_limit_stale(answer) else set()
        objections = witness.judge(command, answer)
        if has_pinned(steps[:step]):
            objections.discard(("heap", "alive"))  # See weakref-to-pinned.
        assert objections == expected, f"step {step}: {command}"
