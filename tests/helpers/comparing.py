"""What tests of comparisons share: the reference as a target in Python with other answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from fuzz.protocol.actions import Action, AllocateArray
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget
from fuzz.targets import make_target

WRAPPED = """
import random
from fuzz.targets import make_target

class Changed:
    name = "changed"
    def __init__(self):
        self.target = make_target("reference")
    def start(self, configuration):
        return self.target.start(configuration)
    def perform(self, action):
        answer = self.target.perform(action)
        if {condition}:
            answer.{field} += {more}
        return answer
"""


def write_changed(name: str, condition: str, field: str, more: int) -> str:
    """Write a module with a target that adds to a field of some answers; returns its name."""
    source = WRAPPED.format(condition=condition, field=field, more=more)
    Path(f"{name}.py").write_text(source, encoding="utf-8")
    return f"{name}:Changed"


class Changed(FullTarget):
    """The reference with another contract and other answers."""

    name = "changed"

    def __init__(
        self,
        contract: Callable[[Contract], Contract] = lambda contract: contract,
        answer: Callable[[Action, Observation], None] = lambda _, __: None,
    ) -> None:
        self._target = make_target("reference")
        self._contract, self._answer = contract, answer

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self._contract(self._target.start(configuration))

    def perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        self._answer(action, observation)
        return observation


def flaky(chance: float, seed: int, more: Callable[[random.Random], int]) -> Changed:
    """A target that adds to some sizes of arrays."""
    choices = random.Random(seed)

    def enlarge(action: Action, answer: Observation) -> None:
        if isinstance(action, AllocateArray) and choices.random() < chance:
            answer.size = (answer.size or 0) + more(choices)

    return Changed(answer=enlarge)
