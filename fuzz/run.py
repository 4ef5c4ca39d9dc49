"""The one loop: rule -> action -> target -> oracles -> trace.

A `Run` is one trace on one target. An engine, a replay or a reduction steps it with actions.
Invariant: all oracles found every step right that returns.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

import attrs

from fuzz.cancellation import checkpoint
from fuzz.descriptions import Description, describe
from fuzz.drawing.situation import Situation
from fuzz.failure import Failure, Reaching
from fuzz.mutator.legality import may_be_sent_ahead, while_legal, why_illegal
from fuzz.mutator.occupancy import as_exhausted
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Bench, Mismatch, RerunOracle
from fuzz.oracles.excluded import judged_part
from fuzz.oracles.heap import AFTER_ALL, WHILE_STARTING, HeapOracle
from fuzz.problems import BadInputError
from fuzz.protocol.actions import NAMES, Action, ReadEphemeron, ReadWeakref, Resurrect
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, summed, values_of
from fuzz.protocol.target import FullTarget, Target, full
from fuzz.protocol.trace import EarlierTrace
from fuzz.reached.probes import ProbeCounter


class ProbeReached(Exception):  # noqa: N818 - nothing is wrong
    """The wanted probe is reached, so the run ends."""

    def __init__(self, trace: Reaching) -> None:
        super().__init__(trace.probe)
        self.trace = trace


RIGHT_GRAPH: list[list[int]] = [[]]
"""Stands for a graph that the oracles found right and that the shadow can compute again."""


class Run:
    """One trace on a target.

    The answers that it keeps for a second run take about a hundred bytes for each action, however
    large the heap is.
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
        self.excluded = tuple(field for field in self.contract.observes if field in excluded)
        """The fields that no oracle judges."""
        self._earlier = self._target.earlier
        self.goes_ahead = _goes_ahead(self._target, self.contract)
        """Whether announced actions are sent ahead of their answers."""
        self.bench = Bench(self.contract, self.excluded)
        self.situation = Situation(self.contract, self.bench)
        self.actions: list[Action] = []
        self.exhausted: list[int] = []
        self.last = Observation()
        """The observation of the last action."""
        self.answered = 0
        """How many actions the target has answered."""
        self._answers: list[bytes] = []
        self._keeps_answers = keeps_answers

    def why_illegal(self, action: Action) -> str | None:
        """What is wrong with an action here, in a sentence; None if it is legal.

        If the target failed to start, its contract is unknown, and every action is legal.
        """
        if self._problem_at_start is not None:
            return None
        return why_illegal(action, self.contract, self.bench.shadow)

    @property
    def answers(self) -> Iterator[Observation]:
        """The observation of each action, with RIGHT_GRAPH for right graphs, if these are kept."""
        return (Observation(*pickle.loads(answer)) for answer in self._answers)  # noqa: S301 - ours

    def announce(self, actions: Iterable[Action]) -> None:
        """Send the next actions to the target; all of them are legal."""
        if self.goes_ahead:
            self._target.announce(actions)

    def step(self, action: Action) -> Observation:
        """Perform one legal action and judge the observation. Raises a Mismatch, or Cancelled."""
        bench, probes = self.bench, self._probes
        before, pending = bench.sampling, bench.pending
        self.actions.append(action)
        if self._problem_at_start is not None:
            self.last = Observation(error=self._problem_at_start)
            self.answered += 1
            problem = self._problem_at_start
            raise Mismatch(HeapOracle.name, "error", None, problem, WHILE_STARTING)
        checkpoint()
        self.last = observation = summed(self._perform(action))
        self.answered += 1
        if observation.exhausted:
            self.exhausted.append(self.answered - 1)
        bench.judge(action, observation)
        if self._keeps_answers:
            self._keep(observation)
        if probes is not None:
            probes.watch(action, observation, bench, before, pending)
            if probes.wanted is not None and probes.counts[probes.wanted]:
                done = tuple(self.actions)
                raise ProbeReached(
                    Reaching(self.configuration, done, probes.wanted, tuple(self.exhausted))
                )
        self.situation.state = observation.state
        if observation.graph is not None:
            self.situation.objects = len(observation.graph)
        return observation

    def _keep(self, observation: Observation) -> None:
        if observation.graph is not None and observation.graph == self.bench.shadow.graph():
            observation = observation.with_fields({"graph": RIGHT_GRAPH})
        self._answers.append(pickle.dumps(values_of(observation)))

    def finish(self) -> None:
        """End the trace. Raises a Mismatch, which belongs to the last action."""
        problem = self._target.finish() if self.actions else None
        if problem is not None:
            raise Mismatch(HeapOracle.name, "error", None, problem, AFTER_ALL)

    def first_failure(
        self, actions: Sequence[Action], rerun_oracles: Iterable[RerunOracle] = ()
    ) -> Failure | None:
        """Perform the actions of a whole trace; an illegal action ends it without a failure."""
        self.announce(while_legal(self.contract, actions))
        try:
            for action in actions:
                if self.why_illegal(action):
                    return None
                self.step(action)
            self.finish()
            for oracle in rerun_oracles:
                rerun(self._target, self, oracle)
        except Mismatch as mismatch:
            return self.failure(mismatch)
        return None

    def failure(self, mismatch: Mismatch) -> Failure:
        """The mismatch of the last step, or of a second run of all steps, as data."""
        shadow = mismatch.shadow or self.bench.shadow
        kinds = self.contract.layout.kinds
        description = describe(mismatch, self.actions[-1], self.last, shadow, kinds)
        return self.failure_after(len(self.actions), mismatch, description, self.excluded)

    def failure_after(
        self, count: int, mismatch: Mismatch, description: Description, excluded: tuple[str, ...]
    ) -> Failure:
        """The mismatch of the last of `count` actions as data."""
        why, actions = mismatch.why, tuple(self.actions[:count])
        if excluded:
            why += f"; judged without {', '.join(excluded)}, wrong before the change"
        return Failure(
            oracle=mismatch.oracle,
            field=mismatch.field,
            action=NAMES[type(actions[-1])],
            direction=mismatch.direction,
            expected=description.expected,
            got=description.got,
            why=why,
            where=description.where,
            configuration=self.configuration,
            actions=actions,
            excluded=excluded,
            started_with=self.contract.started_with,
            exhausted=tuple(number for number in self.exhausted if number < count),
            complaint=self._target.complaint,
            traceback=self._target.traceback,
            earlier=self._earlier,
        )


