"""Corpora that are elsewhere: `s3://bucket/night`, or any other address that fsspec knows.

A folder here stands for the address while a command runs: what is there is fetched first, and what
the command adds is copied when it ends, and a session's finds as they come. What people read has
the address. Invariants: nothing is removed there, and no trace that is there replaced; what could
not be copied stays here, and is named.
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

COPY_SECONDS = 10.0
SUFFIXES = {".jsonl", ".log", ".json"}
"""Of traces, of what programs complained of, and of records."""

_stand_ins: dict[Path, StandIn] = {}
"""By their folders. They stay, for what is said at a command's very end."""


class StandIn:
    """A folder that stands for an address."""

    def __init__(self, address: str) -> None:
        """Fetch what is there. Raises BadInputError."""
        import tempfile

        self.address = address.rstrip("/")
        self.folder = Path(tempfile.mkdtemp(prefix="gcfuzz-corpus-"))
        self.place = self.folder
        """What is meant: the folder, or a file in it."""
        self._copied: dict[Path, int] = {}
        self._last_copied = time.monotonic()
        try:
            self._fetch()
        except Exception as problem:  # Each kind of address has its own.
            shutil.rmtree(self.folder)
            raise BadInputError(f"{address}: cannot be fetched: {problem}") from problem
        _stand_ins[self.folder] = self

    def _fetch(self) -> None:
        from fsspec import url_to_fs  # type: ignore[import-untyped]

        self._there, self._root = url_to_fs(self.address, use_listings_cache=False)
        if self._there.isfile(self._root):
            self.address, _, name = self.address.rpartition("/")
            self._root = self._root.rpartition("/")[0]
            self.place = self.folder / name
            self._get(name)
        else:
            for path in self._there.find(self._root):
                self._get(path.removeprefix(self._root).lstrip("/"))

    def _get(self, name: str) -> None:
        path = self.folder / name
        if path.suffix in SUFFIXES and ".." not in PurePosixPath(name).parts:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._there.get_file(f"{self._root}/{name}", str(path))
            self._copied[path] = path.stat().st_mtime_ns

    def __call__(self, event: Event) -> None:
        """Copy what a session has reported so far. What cannot be copied now is at its end."""
        from fuzz.sessions.corpus import COMPLAINT_SUFFIX
        from fuzz.sessions.session_events import Told

        paths: list[Path] = []
        if isinstance(event, Told) and event.find.path is not None:
            paths = [event.find.path, event.find.path.with_suffix(COMPLAINT_SUFFIX)]
        if time.monotonic() - self._last_copied > COPY_SECONDS:
            self._last_copied = time.monotonic()
            paths += self.folder.glob("sessions/*.json")
        with suppress(BadInputError):
            self._copy(path for path in paths if path.exists())

    def _copy(self, paths: Iterable[Path]) -> None:
        """Copy what is new. Raises BadInputError."""
        from fuzz.sessions.corpus import PARTIAL

        try:
            for path in paths:
                written = path.stat().st_mtime_ns
                if PARTIAL not in path.suffixes and self._copied.get(path) != written:
                    there = f"{self._root}/{path.relative_to(self.folder).as_posix()}"
                    if path.suffix == ".json" or not self._there.exists(there):
                        self._there.makedirs(there.rpartition("/")[0], exist_ok=True)
                        self._there.put_file(str(path), there)
                    self._copied[path] = written
        except Exception as problem:  # Each kind of address has its own.
            raise BadInputError(
                f"{self.address}: cannot be written: {problem}; what is not there is in "
                f"{self.folder}"
            ) from problem

    def end(self) -> None:
        """Copy what is new; then the folder goes. Raises BadInputError."""
        try:
            self._copy(path for path in sorted(self.folder.rglob("*")) if path.is_file())
        except BadInputError:
            del _stand_ins[self.folder]
            raise
        shutil.rmtree(self.folder)


class PathOrAddress(click.Path):
    """A file or a folder, or the address of one; converts to where it is, or what stands for it."""

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
            import fsspec  # noqa: F401 - whether it is there
        except ImportError as problem:
            raise BadInputError(
                f"{value}: an address needs fsspec: pip install 'gcfuzz[remote]'"
            ) from problem
        stand_in = StandIn(str(value))
        if ctx is not None:  # The command's own is not closed if another option is wrong.
            ctx.find_root().call_on_close(stand_in.end)
        return stand_in.place


def stand_in_at(folder: Path) -> list[StandIn]:
    """What stands for an address there, if something does."""
    return [each for at, each in _stand_ins.items() if at == folder]


def told(text: str) -> str:
    """The same with the addresses of what stands for them."""
    for folder, stand_in in _stand_ins.items():
        text = text.replace(str(folder), stand_in.address)
    return text
