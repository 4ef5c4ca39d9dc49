"""The process that is sampled: `PYTHON mutator.py PROFILER [OUTPUT]`.

It needs nothing of gcfuzz. A block of n bytes is a `bytes` of n + 1, since there is only one empty
`bytes`. Invariant: once a profiler is on, Python allocates and frees only blocks here. So numbers
are looked up in tables, commands are read into a buffer, and all answers are the same.

A command is an operation, a size and a slot, with the highest byte first. Before all answers comes
a line with the profiler's version and the address of the table of blocks. The driver writes into
blocks and reads them through that table: here it would take objects of Python's.
"""

import ctypes
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec
from io import FileIO
from pathlib import Path
from types import ModuleType

COMMAND_BYTES = 6
ALLOCATE, FREE, BEGIN, REPORT, PROFILE = range(5)
ANSWER = b"."
FILE = "mutator"
"""The profilers take this for the file's name, since they may ignore installed files."""


Call = Callable[[int], None]
Slots = list[list[bytes | None]]


def serve(
    calls: dict[int, Call], commands: FileIO, answers: FileIO, command: bytearray, slots: Slots
) -> None:
    """Carry out commands until the input ends; `commands` has those of the profiler."""
    numbers = [
        [[*range(high + middle, high + middle + 256)] for middle in range(0, 2**16, 256)]
        for high in (0, 2**16)
    ]
    answers.write(ANSWER)
    while commands.readinto(command):
        what = command[0]
        if what == ALLOCATE:
            slots[command[4]][command[5]] = bytes(numbers[command[1]][command[2]][command[3]])
        elif what == FREE:
            slots[command[4]][command[5]] = None
        else:
            calls[what](numbers[command[1]][command[2]][command[3]])
        answers.write(ANSWER)


def module_in(package: ModuleSpec, name: str) -> ModuleType:
    """A module of a package, without loading the package."""
    spec = PathFinder.find_spec(name, package.submodule_search_locations)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def begin_scalene(package: ModuleSpec) -> dict[int, Call]:
    """Start the preloaded library, which reports its samples itself."""
    pywhere = module_in(package, "pywhere")
    pywhere.register_files_to_profile([FILE], "", False)
    pywhere.set_scalene_done_false()
    return {}


def begin_ddtrace(package: ModuleSpec, output: str) -> dict[int, Call]:
    """The commands that restart its sampler, and that write a file of the latest samples.

    Its own `upload` allocates; the C function that it calls does not, and has no arguments.
    """
    ddup = import_module("ddtrace.internal.datadog.profiling.ddup")
    ddup.config(service=FILE, output_filename=output)
    ddup.start()
    memalloc = import_module("ddtrace.profiling.collector._memalloc")
    [folder] = package.submodule_search_locations or [""]
    [library] = Path(folder, "internal", "datadog", "profiling").glob("libdd_wrapper*.so")
    upload = ctypes.CDLL(str(library)).ddup_upload
    upload.restype = None
    stop, heap = memalloc.stop, memalloc.heap

    def begin(period_bytes: int) -> None:
        if began:
            stop()
        began.append(True)
        upload()
        memalloc.start(1, period_bytes, False)

    def profile(_: int) -> None:
        heap()
        upload()

    began: list[bool] = []
    return {BEGIN: begin, REPORT: lambda _: upload(), PROFILE: profile}


PROFILERS: dict[str, Callable[..., dict[int, Call]]] = {
    "scalene": begin_scalene,
    "ddtrace": begin_ddtrace,
}


def main(profiler: str, *words: str) -> None:
    """Raises SystemExit if there is no such profiler."""
    package = find_spec(profiler)
    if package is None:
        sys.exit(f"no {profiler}")
    commands, answers = FileIO(0), FileIO(1, "w")
    slots: Slots = [[None] * 256 for _ in range(256)]
    answers.write(f"{version(profiler)} {id(slots)}\n".encode())
    serve.__code__ = serve.__code__.replace(co_filename=FILE)
    serve(PROFILERS[profiler](package, *words), commands, answers, bytearray(COMMAND_BYTES), slots)


if __name__ == "__main__":
    main(*sys.argv[1:])