def _goes_ahead(target: FullTarget, contract: Contract) -> bool:
    return target.takes_announcements and may_be_sent_ahead(contract)


def _are_legal(run: Run, changed: Sequence[Action | None], other_contract: Contract) -> bool:
    """Whether the changed actions of a run are legal under the contract of other settings.

    Objects may cost more there, and fewer actions may be carried out.
    """
    contract = run.contract
    if contract.actions != other_contract.actions and any(
        NAMES[type(action)] not in other_contract.actions for action in changed if action
    ):
        return False
    if contract.layout == other_contract.layout:
        return True
    if not may_be_sent_ahead(attrs.evolve(other_contract, weak_reads="answered")):
        return False
    shadow = Shadow(other_contract)
    for action, first in zip(changed, run.answers, strict=True):
        if action is None:
            continue
        if why_illegal(action, other_contract, shadow):
            return False
        shadow.follow(action, minors=0, alive=first.alive)
    return True


def _depends_on_collections(run: Run) -> bool:
    """Whether collections, if they are not promised, have decided what is legal or read."""
    return run.contract.exhaustion is not None or any(
        isinstance(action, Resurrect | ReadEphemeron) for action in run.actions
    )


def _keeps_another(action: Action, first: Observation, again: Observation) -> bool:
    """Whether an object was kept in one run that had died in the other one."""
    return isinstance(action, ReadWeakref) and action.keep and again.alive is not first.alive


