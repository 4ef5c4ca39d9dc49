"""The command line of Node, with the options that make V8 deterministic.

A Node whose V8 was not compared with gcfuzz is refused: another version may make other numbers from
the same generator.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.options import TargetOptions
from fuzz.targets.process.user_programs import output_of

MUTATOR = Path(__file__).with_name("mutator.js")
NAME_KNOWN = "name a Node of version 20 to 26 with --node"
HOW_TO_INSTALL = f"apt install nodejs, or {NAME_KNOWN}"
KNOWN_RELEASES = ("11.3", "11.8", "12.4", "12.9", "13.6", "14.1", "14.6")
"""The versions of V8 in Node 20 to 26."""
VERSION_CHARACTERS = 30
"""The length at which a message cuts the output of another program."""
SEED = "--random-seed=1"
OPTIONS = (
    # One generator, one thread, and no compiled code but what makers.js asks for.
    *(SEED, "--predictable", "--single-threaded", "--no-opt", "--no-sparkplug"),
    # This compiler is not switched off by --no-opt. It compiles the mutator since Node 24.
    "--no-maglev",
    # Feedback about a function is allocated at its first call, and kept.
    *("--no-lazy-feedback-allocation", "--no-flush-bytecode"),
)


def node_command(flags: Sequence[str], name: str, options: TargetOptions) -> tuple[str, ...]:
    """The command line of Node with the mutator. Raises BadInputError."""
    named = options.paths.get("node")
    node = shutil.which(str(named or "node"))
    if node is None:
        problem = f"{named} is not a program" if named else "there is none"
        raise BadInputError(f"the target {name} needs Node, and {problem}: {HOW_TO_INSTALL}")
    version = output_of([node, "-p", "process.versions.v8"])[:VERSION_CHARACTERS]
    if ".".join(version.split(".")[:2]) not in KNOWN_RELEASES:
        raise BadInputError(f"{node}: its version of V8, {version!r}, is not known; {NAME_KNOWN}")
    return node, *OPTIONS, *flags, str(MUTATOR)
