"""Tests of a target that a Python function makes, or of a program.

There is a state machine, a session and a saved trace.

Failures are saved and reduced as in a session, and the test's message is what a session prints: a
traceback would lead into the oracles, where nothing is wrong.
"""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import attrs
from typing_extensions import override

from fuzz.cancellation import after, cancelled_when
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.engines.stateful import StatefulEngine, SuiteStateMachine, found_by, suite_settings
from fuzz.failure import Failure
from fuzz.failures import corpus
from fuzz.failures.reduce import SECONDS_MAX, reduce_failure
from fuzz.files import FAILURES_FOLDER
from fuzz.problems import BadInputError, notes_of
from fuzz.protocol import trace as traces
from fuzz.protocol.target import Target, contract_of, full, name_of
from fuzz.reached.probes import ProbeCounter
from fuzz.replay import replay
from fuzz.sessions.plan import UNLIMITED, Plan, SessionTotals
from fuzz.sessions.worker import run_chunk
from fuzz.targets import NO_OPTIONS, TargetOptions
from fuzz.terminal import report, saved_report
from fuzz.terminal.screen import Screen
from fuzz.testing.program_factory import Command, ProgramFactory, factory_of

UNKNOWN = "MODULE:TARGET"
"""In place of a target that another process cannot import."""
TargetFactory = Callable[[], Target]


def state_machine_for(
    target_factory: TargetFactory | None, command: Command | None = None
) -> type[SuiteStateMachine]:
    """See `fuzz.state_machine_for`."""

    class GCStateMachine(ReportingStateMachine):
        make_target = staticmethod(factory_of(target_factory, command))

    return GCStateMachine


class ReportingStateMachine(SuiteStateMachine):
    """A state machine whose `TestCase` reports like a session. Each subclass has its own."""

    def __init_subclass__(cls) -> None:
        own = {"machine": cls, "settings": suite_settings()}
        cls.TestCase = type(f"{cls.__name__}.TestCase", (StateMachineTestCase,), own)  # type: ignore[assignment]


class StateMachineTestCase(unittest.TestCase):
    """A state machine as a test."""

    machine: ClassVar[type[SuiteStateMachine]]
    settings: Any
    """Hypothesis's."""
    corpus_folder = FAILURES_FOLDER
    """Where failures are saved; created if missing. The traces in it are tried first."""
    session_seconds: float | None = None
    """With this the random engine searches instead, until it finds something or time is up."""

    def runTest(self) -> None:  # noqa: N802 - unittest's name
        """Fail with the report of what is found."""
        __tracebackhide__ = True
        factory = self.machine.make_target
        try:  # No trace can show that there is no contract.
            contract_of(factory())
        except BadInputError as problem:
            lines = str(problem), *notes_of(problem)
            raise AssertionError("\n".join(lines)) from None
        if self.session_seconds is None:
            for path in sorted(self.corpus_folder.glob("*.jsonl")):
                with suppress(BadInputError):  # A trace that is illegal is of another target.
                    SavedTrace(path).replay(factory)
            engine, failures = StatefulEngine.name, found_by(self.machine, self.settings)
        else:
            engine, failures = RandomEngine.name, _found_within(self.session_seconds, factory())
        if failures:
            name = class_of(factory) or name_of(factory())
            origin = corpus.Origin(
                self.corpus_folder, name, engine, None, _options(factory), factory=factory
            )
            raise AssertionError(_reported(origin, failures))

    runTest.is_hypothesis_test = True  # type: ignore[attr-defined]


def _found_within(seconds: float, target: Target) -> list[Failure]:
    is_over = after(seconds)
    engine = RandomEngine(target, os.urandom(4).hex())
    with cancelled_when(is_over):
        for done in slices_of(engine, UNLIMITED, ProbeCounter()):
            if done.failures or is_over():
                return done.failures
    return []


def run_session(factory: TargetFactory, actions: int, seed: int) -> list[Failure]:
    """See `fuzz.run_session`."""
    target, failures = full(factory()), dict[tuple[str, ...], Failure]()

    def found(failure: Failure) -> None:
        failures.setdefault(failure.identity, failure)

    plan = Plan(target.name, RandomEngine.name, seed, 1, Path(), actions=actions)
    for index in plan.share:
        run_chunk(plan, plan.chunk(index), target, SessionTotals(), found)
    return [reduce_failure(target, failure) for failure in failures.values()]


def _reported(origin: corpus.Origin, failures: Iterable[Failure]) -> str:
    """Reduce and save failures; returns what a session would print about them."""
    with suppress(BadInputError):  # A failure that cannot be saved is printed.
        corpus.open_folder(origin.folder)
    page, reduced = KeptLines(), []
    for failure in failures:
        found = corpus.save_found(origin, failure)
        saved = corpus.publish(corpus.reduce_saved(origin, found, after(SECONDS_MAX)))
        reduced.append(attrs.evolve(saved, path=saved.path and _short(saved.path)))
    saved_report.print_groups(page, reduced, origin)
    return page.text


@attrs.frozen
class SavedTrace:
    """A trace of the corpus, as a test."""

    path: Path

    def replay(
        self, target_factory: TargetFactory | None = None, *, command: Command | None = None
    ) -> None:
        """Fail if the trace does, on a target or a program, as for `state_machine_for`."""
        __tracebackhide__ = True
        trace = traces.read(self.path)
        factory = factory_of(target_factory, command)
        if isinstance(factory, ProgramFactory):
            factory = factory.needed_by(trace.header)
        failure = replay(factory(), trace, str(self.path))
        if failure is not None:
            page = KeptLines()
            options, name = _options(factory), class_of(factory)
            command = report.replay_command(_short(self.path), options, name)
            report.print_failure(page, f"FAILED {self.path.name}", failure, command)
            raise AssertionError(page.text)


class KeptLines(Screen):
    """A screen that keeps its lines."""

    def __init__(self) -> None:
        self.text = ""
        self.columns = None

    @override
    def print_parts(self, *parts: tuple[str, str]) -> None:
        self.text += "".join(text for text, _ in parts) + "\n"


def _options(factory: TargetFactory) -> TargetOptions:
    """The options of a replay: the program, or one that serves the target, if it is no class."""
    if isinstance(factory, ProgramFactory):
        return factory.options
    if class_of(factory) is not None:
        return NO_OPTIONS
    return TargetOptions(("python", "-m", "fuzz.targets", *place_of(factory)))


def class_of(factory: TargetFactory) -> str | None:
    """MODULE:CLASS for `--target`, if the current folder allows its import."""
    name, *folder = place_of(factory)
    return name if isinstance(factory, type) and name != UNKNOWN and not folder else None


def place_of(factory: Callable[..., object]) -> tuple[str, ...]:
    """MODULE:NAME and the folder to import it from, or UNKNOWN for the user to fill in."""
    module = sys.modules.get(getattr(factory, "__module__", ""))
    name = getattr(factory, "__qualname__", "<")
    if "<" in name or module is None or module.__file__ is None:
        return (UNKNOWN,)
    file = Path(module.__file__)
    module_name = file.stem if module.__name__ == "__main__" else module.__name__
    folder = _short(file.parents[module_name.count(".") + hasattr(module, "__path__")])
    return (f"{module_name}:{name}", *([] if folder == Path() else [str(folder)]))


def _short(path: Path) -> Path:
    """The path relative to the current folder, if it is in it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
