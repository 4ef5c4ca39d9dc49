"""The one loop: rule -> action -> target -> oracles -> trace.

A `Run` is one trace on one target. Whoever has actions (an engine that draws them, a replay, a
reduction) steps it; every step that returns was found right by all oracles.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

import attrs

from fuzz.cancellation import checkpoint
from fuzz.descriptions import describe, describe_error
from fuzz.drawing.probes import ProbeCounter
from fuzz.drawing.rules import Situation
from fuzz.mutator.legality import may_be_sent_ahead, while_legal, why_illegal
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch, RerunOracle
from fuzz.oracles.excluded import judged_part
from fuzz.oracles.heap import AFTER_ALL, WHILE_STARTING, HeapMismatch
from fuzz.oracles.recorded import ALL, DETERMINED, DETERMINED_WITHOUT_CALLBACKS, RecordingOracle
from fuzz.problems import BadInputError
from fuzz.protocol.actions import NAMES, Action, BeginThread, RunAtOnce, SetCallback
from fuzz.protocol.agreement import disagreement
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import MEMORY, Observation, values_of
from fuzz.protocol.target import FullTarget, Target, full
from fuzz.protocol.trace import EarlierTrace, Header, Trace

RACING_TRIES = 20
"""So often a trace is run until it fails, if threads run at once in it."""
CHANGES = BROKE, FIXED, STILL_FAILS, OBSERVABLE = "broke", "fixed", "still-fails", "observable"
"""What a change of a target did, the worst first."""


@attrs.frozen
class Failure:
    """A wrong answer: what an oracle reported of it, and the trace that ends with it."""

    oracle: str
    field: str
    action: str
    """The kind of the last action, whose answer is wrong."""
    direction: str
    expected: str
    got: str
    why: str
    where: str = ""
    """The object that is wrong, and its field, if it is in one."""
    change: str = BROKE
    """What a change of the target did. A target that is not compared is broken."""
    configuration: dict[str, int] = attrs.Factory(dict)
    actions: tuple[Action, ...] = ()
    excluded: tuple[str, ...] = ()
    """The fields that no oracle judged in this trace."""
    started_with: tuple[str, ...] = ()
    """The options with which the target was started, if it reports them."""
    complaint: str = attrs.field(default="", eq=False, repr=False)
    """What a program that broke wrote on standard error."""
    traceback: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)
    """The last lines of the traceback, if a target in this process raised an exception."""
    earlier: tuple[EarlierTrace, ...] = attrs.field(default=(), eq=False, repr=False)
    """The traces that the same process carried out before. The failure may need them."""

    @property
    def what_happened(self) -> str:
        """A sentence about a target that failed to answer; empty if it answered wrongly."""
        if (self.oracle, self.field) != (HeapMismatch.oracle, "error"):
            return ""
        return describe_error(self.got, self.why)

    @property
    def message(self) -> str:
        """What the oracle reported, in one line."""
        if self.change == OBSERVABLE:
            return f"{self.field}: before {self.expected}, after {self.got} ({self.why})"
        if self.what_happened:
            return f"{self.oracle}: {self.what_happened}"
        what = self.where or self.field
        return f"{self.oracle}: {what}: expected {self.expected}, got {self.got} ({self.why})"

    @property
    def kind(self) -> tuple[str, ...]:
        """Oracle, field, the kind of the last action, and direction.

        An observable difference is reported once a field. The memory that a program takes belongs
        to the whole trace, and is seen after any of its actions.
        """
        if self.change == OBSERVABLE:
            return (self.field,)
        if self.direction == MEMORY:
            return self.oracle, self.field, self.direction
        return self.oracle, self.field, self.action, self.direction

    @property
    def identity(self) -> tuple[str, ...]:
        """What two equal failures have in common: their kind, and what a change did to them."""
        return self.kind if self.change == BROKE else (self.change, *self.kind)

    def without_trace(self) -> Failure:
        """What the oracle reported, without the trace."""
        reported = self.oracle, self.field, self.action, self.direction
        return Failure(*reported, self.expected, self.got, self.why, self.where, self.change)

    @property
    def rerun_oracles(self) -> list[RerunOracle]:
        """The oracle that has to run the trace twice to see this failure, if one has."""
        return [oracle for name, oracle in RERUN_ORACLES.items() if name == self.oracle]


@attrs.frozen
class Reaching:
    """A probe, and the actions up to the one that reaches it. Nothing is wrong."""

    configuration: dict[str, int]
    actions: tuple[Action, ...]
    probe: str

    @property
    def identity(self) -> tuple[str, str]:
        """What makes two of them the same: the probe, and the action that reaches it."""
        return self.probe, NAMES[type(self.actions[-1])]


class ProbeReached(Exception):  # noqa: N818 - nothing is wrong
    """The probe that was wanted is reached, and this is how: no need to go on."""

    def __init__(self, trace: Reaching) -> None:
        super().__init__(trace.probe)
        self.trace = trace


RIGHT_GRAPH: list[list[int]] = [[]]
"""Stands for a graph that the oracles found right, so that the shadow can say it again. No graph
has a row without a type."""


class Run:
    """One trace on a target, from its header on.

    What it keeps of its answers, for a second run if there may be one, grows with the actions, by
    some hundred bytes each, and not with the objects of a heap.
    """

    def __init__(
        self,
        target: Target,
        configuration: Mapping[str, int],
        probes: ProbeCounter | None = None,
        keeps_answers: bool = True,
        excluded: Collection[str] = (),
    ) -> None:
        self._target = full(target)
        self._perform = self._target.perform
        self._probes = probes
        self.configuration = dict(configuration)
        self.contract = self._target.start(configuration)
        self._problem_at_start = self._target.problem_at_start
        self.excluded = tuple(each for each in self.contract.observes if each in excluded)
        """The fields that no oracle judges."""
        self._earlier = self._target.earlier
        self.bench = Bench(self.contract, self.excluded)
        self.situation = Situation(self.contract, self.bench)
        self.actions: list[Action] = []
        self.last = Observation()
        """What the target said last."""
        self.answered = 0
        """How many actions it has answered."""
        self._answers: list[bytes] = []
        self._keeps_answers = keeps_answers

    def why_illegal(self, action: Action) -> str | None:
        """What is wrong with an action here, in a sentence; None if it is legal.

        A target that failed to start has not said what is.
        """
        if self._problem_at_start is not None:
            return None
        return why_illegal(action, self.contract, self.bench.shadow)

    @property
    def answers(self) -> Iterator[Observation]:
        """What the target said to each action, RIGHT_GRAPH for graphs, if that is kept."""
        return (Observation(*pickle.loads(each)) for each in self._answers)  # noqa: S301 - ours

    @property
    def goes_ahead(self) -> bool:
        """Whether it is any use to announce actions."""
        return _goes_ahead(self._target, self.contract)

    def announce(self, actions: Iterable[Action]) -> None:
        """These are the next actions, and all of them are legal."""
        _announce(self._target, self.contract, actions)

    def finish(self) -> None:
        """The trace is over. Raises a Mismatch, which belongs to the last action."""
        problem = self._target.finish() if self.actions else None
        if problem is not None:
            raise HeapMismatch("error", None, problem, AFTER_ALL)

    def step(self, action: Action) -> Observation:
        """Perform one legal action and judge the observation. Raises a Mismatch, or Cancelled."""
        bench, probes = self.bench, self._probes
        before, pending = bench.sampling, bench.pending
        self.actions.append(action)
        if self._problem_at_start is not None:
            self.last = Observation(error=self._problem_at_start)
            self.answered += 1
            raise HeapMismatch("error", None, self._problem_at_start, WHILE_STARTING)
        checkpoint()
        self.last = observation = self._perform(action)
        self.answered += 1
        bench.judge(action, observation)
        if self._keeps_answers:
            self._keep(observation)
        if probes is not None:
            probes.watch(action, observation, bench, before, pending)
            if probes.wanted is not None and probes.counts[probes.wanted]:
                trace = Reaching(self.configuration, tuple(self.actions), probes.wanted)
                raise ProbeReached(trace)
        if observation.graph is not None:
            self.situation.objects = len(observation.graph)
        return observation

    def _keep(self, observation: Observation) -> None:
        if observation.graph is not None and observation.graph == self.bench.shadow.graph():
            observation = observation.with_fields({"graph": RIGHT_GRAPH})
        self._answers.append(pickle.dumps(values_of(observation)))

    @property
    def _judged_without(self) -> str:
        """Which fields no oracle judged, in words."""
        if not self.excluded:
            return ""
        return f"; judged without {', '.join(self.excluded)}, wrong before the change"

    def failure(self, mismatch: Mismatch) -> Failure:
        """What the last step raised, or a second run of all, as data."""
        shadow = mismatch.shadow or self.bench.shadow
        kinds = self.contract.layout.kinds
        words = describe(mismatch, self.actions[-1], self.last, shadow, kinds)
        return Failure(
            oracle=mismatch.oracle,
            field=mismatch.field,
            action=NAMES[type(self.actions[-1])],
            direction=mismatch.direction,
            expected=words.expected,
            got=words.got,
            why=mismatch.why + self._judged_without,
            where=words.where,
            configuration=self.configuration,
            actions=tuple(self.actions),
            excluded=self.excluded,
            started_with=self.contract.started_with,
            complaint=self._target.complaint,
            traceback=self._target.traceback,
            earlier=self._earlier,
        )


_meaning = attrgetter("layout", "sampling", "prebuilt")
"""By what an action costs the same and is sampled by the same rule."""


def rerun(target: Target, run: Run, oracle: RerunOracle) -> None:
    """Perform the actions of `run` once more, as `oracle` wants them. Raises its Mismatch.

    Then the last of the actions of `run` has the first wrong answer.
    """
    configuration = oracle.configuration(run.contract, run.configuration, run.actions)
    if configuration is None:
        return
    target = full(target)
    perform, contract = target.perform, target.start(configuration)
    if target.problem_at_start is None and _meaning(run.contract) != _meaning(contract):
        return
    instead_of_all = map(oracle.instead, run.actions)
    _announce(target, contract, (each for each in instead_of_all if each is not None))
    shadow = Shadow(run.contract)
    for number, (action, first) in enumerate(zip(run.actions, run.answers, strict=True), 1):
        shadow.follow(action, first.minors)
        instead = oracle.instead(action)
        if instead is None:
            continue
        if first.graph == RIGHT_GRAPH:
            first.graph = shadow.graph()
        checkpoint()
        try:
            second = perform(instead)
            judged = (judged_part(each, run.excluded) for each in (first, second))
            oracle.compare(run.contract, *judged)
        except Mismatch as mismatch:
            del run.actions[number:]
            mismatch.shadow = shadow
            raise


def _goes_ahead(target: FullTarget, contract: Contract) -> bool:
    return target.takes_announcements and may_be_sent_ahead(contract)


def _announce(target: FullTarget, contract: Contract, actions: Iterable[Action]) -> None:
    if _goes_ahead(target, contract):
        target.announce(actions)


def run_actions(
    target: Target,
    configuration: Mapping[str, int],
    actions: Sequence[Action],
    rerun_oracles: Collection[RerunOracle] = (),
    excluded: Collection[str] = (),
) -> Failure | None:
    """Run concrete actions; returns the first failure. An illegal action ends the run."""
    keeps_answers = bool(rerun_oracles)
    run = Run(target, configuration, keeps_answers=keeps_answers, excluded=excluded)
    return _first_failure(target, run, actions, rerun_oracles)


def run_through(
    target: Target,
    configuration: Mapping[str, int],
    actions: Sequence[Action],
    rerun_oracles: Collection[RerunOracle] = (),
    excluded: Collection[str] = (),
) -> tuple[Run, Failure | None]:
    """The same, with the run, which has what was performed and answered."""
    run = Run(target, configuration, excluded=excluded)
    return run, _first_failure(target, run, actions, rerun_oracles)


def _first_failure(
    target: Target, run: Run, actions: Sequence[Action], rerun_oracles: Iterable[RerunOracle]
) -> Failure | None:
    run.announce(while_legal(run.contract, actions))
    try:
        for action in actions:
            if run.why_illegal(action):
                return None
            run.step(action)
        run.finish()
        for oracle in rerun_oracles:
            rerun(target, run, oracle)
    except Mismatch as mismatch:
        return run.failure(mismatch)
    return None


def run_again(
    target: Target,
    wanted: Failure | Reaching,
    configuration: Mapping[str, int],
    actions: Sequence[Action],
) -> Failure | Reaching | None:
    """Run actions with all that it takes to see `wanted` again; returns what is seen, if any."""
    if isinstance(wanted, Reaching):
        try:
            probes = ProbeCounter(wanted.probe)
            run = Run(target, configuration, probes, keeps_answers=False)
            _first_failure(target, run, actions, ())
        except ProbeReached as reached:
            return reached.trace
        return None
    if wanted.earlier:
        run_earlier(target, wanted.earlier)
    failure = run_actions(target, configuration, actions, wanted.rerun_oracles, wanted.excluded)
    return failure if failure is None or wanted.earlier else attrs.evolve(failure, earlier=())


def run_earlier(
    target: Target, earlier: Sequence[EarlierTrace], where: str | None = None
) -> Failure | None:
    """Run the traces that a new process carries out before another; returns the first failure.

    One that fails ends there, and the next follows. An illegal action ends its trace too; where
    somebody gave the traces, it raises BadInputError.
    """
    full(target).restart()
    failures = []
    for number, trace in enumerate(earlier):
        failure = _run_one_of_earlier(target, trace, where and f"{where}:1: earlier[{number}]")
        if failure is not None:
            why = f"{failure.why}; in trace {number + 1} of the {len(earlier)} earlier ones"
            failures.append(attrs.evolve(failure, why=why))
    return failures[0] if failures else None


def _run_one_of_earlier(target: Target, trace: EarlierTrace, where: str | None) -> Failure | None:
    try:
        run = Run(target, trace.config, keeps_answers=False)
    except BadInputError as error:
        raise BadInputError(f"{where}: {error}") from error
    run.announce(while_legal(run.contract, trace.actions))
    for number, action in enumerate(trace.actions):
        problem = run.why_illegal(action)
        if problem and where is not None:
            raise BadInputError(f"{where}.actions[{number}]: {NAMES[type(action)]}: {problem}")
        if problem:
            return None
        try:
            run.step(action)
        except Mismatch as mismatch:
            return run.failure(mismatch)
    return None


@attrs.frozen
class Step:
    """One action of a trace that was replayed, what came of it, and the failure if it was wrong."""

    number: int
    action: Action
    observation: Observation
    contract: Contract
    failure: Failure | None
    shadow: Shadow
    """The mutator's view after this action; it goes on with the next step."""