def rerun(target: Target, run: Run, oracle: RerunOracle) -> None:
    """Perform the actions of `run` once more, changed by the oracle. Raises its Mismatch.

    Then the last action that `run` keeps has the first wrong answer.
    """
    configuration = oracle.configuration(run.contract, run.configuration, run.actions)
    promises_collections = "collections" in run.contract.promises
    if configuration is None or (not promises_collections and _depends_on_collections(run)):
        return
    target = full(target)
    contract = target.start(configuration)
    needed = attrgetter(*oracle.needs_same)
    changed = [oracle.instead(action) for action in run.actions]
    if target.problem_at_start is None and not (
        needed(run.contract) == needed(contract) and _are_legal(run, changed, contract)
    ):
        return
    if _goes_ahead(target, contract):
        target.announce(action for action in changed if action is not None)
    heap, other_heap = ((each.layout, each.nursery_bytes) for each in (run.contract, contract))
    may_die_sooner = not promises_collections or heap != other_heap
    shadow = Shadow(run.contract)
    each_action = zip(run.actions, changed, run.answers, strict=True)
    for number, (action, instead, first) in enumerate(each_action, 1):
        followed = as_exhausted(action, run.contract.exhaustion) if first.exhausted else action
        shadow.follow(followed, first.minors, first.finalized, alive=first.alive)
        if instead is None:
            continue
        if first.graph == RIGHT_GRAPH:
            first.graph = shadow.graph()
        checkpoint()
        again = summed(target.perform(instead))
        if may_die_sooner and again.error is None and _keeps_another(action, first, again):
            return
        try:
            both = first, again
            oracle.compare(run.contract, *(judged_part(answer, run.excluded) for answer in both))
        except Mismatch as mismatch:
            del run.actions[number:]
            mismatch.shadow = shadow
            raise


def run_actions(
    target: Target,
    configuration: Mapping[str, int],
    actions: Sequence[Action],
    rerun_oracles: Collection[RerunOracle] = (),
    excluded: Collection[str] = (),
) -> Failure | None:
    """Run concrete actions; returns the first failure. An illegal action ends the run."""
    run = Run(target, configuration, keeps_answers=bool(rerun_oracles), excluded=excluded)
    return run.first_failure(actions, rerun_oracles)


def run_through(
    target: Target,
    configuration: Mapping[str, int],
    actions: Sequence[Action],
    rerun_oracles: Collection[RerunOracle] = (),
    excluded: Collection[str] = (),
) -> tuple[Run, Failure | None]:
    """Run concrete actions; returns the run with all answers, and the first failure."""
    run = Run(target, configuration, excluded=excluded)
    return run, run.first_failure(actions, rerun_oracles)


def run_again(
    target: Target,
    wanted: Failure | Reaching,
    configuration: Mapping[str, int],
    actions: Sequence[Action],
) -> Failure | Reaching | None:
    """Run actions with all that it takes to see `wanted` again; returns what is seen, if any."""
    if isinstance(wanted, Reaching):
        try:
            run = Run(target, configuration, ProbeCounter(wanted.probe), keeps_answers=False)
            run.first_failure(actions)
        except ProbeReached as reached:
            return reached.trace
        return None
    shown = run_earlier(target, wanted.earlier) if wanted.earlier else []
    failure = run_actions(target, configuration, actions, wanted.rerun_oracles, wanted.excluded)
    if failure is not None and not wanted.earlier:
        return attrs.evolve(failure, earlier=())
    return wanted_among([*filter(None, [failure]), *shown], wanted)


def wanted_among(seen: Sequence[Failure], wanted: Failure) -> Failure | None:
    """The first failure with the wanted identity; if there is none, the first one."""
    same = (failure for failure in seen if failure.identity == wanted.identity)
    return next(same, next(iter(seen), None))


def run_earlier(
    target: Target, earlier: Sequence[EarlierTrace], where: str | None = None
) -> list[Failure]:
    """Run the traces that a new process carries out before another; returns their failures.

    Each failure needs the traces before its own one. A failure or an illegal action ends a trace,
    and the next one follows. If `where` names the file that the traces are from, an illegal action
    raises BadInputError.
    """
    full(target).restart()
    shown = []
    for number, trace in enumerate(earlier):
        failure = _run_one_of_earlier(target, trace, where and f"{where}:1: earlier[{number}]")
        if failure is not None:
            shown.append(attrs.evolve(failure, earlier=tuple(earlier[:number])))
    return shown


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
