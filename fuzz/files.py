"""Reads and writes the files that the user names.

Invariants: reading ends, and keeps no more than FILE_BYTES_MAX. A regular file is replaced as a
whole, so that no reader sees half of one. A device or a pipe is written to. A symlink stays, and
the file that it leads to is written.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from fuzz.problems import BadInputError

FAILURES_FOLDER = Path("gcfuzz-failures")
"""The default folder for failures."""
FILE_BYTES_MAX = 2**26
"""A trace of a million actions is smaller. Its objects may take thirty times as much memory."""
CHUNK_BYTES = 2**20


@contextmanager
def writing(path: Path, done: str = "written") -> Iterator[None]:
    """Turn OSError into BadInputError: the file cannot be `done`."""
    try:
        yield
    except OSError as problem:
        raise BadInputError(f"{path}: cannot be {done}: {problem.strerror}") from problem


def reading(path: Path) -> AbstractContextManager[None]:
    """Turn OSError into BadInputError: the file cannot be read."""
    return writing(path, "read")


def read_bytes(path: Path) -> bytes:
    """The content of a file or a pipe, up to FILE_BYTES_MAX. Raises BadInputError.

    A pipe without a writer is empty.
    """
    content = bytearray()
    with reading(path):
        status = path.stat()
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise BadInputError(f"{path}: is a device; name a file")
        size_bytes = status.st_size
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # It does not wait for a writer.
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while size_bytes <= FILE_BYTES_MAX and (chunk := file.read(CHUNK_BYTES)):
                content += chunk
                size_bytes = max(size_bytes, len(content))
    if size_bytes > FILE_BYTES_MAX:
        raise BadInputError(f"{path}: has more than {FILE_BYTES_MAX:,} bytes; split it")
    return bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a file. Raises BadInputError."""
    with writing(path), replacing(path) as place:
        place.write_text(text, encoding="utf-8")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes that call this for the folder waiting. Raises OSError if it is missing.

    The folder is locked, and not a file in it, because `replacing` gives a path to a new file each
    time. A file system that cannot lock lets everyone in.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path` when all is written. Raises OSError."""
    if _is_special(path):
        yield path
        return
    whole = _destination(path)
    # The suffix stays, because it may determine the format.
    partial = whole.with_name(f"{os.urandom(16).hex()}.partial{path.suffix}")
    try:
        yield partial
        partial.replace(whole)
    finally:
        partial.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise BadInputError unless `path` can be written or created."""
    from tempfile import TemporaryFile

    with writing(path):
        if not _is_special(path):
            TemporaryFile(dir=_destination(path).parent).close()


def _is_special(path: Path) -> bool:
    """Whether it is a pipe or a device, which cannot be replaced."""
    return path.exists() and not path.is_file()


def _destination(path: Path) -> Path:
    """The file that a symlink leads to, which may not exist yet. Raises OSError."""
    whole = Path(os.path.realpath(path))
    if whole.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return whole
