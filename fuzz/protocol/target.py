"""What the harness needs of a target, and what it may use where there is more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Protocol

from typing_extensions import override

from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import EarlierTrace


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


class FullTarget(ABC):
    """A target with all that the harness makes use of; by default that is nothing more."""

    name: str
    problem_at_start: str | None = None
    """Why the last start failed, if it did: then every action does."""
    complaint = ""
    """What a program wrote on standard error before it broke in the last trace."""
    hopeless: str | None = None
    """Why no other trace is worth its time in a session, if none is."""
    starts_afresh: bool = False
    """Whether each trace has a process of its own."""
    takes_announcements = False
    """Whether it is any use to announce actions."""
    earlier: tuple[EarlierTrace, ...] = ()
    """The traces that the process of this trace carried out before it, as far as remembered."""

    @abstractmethod
    def start(self, configuration: Mapping[str, int]) -> Contract:
        """As Target says."""

    @abstractmethod
    def perform(self, action: Action) -> Observation:
        """As Target says."""

    def default_contract(self) -> Contract:
        """The contract without settings. Raises BadInputError if there is none."""
        return self.start({})

    def announce(self, actions: Iterable[Action]) -> None:  # noqa: B027 - nothing is the default
        """These are the next actions to be performed, in this order; all of them are legal."""

    def finish(self) -> str | None:
        """The trace is over. What is wrong with how it ended, or None."""
        return None

    def restart(self) -> None:  # noqa: B027 - nothing is the default
        """End the processes that are kept: the next trace is the first of a new one."""


class _Completed(FullTarget):
    """Any target, with these defaults."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.name = target.name

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self._target.start(configuration)

    @override
    def perform(self, action: Action) -> Observation:
        return self._target.perform(action)


def full(target: Target) -> FullTarget:
    """The target itself, or what stands for one that has only what a Target must have."""
    return target if isinstance(target, FullTarget) else _Completed(target)


def contract_of(target: Target) -> Contract:
    """What a target promises without settings.

    A program is not started for it again: what is wrong then would be wrong with no trace.
    """
    return full(target).default_contract()
