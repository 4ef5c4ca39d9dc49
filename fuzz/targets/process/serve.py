"""The other side of the protocol, for a target in a Python process.

Whoever has a collector that Python can drive writes a `Target` for it and calls `serve`, which is
`fuzz.serve` to them. `python -m fuzz.targets NAME` does so with a target of that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from fuzz.problems import BadInputError
from fuzz.protocol.lines import (
    action_from_data,
    as_object,
    from_line,
    observation_to_data,
    structured,
    to_line,
    unstructured,
)
from fuzz.protocol.target import Target


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
