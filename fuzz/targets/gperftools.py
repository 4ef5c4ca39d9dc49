"""The targets `gperftools` and `gperftools-as-documented`: the stock library, under two contracts.

The library is loaded in a process of its own, by a program of this package, `gperftools_driver`.
Here is only how that is started.
"""

from __future__ import annotations

import sys

from fuzz.targets.stock_library import STATIC_STORAGE

AS_BUILT, AS_DOCUMENTED = "gperftools", "gperftools-as-documented"
DRIVER = "fuzz.targets.gperftools_driver"
ENVIRONMENT = {
    **STATIC_STORAGE,
    # What is allocated before it is loaded depends on the order of sets, and with it where it lies.
    "PYTHONHASHSEED": "0",
}


def driver_command(name: str) -> tuple[str, ...]:
    """The driver's command line, for the target of that name."""
    assignments = (f"{variable}={value}" for variable, value in ENVIRONMENT.items())
    return "env", *assignments, sys.executable, "-m", DRIVER, name
