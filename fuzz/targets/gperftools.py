"""The targets `gperftools` and `gperftools-as-documented`: the stock library, under two contracts.

The library is loaded in a process of its own, by a program of this package, `gperftools_driver`.
Here is only how that is started.
"""

from __future__ import annotations

import sys

AS_BUILT, AS_DOCUMENTED = "gperftools", "gperftools-as-documented"
DRIVER = "fuzz.targets.gperftools_driver"
ENVIRONMENT = (
    # The library's thread-local variables need static storage, and it is loaded late for that.
    "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096",
    # What is allocated before it is loaded depends on the order of sets, and with it where it lies.
    "PYTHONHASHSEED=0",
)


def driver_command(name: str) -> tuple[str, ...]:
    """The driver's command line, for the target of that name."""
    return "env", *ENVIRONMENT, sys.executable, "-m", DRIVER, name
