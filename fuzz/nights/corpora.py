"""Traces in several corpora: where one is, which ones no record names, and whose program they need.

Invariants: a trace's path does not leave its corpus, also not by a symlink. Traces of another
program are not beside those of the corpus's own, because a replay of a folder judges one program.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from fuzz.failures.corpus import RAW, unpublished_in
from fuzz.failures.trace_files import PARTIAL, SUFFIX
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.trace import Trace
from fuzz.sessions.record import BEYOND, is_inside

OTHERS = "of-"
"""Begins the name of a folder with the traces of another program."""
OTHERS_MAX = 80
"""Characters of that name after OTHERS."""


@contextmanager
def noting(left_out: list[str]) -> Iterator[None]:
    """Bad input in the block costs a line in `left_out`, and not all that was read."""
    try:
        yield
    except BadInputError as problem:
        left_out.append(str(problem))


def find_trace(corpora: Iterable[Path], name: Path) -> tuple[Path, Trace] | None:
    """The trace that a record names, in the first corpus that has it, and can be read.

    Raises BadInputError if there are only files that cannot be read.
    """
    problem = None
    for path in _places(corpora, name):
        if os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises if a name is too long
            try:
                return path, traces.read(path)
            except BadInputError as found:
                problem = problem or found
    if problem is not None:
        raise problem
    return None


def _places(corpora: Iterable[Path], name: Path) -> Iterator[Path]:
    folders = [*corpora]
    plain = Path(name.name)
    paths = [(each, each / name) for each in folders] if is_inside(name) else []
    paths += [(each, each / plain) for each in folders]
    paths += [
        (each, path)
        for each in folders
        for path in sorted(each.glob(f"{OTHERS}*/{glob.escape(plain.name)}"))
    ]
    for corpus, path in paths:
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(corpus)):
            yield path


def unnamed_in(
    folders: Iterable[Path], named: Iterable[Path | None], stems: Collection[str]
) -> tuple[str, ...]:
    """The traces of failures in corpora that are not among those named.

    `stems` are those of failures that are known; other traces of these are left out.
    """
    names = {path.name for path in named if path is not None}
    found = []
    for folder in folders:
        unpublished = unpublished_in(folder)
        for path in sorted([*folder.glob(f"*{SUFFIX}"), *folder.glob(f"{BEYOND}/*{SUFFIX}")]):
            stem = path.stem.rpartition("-")[0].removesuffix(RAW)
            is_other = path not in unpublished and PARTIAL not in path.suffixes
            if is_other and path.name not in names and stem not in stems and _has_failed(path):
                found.append(str(path))
    return tuple(found)


def _has_failed(path: Path) -> bool:
    """Whether a file is a trace that was saved because it failed."""
    try:
        return traces.read(path).header.found is not None
    except BadInputError:
        return False


def command_of(arguments: Sequence[str]) -> str:
    """The command of a program in the arguments of a session; empty if there is none."""
    return next((value for name, value in pairwise(arguments) if name == "--command"), "")


def folder_of_other(folder: Path, program: str) -> Path:
    """The folder in a corpus for the traces of another program."""
    return folder / (OTHERS + re.sub(r"[^\w.+-]+", "-", program)[:OTHERS_MAX])
