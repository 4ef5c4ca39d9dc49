"""The target `process`: any program that speaks the protocol of docs/protocol.md.

Whatever the program does wrong is an answer like any other: an observation with an `error`, so that
it is found, reduced and replayed like every failure. Actions are sent ahead of their answers. A
program that breaks then may have lost answers on its way, so that nobody knows which action it
was: a new process gets the same trace once more, in lockstep, and that tells. Invariant: the
observation that `perform` returns is the answer to that action, or says that there is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

from fuzz.actions import Action
from fuzz.contract import Contract, problem_of_configuration
from fuzz.lines import (
    action_to_data,
    as_object,
    contract_from_data,
    from_line,
    observation_from_data,
    quoted,
    to_line,
)
from fuzz.observation import Observation
from fuzz.problems import BadInputError
from fuzz.targets.conversation import BrokenConversationError, Conversation
from fuzz.targets.target import RemoteTarget

ERROR_MAX = 200
"""So many characters of an error are kept."""
AHEAD_MAX = 256
"""So many actions are sent ahead at most."""


class ProcessTarget(RemoteTarget):
    """A program, started when it is needed, and again after it broke."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        timeout_seconds: float,
        without: Collection[str] = (),
    ) -> None:
        self.name = name
        self._without = without
        self._command = tuple(command)
        self._timeout_seconds = timeout_seconds
        self._conversation: Conversation | None = None
        self._default: Contract | None = None
        self._header = ""
        self._contract_line = b""
        self._fields: frozenset[str] = frozenset()
        self._performed: list[Action] = []
        self._sent: deque[Action] = deque()
        self._announced: Iterator[Action] = iter(())
        self._unexplained: str | None = None
        self._broken: str | None = None

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """See Target.

        A program that does not even answer a header without settings is bad input. Later, one that
        breaks at a header has its default contract, and fails in whatever it is to do first.
        """
        if self._default is None:
            self._default = self._shake_hands()
        problem = problem_of_configuration(configuration, self._default.settings)
        if problem:
            raise BadInputError(problem)
        unread = len(self._sent)
        self._performed, self._sent, self._announced = [], deque(), iter(())
        self._header = to_line({"gcfuzz": 1, "target": self.name, "config": dict(configuration)})
        self.problem_at_start = self._unexplained = self._broken = None
        try:
            return self._begin_again(unread)
        except BrokenConversationError as broken:
            self.problem_at_start = self._broken = _at_start(broken)
            return self._default

    def _shake_hands(self) -> Contract:
        self._header = to_line({"gcfuzz": 1, "target": self.name, "config": {}})
        try:
            return self._begin()
        except BrokenConversationError as problem:
            self._break_off()
            command = " ".join(self._command)
            raise BadInputError(
                f"{command}: does not answer a header with a contract (docs/protocol.md): {problem}"
            ) from problem

    def _begin_again(self, unread: int) -> Contract:
        """Begin in the process that is there, or in a new one if that one is at fault."""
        if self._conversation is not None:
            try:
                return self._begin(unread)
            except BrokenConversationError:
                self._break_off()
        try:
            return self._begin()
        except BrokenConversationError:
            self._break_off()
            raise

    def _begin(self, unread: int = 0) -> Contract:
        """Send the header and read the contract, after at most so many answers left unread."""
        conversation = self._open()
        conversation.send(self._header)
        line = conversation.receive()
        while unread and not line.startswith(b'{"contract"'):
            line = conversation.receive()
            unread -= 1
        contract = _contract_in(line)
        self._contract_line = line
        self._fields = frozenset({*contract.observes, "error"})
        return contract.without(self._without)

    def _open(self) -> Conversation:
        if self._conversation is None:
            self._conversation = Conversation(self._command, self._timeout_seconds)
        return self._conversation

    def _break_off(self) -> None:
        """End the process. What was sent ahead to it is lost."""
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None

    def announce(self, actions: Iterable[Action]) -> None:
        """See RemoteTarget."""
        self._announced = iter(actions)

    def perform(self, action: Action) -> Observation:
        """See Target. Once it broke, it is broken until the next start."""
        if self._broken is not None:
            return Observation(error=self._broken)
        try:
            observation = self._perform(action)
        except BrokenConversationError as problem:
            was_ahead = len(self._sent) > 0
            self._break_off()
            self._sent, self._announced = deque(), iter(())
            if was_ahead:
                self._unexplained = str(problem)
                observation = self._perform_in_lockstep(action)
            else:
                observation = self._error(problem)
        self._performed.append(action)
        return observation

    def _perform(self, action: Action) -> Observation:
        conversation = self._open()
        self._send_ahead(conversation)
        if self._sent:
            expected = self._sent.popleft()
            assert expected == action, f"{expected} was announced, and not {action}"
        else:
            conversation.send(to_line(action_to_data(action)))
        return self._observation_in(conversation.receive())

    def _observation_in(self, line: bytes) -> Observation:
        """The observation in a line. Raises BrokenConversationError."""
        with _garbage(line):
            data = as_object(from_line(line))
            unknown = data.keys() - self._fields
            if unknown:
                raise ValueError(f"the contract observes no {min(unknown)}")
            observation = observation_from_data(data)
            if observation.error is not None:
                observation.error = _in_one_line(observation.error)
            return observation

    def _send_ahead(self, conversation: Conversation) -> None:
        """Fill the pipe with what was announced, half a window at a time."""
        if len(self._sent) > AHEAD_MAX // 2:
            return
        for action in self._announced:
            conversation.send(to_line(action_to_data(action)))
            self._sent.append(action)
            if len(self._sent) == AHEAD_MAX:
                return

    def _perform_in_lockstep(self, action: Action) -> Observation:
        """Perform the trace so far in a new process, each action once the last was answered."""
        try:
            self._begin()
            for earlier in self._performed:
                self._perform(earlier)
            return self._perform(action)
        except BrokenConversationError as problem:
            self._break_off()
            return self._error(problem)

    def _error(self, problem: Exception) -> Observation:
        self._broken = str(problem)
        return Observation(error=self._broken)

    def finish(self) -> str | None:
        """See RemoteTarget. A header tells whether the last answer was the last line.

        A process that broke, although another one got through the whole trace, did break.
        """
        if self._unexplained is not None:
            return self._unexplained
        if self._conversation is None:
            return None
        self._conversation.send(self._header)
        try:
            line = self._conversation.receive()
        except BrokenConversationError as problem:
            self._break_off()
            return _at_start(problem)
        if line == self._contract_line:
            return None
        self._break_off()
        return f"garbage after the last answer: {_excerpt(line)}"


def _at_start(problem: Exception) -> str:
    """An error that a header met with; its kind says so."""
    kind, _, what = str(problem).partition(": ")
    return f"{kind} at start: {what}"


@lru_cache(maxsize=64)
def _contract_in(line: bytes) -> Contract:
    """The contract in a line. Raises BrokenConversationError."""
    with _garbage(line):
        data = as_object(from_line(line))
        if set(data) == {"error"}:
            raise BrokenConversationError(f"refused: {data['error']}")
        if set(data) != {"contract"}:
            raise ValueError('the answer to a header must be {"contract": {…}}')
        return contract_from_data(data["contract"])


@contextmanager
def _garbage(line: bytes) -> Iterator[None]:
    """A line that cannot be read is garbage. Raises BrokenConversationError."""
    try:
        yield
    except ValueError as problem:
        raise BrokenConversationError(f"garbage: {problem}: {_excerpt(line)}") from problem


def _in_one_line(text: str) -> str:
    return " ".join(text.split())[:ERROR_MAX]


def _excerpt(line: bytes) -> str:
    return quoted(line.decode(errors="replace"))
