"""Programs that a target runs or compiles with, such as compilers, and the programs made by them.

Invariant: whatever such a program does, the call ends, and the problem is one line of a
BadInputError.
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
    command: Sequence[str],
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    seconds: float = SECONDS_MAX,
) -> str:
    """What a program prints, stripped. Raises BadInputError if it fails."""
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
        raise BadInputError(f"{command[0]} has not made {result.name}, and printed no reason")
    return result


def kept_program(parts: object, make: Callable[[Path], Path]) -> Path:
    """The program that is made of these parts, once, and kept in the user's cache.

    `make` makes it in a folder and returns its path there.
    """
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gcfuzz")
    program = cache / f"mutator-{name}"
    if not program.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            make(Path(folder)).rename(program)
    return program
