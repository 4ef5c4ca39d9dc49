"""Programs that allocate in the reference's heap: the workloads, and scripts of the user's own.

A script is a Python file with a function `main`, which is called with a `gcmodel.Heap`. Invariant:
whatever a script raises is bad input, and the message names the line that raised it.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path

import attrs

from fuzz.problems import BadInputError
from fuzz.profiling.source import Listener, Recorded, header_of
from gcmodel import Heap
from gcmodel.profiling.cost import Cost, cost_of
from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.recording import RecordingWriter
from gcmodel.profiling.run import PROFILED, Program, SamplingPlan, record
from gcmodel.profiling.stacks import PythonStacks

MAIN = "main"


@attrs.frozen(kw_only=True)
class ProgramSource:
    """A program, run `repeat` times, 1 or more."""

    name: str
    program: Program
    repeat: int
    is_random: bool
    """Whether the distances between samples are random with the period as their mean."""
    seed: int
    """From which the distances come."""
    period_bytes: int
    time_period_us: int | None

    def cost(self) -> Cost:
        """See Source. The program is run once, and the rest is arithmetic."""
        return cost_of(self.program).times(self.repeat)

    def record(self, path: Path, max_bytes: int, listener: Listener) -> Recorded:
        """See Source."""
        header = header_of(self, is_random=self.is_random, nursery_bytes=PROFILED.nursery_bytes)
        writer = RecordingWriter(path, header, max_bytes)
        stacks = PythonStacks(writer, self.name)
        recorder = Recorder(writer, stacks, lambda: listener(recorder))
        plan = SamplingPlan(
            period_bytes=self.period_bytes,
            time_period_us=self.time_period_us,
            configuration=attrs.evolve(
                PROFILED, random_periods=self.is_random, sampler_seeds=(self.seed,)
            ),
        )
        with writer:
            seconds = record(self._repeated, recorder, stacks, plan)
        return Recorded(seconds, writer.stopped_by)

    def _repeated(self, heap: Heap) -> None:
        for _ in range(self.repeat):
            self.program(heap)


def script_program(path: Path) -> Program:
    """The `main` of a script. Raises BadInputError, as does the program."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        raise _error_in(path, problem) from problem
    main = getattr(module, MAIN, None)
    if not callable(main):
        raise BadInputError(
            f"{path}: has no function {MAIN}; write `def {MAIN}(heap)`, which allocates in "
            "the gcmodel.Heap that it is given"
        )

    def program(heap: Heap) -> None:
        try:
            main(heap)
        except (Exception, SystemExit) as problem:
            raise _error_in(path, problem) from problem

    return program


def _error_in(path: Path, problem: BaseException) -> BadInputError:
    """What a script raised, in one line, with the line of the script that it came from."""
    if isinstance(problem, SyntaxError):
        lines = [problem.lineno or 1]
    else:
        frames = traceback.extract_tb(problem.__traceback__)
        lines = [frame.lineno or 1 for frame in frames if frame.filename == str(path)]
    text = " ".join(str(problem).split())
    place = f"{path}:{lines[-1]}" if lines else str(path)
    return BadInputError(f"{place}: {type(problem).__name__}{': ' if text else ''}{text}")
