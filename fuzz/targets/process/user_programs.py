"""Programs of the user's that a target asks or compiles with, and those that these make for it.

Invariant: whatever such a program does, also nothing at all, this ends, and what went wrong is one
line of a BadInputError.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.problems import BadInputError

SECONDS_MAX = 300
"""On a busy machine a compiler's first program takes a minute."""


def output_of(
    words: Sequence[str],
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    seconds: float = SECONDS_MAX,
) -> str:
    """What a program prints, without the space around it. Raises BadInputError where it fails."""
    program = words[0]
    try:
        done = subprocess.run(  # noqa: S603 - the user's program
            words,
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
    made: Path,
    words: Sequence[str],
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Path:
    """That file, which a compiler makes when it is called so. Raises BadInputError."""
    output_of(words, folder, variables)
    if not made.is_file():
        raise BadInputError(f"{words[0]} has not made {made.name}, and says nothing of it")
    return made


def kept_program(parts: object, make: Callable[[Path], Path]) -> Path:
    """The program that is made of these parts, once, and kept in the user's cache.

    `make` makes it in a folder, and says where there. Raises what that does.
    """
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gcfuzz")
    program = cache / f"mutator-{name}"
    if not program.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            make(Path(folder)).rename(program)
    return program
