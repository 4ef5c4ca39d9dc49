"""fuzz: a harness that finds the bugs in garbage collectors that sample their allocations.

Actions go to a target, its observations come back, oracles that know only the target's contract
say whether they were right, and every failure becomes a short trace that anyone can replay. The
tour of the house is ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from fuzz.engines.machine import SuiteMachine
    from fuzz.protocol.target import Target

__all__ = ["machine_for", "serve"]


def machine_for(target_factory: Callable[[], Target]) -> type[SuiteMachine]:
    """A Hypothesis state machine for your own test suite.

    `target_factory` makes a target, one for each example: a class, or a function without
    arguments. `TestMine = machine_for(MyTarget).TestCase` then runs under pytest, with your
    Hypothesis settings and database. What it finds is reduced, saved in `TestMine.corpus_folder`
    and shown with the command that replays it. What is in that folder already is tried first.
    """
    # Hypothesis is imported here and not above, so that nothing else in the package needs it.
    from fuzz.testing import cases

    return cases.machine_for(target_factory)


def serve(target: Target, lines: TextIO, out: TextIO) -> None:
    """Answer the lines of the protocol with what `target` does, until they end.

    This makes a program of a target in Python: `serve(MyTarget(), sys.stdin, sys.stdout)`.
    """
    from fuzz.targets.process import serve as other_side

    other_side.serve(target, lines, out)