def replay_steps(target: Target, trace: Trace, where: str) -> Iterator[Step]:
    """Run a trace that somebody gave, up to the first failure. Raises BadInputError.

    What only running it once more shows is the failure of the last step. So is a failure of an
    earlier trace of the same process, if this one passes.
    """
    target = full(target)
    earlier = trace.header.earlier
    failure_before = run_earlier(target, earlier, where) if earlier else None
    run = _run_of(target, trace, where)
    recording = RecordingOracle(_fields_to_compare(trace, target.name, run.contract))
    run.announce(while_legal(run.contract, trace.actions))
    for number, action in enumerate(trace.actions, 1):
        problem = run.why_illegal(action)
        if problem:
            # The header is line 1. In a recording every action is followed by its observation.
            line = number + 1 if trace.recorded is None else 2 * number
            raise BadInputError(f"{where}:{line}: {NAMES[type(action)]}: {problem}")
        failure = None
        try:
            observation = run.step(action)
            if trace.recorded is not None:
                recording.check(trace.recorded[number - 1], observation)
            if number == len(trace.actions):
                _end(run, target)
                failure = failure_before
        except Mismatch as mismatch:
            failure = run.failure(mismatch)
        yield Step(number, action, run.last, run.contract, failure, run.bench.shadow)
        if failure:
            return


