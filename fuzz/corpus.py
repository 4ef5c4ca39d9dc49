"""Finds on disk: saved as they were found, reduced, run again, and kept.

Invariant: from the moment a failure is seen there is a file that replays it. The raw trace is
removed only once the reduced one is there and has failed again.
"""

from __future__ import annotations

import re
import tempfile
from importlib.resources import files
from pathlib import Path

import attrs

from fuzz import trace as traces
from fuzz.problems import BadInputError
from fuzz.reduce import SECONDS_MAX, reduce_failure
from fuzz.run import Failure, run_again
from fuzz.targets import NO_OPTIONS, Target, TargetOptions, make_target, planted
from fuzz.trace import VERSION, Found, Header, Trace

SUFFIX = ".jsonl"
DIRECTION_MAX = 40
"""So many characters of a failure's direction stand in its file's name."""


@attrs.frozen
class Find:
    """A failure with its file. `reproduced` is whether it failed again after the reduction."""

    failure: Failure
    trace: Trace
    path: Path
    is_new: bool
    actions_found: int
    reproduced: bool

    @property
    def sort_key(self) -> tuple[bool, int, str, str]:
        """The shortest of several finds of one identity is the one to keep, if it reproduced."""
        text = traces.dumps(self.trace)
        return not self.reproduced, len(self.failure.actions), self.path.name, text


def open_folder(folder: Path) -> None:
    """Make the corpus folder if it is missing. Raises BadInputError if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass  # It can be written.
    except OSError as problem:
        raise BadInputError(
            f"{folder}: cannot be the corpus folder: {problem.strerror}; name another with --corpus"
        ) from problem


def traces_in(place: Path) -> list[Path]:
    """The trace files at `place`, a file or a folder. Raises BadInputError if there are none."""
    if place.is_dir():
        found = sorted(place.glob(f"*{SUFFIX}"))
        if not found:
            raise BadInputError(f"{place}: the folder has no traces (*{SUFFIX}) to replay")
        return found
    if not place.exists():
        raise BadInputError(f"{place}: there is no such file or folder")
    return [place]


def shipped_traces() -> dict[str, Trace]:
    """The traces that come with the package, by file name: the corpus of this project."""
    folder = files("fuzz") / "corpus"
    if not folder.is_dir():  # In a checkout the corpus stands beside the package.
        folder = Path(str(files("fuzz"))).parent / "corpus"
    return {
        each.name: traces.loads(each.read_text(encoding="utf-8"), each.name)
        for each in sorted(folder.iterdir(), key=lambda each: each.name)
        if each.name.endswith(SUFFIX)
    }


def stem_of(failure: Failure) -> str:
    """What a find's file is called, but for the digest."""
    oracle, field, action, direction = failure.identity
    # The direction may be what the target said.
    safe = re.sub(r"[^A-Za-z0-9_]+", "-", direction)[:DIRECTION_MAX]
    return f"{oracle}-{field}-{safe}-{action}"


@attrs.frozen
class Finder:
    """Who finds: the corpus folder, the target, the engine and its seed."""

    folder: Path
    target: str
    engine: str
    seed: int | None
    options: TargetOptions = NO_OPTIONS

    def make_target(self) -> Target:
        """The target, made anew."""
        return make_target(self.target, self.options)


def save_raw(finder: Finder, failure: Failure) -> Path:
    """Save a failure as it was found."""
    found = Found(failure.oracle, failure.message, finder.engine)
    return traces.write(_trace(finder, failure, found), finder.folder, stem_of(failure) + "-raw")


def save_reduced(finder: Finder, raw: Path, failure: Failure, seconds: float = SECONDS_MAX) -> Find:
    """Reduce a failure that `raw` holds, run it again, and save it if it fails again."""
    reduced = reduce_failure(finder.make_target(), failure, seconds)
    # Made anew, the target has nothing left over from what was tried.
    again = _run_again(finder.make_target(), reduced)
    length = len(failure.actions)
    if again is None or again.identity != failure.identity:
        trace = _trace(finder, failure, Found(failure.oracle, failure.message, finder.engine))
        return Find(failure, trace, raw, is_new=False, actions_found=length, reproduced=False)
    found = Found(failure.oracle, reduced.message, finder.engine, reduced_from=length)
    trace = _trace(finder, reduced, found)
    path, is_new = traces.write_new(trace, finder.folder, stem_of(reduced))
    return Find(reduced, trace, path, is_new, actions_found=length, reproduced=True)


def _trace(finder: Finder, failure: Failure, found: Found) -> Trace:
    header = Header(
        VERSION,
        finder.target,
        failure.configuration,
        seed=finder.seed,
        found=found,
        kills=_kills(finder.target, failure),
    )
    return Trace(header, failure.actions)


def _kills(target: str, failure: Failure) -> tuple[str, ...]:
    """Which of the bugs planted in `target` make the trace fail by themselves."""
    _, *bugs = target.split("+")
    return tuple(bug for bug in bugs if _run_again(make_target(planted(bug)), failure))


def _run_again(target: Target, failure: Failure) -> Failure | None:
    return run_again(target, failure.configuration, failure.actions, failure)
