"""Programs that allocate in the reference's heap: the workloads, and scripts of the user's own.

A script is a Python file with a function `main`, which is called with a `gcmodel.Heap`. Invariant:
whatever a script raises is bad input, and the message names the line that raised it.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from fuzz.problems import BadInputError
from fuzz.profiling.source import Listener, Recorded, header_of
from gcmodel.profiling.cost import Cost, cost_of
from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.recording import RecordingWriter
from gcmodel.profiling.run import PROFILED, Program, SamplingPlan, record
from gcmodel.profiling.stacks import PythonStacks

MAIN = "main"


@attrs.frozen(kw_only=True)
class ProgramSource:
    """A program, run `repeat` times, 1 or more. `script` is the file that it comes from, if any."""

    name: str
    program: Program
    script: Path | None
    repeat: int
    is_random: bool
    """Whether the distances between samples are random with the period as their mean."""
    seed: int
    """From which the distances come."""
    period_bytes: int
    time_period_us: int | None

    def cost(self) -> Cost:
        """See Source. The program is run once, and the rest is arithmetic."""
        with _errors_of(self.script):
            return cost_of(self.program).times(self.repeat)

    def record(self, path: Path, max_bytes: int, listener: Listener) -> Recorded:
        """See Source."""
        header = header_of(self, is_random=self.is_random, nursery_bytes=PROFILED.nursery_bytes)
        writer = RecordingWriter(path, header, max_bytes)
        stacks = PythonStacks(writer, self.name)
        recorder = Recorder(writer, stacks, lambda: listener(recorder))
        plan = SamplingPlan(
            period_bytes=self.period_bytes,
            repeat=self.repeat,
            time_period_us=self.time_period_us,
            configuration=attrs.evolve(
                PROFILED, random_periods=self.is_random, sampler_seeds=(self.seed,)
            ),
        )
        with writer, _errors_of(self.script):
            seconds = record(self.program, recorder, stacks, plan)
        return Recorded(seconds, writer.stopped_by)


def main_of(path: Path) -> Program:
    """The function `main` of a script. Raises BadInputError."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    with _errors_of(path):
        spec.loader.exec_module(module)
    main: Program | None = getattr(module, MAIN, None)
    if not callable(main):
        raise BadInputError(
            f"{path}: has no function {MAIN}; write `def {MAIN}(heap)`, which allocates in "
            "the gcmodel.Heap that it is given"
        )
    return main


@contextmanager
def _errors_of(script: Path | None) -> Iterator[None]:
    """What a script raises is bad input. Whatever else raises is not told apart here."""
    try:
        yield
    except (Exception, SystemExit) as problem:
        if script is None:
            raise
        raise BadInputError(_where_and_what(script, problem)) from problem


def _where_and_what(path: Path, problem: BaseException) -> str:
    """What a script raised, in one line, with the line of the script that it came from."""
    if isinstance(problem, SyntaxError):
        lines = [problem.lineno or 1]
    else:
        frames = traceback.extract_tb(problem.__traceback__)
        script = str(path.absolute())
        lines = [frame.lineno or 1 for frame in frames if frame.filename == script]
    text = " ".join(str(problem).split())
    place = f"{path}:{lines[-1]}" if lines else str(path)
    return f"{place}: {type(problem).__name__}{': ' if text else ''}{text}"
