"""Files that the user named: what is read from them, and what happens to what is there.

Invariants: reading ends, and keeps no more than a file may have. A regular file is replaced whole,
so that nobody ever reads half of one; a device or a pipe is written to; a symlink stays one, and
what it leads to is written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from fuzz.problems import BadInputError

FAILURES_FOLDER = Path("gcfuzz-failures")
"""Where failures are saved, unless the user names another folder."""
FILE_BYTES_MAX = 2**26
"""A million actions in a trace have fewer, and what is made of them in memory may be thirty times
as much."""
CHUNK_BYTES = 2**20
NAME_BYTES = 16


@contextmanager
def writing(path: Path, done: str = "written") -> Iterator[None]:
    """What cannot be `done` with a file is bad input."""
    try:
        yield
    except OSError as problem:
        raise BadInputError(f"{path}: cannot be {done}: {problem.strerror}") from problem


def reading(path: Path) -> AbstractContextManager[None]:
    """What cannot be read from a file is bad input."""
    return writing(path, "read")


def read_bytes(path: Path) -> bytes:
    """All of a file, or of what comes through a pipe, up to FILE_BYTES_MAX. Raises BadInputError.

    A pipe to which nobody writes is empty.
    """
    content = bytearray()
    with reading(path):
        if path.is_char_device() or path.is_block_device():
            raise BadInputError(f"{path}: is a device; name a file")
        size_bytes = path.stat().st_size
        with open(_opened_at_once(path), "rb", buffering=0) as file:
            while size_bytes <= FILE_BYTES_MAX and (chunk := file.read(CHUNK_BYTES)):
                content += chunk
                size_bytes = max(size_bytes, len(content))
    if size_bytes > FILE_BYTES_MAX:
        raise BadInputError(f"{path}: has more than {FILE_BYTES_MAX:,} bytes; split it")
    return bytes(content)


def _opened_at_once(path: Path) -> int:
    """Open a file to be read, without waiting for somebody who writes to it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def write_text(path: Path, text: str) -> None:
    """Write a file. Raises BadInputError."""
    with writing(path), replacing(path) as place:
        place.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place to write what is to be found at `path` when all of it is written. Raises OSError."""
    if _is_special(path):
        yield path
        return
    whole = _destination(path)
    # The ending may say how it is written.
    partial = whole.with_name(f"{os.urandom(NAME_BYTES).hex()}.partial{path.suffix}")
    try:
        yield partial
        partial.replace(whole)
    finally:
        partial.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise BadInputError unless what is at `path` can be written, or a file can be made there."""
    from tempfile import TemporaryFile

    with writing(path):
        if not _is_special(path):
            TemporaryFile(dir=_destination(path).parent).close()


def _is_special(path: Path) -> bool:
    """Whether it is a pipe or a device, which cannot be replaced."""
    return path.exists() and not path.is_file()


def _destination(path: Path) -> Path:
    """Where `path` leads through symlinks, whether anything is there or not. Raises OSError."""
    whole = Path(os.path.realpath(path))
    if whole.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return whole
