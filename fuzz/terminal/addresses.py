"""Corpora at an address: `s3://bucket/night`, or any other address that fsspec supports.

A command works on a local copy of the corpus. It fetches the files first, and uploads what it adds
when it ends; a session also uploads failures when it reports them. Messages show the address.
Invariants: no file at the address is removed, and no trace is replaced; what cannot be uploaded
stays in the local copy, and a message names it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from fuzz.problems import BadInputError

if TYPE_CHECKING:
    from fuzz.sessions.session_events import Event

UPLOAD_SECONDS = 10.0
SUFFIXES = {".jsonl", ".log", ".json", ".history"}
"""Of traces, complaints of programs, records, and histories."""
REPLACED = {".json", ".history"}

_local_copies: dict[Path, LocalCopy] = {}
"""By folder. They stay here for the messages at the end of a command."""


class LocalCopy:
    """A local copy of a corpus at an address."""

    def __init__(self, address: str) -> None:
        """Fetch the files. Raises BadInputError."""
        import tempfile

        self.address = address.rstrip("/")
        self.folder = Path(tempfile.mkdtemp(prefix="gcfuzz-corpus-"))
        self.place = self.folder
        """What the address names: the folder, or a file in it."""
        self._copied: dict[Path, int] = {}
        self._last_upload = time.monotonic()
        try:
            self._fetch()
        except Exception as problem:  # Each kind of address has its own exceptions.
            shutil.rmtree(self.folder)
            raise BadInputError(f"{address}: cannot be fetched: {problem}") from problem
        _local_copies[self.folder] = self

    def _fetch(self) -> None:
        from fsspec import url_to_fs  # type: ignore[import-untyped]

        self._remote, self._root = url_to_fs(self.address, use_listings_cache=False)
        if self._remote.isfile(self._root):
            self.address, _, name = self.address.rpartition("/")
            self._root = self._root.rpartition("/")[0]
            self.place = self.folder / name
            self._get(name)
        else:
            for path in self._remote.find(self._root):
                self._get(path.removeprefix(self._root).lstrip("/"))

    def _get(self, name: str) -> None:
        path = self.folder / name
        if path.suffix in SUFFIXES and ".." not in PurePosixPath(name).parts:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._remote.get_file(f"{self._root}/{name}", str(path))
            self._copied[path] = path.stat().st_mtime_ns

    def __call__(self, event: Event) -> None:
        """Upload what a session has reported so far. `end` tries again what fails now."""
        from fuzz.sessions.corpus import COMPLAINT_SUFFIX
        from fuzz.sessions.session_events import FailureReported

        paths: list[Path] = []
        if isinstance(event, FailureReported) and event.saved.path is not None:
            paths = [event.saved.path, event.saved.path.with_suffix(COMPLAINT_SUFFIX)]
        if time.monotonic() - self._last_upload > UPLOAD_SECONDS:
            self._last_upload = time.monotonic()
            paths += self.folder.glob("sessions/*.json")
        with suppress(BadInputError):
            self._upload(path for path in paths if path.exists())

    def _upload(self, paths: Iterable[Path]) -> None:
        """Upload new files. Raises BadInputError."""
        from fuzz.sessions.corpus import PARTIAL

        try:
            for path in paths:
                written = path.stat().st_mtime_ns
                if PARTIAL not in path.suffixes and self._copied.get(path) != written:
                    name = f"{self._root}/{path.relative_to(self.folder).as_posix()}"
                    if path.suffix in REPLACED or not self._remote.exists(name):
                        self._remote.makedirs(name.rpartition("/")[0], exist_ok=True)
                        self._remote.put_file(str(path), name)
                    self._copied[path] = written
        except Exception as problem:  # Each kind of address has its own exceptions.
            raise BadInputError(
                f"{self.address}: cannot be written: {problem}; the files that are not there are "
                f"in {self.folder}"
            ) from problem

    def end(self) -> None:
        """Upload new files, and remove the folder. Raises BadInputError."""
        try:
            self._upload(path for path in sorted(self.folder.rglob("*")) if path.is_file())
        except BadInputError:
            del _local_copies[self.folder]
            raise
        shutil.rmtree(self.folder)


class PathOrAddress(click.Path):
    """A path, or an address, which is converted to the path of a local copy."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path:
        if "://" not in str(value):
            return Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            import fsspec  # noqa: F401 - only whether it is installed
        except ImportError as problem:
            raise BadInputError(
                f"{value}: an address needs fsspec: pip install 'gcfuzz[remote]'"
            ) from problem
        copy = LocalCopy(str(value))
        if ctx is not None:  # The context of the command is not closed if an option is wrong.
            ctx.find_root().call_on_close(copy.end)
        return copy.place


def local_copies_at(folder: Path) -> list[LocalCopy]:
    """The local copy in that folder, if there is one."""
    return [each for at, each in _local_copies.items() if at == folder]


def with_addresses(text: str) -> str:
    """The text with addresses in place of the folders of local copies."""
    for folder, copy in _local_copies.items():
        text = text.replace(str(folder), copy.address)
    return text
