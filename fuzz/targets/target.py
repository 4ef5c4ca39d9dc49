"""What the harness needs of a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fuzz.actions import Action
from fuzz.contract import Contract
from fuzz.observation import Observation


class Target(Protocol):
    """A heap under test. It serves many traces, one after another.

    An observation must have `minors`, and `size`, `outside`, `value`, `alive` and `identity` where
    the action asks for them; and `order` if it carries out `set_callback`. Samples, reports,
    pointers and the graph are judged only if the contract observes `samples`, `reports`, `limit`
    and `graph`.
    """

    name: str

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """Forget everything and start anew; returns the contract under this configuration.

        Settings that are left out have their defaults. Raises BadInputError if one is illegal.
        """

    def perform(self, action: Action) -> Observation:
        """Carry out one legal action. What goes wrong in it is an observation's `error`."""
