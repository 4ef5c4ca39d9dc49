"""How the target `v8` is started: Node, with all that makes V8 do the same each time."""

from __future__ import annotations

import shutil
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.options import TargetOptions

MUTATOR = Path(__file__).with_name("mutator.js")
HOW_TO_INSTALL = "apt install nodejs (version 20), or name it with --node"
SEED = "--random-seed=1"
OPTIONS = (
    # One generator, one thread, and no code made while it runs, which would be allocated too.
    *(SEED, "--predictable", "--single-threaded", "--no-opt", "--no-sparkplug"),
    # What V8 learns of a function it allocates when that is first called, and keeps.
    *("--no-lazy-feedback-allocation", "--no-flush-bytecode"),
)


def mutator_command(name: str, options: TargetOptions) -> tuple[str, ...]:
    """The command line of the mutator, which is the target. Raises BadInputError."""
    node = options.paths.get("node")
    program = shutil.which(str(node or "node"))
    if program is None:
        named = f"{node} is no program" if node else "there is none"
        raise BadInputError(f"the target {name} needs Node, and {named}: {HOW_TO_INSTALL}")
    return program, *OPTIONS, str(MUTATOR)
