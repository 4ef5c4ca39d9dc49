"""fuzz: a harness that finds bugs in garbage collectors and allocators that sample.

Actions go to a target, its observations come back, oracles judge them by the target's contract
alone, and every failure becomes a short trace that anyone can replay. ARCHITECTURE.md has the tour.

The package exports all that a target in Python needs; docs/test-suites.md has an example. Exports
are imported when they are first used, because each command imports this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from fuzz.engines.stateful import SuiteStateMachine
    from fuzz.failure import Failure
    from fuzz.problems import BadInputError
    from fuzz.protocol import actions, counting, written
    from fuzz.protocol.contract import (
        AtOnce,
        Contract,
        OldSpace,
        Prebuilt,
        Range,
        SamplingRule,
        Setting,
    )
    from fuzz.protocol.exhaustion import Exhaustion
    from fuzz.protocol.finalizers import Finalizers
    from fuzz.protocol.groups import Groups
    from fuzz.protocol.layout import KindLayout, Layout, layout_of_blocks
    from fuzz.protocol.observation import Observation, Report
    from fuzz.protocol.target import Target

__all__ = [
    "AtOnce",
    "BadInputError",
    "Contract",
    "Exhaustion",
    "Failure",
    "Finalizers",
    "Groups",
    "KindLayout",
    "Layout",
    "Observation",
    "OldSpace",
    "Prebuilt",
    "Range",
    "Report",
    "SamplingRule",
    "Setting",
    "Target",
    "actions",
    "counting",
    "layout_of_blocks",
    "run_session",
    "serve",
    "state_machine_for",
    "written",
]
_MODULES = {
    **dict.fromkeys(("KindLayout", "Layout", "layout_of_blocks"), "protocol.layout"),
    "BadInputError": "problems",
    "Exhaustion": "protocol.exhaustion",
    "Failure": "run",
    "Finalizers": "protocol.finalizers",
    "Groups": "protocol.groups",
    "Observation": "protocol.observation",
    "Report": "protocol.observation",
    "Target": "protocol.target",
}
"""The modules of exports that are not in `protocol.contract`."""


def __getattr__(name: str) -> object:
    """Import an export when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("actions", "counting", "written"):
        return import_module(f"fuzz.protocol.{name}")
    return getattr(import_module(f"fuzz.{_MODULES.get(name, 'protocol.contract')}"), name)


def state_machine_for(
    target_factory: Callable[[], Target] | None = None,
    *,
    command: str | Sequence[str] | None = None,
) -> type[SuiteStateMachine]:
    """A Hypothesis state machine for your own test suite.

    `target_factory` makes a target, one for each example: a class, or a function without
    arguments. In its place, `command` names a program that speaks the protocol, with its arguments:
    `state_machine_for(command="./adapter")`.

    `TestMine = state_machine_for(MyTarget).TestCase` then runs under pytest, with your Hypothesis
    settings and database. It tries the traces in the folder `TestMine.corpus_folder`
    first, reduces each failure, saves it there, and shows the command that replays it.
    """
    from fuzz.testing import suites  # Nothing else in the package needs Hypothesis.

    return suites.state_machine_for(target_factory, command)


def run_session(
    target_factory: Callable[[], Target], *, actions: int = 20_000, seed: int = 1
) -> list[Failure]:
    """Fuzz with the random engine; returns the first failure of each identity, reduced.

    The traces are those of `gcfuzz run --actions ACTIONS --seed SEED`. Nothing is saved.
    """
    from fuzz.testing import suites

    return suites.run_session(target_factory, actions, seed)


def serve(target: Target, lines: TextIO, out: TextIO) -> None:
    """Answer lines of the protocol with what `target` does, until they end.

    This makes a program of a target in Python: `serve(MyTarget(), sys.stdin, sys.stdout)`.
    """
    from fuzz.targets.process import serve as server

    server.serve(target, lines, out)
