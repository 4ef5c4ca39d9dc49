"""The check that a session makes of itself: whether its oracles can still see a bug.

Each known bug has a trace that ships with the package. Planted, it must be caught by an oracle
that its row allows; a harness that lets one pass would also let real ones pass.
"""

from __future__ import annotations

from fuzz.corpus import shipped_traces
from fuzz.oracles import RERUN_ORACLES
from fuzz.problems import HarnessError
from fuzz.run import run_actions
from fuzz.targets import KNOWN_BUGS, REFERENCES, make_target, planted


def check_harness() -> int:
    """Replay every known bug's trace; returns how many bugs were caught. Raises HarnessError."""
    caught = set()
    for name, trace in shipped_traces().items():
        if trace.header.target not in REFERENCES:
            continue  # Somebody's find, not yet a trace of the project's.
        for bug in trace.header.kills:
            target = make_target(planted(bug))
            failure = run_actions(
                target, trace.header.config, trace.actions, RERUN_ORACLES.values()
            )
            if failure is None or failure.oracle not in KNOWN_BUGS[bug].oracles:
                by = f"by {failure.oracle}" if failure else "by no oracle"
                raise HarnessError(f"the planted bug {bug} was caught {by} in {name}")
            caught.add(bug)
    missing = sorted(set(KNOWN_BUGS) - caught)
    if missing:
        raise HarnessError(f"no trace for the planted bugs {', '.join(missing)}")
    return len(caught)
