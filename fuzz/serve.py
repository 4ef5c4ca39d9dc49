"""The other side of the protocol, for a target in a Python process.

`python -m fuzz.serve NAME` answers for the target of that name. Whoever has a collector that Python
can drive writes a `Target` for it and calls `serve`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

from fuzz.lines import (
    action_from_data,
    as_object,
    from_line,
    observation_to_data,
    structured,
    to_line,
    unstructured,
)
from fuzz.problems import BadInputError
from fuzz.targets import make_target
from fuzz.targets.target import Target


def serve(target: Target, lines: Iterable[str], answers: TextIO) -> None:
    """Answer one line after another, until there are no more."""
    for line in lines:
        answers.write(to_line(_answer(target, line)) + "\n")
        answers.flush()


def _answer(target: Target, line: str) -> dict[str, object]:
    """The answer to a line; what is wrong with it is one too."""
    try:
        data = as_object(from_line(line))
        if "gcfuzz" in data:
            config = structured(data.get("config", {}), dict[str, int])
            return {"contract": unstructured(target.start(config))}
        return observation_to_data(target.perform(action_from_data(data)))
    except (ValueError, BadInputError) as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}


if __name__ == "__main__":
    try:
        [name] = sys.argv[1:]
        serve(make_target(name), sys.stdin, sys.stdout)
    except (ValueError, BadInputError) as problem:
        sys.exit(f"python -m fuzz.serve NAME: {problem}")
