"""The heap oracle: the target's heap is the mutator's heap.

- A read returns what was written. An identity is constant, and no other living object has it.
- A strongly reachable object is alive. After a full collection, or `dead_within` of them, any other
  object is dead.
- A young object survives a minor collection if and only if the roots or an old object lead to it.
- A weak reference dies when its object does, or, if it is soft, when memory is exhausted. After
  more than `survivor_bytes` have survived, it may live until the next full collection. An object is
  not dead while a finalizer keeps it. The contract states whether its weak references are cleared
  before.
- An ephemeron has its value while its key is alive. After a full collection with a dead key it has
  none.
- If the contract promises collections, they happen only in actions that may collect, and
  `collect_step` has one, unless the contract's `steps` are open.
- No contract promises errors, so each error is a mismatch. Only some actions may be exhausted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from fuzz.mutator.objects import Age, ShadowObject
from fuzz.mutator.occupancy import Exhausted
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol import actions
from fuzz.protocol.actions import Action, collects
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

WHILE_PERFORMING = "while executing this action"
WHILE_STARTING = "while answering the header"
AFTER_ALL = "after the last action"
"""When a target failed to answer."""
OPEN = ("progress", "full")
"""What may take more than one minor collection."""


class HeapOracle(Oracle):
    """Compares answers with the shadow heap. It is asked first: after an error none can judge."""

    name = "heap"
    judges = ("minors", "order", "value", "alive", "identity", "graph", "error")

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._observes_graph = "graph" in contract.observes
        self._observes_minors = "minors" in contract.observes
        self._observes_order = "order" in contract.observes
        self._observes = contract.observes
        self._promises_collections = "collections" in contract.promises
        self._steps_are_open = contract.steps == "open"
        self._identities: dict[ShadowObject, int] = {}
        self._owners: dict[int, ShadowObject] = {}

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        if observation.error is not None:
            raise self.mismatch("error", None, observation.error, WHILE_PERFORMING)
        if observation.exhausted and not isinstance(action, Exhausted):
            raise self.mismatch("exhausted", False, True, "the contract does not allow it here")
        if observation.minors or (action.collects != "never" and self._observes_minors):
            self._check_minors(action, observation.minors)
        if self._observes_order and (
            observation.order or observation.samples or observation.minors or observation.reports
        ):
            self._check_order(observation)
        check_answer = self._ANSWERS.get(type(action))
        if check_answer is not None and action.answer in self._observes:
            check_answer(self, action, observation)
        if self._observes_graph and (
            observation.minors
            or (observation.graph is not None and not self._observes_minors)
            or isinstance(action, actions.CheckHeap)
        ):
            self._check_graph(observation)

    def _check_minors(self, action: Action, minors: int) -> None:
        """Only an action that collects, or an allocation, has minor collections.

        Without the promise of collections, others may come before any action, and a step of a major
        collection need not follow a minor one.
        """
        if action.allocates:
            return
        part = collects(action)
        is_open = not self._promises_collections or (part == "step" and self._steps_are_open)
        expected = int(part != "never" and not (part == "step" and is_open))
        if part in OPEN or is_open:
            if minors < expected:
                raise self.mismatch("minors", 1, minors, "at least one is part of the action")
        elif minors != expected:
            raise self.mismatch("minors", expected, minors, "exactly what the action asks for")

    def _check_order(self, observation: Observation) -> None:
        order, reports = observation.order, len(observation.reports)
        counted = observation.samples + observation.minors + reports
        if len(order) != counted:
            raise self.mismatch("order", f"{counted} events", order, "those that are counted")
        if order and (
            order.count("s") != observation.samples
            or order.count("M") != observation.minors
            or order.count("MR") != reports
        ):
            why = f"{observation.samples} s, {observation.minors} M, R right after its M"
            raise self.mismatch("order", f"{reports} reports", order, why)

    def _check_read(self, action: actions.Read, observation: Observation) -> None:
        # The shadow has appended the object that the read found, so it has a slot.
        found = self._shadow.roots[action.root].refs[action.field]
        expected = None if found is None else self._shadow.roots.index(found)
        if observation.value != expected:
            why = f"what was last written to field {action.field} of root {action.root}"
            raise self.mismatch("value", expected, observation.value, why)

    def _check_number(self, action: actions.ReadNumber, observation: Observation) -> None:
        obj = self._shadow.roots[action.root]
        if observation.value != obj.number:
            raise self.mismatch("value", obj.number, observation.value, f"of a {obj.kind}")

    def _check_weakref(self, action: actions.ReadWeakref, observation: Observation) -> None:
        target = self._shadow.roots[action.root].target
        assert target is not None
        if observation.alive is None:
            raise self.mismatch("alive", "true or false", None, "asked of a weak reference")
        if target.age is Age.DEAD and observation.alive:
            raise self.mismatch("alive", False, True, "its object did not survive")
        if not observation.alive:
            if target.age is Age.YOUNG:
                raise self.mismatch("alive", True, False, "its object is young")
            if target in self._shadow.living():
                raise self.mismatch("alive", True, False, "its object is reachable")
            self._shadow.lose(target)

    def _check_ephemeron(self, action: actions.ReadEphemeron, observation: Observation) -> None:
        ephemeron, got = self._shadow.roots[action.root], observation.value
        value = ephemeron.value
        if value is None:
            if got is not None:
                raise self.mismatch("value", None, got, "its key is dead")
        elif got is None:
            if ephemeron.target in self._shadow.living():
                raise self.mismatch("value", value.number, None, "its key is alive")
            self._shadow.lose_value(ephemeron)
        elif got != value.number:
            raise self.mismatch("value", value.number, got, f"of a {value.kind}")

    def _check_identity(self, action: actions.TakeIdentity, observation: Observation) -> None:
        obj, got = self._shadow.roots[action.root], observation.identity
        if got is None:
            raise self.mismatch("identity", "a number", None, f"of root {action.root}")
        expected = self._identities.setdefault(obj, got)
        if got != expected:
            raise self.mismatch("identity", expected, got, "the same object had another before")
        owner = self._owners.setdefault(got, obj)
        if owner is not obj and owner in self._shadow.reachable():
            raise self.mismatch("identity", "a new one", got, "another living object has it")
        self._owners[got] = obj

    _ANSWERS: ClassVar[Mapping[type[Action], Callable[..., None]]] = {
        actions.Read: _check_read,
        actions.ReadNumber: _check_number,
        actions.ReadWeakref: _check_weakref,
        actions.ReadEphemeron: _check_ephemeron,
        actions.TakeIdentity: _check_identity,
    }

    def _check_graph(self, observation: Observation) -> None:
        expected, got = self._shadow.graph(), observation.graph
        if got == expected:
            return
        if got is None:
            raise self.mismatch("graph", "a walk of the heap", None, "after a collection")
        why = "what a walk from the roots finds"
        if len(got) != len(expected):
            raise self.mismatch("graph", len(expected), len(got), why)
        raise self.mismatch("graph", expected, got, why)
