"""The command line of jemalloc's driver."""

from __future__ import annotations

from fuzz.targets.allocators.find import STATIC_STORAGE, library_driver
from fuzz.targets.options import TargetOptions

ENVIRONMENT = {
    **STATIC_STORAGE,
    # With a cache for each thread, some calls would tick and place blocks for others. Arenas retain
    # addresses: else a block grows in place if the system happens to have the addresses behind it.
    # So a trace costs about 6 MB of addresses, and no memory.
    "MALLOC_CONF": "prof:true,prof_accum:true,tcache:false,retain:true",
}


def driver_command(name: str, options: TargetOptions) -> tuple[str, ...]:
    """The command line, with the environment that the library needs."""
    return library_driver(__package__, name, options, ENVIRONMENT)
