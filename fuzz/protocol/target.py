"""The interface of a target, what else the harness uses if it is there, and the guard.

Invariant: an exception of a user's target becomes the target's answer, regardless of the caller.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from typing_extensions import override

from fuzz.problems import BadInputError, HarnessError, noted, summary_of, traceback_of
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, problem_of_configuration
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import EarlierTrace

AS_DOCUMENTED = "-as-documented"
"""The end of a target's name under the contract that its documentation promises."""
DOCUMENTED = "GCFUZZ_AS_DOCUMENTED"
"""The environment variable of a program that states the contract that its documentation promises.
Not an argument, since `as_documented` also registers programs of other packages."""


class Target(Protocol):
    """A heap under test. It serves many traces, one after another.

    An observation has the fields of the contract's `observes` that apply to the action; the oracles
    judge each of them. Every action that collects must report `minors`. A target may have a `name`;
    otherwise it has the name of its class (`name_of`).
    """

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """Start a trace with an empty heap; returns the contract under this configuration.

        Missing settings have their defaults. Raises BadInputError if a setting is illegal.
        """

    def perform(self, action: Action) -> Observation:
        """Carry out one legal action. An exception, or an `error` in the answer, is a failure."""


class FullTarget(ABC):
    """A target with all that the harness can use. It reports a defect of the heap as `error`."""

    name: str
    problem_at_start: str | None = None
    """Why the last start failed, if it did. Every action then has this error."""
    complaint = ""
    """The end of the standard error of a program that broke in the last trace."""
    traceback: tuple[str, ...] = ()
    """The last lines of the traceback of the exception in this trace."""
    hopeless: str | None = None
    """Why a session should stop, or None."""
    starts_afresh: bool = False
    """Whether each trace has its own process."""
    takes_announcements = False
    """Whether `announce` has a use."""
    earlier: tuple[EarlierTrace, ...] = ()
    """The recent traces that the process of this trace carried out before it."""

    @abstractmethod
    def start(self, configuration: Mapping[str, int]) -> Contract:
        """See Target."""

    @abstractmethod
    def perform(self, action: Action) -> Observation:
        """See Target."""

    def default_contract(self) -> Contract:
        """The contract without settings. Raises BadInputError if there is none."""
        return self.start({})

    def announce(self, actions: Iterable[Action]) -> None:  # noqa: B027 - nothing is the default
        """Receive the next actions in advance, in their order; all of them are legal."""

    def finish(self) -> str | None:
        """End the trace; returns what is wrong with its end, or None."""
        return None

    def restart(self) -> None:  # noqa: B027 - nothing is the default
        """End the processes that are kept, so that the next trace has a new one."""


_PASSED_ON = (BadInputError, HarnessError)
"""These exceptions do not mean that the target failed."""


class GuardedTarget(FullTarget):
    """A user's target in this process. Its exceptions become `error` answers.

    If `start` raises, every action has that answer. But a target that raises at the first start,
    without settings, is bad input, since it has no contract.
    """

    def __init__(
        self, target: Target, name: str | None = None, without: Collection[str] = ()
    ) -> None:
        self.name = name_of(target) if name is None else name
        self._target = target
        self._without = without
        self._default: Contract | None = None
        self._stated: Contract | None = None
        self._checked: Contract | None = None

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        if self._default is None and not configuration:
            return self.default_contract()
        default = self.default_contract()
        problem = problem_of_configuration(configuration, default.settings)
        if problem is not None:
            raise BadInputError(problem)
        self.problem_at_start, self.traceback = None, ()
        try:
            return self._started(configuration)
        except _PASSED_ON:
            raise
        except Exception as raised:  # noqa: BLE001 - user code
            self.problem_at_start = self._answer_to(raised)
            return default

    @override
    def default_contract(self) -> Contract:
        if self._default is None:
            try:
                self._default = self._started({})
            except _PASSED_ON:
                raise
            except Exception as raised:
                what = f"the target {self.name}: start({{}}) raised {self._answer_to(raised)}"
                raise noted(BadInputError(what), self.traceback) from raised
        return self._default

    def _started(self, configuration: Mapping[str, int]) -> Contract:
        """The checked contract. Raises what `start` raises, TypeError and ValueError."""
        from fuzz.protocol.lines import checked_contract

        contract: object = self._target.start(configuration)
        if not isinstance(contract, Contract):
            raise TypeError(f"start() returned {type(contract).__name__}, not a Contract")
        if contract != self._stated:
            self._stated, self._checked = contract, checked_contract(contract)
        assert self._checked is not None
        return self._checked.without(self._without)

    @override
    def perform(self, action: Action) -> Observation:
        if self.problem_at_start is not None:
            return Observation(error=self.problem_at_start)
        try:
            observation: object = self._target.perform(action)
            if isinstance(observation, Observation):
                return observation
            what = type(observation).__name__
            raise TypeError(f"perform() returned {what}, not an Observation")  # noqa: TRY301
        except _PASSED_ON:
            raise
        except Exception as raised:  # noqa: BLE001 - user code
            return Observation(error=self._answer_to(raised))

    @override
    def finish(self) -> str | None:
        """Call the `finish` of the target if it has one, to check what a trace left."""
        finish = getattr(self._target, "finish", None)
        try:
            problem: str | None = None if finish is None else finish()
        except _PASSED_ON:
            raise
        except Exception as raised:  # noqa: BLE001 - user code
            return self._answer_to(raised)
        return problem

    def _answer_to(self, raised: Exception) -> str:
        self.traceback = traceback_of(raised)
        return summary_of(raised)


def name_of(target: Target) -> str:
    """What reports and traces call the target."""
    return str(getattr(target, "name", type(target).__name__))


def full(target: Target) -> FullTarget:
    """The target itself, or a guard around one that has only the methods of Target."""
    return target if isinstance(target, FullTarget) else GuardedTarget(target)


def contract_of(target: Target) -> Contract:
    """The contract without settings. A program is not started again for it."""
    return full(target).default_contract()