def _run_of(target: Target, trace: Trace, where: str) -> Run:
    """A run of a trace that somebody gave. Raises BadInputError."""
    try:
        run = Run(target, trace.header.config, excluded=trace.header.excluded)
    except BadInputError as error:
        raise BadInputError(f"{where}:1: {error}") from error
    problem = disagreement(trace, run.contract)
    if problem:
        raise BadInputError(f"{where}:1: {problem}")
    return run


def _end(run: Run, target: Target) -> None:
    """What is judged when all actions of a trace were right. Raises a Mismatch."""
    run.finish()
    for oracle in RERUN_ORACLES.values():
        rerun(target, run, oracle)


def _fields_to_compare(trace: Trace, target: str, contract: Contract) -> tuple[str, ...]:
    """The fields of a recording in which the target must agree: what both of them observe."""
    recorded_contract = trace.header.contract
    if recorded_contract is None:
        return ()
    if target == trace.header.target and contract == recorded_contract:
        return ALL
    by_chance = any(isinstance(action, SetCallback | BeginThread) for action in trace.actions)
    # Where a context ends depends on when a collection comes.
    is_stated = (
        contract.sampling.is_stated and not contract.sampling.counting.local_buffers_end_distances
    )
    fields = DETERMINED_WITHOUT_CALLBACKS if is_stated and not by_chance else DETERMINED
    observed = {"error", *contract.observes} & {"error", *recorded_contract.observes}
    return tuple(field for field in fields if field in observed)


