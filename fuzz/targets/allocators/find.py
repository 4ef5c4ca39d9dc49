"""The command line of a driver that loads an allocator's library."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.targets.options import TargetOptions
from fuzz.targets.registration import python_driver

STATIC_STORAGE = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=4096"}
"""A library's state of a thread needs more space than is reserved for libraries loaded late."""


def library_driver(
    package: str | None, name: str, options: TargetOptions, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """The command line of a package's driver, with the library of --library."""
    # The loader takes only a path with a slash for a file.
    library = [options.paths["library"].absolute()] if "library" in options.paths else []
    return python_driver(package, name, *library, environment=environment)
