"""How the stock allocators are started: `jemalloc`, and `gperftools` under either of its contracts.

Each library is loaded in a process of its own, by a program of this package, late and in an
environment made for it.
"""

from __future__ import annotations

import sys

from fuzz.targets.allocators import jemalloc_library
from fuzz.targets.allocators.stock_library import STATIC_STORAGE

JEMALLOC, AS_BUILT, AS_DOCUMENTED = "jemalloc", "gperftools", "gperftools-as-documented"
GPERFTOOLS_ENVIRONMENT = {
    **STATIC_STORAGE,
    # What is allocated before it is loaded depends on the order of sets, and with it where it lies.
    "PYTHONHASHSEED": "0",
}


def driver_command(name: str) -> tuple[str, ...]:
    """The command line of the driver that is the target of that name."""
    if name == JEMALLOC:
        return _in_environment(jemalloc_library.ENVIRONMENT, "jemalloc_driver")
    return _in_environment(GPERFTOOLS_ENVIRONMENT, "gperftools_driver", name)


def _in_environment(environment: dict[str, str], driver: str, *words: str) -> tuple[str, ...]:
    assignments = (f"{variable}={value}" for variable, value in environment.items())
    return "env", *assignments, sys.executable, "-m", f"{__package__}.{driver}", *words
