"""What the pipe costs: checked actions a second on a program, as a ratio to the reference's.

    python benchmarks/pipe.py "examples/native/build/adapter"

Both are fuzzed by the random engine with the same seed, in turn, and the best of a few rounds
counts. The traces differ, since they are drawn from two contracts.
"""

from __future__ import annotations

import shlex
import sys
import time

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.protocol.target import Target
from fuzz.targets import PROCESS, REFERENCE, TargetOptions, make_target

ACTIONS = 100_000
ROUNDS = 3


def actions_per_second(target: Target) -> float:
    """One session's worth of fuzzing."""
    started = time.perf_counter()
    actions = 0
    for done in slices_of(RandomEngine(target, "benchmark"), ACTIONS, ProbeCounter()):
        assert not done.failures
        actions += done.actions
    return actions / (time.perf_counter() - started)


def main() -> None:
    """Measure, and print both speeds and the ratio."""
    program = make_target(PROCESS, TargetOptions(tuple(shlex.split(sys.argv[1]))))
    reference = make_target(REFERENCE)
    rounds = [(actions_per_second(program), actions_per_second(reference)) for _ in range(ROUNDS)]
    through_pipe, in_process = (max(speeds) for speeds in zip(*rounds, strict=True))
    print(f"{sys.argv[1]}: {through_pipe:,.0f} checked actions/s through the pipe")
    print(f"reference: {in_process:,.0f} in this process")
    print(f"ratio: {through_pipe / in_process:.2f}")


if __name__ == "__main__":
    main()
