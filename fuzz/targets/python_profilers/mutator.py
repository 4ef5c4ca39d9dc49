"""The process that is sampled: `PYTHON mutator.py PROFILER`, by the interpreter that has it.

It needs nothing of gcfuzz. A block of n bytes is a `bytes` of n + 1, since of none there is only
one. Invariant: once a profiler is on, Python allocates and frees blocks here and nothing else. So
numbers are looked up in tables, commands are read into a buffer, and answers are always the same.

A command is what to do, how many bytes, and in which slot, the highest byte first; the first line
of all answers is the profiler's version.
"""

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec
from io import FileIO
from types import ModuleType

COMMAND_BYTES = 6
END, ALLOCATE, FREE, REPORT = range(4)
ANSWER = b"."
FILE = "mutator"
"""What the profilers take for this file: where it is installed it may be none of theirs."""


def serve(
    report: Callable[[], None], commands: FileIO, answers: FileIO, command: bytearray
) -> None:
    """Carry out what comes, until there is no more."""
    numbers = [
        [[*range(high + middle, high + middle + 256)] for middle in range(0, 2**16, 256)]
        for high in (0, 2**16)
    ]
    slots: list[list[bytes | None]] = [[None] * 256 for _ in range(256)]
    answers.write(ANSWER)
    while commands.readinto(command):
        what = command[0]
        if what == ALLOCATE:
            slots[command[4]][command[5]] = bytes(numbers[command[1]][command[2]][command[3]])
        elif what == FREE:
            slots[command[4]][command[5]] = None
        elif what == REPORT:
            report()
        else:
            break
        answers.write(ANSWER)


def module_in(package: ModuleSpec, name: str) -> ModuleType:
    """A module of a package that need not be loaded itself."""
    spec = PathFinder.find_spec(name, package.submodule_search_locations)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def begin_scalene(package: ModuleSpec) -> Callable[[], None]:
    """Let the preloaded library sample."""
    pywhere = module_in(package, "pywhere")
    pywhere.register_files_to_profile([FILE], "", False)
    pywhere.set_scalene_done_false()
    return lambda: None


PROFILERS = {"scalene": begin_scalene}


def main(profiler: str) -> None:
    """Raises SystemExit if there is no such profiler."""
    package = find_spec(profiler)
    if package is None:
        sys.exit(f"no {profiler}")
    commands, answers = FileIO(0), FileIO(1, "w")
    answers.write(f"{version(profiler)}\n".encode())
    serve.__code__ = serve.__code__.replace(co_filename=FILE)
    serve(PROFILERS[profiler](package), commands, answers, bytearray(COMMAND_BYTES))


if __name__ == "__main__":
    main(sys.argv[1])
