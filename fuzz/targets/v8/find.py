"""The command line of Node, with the options that make V8 deterministic."""

from __future__ import annotations

import shutil
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.options import TargetOptions

MUTATOR = Path(__file__).with_name("mutator.js")
FINALIZERS = Path(__file__).with_name("finalizers.js")
HOW_TO_INSTALL = "apt install nodejs (version 20), or name it with --node"
SEED = "--random-seed=1"
OPTIONS = (
    # One generator, one thread, and no compiled code, which would be allocated too.
    *(SEED, "--predictable", "--single-threaded", "--no-opt", "--no-sparkplug"),
    # Feedback about a function is allocated at its first call, and kept.
    *("--no-lazy-feedback-allocation", "--no-flush-bytecode"),
)


def mutator_command(name: str, options: TargetOptions) -> tuple[str, ...]:
    """The command line of the mutator. Raises BadInputError."""
    return *_node_command(name, options), str(MUTATOR)


def finalizers_command(name: str, options: TargetOptions) -> tuple[str, ...]:
    """The command line of the mutator of `v8-finalizers`. Raises BadInputError."""
    return *_node_command(name, options), "--expose-gc", str(FINALIZERS)


def _node_command(name: str, options: TargetOptions) -> tuple[str, ...]:
    node = options.paths.get("node")
    program = shutil.which(str(node or "node"))
    if program is None:
        named = f"{node} is not a program" if node else "there is none"
        raise BadInputError(f"the target {name} needs Node, and {named}: {HOW_TO_INSTALL}")
    return program, *OPTIONS
