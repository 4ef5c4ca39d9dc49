"""`python -m fuzz.targets NAME` is a program that answers for the target of that name.

`MODULE:FACTORY` is one that a Python function or class makes; the module is looked for in FOLDER.
"""

import sys
from importlib import import_module
from operator import attrgetter

from fuzz.plain import plain
from fuzz.problems import BadInputError
from fuzz.protocol.target import Target
from fuzz.targets import make_target
from fuzz.targets.process.serve import serve


def target_of(name: str, folder: str | None = None) -> Target:
    """The target that the arguments name. Raises BadInputError, or what importing raises."""
    module, colon, factory = name.partition(":")
    if not colon and folder is None:
        return make_target(name)
    if folder is not None:
        sys.path.insert(0, folder)
    made: Target = attrgetter(factory)(import_module(module))()
    return made


def main(*names: str) -> None:
    """Serve that target. Where there is none, SystemExit says why."""
    try:
        target = target_of(*names)
    except (TypeError, ImportError, AttributeError, BadInputError) as problem:
        sys.exit(plain(f"python -m fuzz.targets NAME: {problem}"))
    serve(target, sys.stdin, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
