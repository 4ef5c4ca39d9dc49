"""The target `process`: any program that speaks the protocol of docs/protocol.md.

Each failure of the program is an observation with an `error`, so that it is found, reduced and
replayed like every other. Actions are sent ahead of their answers. If the program breaks then,
answers may be lost, and the action that broke it is unknown: a new process gets the same trace in
lockstep. If the contract has `batch`, announced actions are sent as a whole. An action that was not
announced is sent behind the trace so far, which is sent again. Lockstep then halves what broke:
before, a program of 450 actions ran 450 times. Invariant: `perform` returns the answer to its
action, or why there is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache

from typing_extensions import override

from fuzz.cancellation import Cancelled
from fuzz.problems import BadInputError, did_you_mean, noted, notes_of
from fuzz.protocol import lines
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, problem_of_configuration
from fuzz.protocol.observation import MEMORY, Observation
from fuzz.protocol.target import FullTarget
from fuzz.protocol.trace import VERSION, EarlierTrace
from fuzz.targets.process.conversation import BrokenConversationError, Conversation, NotStartedError

ERROR_MAX = 200
"""How many characters of an error are kept."""
SILENT_TRACES_MAX = 32
"""After this many traces in a row without an answer to an action, the target is hopeless. Each one
takes two processes, and adds nothing to the count of actions at which a session ends."""
AHEAD_MAX, AHEAD_STEP = 256, 8
"""How many actions are sent ahead at most, and how many at a time: the program carries them out
while the next ones are drawn."""
HEADERS_MAX = 2000
"""A process that has read this many is replaced, so that what a runtime never gives back is
bounded: an arena of jemalloc leaves megabytes of addresses. A trace takes two, see `finish`."""
PROCESSES_MAX = 16
"""How many processes are kept if the contract has settings of the process."""


class WrongContractError(BrokenConversationError):
    """The answer to a header is a contract with a mistake."""

    def __init__(self, line: bytes, problem: ValueError) -> None:
        super().__init__(_garbage(line, problem))
        self.why = f"contract: {str(problem).removeprefix('contract: ')}"
        self.mistakes = notes_of(problem)


class TraceState(Enum):
    """The states of a trace; ARCHITECTURE.md has their transitions."""

    AHEAD = auto()
    LOCKSTEP = auto()
    BROKEN = auto()
    NOT_STARTED = auto()


class ProcessTarget(FullTarget):
    """A program, which is started when it is needed, and again after it broke, or for each trace.

    If the contract has settings of the process, there is one process for each of their values.
    """

    takes_announcements = True

    def __init__(  # noqa: PLR0913 - the options of a program
        self,
        name: str,
        command: Sequence[str],
        timeout_seconds: float,
        without: Collection[str] = (),
        contract: Contract | None = None,
        *,
        fresh_process: bool = False,
        memory_bytes: int | None = None,
    ) -> None:
        """`contract` is the one that the program has stated before, if it was asked.

        With `fresh_process`, or if the contract requires it, a process serves one trace. A process
        that uses more than `memory_bytes` is ended, and its trace fails.
        """
        self.name = name
        self._without = without
        self._command = tuple(command)
        self._timeout_seconds = timeout_seconds
        self._memory_bytes = memory_bytes
        self._conversations: dict[tuple[int, ...], Conversation] = {}
        """By the settings of their processes, the oldest first."""
        self._default = contract
        self._fresh_process = fresh_process
        self._state = TraceState.AHEAD
        self._problem = ""
        self._silent_traces = 0
        self._reset({})
        self._contract_line = b""
        self._fields: frozenset[str] = frozenset()
        self._is_batch = False

    def _reset(self, configuration: Mapping[str, int]) -> None:
        header = {"gcfuzz": VERSION, "target": self.name, "config": dict(configuration)}
        self._header = lines.to_line(header)
        self._configuration = configuration
        settings = self._default.settings if self._default else ()
        self._process_settings = tuple(
            configuration.get(each.name, each.default) for each in settings if each.of_process
        )
        self._performed: list[Action] = []
        self._lost: list[list[Action]] = []
        """The next actions of batches that broke, in the parts in which they are sent again."""
        self._batch_length = 0
        self._send_nothing_ahead()

    def _send_nothing_ahead(self) -> None:
        self._sent: deque[Action] = deque()
        self._announced: Iterator[Action] = iter(())

    @property
    def problem_at_start(self) -> str | None:  # type: ignore[override]
        return self._problem if self._state is TraceState.NOT_STARTED else None

    @property
    def hopeless(self) -> str | None:  # type: ignore[override]
        """A program that answers only headers would be started twice for each trace."""
        if self._silent_traces < SILENT_TRACES_MAX:
            return None
        why = self._problem or "its contract allows none"
        what = f"has answered no action in {self._silent_traces} traces: {why}"
        return f"{' '.join(self._command)}: {what}"

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        """A program that does not answer its first header is bad input.

        If it breaks at a later header, the first action of that trace fails.
        """
        default = self.default_contract()
        problem = problem_of_configuration(configuration, default.settings)
        if problem:
            raise BadInputError(problem)
        if self._conversation is not None:
            self._conversation.unread += len(self._sent)
        self._reset(configuration)
        self._state = TraceState.AHEAD
        headers = self._conversation.headers if self._conversation else 0
        if self.starts_afresh or headers >= HEADERS_MAX:
            self._break_off()
        self.earlier = ()
        try:
            contract, self.earlier = self._start_trace()
        except BrokenConversationError as broken:
            self._state, self._problem = TraceState.NOT_STARTED, _at("start", broken)
            return default
        self._silent_traces += 1
        self.complaint = ""
        return contract

    @override
    def default_contract(self) -> Contract:
        """The process that states it is ended, so that the first trace has a new one.

        A session that knows the contract already has a new one, too: both find the same.
        """
        if self._default is None:
            self._reset({})
            self._default = self._first_contract()
            self._break_off()
        return self._default

    @property
    def starts_afresh(self) -> bool:  # type: ignore[override]
        return self._fresh_process or self.default_contract().fresh_process

    def _first_contract(self) -> Contract:
        try:
            return self._begin()[0]
        except BrokenConversationError as problem:
            self._break_off()
            if isinstance(problem, NotStartedError):
                raise BadInputError(f"{self._command[0]}: {problem}") from problem
            _, is_bad_input, why = str(problem).partition("refused: BadInputError: ")
            if is_bad_input:
                raise BadInputError(f"the target {self.name}: {why}") from problem
            command = " ".join(self._command)
            if isinstance(problem, WrongContractError):
                where = "(`gcfuzz help protocol` defines a contract)"
                error = BadInputError(f"{command}: {problem.why} {where}")
                raise noted(error, problem.mistakes) from problem
            raise BadInputError(
                f"{command}: does not answer a header with a contract "
                f"(`gcfuzz help protocol`): {problem}"
            ) from problem

    def _start_trace(self) -> tuple[Contract, tuple[EarlierTrace, ...]]:
        """Begin a trace in the present process, or in a new one if that one breaks."""
        if self._conversation is not None:
            try:
                return self._begin()
            except BrokenConversationError:
                self._break_off()
        try:
            return self._begin()
        except BrokenConversationError:
            self._break_off()
            raise

    def _begin(self) -> tuple[Contract, tuple[EarlierTrace, ...]]:
        """Send the header, skip unread answers, and read the contract.

        The other result is the traces that the process has carried out before.
        """
        conversation = self._open()
        earlier = self._send_header(conversation)
        line = self._receive(conversation)
        while conversation.unread and not line.startswith(b'{"contract"'):
            line = self._receive(conversation)
            conversation.unread -= 1
        conversation.unread = 0
        contract = _contract_in(line)
        self._contract_line = line
        self._fields = frozenset({*contract.observes, "error"})
        self._is_batch = contract.batch
        return contract.without(self._without), earlier

    def _send_header(self, conversation: Conversation) -> tuple[EarlierTrace, ...]:
        conversation.send(self._header)
        conversation.headers += 1
        return conversation.history.begin(self._configuration)

    def _send_action(self, conversation: Conversation, action: Action) -> None:
        conversation.send(lines.to_line(lines.action_to_data(action)))
        conversation.history.add(action)

    def _receive(self, conversation: Conversation) -> bytes:
        """The next line. Raises BrokenConversationError, and Cancelled.

        A cancelled wait ends the process: its late answer would be taken for the next one.
        """
        try:
            return conversation.receive()
        except Cancelled:
            self._break_off()
            raise

    @property
    def _conversation(self) -> Conversation | None:
        return self._conversations.get(self._process_settings)

    def _open(self) -> Conversation:
        """The process with the settings of the trace, a new one if there is none."""
        conversation = self._conversation
        if conversation is None:
            if len(self._conversations) == PROCESSES_MAX:
                self._conversations.pop(next(iter(self._conversations))).close()
            conversation = Conversation(self._command, self._timeout_seconds, self._memory_bytes)
            self._conversations[self._process_settings] = conversation
        return conversation

    def _break_off(self) -> None:
        if self._conversation is not None:
            self.complaint = self._conversation.complaint
            self._conversations.pop(self._process_settings).close()

    @override
    def restart(self) -> None:
        for conversation in self._conversations.values():
            conversation.close()
        self._conversations.clear()

    @override
    def announce(self, actions: Iterable[Action]) -> None:
        self._announced = iter(actions)

    @override
    def perform(self, action: Action) -> Observation:
        if self._state in (TraceState.BROKEN, TraceState.NOT_STARTED):
            return Observation(error=self._problem)
        try:
            observation = self._perform(action)
        except BrokenConversationError as problem:
            observation = self._perform_after_break(action, problem)
        self._performed.append(action)
        return observation

    def _perform_after_break(self, action: Action, seen: BrokenConversationError) -> Observation:
        """The program broke with `seen`, at this action or at another one that was sent with it."""
        unanswered = [*self._sent] or [action]
        self._break_off()
        self._send_nothing_ahead()
        if len(unanswered) == 1:
            return self._broken(seen)
        if self._is_batch:
            # After answers the next action is likely to be the one, and each hang costs a timeout.
            has_answered = len(unanswered) < self._batch_length
            first = 1 if has_answered else _half(unanswered)
            self._lost = [*_parts(unanswered, first), *self._lost]
        return self._perform_in_lockstep(action, seen)

    def _perform(self, action: Action) -> Observation:
        if self._is_batch and not self._sent:
            self._send_batch(action)
        conversation = self._open()
        self._send_ahead(conversation)
        if self._sent:
            expected = self._sent[0]
            # Comparing two actions takes a tenth of the harness's time.
            if expected is not action:
                assert expected == action, f"{expected} was announced, and not {action}"
        else:
            self._send_action(conversation, action)
        observation = self._observation_in(self._receive(conversation))
        if self._sent:  # Not before: what breaks here was sent together with the rest.
            self._sent.popleft()
        return observation

    def _observation_in(self, line: bytes) -> Observation:
        try:
            data = lines.as_object(lines.from_line(line))
            if not data.keys() <= self._fields:
                unknown = min(data.keys() - self._fields)
                like = did_you_mean(unknown, self._fields)
                raise ValueError(f"the contract observes no {unknown}{like}")  # noqa: TRY301
            observation = lines.observation_from_data(data)
        except ValueError as problem:
            raise BrokenConversationError(_garbage(line, problem)) from problem
        if observation.error is not None:
            observation.error = " ".join(observation.error.split())[:ERROR_MAX]
        self._silent_traces = 0
        return observation

    def _send_ahead(self, conversation: Conversation) -> None:
        """Send announced actions, if less than half of the window is filled."""
        if len(self._sent) > AHEAD_MAX // 2:
            return
        for action in self._announced:
            self._send_action(conversation, action)
            self._sent.append(action)
            if len(self._sent) % AHEAD_STEP == 0:
                conversation.flush()
            if len(self._sent) == AHEAD_MAX:
                return

    def _send_batch(self, action: Action) -> None:
        """Send the announced actions, or else this action behind all performed ones.

        After a break, a part of the lost ones. The performed ones were judged before: their answers
        are dropped.
        """
        if self._performed:
            if self.starts_afresh:
                self._break_off()
            self._begin()
        batch = self._lost.pop(0) if self._lost else list(self._announced) or [action]
        self._batch_length = len(batch)
        # Before an answer is read, so that a break is attributed to one of them.
        self._sent.extend(batch)
        conversation = self._open()
        for each in (*self._performed, *batch):
            self._send_action(conversation, each)
        conversation.send(lines.BATCH_END)
        for _ in self._performed:
            self._observation_in(self._receive(conversation))

    def _perform_in_lockstep(self, action: Action, seen: BrokenConversationError) -> Observation:
        """Perform the trace so far in a new process, each action after the last answer.

        The program broke with `seen`. If this is cancelled, it counts as broken by this action.
        """
        self._state, self._problem = TraceState.LOCKSTEP, str(seen)
        try:
            self._begin()
            for earlier in () if self._is_batch else self._performed:
                self._perform(earlier)
            return self._perform(action)
        except BrokenConversationError as problem:
            return self._perform_after_break(action, problem)
        except Cancelled:
            self._break_off()
            if len(self._sent) > 1:  # Which one broke it is not known.
                raise
            return self._broken(seen)

    def _broken(self, problem: Exception) -> Observation:
        self._state, self._problem = TraceState.BROKEN, str(problem)
        return Observation(error=self._problem)

    @override
    def finish(self) -> str | None:
        """Check with another header, or at the process's end, that no line follows the last answer.

        A process that broke has failed, also if the next one carried out the whole trace.
        """
        if self._state is TraceState.LOCKSTEP:
            return self._problem
        if self._conversation is None:
            return None
        if self.starts_afresh:
            return self._hang_up(self._conversation)
        try:
            self._conversation.check_memory()
            self._send_header(self._conversation)
            line = self._receive(self._conversation)
        except BrokenConversationError as problem:
            self._break_off()
            return _at("start", problem)
        if line == self._contract_line:
            return None
        self._break_off()
        return _refusal_in(line) or _too_much(line)

    def _hang_up(self, conversation: Conversation) -> str | None:
        try:
            conversation.check_memory()
            line = conversation.hang_up()
        except BrokenConversationError as problem:
            return _at("end", problem)
        finally:
            self._break_off()
        return None if line is None else _too_much(line)


def _half(actions: Sequence[Action]) -> int:
    return -(-len(actions) // 2)


def _parts(actions: list[Action], first: int) -> Iterator[list[Action]]:
    """That many actions, then half of the rest, and so on to the last one."""
    while actions:
        yield actions[:first]
        actions = actions[first:]
        first = _half(actions)


def _at(where: str, problem: Exception) -> str:
    """The error of a header, or of the process's end, which its kind names."""
    kind, _, what = str(problem).partition(": ")
    if kind == MEMORY:
        return str(problem)
    return f"{kind} at {where}: {what}"


def _too_much(line: bytes) -> str:
    return f"garbage after the last answer: {lines.quoted(line.decode(errors='replace'))}"


def _refusal_in(line: bytes) -> str | None:
    """What a program found wrong with the trace that ends: an `error` instead of a contract."""
    try:
        _contract_in(line)
    except BrokenConversationError as problem:
        if str(problem).startswith("refused"):
            return _at("end", problem)
    return None


@lru_cache(maxsize=64)
def _contract_in(line: bytes) -> Contract:
    try:
        data = lines.as_object(lines.from_line(line))
        if set(data) == {"error"}:
            raise BrokenConversationError(f"refused: {data['error']}")
        if set(data) != {"contract"}:
            raise ValueError('the answer to a header must be {"contract": {…}}')  # noqa: TRY301
    except ValueError as problem:
        raise BrokenConversationError(_garbage(line, problem)) from problem
    try:
        return lines.contract_from_data(data["contract"])
    except ValueError as problem:
        raise WrongContractError(line, problem) from problem


def _garbage(line: bytes, problem: ValueError) -> str:
    return f"garbage: {problem}: {lines.quoted(line.decode(errors='replace'))}"
