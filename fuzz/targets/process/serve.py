"""The other side of the protocol, for a target in a Python process.

Whoever has a collector that Python can drive writes a `Target` for it and calls `serve`, which is
`fuzz.serve` to them. `python -m fuzz.targets NAME` does so with a target of that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.protocol.target import Target


def serve(target: Target, lines: Iterable[str], answers: TextIO) -> None:
    """Answer one line after another, until there are no more."""
    for line in lines:
        answers.write(wire.to_line(_answer(target, line)) + "\n")
        answers.flush()


def _answer(target: Target, line: str) -> dict[str, object]:
    """The answer to a line; what is wrong with it is one too."""
    try:
        data = wire.as_object(wire.from_line(line))
        if "gcfuzz" in data:
            config = wire.structured(data.get("config", {}), dict[str, int])
            return {"contract": wire.unstructured(target.start(config))}
        return dict(wire.unstructured(target.perform(wire.action_from_data(data))))
    except (ValueError, BadInputError) as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}
