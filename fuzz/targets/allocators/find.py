"""The command line of a driver that loads an allocator's library. Nothing is loaded here."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.targets.options import TargetOptions
from fuzz.targets.registration import python_driver

STATIC_STORAGE = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=4096"}
"""A library's state of a thread is larger than what is kept free for libraries loaded late."""


def library_driver(
    package: str | None, name: str, options: TargetOptions, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """The command line of that package's driver, with the library that --library names."""
    # Only a path with a slash in it is a file to the loader.
    library = [options.paths["library"].absolute()] if "library" in options.paths else []
    return python_driver(package, name, *library, environment=environment)
