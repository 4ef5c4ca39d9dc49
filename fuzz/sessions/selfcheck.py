"""The check that a session makes of itself: whether its oracles can still see bugs.

A trace of each known bug ships with the package. With the bug planted, an oracle that the bug's
declaration allows must catch it; a harness that misses it would also miss real bugs.
"""

from __future__ import annotations

from fuzz.failure import Failure
from fuzz.failures.trace_files import shipped_traces
from fuzz.oracles import RERUN_ORACLES
from fuzz.problems import BrokenReferenceError, HarnessError
from fuzz.protocol.trace import Trace
from fuzz.run import run_actions
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.targets.references import REFERENCES


def check_harness(target: str) -> int:
    """Replay every known bug's trace; returns how many bugs were caught. Raises HarnessError.

    The bugs that are planted in `target` need no trace yet: a session on it finds the first one.
    """
    caught = set()
    for name, trace in shipped_traces().items():
        if trace.header.target not in REFERENCES:
            continue  # A user put it there.
        for bug in trace.header.kills:
            failure = _failure_of(trace, KNOWN_BUGS[bug].target)
            if failure is None or failure.oracle not in KNOWN_BUGS[bug].oracles:
                # A mistake of the reference is not one of the oracles.
                own = _failure_of(trace, trace.header.target)
                if own is not None:
                    raise BrokenReferenceError(
                        f"it fails its own trace {name}, with no bug planted: {own.message}"
                    )
                by = f"by {failure.oracle}" if failure else "by no oracle"
                raise HarnessError(f"the planted bug {bug} was caught {by} in {name}")
            caught.add(bug)
    missing = sorted(set(KNOWN_BUGS) - caught - set(target.split("+")))
    if missing:
        raise HarnessError(f"no trace for the planted bugs {', '.join(missing)}")
    return len(caught)


def _failure_of(trace: Trace, target: str) -> Failure | None:
    oracles = RERUN_ORACLES.values()
    return run_actions(make_target(target), trace.header.config, trace.actions, oracles)
