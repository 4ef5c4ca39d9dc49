"""Serves a registered target: `python -m fuzz.targets NAME`.

`python -m fuzz.targets MODULE:FACTORY [FOLDER]` serves the result of a function or class of a
module, which is in FOLDER.
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
    """The target of these arguments. Raises BadInputError, and what the import raises."""
    module, colon, factory = name.partition(":")
    if not colon and folder is None:
        return make_target(name)
    if folder is not None:
        sys.path.insert(0, folder)
    made: Target = attrgetter(factory)(import_module(module))()
    return made


def main(*names: str) -> None:
    """Serve the target. Raises SystemExit with the reason if there is none."""
    try:
        target = target_of(*names)
    except (TypeError, ImportError, AttributeError, BadInputError) as problem:
        sys.exit(plain(f"python -m fuzz.targets NAME: {problem}"))
    serve(target, sys.stdin, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
