"""Finds, runs and builds programs of the user's, such as compilers.

Invariant: the call always ends, and a failure of the program is one line of a BadInputError.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.problems import BadInputError

SECONDS_MAX = 300
"""On a busy computer the first run of a compiler takes a minute."""


def runtime_places(
    wheel: str, place_in_wheel: str, variable: str, program: str, above: int
) -> Iterator[Path]:
    """Where a runtime may be: in a wheel, in the folder that a variable names, on PATH.

    The last one is that many folders above the program's own folder.
    """
    spec = find_spec(wheel)
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / place_in_wheel
    if os.environ.get(variable):
        yield Path(os.environ[variable])
    found = shutil.which(program)
    if found is not None:
        yield Path(found).resolve().parents[above]


def output_of(
    command: Sequence[str],
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    seconds: float = SECONDS_MAX,
) -> str:
    """The stripped output of a program. Raises BadInputError if it fails."""
    program = command[0]
    try:
        done = subprocess.run(  # noqa: S603 - the user's program
            command,
            cwd=folder,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except OSError as problem:
        raise BadInputError(f"{program}: {problem.strerror}") from problem
    except subprocess.TimeoutExpired as problem:
        raise BadInputError(f"{program} has not ended within {seconds:g} s") from problem
    if done.returncode:
        exit_code = f"exit code {done.returncode}"
        [*_, last] = (done.stdout + done.stderr).strip().splitlines() or [exit_code]
        raise BadInputError(f"{program} fails: {last}")
    return done.stdout.strip()


def compiled(
    result: Path,
    command: Sequence[str],
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Path:
    """The file that this compiler command writes. Raises BadInputError."""
    output_of(command, folder, variables)
    if not result.is_file():
        raise BadInputError(f"{command[0]} has not written {result.name}, and printed no reason")
    return result


def cache_folder() -> Path:
    """The folder for what was built, in the user's cache. Raises BadInputError."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache", "gcfuzz")
    with _keeping_in(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as problem:  # A user without an entry in the system's table of users.
        raise BadInputError(f"there is no folder for compiled programs; {HOW_TO_NAME}") from problem


HOW_TO_NAME = "set XDG_CACHE_HOME to a folder that can be written; without it, HOME/.cache is used"


@contextmanager
def _keeping_in(folder: Path) -> Iterator[None]:
    """Turn OSError into BadInputError, which says what names the folder."""
    try:
        yield
    except OSError as problem:
        raise BadInputError(
            f"{folder}: compiled programs cannot be kept there: {problem.strerror}; {HOW_TO_NAME}"
        ) from problem


def kept_program(parts: object, make: Callable[[Path], Path]) -> Path:
    """The program of these parts, from the user's cache, or built by `make` in a folder.

    Two processes that need the same program build it once: the second one waits. Raises
    BadInputError if the cache cannot be written.
    """
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    cache = cache_folder()
    program = cache / f"mutator-{name}"
    with _keeping_in(cache):
        if program.is_file():
            return program
        lock = cache / f"{program.name}.lock"
        with lock.open("w") as file, TemporaryDirectory(dir=cache) as folder:
            # It stays there: a process that waits for a deleted file would not see the next one.
            fcntl.flock(file, fcntl.LOCK_EX)
            if not program.is_file():
                make(Path(folder)).rename(program)
    return program
