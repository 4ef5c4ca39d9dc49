"""What the harness needs of a target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Protocol

from fuzz.actions import Action
from fuzz.contract import Contract
from fuzz.observation import Observation


class Target(Protocol):
    """A heap under test. It serves many traces, one after another.

    An observation has the fields that the contract's `observes` lists, where they apply, and
    whatever the contract lists is judged. `minors` is what everything that collects must tell.
    """

    name: str

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """Forget everything and start anew; returns the contract under this configuration.

        Settings that are left out have their defaults. Raises BadInputError if one is illegal.
        """

    def perform(self, action: Action) -> Observation:
        """Carry out one legal action. What goes wrong in it is an observation's `error`."""


class RemoteTarget(ABC):
    """A target that can begin with actions before anybody waits for what comes of them."""

    name: str
    problem_at_start: str | None = None
    """Why the last start failed, if it did: then every action does."""

    @abstractmethod
    def start(self, configuration: Mapping[str, int]) -> Contract:
        """See Target."""

    @abstractmethod
    def announce(self, actions: Iterable[Action]) -> None:
        """These are the next actions to be performed, in this order."""

    @abstractmethod
    def perform(self, action: Action) -> Observation:
        """See Target."""

    @abstractmethod
    def finish(self) -> str | None:
        """The trace is over. What is wrong with how it ended, or None."""
