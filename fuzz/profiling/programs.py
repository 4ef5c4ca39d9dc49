"""Programs that allocate in the reference's heap: workloads, and scripts of the user.

A script is a Python file with a function `main`, which is called with a `gcmodel.Heap`. Invariants:
an exception of a script is bad input, and the message names its line; the script's changes to the
process (folder, streams, arguments, forks) are undone.
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
"""The name of a script's module."""


class Stopped(BaseException):
    """The recording has stopped, so the program need not go on."""


@attrs.frozen(kw_only=True)
class ProgramSource:
    """A program that is run `repeat` times. `script` is its file, if it has one."""

    name: str
    program: Program
    script: Path | None
    repeat: int
    is_random: bool
    """Whether the distances are random, with the period as their mean."""
    seed: int
    """The seed of the distances."""
    period_bytes: int
    time_period_us: int | None

    @property
    def is_quiet(self) -> bool:
        """Whether it prints nothing, so that the terminal is free for the progress."""
        return self.script is None

    def cost(self) -> Cost:
        """Run it without recording. Raises BadInputError if it fails."""
        with _running(self.script):
            return cost_of(self.program, self.repeat)

    def header(self) -> ProfileHeader:
        return ProfileHeader.of_now(
            self.name,
            period_bytes=self.period_bytes,
            is_random=self.is_random,
            nursery_bytes=PROFILED.nursery_bytes,
            time_period_us=self.time_period_us,
        )

    def record(self, writer: RecordingWriter, listener: Listener) -> None:
        """Run it and record it. Raises like `cost`, and like the listener."""
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
        exec(code, vars(module))  # noqa: S102 - the user asks for it
    main: Program | None = getattr(module, MAIN, None)
    if not callable(main):
        raise BadInputError(f"{path}: has no function {MAIN}; {WHAT_MAIN_IS}")
    if inspect.iscoroutinefunction(main) or inspect.isgeneratorfunction(main):
        raise BadInputError(
            f"{path}: {MAIN} does nothing when it is called; write a plain function"
        )
    with suppress(ValueError):  # Not every callable has a signature.
        try:
            inspect.signature(main).bind(None)
        except TypeError as problem:
            raise BadInputError(f"{path}: {MAIN}: {problem}; {WHAT_MAIN_IS}") from problem
    return main


@contextmanager
def _running(script: Path | None) -> Iterator[None]:
    """Turn the exceptions of a script into bad input, and undo its changes to the process."""
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
    """Give a script its arguments and its import path, and restore them and the streams."""
    before = sys.argv, sys.stdout, sys.stderr
    folder = str(script.resolve().parent)
    sys.argv = [str(script)]
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv, sys.stdout, sys.stderr = before
        # Other entries that the script added are needed by its next run.
        with suppress(ValueError):
            sys.path.remove(folder)
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            if getattr(sys, name).closed:
                setattr(sys, name, os.fdopen(descriptor, "w", errors="replace", closefd=False))


@contextmanager
def _in_this_process_only() -> Iterator[None]:
    """End a process that the program forks when it returns from the program."""
    process = os.getpid()
    problem: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        if os.getpid() == process:
            raise
        problem = raised
    if os.getpid() == process:
        return
    # It ends like the interpreter, without what its parent does next.
    code = 0
    if isinstance(problem, SystemExit):
        code = problem.code if isinstance(problem.code, int) else bool(problem.code)
    elif problem is not None:
        traceback.print_exception(problem)
        code = 1
    sys.stdout.flush()
    os._exit(code)


def _where_and_what(script: Path, file: str, problem: BaseException) -> str:
    """The exception of a script in one line, with the line of the file that raised it."""
    frames = traceback.extract_tb(problem.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    if isinstance(problem, SyntaxError) and problem.filename == file:
        lines = [problem.lineno]
    described = traceback.TracebackException.from_exception(problem, limit=0)
    described.__notes__ = []
    # The last line is the error itself, even if its text raises an exception.
    *_, what = described.format_exception_only()
    place = f"{script}:{lines[-1]}" if lines else str(script)
    hint = "; return from main instead" if isinstance(problem, SystemExit) else ""
    return f"{place}: {' '.join(what.split())}{hint}"
