"""How the stock allocators are started, `gperftools` under either of its contracts.

`tcmalloc` is part of a program. Each other library is loaded in a process of its own, by a program
of this package, late and in an environment made for it. Nothing is loaded here.
"""

from __future__ import annotations

import sys
from pathlib import Path

JEMALLOC, AS_BUILT, AS_DOCUMENTED = "jemalloc", "gperftools", "gperftools-as-documented"
TCMALLOC = "tcmalloc"
STOCK_ALLOCATORS = (JEMALLOC, AS_BUILT, AS_DOCUMENTED, TCMALLOC)
STATIC_STORAGE = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=4096"}
"""A library's state of a thread is larger than what is kept free for those that are loaded late."""
JEMALLOC_ENVIRONMENT = {
    **STATIC_STORAGE,
    # With a cache for each thread some calls would tick, and place blocks, for others.
    "MALLOC_CONF": "prof:true,prof_accum:true,tcache:false",
}
GPERFTOOLS_ENVIRONMENT = {
    **STATIC_STORAGE,
    # Its memory begins where the heap of the interpreter's own allocator ends, and its samplers'
    # addresses seed them. So that heap takes at its first byte all it will ever need, and keeps it.
    "MALLOC_TOP_PAD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


def driver_command(name: str, library: Path | None = None) -> tuple[str, ...]:
    """The command line of the driver that is the target of that name, with its library or another.

    Only a path with a slash in it is a file to the loader.
    """
    place = [] if library is None else [str(library.absolute())]
    if name == TCMALLOC:
        return sys.executable, "-m", f"{__package__}.tcmalloc_driver", *place
    if name == JEMALLOC:
        return _in_environment(JEMALLOC_ENVIRONMENT, "jemalloc_driver", *place)
    return _in_environment(GPERFTOOLS_ENVIRONMENT, "gperftools_driver", name, *place)


def _in_environment(environment: dict[str, str], driver: str, *words: str) -> tuple[str, ...]:
    assignments = (f"{variable}={value}" for variable, value in environment.items())
    return "env", *assignments, sys.executable, "-m", f"{__package__}.{driver}", *words
