"""The command line of gperftools' driver."""

from __future__ import annotations

from fuzz.targets.allocators.find import STATIC_STORAGE, library_driver
from fuzz.targets.options import TargetOptions

ENVIRONMENT = {
    **STATIC_STORAGE,
    # The library's memory starts at the end of the heap of the interpreter's own allocator, and its
    # samplers' addresses seed them. So that heap takes all its memory at once, and keeps it.
    "MALLOC_TOP_PAD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


def driver_command(name: str, options: TargetOptions) -> tuple[str, ...]:
    """The command line, with the environment that the library needs."""
    return library_driver(__package__, name, options, ENVIRONMENT)