def record(target: Target, trace: Trace, where: str) -> tuple[Trace, Failure | None]:
    """What the target says to a trace, up to the first failure, which is the other result.

    Raises BadInputError.
    """
    target = full(target)
    steps = list(replay_steps(target, attrs.evolve(trace, recorded=None), where))
    header = Header(
        trace.header.gcfuzz,
        target.name,
        trace.header.config,
        trace.header.seed,
        contract=target.start(trace.header.config),
        fresh_process=trace.header.fresh_process,
        memory_bytes=trace.header.memory_bytes,
        excluded=trace.header.excluded,
        earlier=trace.header.earlier,
    )
    recorded = Trace(
        header, tuple(step.action for step in steps), tuple(step.observation for step in steps)
    )
    return recorded, next((step.failure for step in steps if step.failure), None)


def tries_for(actions: Sequence[Action]) -> int:
    """How often actions are run until they are said to pass: of threads at once it is chance."""
    return RACING_TRIES if any(isinstance(action, RunAtOnce) for action in actions) else 1


def replay(target: Target, trace: Trace, where: str) -> Failure | None:
    """Run a trace that somebody gave; returns its failure. Raises BadInputError."""
    for _ in range(tries_for(trace.actions)):
        for step in replay_steps(target, trace, where):
            if step.failure:
                return step.failure
    return None
