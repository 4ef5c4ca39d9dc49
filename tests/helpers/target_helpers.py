"""What the tests of targets share: installed targets, changed contracts, and sessions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest

from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.failure import Failure
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, Target, full, name_of
from fuzz.reached.probes import ProbeCounter
from fuzz.targets import TargetOptions, make_target, registry
from fuzz.targets.hotspot.find import DEBIANS, HOW_TO_INSTALL, LIBRARY, WHEEL

DEBIAN_17 = DEBIANS / "java-17-openjdk-amd64"
CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)
ROOT = Path(__file__).parents[2]
VARIABLES = {
    "incminimark": {"source": "GCFUZZ_RPYTHON", "python": "GCFUZZ_PYTHON27"},
    "ddtrace": {"python": "GCFUZZ_PROFILERS"},
    "scalene": {"python": "GCFUZZ_PROFILERS"},
    "go-finalizers with GCFUZZ_GO": {"go": "GCFUZZ_GO"},
}
"""The environment variables that say where runtimes are that no search finds."""


def options_for(name: str) -> TargetOptions:
    """The options of a target, with the paths that environment variables have."""
    known = registry().targets.get(name)
    variables = VARIABLES.get(name if known is None else known.variant_of or name, {})
    paths = {
        option: Path(os.environ[variable])
        for option, variable in variables.items()
        if variable in os.environ
    }
    return TargetOptions(timeout_seconds=60.0, paths=paths)


def pypy_options(name: str, *tools: str) -> TargetOptions:
    """The options of one of PyPy's targets; the test is skipped without RPython or a tool."""
    if "GCFUZZ_RPYTHON" not in os.environ:
        pytest.skip("python2.7 -m pip install --target DIR rpython==0.2.1; GCFUZZ_RPYTHON=DIR")
    if not all(map(shutil.which, tools)):
        pytest.skip(f"apt install {' '.join(tools)}")
    return options_for(name)


def installed(name: str, *, fresh_process: bool = False) -> FullTarget:
    """The target; the test is skipped if its runtime is missing.

    "NAME with VARIABLE" needs the runtime that this environment variable names.
    """
    registered, _, variable = name.partition(" with ")
    if variable and variable not in os.environ:
        pytest.skip(f"{variable} names no runtime")
    try:
        options = attrs.evolve(options_for(name), fresh_process=fresh_process)
        target = full(make_target(registered, options))
        target.default_contract()
    except BadInputError as problem:
        pytest.skip(str(problem))
    return target


def java_folder(version: str) -> Path:
    """The folder of Java 17 or 25; the test is skipped without it."""
    wheel = find_spec(WHEEL)
    if version == "17" and (DEBIAN_17 / LIBRARY).is_file():
        return DEBIAN_17
    if version == "25" and wheel is not None:
        return Path(str(wheel.origin)).with_name("java-runtime")
    pytest.skip(f"{HOW_TO_INSTALL} (version {version})")


def carried_out(target: Target, actions: Iterable[Action]) -> list[Observation]:
    """The observations of actions that all succeed."""
    observations = [target.perform(action) for action in actions]
    assert [each.error for each in observations] == [None] * len(observations)
    return observations


def changed(contract: Contract, **changes: Any) -> Contract:
    """The contract with other values for keys of its own, its layout, its rule, its way to count.

    A value may be a function of the right one.
    """

    def evolved(part: Any) -> Any:
        new = {key: value for key, value in changes.items() if hasattr(part, key)}
        left.difference_update(new)
        right = {key: getattr(part, key) for key in new}
        return attrs.evolve(
            part, **{key: each(right[key]) if callable(each) else each for key, each in new.items()}
        )

    left = {*changes}
    counting = evolved(contract.sampling.counting)
    rule = evolved(attrs.evolve(contract.sampling, counting=counting))
    wrong = evolved(attrs.evolve(contract, layout=evolved(contract.layout), sampling=rule))
    assert not left
    made: Contract = wrong
    return made


class Changed(FullTarget):
    """A target with some settings fixed, under another contract; its samples are counted."""

    def __init__(
        self,
        target: Target,
        change: Callable[[Contract], Contract] = lambda right: right,
        **settings: int,
    ) -> None:
        self._target = full(target)
        self._change = change
        self._settings = settings
        self.name = name_of(target)
        self.takes_announcements = self._target.takes_announcements
        self.samples = self.collections = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self._change(self._target.start({**configuration, **self._settings}))

    def perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        self.samples += observation.samples
        self.collections += observation.minors
        return observation

    def announce(self, actions: Iterable[Action]) -> None:
        self._target.announce(actions)

    def finish(self) -> str | None:
        return self._target.finish()

    def restart(self) -> None:
        self._target.restart()


def first_failure(target: Target, actions: int, seed: str = "1") -> Failure | None:
    """The first failure of a session with the random engine; it is not reduced."""
    slices = slices_of(RandomEngine(target, seed), actions, ProbeCounter())
    return next((failure for done in slices for failure in done.failures), None)
