"""The command `gcfuzz`, and the error if another package `fuzz` hides gcfuzz's own.

A project may have a folder `fuzz`, and Python imports the first one on its path. This module is
beside the packages, and imports them only after that check.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

BAD_INPUT = 2


def hidden_by() -> str | None:
    """The error if another `fuzz` hides gcfuzz's package, or None."""
    spec = find_spec("fuzz")
    places = [] if spec is None else [*(spec.submodule_search_locations or [str(spec.origin)])]
    if not places or any((Path(place) / "protocol" / "target.py").is_file() for place in places):
        return None
    return (
        f"gcfuzz: {places[0]} hides gcfuzz's own package `fuzz`; rename it, or keep its folder off "
        "Python's path: unset PYTHONPATH, and run `pytest --import-mode=importlib`, not "
        "`python -m pytest`"
    )


def main() -> None:
    """Run the command line, or exit with 2 if the package is hidden."""
    problem = hidden_by()
    if problem is not None:
        print(problem, file=sys.stderr)  # noqa: T201 - the package that prints is hidden
        sys.exit(BAD_INPUT)
    from fuzz.__main__ import main as run

    run()
