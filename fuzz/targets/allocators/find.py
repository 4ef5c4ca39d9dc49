"""The library of an allocator, and the environment that a process needs to load it."""

from __future__ import annotations

from pathlib import Path

from fuzz.targets.options import TargetOptions

STATIC_STORAGE = "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096"
"""A library's state of a thread needs more space than is reserved for libraries loaded late."""


def named_library(options: TargetOptions) -> tuple[Path, ...]:
    """The library of --library. If none is named, the driver itself looks for one."""
    # The loader takes only a path with a slash for a file.
    return (options.paths["library"].absolute(),) if "library" in options.paths else ()
