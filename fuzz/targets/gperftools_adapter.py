"""The program behind the targets `gperftools` and `gperftools-as-documented`.

`python -m fuzz.targets.gperftools_adapter NAME` answers for the target of that name. The library
begins a generator from its sampler's address (`reseeds` in the contract), so the program asks for a
memory layout that is the same each time; where that is refused, each contract states the addresses
that there are, and only what is found through them may differ from run to run.
"""

from __future__ import annotations

import ctypes
import os
import sys

from fuzz.serve import serve
from fuzz.targets.gperftools import AS_BUILT, AS_DOCUMENTED, GperftoolsTarget
from fuzz.targets.target import Target

ASK = 0xFFFFFFFF
ADDR_NO_RANDOMIZE = 0x0040000
"""See personality(2)."""


def serve_in_fixed_memory(target: Target) -> None:
    """Answer on standard output what is asked on standard input, in this process begun anew."""
    personality = ctypes.CDLL(None).personality
    personality.argtypes = (ctypes.c_ulong,)
    present = personality(ASK)
    if present >= 0 and not present & ADDR_NO_RANDOMIZE:
        personality(present | ADDR_NO_RANDOMIZE)
        if personality(ASK) & ADDR_NO_RANDOMIZE:
            # What is allocated before the library is loaded depends on the order of sets.
            environment = {**os.environ, "PYTHONHASHSEED": "0"}
            os.execve(sys.executable, sys.orig_argv, environment)  # noqa: S606 - this program
    serve(target, sys.stdin, sys.stdout)


if __name__ == "__main__":
    [name] = sys.argv[1:]
    if name not in (AS_BUILT, AS_DOCUMENTED):
        sys.exit(f"python -m fuzz.targets.gperftools_adapter {AS_BUILT}|{AS_DOCUMENTED}")
    serve_in_fixed_memory(GperftoolsTarget(name))
