"""What the harness needs of a target, what it uses where there is more, and how it guards itself.

Invariant: an exception of a user's target becomes the target's answer, whoever calls it.
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
        """Carry out one legal action.

        What goes wrong is the observation's `error`, or an exception, which is a failure too.
        """


class FullTarget(ABC):
    """A target with all that the harness makes use of; by default that is nothing more.

    It raises no exceptions for what goes wrong in the heap under test.
    """

    name: str
    problem_at_start: str | None = None
    """Why the last start failed, if it did: then every action does."""
    complaint = ""
    """What a program wrote on standard error before it broke in the last trace."""
    traceback: tuple[str, ...] = ()
    """The last lines of the traceback of what a target in this process raised in this trace."""
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


_PASSED_ON = (BadInputError, HarnessError)
"""What a target raises that does not mean that it failed."""


class GuardedTarget(FullTarget):
    """A user's target in this process. What it raises is its answer: an `error` with its type.

    If `start` raises, every action has that answer. The exception to this is the first start,
    without settings: a target that never stated a contract is bad input.
    """

    def __init__(
        self, target: Target, name: str | None = None, without: Collection[str] = ()
    ) -> None:
        self.name = target.name if name is None else name
        self._target = target
        self._without = without
        self._default: Contract | None = None
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
        """What `start` returns, checked. Raises what it raises, TypeError, and ValueError."""
        from fuzz.protocol.lines import check_contract

        contract: object = self._target.start(configuration)
        if not isinstance(contract, Contract):
            raise TypeError(f"start() returned {type(contract).__name__}, not a Contract")
        if contract != self._checked:
            check_contract(contract)
            self._checked = contract
        return contract.without(self._without)

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
        """A target may have `finish`, too, to look at what is left when a trace is over."""
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


def full(target: Target) -> FullTarget:
    """The target itself, or a guard for one that has only what a Target must have."""
    return target if isinstance(target, FullTarget) else GuardedTarget(target)


def contract_of(target: Target) -> Contract:
    """What a target promises without settings.

    A program is not started for it again: what is wrong then would be wrong with no trace.
    """
    return full(target).default_contract()
