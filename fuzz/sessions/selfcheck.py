"""The check that a session makes of itself: whether its oracles can still see a bug.

Each known bug has a trace that ships with the package. Planted, it must be caught by an oracle
that its declaration allows; a harness that lets one pass would also let real ones pass. Where that
goes wrong, the same trace without the bug tells the reference's own mistakes from the oracles'.
"""

from __future__ import annotations

from fuzz.oracles import RERUN_ORACLES
from fuzz.problems import BrokenReferenceError, HarnessError
from fuzz.protocol.trace import Trace
from fuzz.run import Failure, run_actions
from fuzz.sessions.corpus import shipped_traces
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.targets.references import REFERENCES


def check_harness() -> int:
    """Replay every known bug's trace; returns how many bugs were caught. Raises HarnessError."""
    caught = set()
    for name, trace in shipped_traces().items():
        if trace.header.target not in REFERENCES:
            continue  # Somebody's find, not yet a trace of the project's.
        for bug in trace.header.kills:
            failure = _failure_of(trace, KNOWN_BUGS[bug].target)
            if failure is None or failure.oracle not in KNOWN_BUGS[bug].oracles:
                _check_reference(name, trace)
                by = f"by {failure.oracle}" if failure else "by no oracle"
                raise HarnessError(f"the planted bug {bug} was caught {by} in {name}")
            caught.add(bug)
    missing = sorted(set(KNOWN_BUGS) - caught)
    if missing:
        raise HarnessError(f"no trace for the planted bugs {', '.join(missing)}")
    return len(caught)


def _failure_of(trace: Trace, target: str) -> Failure | None:
    """What all oracles together say of a trace on the target of that name."""
    return run_actions(
        make_target(target), trace.header.config, trace.actions, RERUN_ORACLES.values()
    )


def _check_reference(name: str, trace: Trace) -> None:
    """Raise BrokenReferenceError if a trace fails without any bug, too."""
    failure = _failure_of(trace, trace.header.target)
    if failure is not None:
        raise BrokenReferenceError(
            f"it fails its own trace {name}, with no bug planted: {failure.message}"
        )
