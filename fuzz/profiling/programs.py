"""Programs that allocate in the reference's heap: the workloads, and scripts of the user's own.

A script is a Python file with a function `main`, which is called with a `gcmodel.Heap`. Invariants:
whatever a script raises is bad input, and the message names the line that raised it; whatever it
does to its process (folder, streams, arguments, forks) is undone or ends with it.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import attrs

from fuzz.files import read_bytes
from fuzz.problems import BadInputError
from gcmodel.profiling.cost import Cost, cost_of
from gcmodel.profiling.profile import ProfileHeader
from gcmodel.profiling.recorder import Listener
from gcmodel.profiling.recording import RecordingWriter
from gcmodel.profiling.sampled_run import PROFILED, Program, record

MAIN = "main"
WHAT_MAIN_IS = (
    f"the script needs `def {MAIN}(heap)`: gcfuzz calls it and profiles what it allocates in that "
    "gcmodel.Heap, which is not Python's own memory (`gcfuzz help profiling` has an example)"
)
MODULE = "gcfuzz_profiled"
"""The name of a script's module, whatever its file is called."""


class Stopped(BaseException):
    """The recording has stopped for good, so it is no use to run the program on."""


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

    @property
    def is_quiet(self) -> bool:
        """Whether it prints nothing of its own, which leaves a terminal to the progress."""
        return self.script is None

    def cost(self) -> Cost:
        """Run it without recording. Raises BadInputError for what cannot run."""
        with _running(self.script):
            return cost_of(self.program, self.repeat)

    def header(self) -> ProfileHeader:
        """How it is sampled, from now on."""
        return ProfileHeader.of_now(
            self.name,
            period_bytes=self.period_bytes,
            is_random=self.is_random,
            nursery_bytes=PROFILED.nursery_bytes,
            time_period_us=self.time_period_us,
        )

    def record(self, writer: RecordingWriter, listener: Listener) -> None:
        """Run it and record it. Raises as `cost` does, and whatever the listener raises."""
        configuration = attrs.evolve(
            PROFILED, random_periods=self.is_random, sampler_seeds=(self.seed,)
        )
        with _running(self.script):
            record(self.program, writer, listener, repeat=self.repeat, configuration=configuration)


def main_of(path: Path) -> Program:
    """The function `main` of a script. Raises BadInputError."""
    script = read_bytes(path)
    module = sys.modules[MODULE] = ModuleType(MODULE)
    module.__file__ = str(path.absolute())
    with _running(path):
        code = compile(script, module.__file__, "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 - what the user asks for
    main: Program | None = getattr(module, MAIN, None)
    if not callable(main):
        raise BadInputError(f"{path}: has no function {MAIN}; {WHAT_MAIN_IS}")
    if inspect.iscoroutinefunction(main) or inspect.isgeneratorfunction(main):
        raise BadInputError(
            f"{path}: {MAIN} does nothing when it is called; write a plain function"
        )
    with suppress(ValueError):  # What Python cannot look into is called all the same.
        try:
            inspect.signature(main).bind(None)
        except TypeError as problem:
            raise BadInputError(f"{path}: {MAIN}: {problem}; {WHAT_MAIN_IS}") from problem
    return main


@contextmanager
def _running(script: Path | None) -> Iterator[None]:
    """A program runs, wherever it goes. What a script raises is bad input."""
    if script is None:
        yield
        return
    file = str(script.absolute())
    with chdir(Path.cwd()), _own_process(script):
        try:
            with _in_this_process_only():
                yield
        except (KeyboardInterrupt, Stopped):
            raise
        except BaseException as problem:
            raise BadInputError(_where_and_what(script, file, problem)) from problem


@contextmanager
def _own_process(script: Path) -> Iterator[None]:
    """A script finds its own name among the arguments, and imports what lies beside it.

    It may close or replace the streams.
    """
    before = sys.argv, sys.stdout, sys.stderr
    folder = str(script.resolve().parent)
    sys.argv = [str(script)]
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv, sys.stdout, sys.stderr = before
        # What the script itself put there is needed by its next run.
        with suppress(ValueError):
            sys.path.remove(folder)
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            if getattr(sys, name).closed:
                setattr(sys, name, os.fdopen(descriptor, "w", errors="replace", closefd=False))


@contextmanager
def _in_this_process_only() -> Iterator[None]:
    """A process that the program forks ends where the program does."""
    process = os.getpid()
    problem: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        if os.getpid() == process:
            raise
        problem = raised
    if os.getpid() != process:
        _end_process(problem)


def _end_process(problem: BaseException | None) -> NoReturn:
    """As the interpreter ends one, without going on to what its parent will do."""
    code = 0
    if isinstance(problem, SystemExit):
        code = problem.code if isinstance(problem.code, int) else bool(problem.code)
    elif problem is not None:
        traceback.print_exception(problem)
        code = 1
    sys.stdout.flush()
    os._exit(code)


def _where_and_what(script: Path, file: str, problem: BaseException) -> str:
    """What a script, the code of that file, raised, with the line that it came from: one line."""
    frames = traceback.extract_tb(problem.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    if isinstance(problem, SyntaxError) and problem.filename == file:
        lines = [problem.lineno]
    described = traceback.TracebackException.from_exception(problem, limit=0)
    described.__notes__ = []
    # The last line is the error itself, and says what its own text cannot be made of.
    *_, what = described.format_exception_only()
    place = f"{script}:{lines[-1]}" if lines else str(script)
    hint = "; return from main instead" if isinstance(problem, SystemExit) else ""
    return f"{place}: {' '.join(what.split())}{hint}"
