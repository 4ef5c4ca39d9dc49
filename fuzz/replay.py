"""Replays: runs of a trace that a user gives, and recordings of what a target answers to one.

Invariant: what is wrong with the trace itself is a BadInputError that names its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from fuzz.failure import Failure
from fuzz.former_names import target_named
from fuzz.mutator.legality import while_legal
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import RERUN_ORACLES, Mismatch
from fuzz.oracles.recorded import ALL, DETERMINED, DETERMINED_WITHOUT_CALLBACKS, RecordingOracle
from fuzz.problems import BadInputError
from fuzz.protocol.actions import NAMES, Action, BeginThread, RunAtOnce, SetCallback
from fuzz.protocol.agreement import disagreement
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target, full
from fuzz.protocol.trace import EarlierTrace, Trace
from fuzz.run import Run, rerun, run_earlier

RACING_TRIES = 20
"""How often a trace is run until it fails, if threads run at once in it."""


@attrs.frozen
class Step:
    """One action of a replayed trace with its observation, and the failure if it was wrong."""

    number: int
    action: Action
    observation: Observation
    contract: Contract
    failure: Failure | None
    shadow: Shadow
    """The mutator's view after this action; it changes with the next step."""


def replay_steps(target: Target, trace: Trace, where: str) -> Iterator[Step]:
    """Run a trace that a user gives, up to the first failure. Raises BadInputError.

    A failure that only a second run shows is one of the last step. So is a failure of an earlier
    trace of the same process, if this trace passes. If this trace has no actions, the only step is
    that failure's last action, with the number 0.
    """
    target = full(target)
    earlier = trace.header.earlier
    failure_before = _first_of_earlier(target, earlier, where) if earlier else None
    run = _start(target, trace, where)
    recording = RecordingOracle(_fields_to_compare(trace, target.name, run.contract))
    run.announce(while_legal(run.contract, trace.actions))
    if failure_before is not None and not trace.actions:
        last = failure_before.actions[-1]
        yield Step(0, last, run.last, run.contract, failure_before, run.bench.shadow)
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


def _first_of_earlier(
    target: Target, earlier: Sequence[EarlierTrace], where: str
) -> Failure | None:
    for failure in run_earlier(target, earlier, where):
        number = len(failure.earlier) + 1
        why = f"{failure.why}; in trace {number} of the {len(earlier)} earlier ones"
        return attrs.evolve(failure, why=why)
    return None


def _start(target: Target, trace: Trace, where: str) -> Run:
    try:
        run = Run(target, trace.header.config, excluded=trace.header.excluded)
    except BadInputError as error:
        raise BadInputError(f"{where}:1: {error}") from error
    problem = disagreement(trace, run.contract)
    if problem:
        raise BadInputError(f"{where}:1: {problem}")
    return run


def _end(run: Run, target: Target) -> None:
    run.finish()
    for oracle in RERUN_ORACLES.values():
        rerun(target, run, oracle)


def _fields_to_compare(trace: Trace, target: str, contract: Contract) -> tuple[str, ...]:
    """The fields of a recording in which the target must agree: what both targets observe."""
    recorded_contract = trace.header.contract
    if recorded_contract is None:
        return ()
    if target == target_named(trace.header.target) and contract == recorded_contract:
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
    """Record the answers of a target to a trace, up to the first failure, which is returned too.

    Raises BadInputError.
    """
    target = full(target)
    steps = list(replay_steps(target, attrs.evolve(trace, recorded=None), where))
    contract = target.start(trace.header.config)
    header = attrs.evolve(trace.header, target=target.name, contract=contract, found=None, kills=())
    recorded = Trace(
        header, tuple(step.action for step in steps), tuple(step.observation for step in steps)
    )
    return recorded, next((step.failure for step in steps if step.failure), None)


def tries_for(actions: Sequence[Action]) -> int:
    """How often a trace is run until it passes: chance decides when threads run at once."""
    return RACING_TRIES if any(isinstance(action, RunAtOnce) for action in actions) else 1


def replay(target: Target, trace: Trace, where: str) -> Failure | None:
    """Run a trace that a user gives; returns its failure. Raises BadInputError."""
    for _ in range(tries_for(trace.actions)):
        for step in replay_steps(target, trace, where):
            if step.failure:
                return step.failure
    return None
