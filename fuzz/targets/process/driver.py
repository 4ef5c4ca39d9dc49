"""The base of the drivers in Python: a driver is the program of a target, and answers its actions.

A driver has a table of the actions that it carries out. The base checks each action, calls the
entry, and completes the observation. Invariant: an exception of an action is the `error` of its
answer and does not end the process, except for those in `FATAL`.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

from fuzz.protocol.actions import Action, name_of
from fuzz.protocol.contract import Contract, Setting, chosen_settings
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import AS_DOCUMENTED, DOCUMENTED
from fuzz.targets.process.serve import serve

CarryOut: TypeAlias = Mapping[type[Action], Callable[[Any, Any], object]]
"""What carries out each action, called with the driver and the action.

It returns the answer: an allocation's size, or what the action's class declares as its `answer`."""


def without(table: CarryOut, *excluded: type[Action]) -> CarryOut:
    """The table without the entries of these actions."""
    return {action: entry for action, entry in table.items() if action not in excluded}


class Driver(ABC):
    """A target that is carried out in this process, or in one that this process started."""

    CARRY_OUT: ClassVar[CarryOut]
    FATAL: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors that end the program."""
    collections = 0
    """How many collections the runtime has counted."""
    thread_count = 1
    """How many threads the trace has."""
    observation = Observation()
    """What is observed of the present action."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Packages for gcfuzz 0.1.0 may register such a target by its name alone.
        self.is_as_documented = DOCUMENTED in os.environ or name.endswith(AS_DOCUMENTED)

    @property
    def actions(self) -> tuple[str, ...]:
        return tuple(map(name_of, self.CARRY_OUT))

    @property
    @abstractmethod
    def settings(self) -> tuple[Setting, ...]:
        """The settings that a header may have. Raises BadInputError if the runtime is missing."""

    @abstractmethod
    def begin(self, chosen: Mapping[str, int]) -> Contract:
        """Set the runtime up for a trace with these settings. Raises BadInputError."""

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """See Target. The setting `threads` is the number of threads."""
        chosen = chosen_settings(configuration, self.settings)
        self.thread_count = chosen.get("threads", 1)
        return self.begin(chosen)

    def perform(self, action: Action) -> Observation:
        """See Target."""
        self.observation = Observation()
        try:
            self.carry_out(action)
        except self.FATAL:
            raise
        except Exception as problem:  # noqa: BLE001 - each exception is an answer
            return Observation(error=f"{type(problem).__name__}: {problem}")
        return self.observation

    def carry_out(self, action: Action) -> None:
        """Carry out one action. Raises ValueError if the contract does not promise that."""
        if action.thread not in range(self.thread_count):
            raise ValueError(f"there is no thread {action.thread}")
        entry = self.CARRY_OUT.get(type(action))
        if entry is None:
            raise ValueError(f"{self.name} does not carry out {name_of(type(action))}")
        collections = self.collections
        answer = self.call(entry, action)
        field = "size" if action.allocates else action.answer
        if field is not None:
            setattr(self.observation, field, answer)
        self.observation.minors = self.collections - collections
        if self.observation.minors:
            self.after_collection()

    def call(self, entry: Callable[[Any, Any], object], action: Action) -> object:
        """Call an entry of the table, by default in this thread."""
        return entry(self, action)

    def after_collection(self) -> None:  # noqa: B027 - nothing is the default
        """Complete the observation of an action in which the runtime has collected."""

    def close(self) -> None:  # noqa: B027 - nothing is the default
        """End the processes that were started."""

    @classmethod
    def main(cls, answer: Callable[..., None] = serve) -> None:
        """Be the program: `python -m MODULE NAME ARGUMENT...`."""
        driver = cls(*sys.argv[1:])
        answer(driver, sys.stdin, sys.stdout)
        driver.close()
