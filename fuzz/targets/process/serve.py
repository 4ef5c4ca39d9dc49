"""The other side of the protocol, for a target in a Python process.

If Python can drive your collector, write a `Target` for it and call `serve`, which is also
`fuzz.serve`. `python -m fuzz.targets NAME` does that with a registered target.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Iterator
from typing import Protocol, TextIO

from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target

CHUNK_BYTES = 2**16
ANSWER_SECONDS = 0.001
"""How long an answer waits at most for the next ones to be written with it."""
MORE_SECONDS = 0.002
"""How long `serve_late` waits for more lines, since settling takes about a quarter of that."""


class LateTarget(Target, Protocol):
    """A target that learns later what an action did."""

    def settle(self) -> None:
        """Complete all observations that `perform` has returned. `start` does that, too."""


def serve(target: Target, lines: Iterable[str], answers: TextIO) -> None:
    """Answer one line after another, until there are no more.

    Answers to lines that are ready are written together: each write wakes the reader.
    """
    written_at = time.monotonic()
    for line, is_last in _ready_lines(lines):
        answers.write(wire.to_line(_data_of(_done(target, line))) + "\n")
        if is_last or time.monotonic() > written_at + ANSWER_SECONDS:
            answers.flush()
            written_at = time.monotonic()


def _ready_lines(lines: Iterable[str]) -> Iterator[tuple[str | bytes, bool]]:
    """Each line, and whether no further one is ready."""
    buffer = getattr(lines, "buffer", None)
    if buffer is None:
        yield from ((line, True) for line in lines)
        return
    partial = b""
    while chunk := buffer.read1(CHUNK_BYTES):
        *whole, partial = (partial + chunk).split(b"\n")
        for left, line in enumerate(whole, 1 - len(whole)):
            yield line, left == 0
    if partial:
        yield partial, True


def serve_late(target: LateTarget, lines: Iterable[str], answers: TextIO) -> None:
    """Answer all lines together that are ready, or will be in a moment."""
    waiting: list[Observation | dict[str, object]] = []
    for line, is_last in _ready_lines(lines):
        waiting.append(_done(target, line))
        if is_last and not _more_comes(lines):
            target.settle()
            _answer(waiting, answers)
    if waiting:
        target.settle()
        _answer(waiting, answers)


def _more_comes(lines: Iterable[str]) -> bool:
    """Whether another line comes soon, or the end of the input."""
    buffer = getattr(lines, "buffer", None)
    return buffer is not None and bool(select.select([buffer], [], [], MORE_SECONDS)[0])


def serve_batch(target: LateTarget, lines: Iterable[str], answers: TextIO) -> None:
    """Answer the actions of a trace together, when it is complete."""
    waiting: list[Observation | dict[str, object]] = []
    for line, _ in _ready_lines(lines):
        text = line if isinstance(line, str) else line.decode(errors="replace")
        if text.strip() == wire.BATCH_END:
            target.settle()
        else:
            waiting.append(_done(target, line))
            if len(waiting) > 1 or isinstance(waiting[0], Observation):
                continue  # Only a header is answered at once.
        _answer(waiting, answers)


def _answer(waiting: list[Observation | dict[str, object]], answers: TextIO) -> None:
    answers.writelines(wire.to_line(_data_of(each)) + "\n" for each in waiting)
    answers.flush()
    waiting.clear()


def _data_of(done: Observation | dict[str, object]) -> dict[str, object]:
    return dict(wire.unstructured(done)) if isinstance(done, Observation) else done


def _done(target: Target, line: str | bytes) -> Observation | dict[str, object]:
    """The answer to a line, or an `error` if something is wrong with the line."""
    try:
        data = wire.as_object(wire.from_line(line))
        if "gcfuzz" in data:
            config = wire.structured(data.get("config", {}), dict[str, int])
            return {"contract": wire.unstructured(target.start(config))}
        return target.perform(wire.action_from_data(data))
    except (ValueError, BadInputError) as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}
