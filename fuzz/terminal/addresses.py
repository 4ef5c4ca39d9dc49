"""Corpora at an address: `s3://bucket/night`, or any other address that fsspec supports.

A command works on a local copy of the corpus. It fetches the files first, and uploads what it adds
when it ends; a session also uploads failures when it reports them. A thread uploads, and tries
again, so that a session never waits for the store. Each call of the store is made in a thread, so
that a signal ends the command at any time. Invariants: no file at the address is removed, no trace
is replaced, and no record that another session wrote since the files were fetched. A message shows
the address of a file only if the file is there. What cannot be uploaded stays in the local copy,
and a message names it.
"""

from __future__ import annotations

import functools
import math
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import click

from fuzz.problems import BadInputError

if TYPE_CHECKING:
    from fuzz.sessions.session_events import Event, Listener

UPLOAD_SECONDS = 10.0
CALL_SECONDS = 60.0
"""A call of the store that takes longer is given up. One that uploads is made again."""
RETRY_SECONDS, RETRY_SECONDS_MAX = 0.5, 30.0
"""The first and the longest pause before a call is made again."""
END_SECONDS, INTERRUPTED_SECONDS = 20.0, 4.0
"""How long a command waits for uploads at its end, and after an interrupt."""
HELD_SECONDS = 10.0
"""After this time a failure is shown with its local path, if it is not uploaded."""
SUFFIXES = {".jsonl", ".log", ".json", ".history"}
"""Of traces, complaints of programs, records, and histories."""
REPLACED = {".json", ".history"}
NUMBERS_MAX = 1000
"""A session looks at this number of other records before it gives up."""

_local_copies: dict[Path, LocalCopy] = {}
"""By folder. They stay here for the messages at the end of a command."""


class LocalCopy:
    """A local copy of a corpus at an address."""

    def __init__(self, address: str) -> None:
        """Fetch the files. Raises BadInputError."""
        import secrets
        import tempfile

        self.address = address.rstrip("/")
        # Named before it exists, so that no signal comes between its creation and its removal.
        self.folder = Path(tempfile.gettempdir(), f"gcfuzz-corpus-{secrets.token_hex(8)}")
        self.place = self.folder
        """What the address names: the folder, or a file in it."""
        self._copied: dict[Path, int] = {}
        self._records: dict[Path, tuple[str, bytes]] = {}
        """The name of each record at the address, and what this command knows to be there."""
        self._last_upload = time.monotonic()
        self._end_seconds, self._end_by = END_SECONDS, math.inf
        self._uploader = Uploader(self._put)
        try:
            self.folder.mkdir(mode=0o700)
            self._fetch()
        except BaseException as problem:  # Each kind of address has its own exceptions.
            shutil.rmtree(self.folder, ignore_errors=True)  # A call may still write there.
            if not isinstance(problem, Exception):
                raise
            raise BadInputError(f"{address}: cannot be fetched: {problem}") from problem
        _local_copies[self.folder] = self

    def _fetch(self) -> None:
        from fsspec import url_to_fs  # type: ignore[import-untyped]

        self._remote, self._root = _answer(
            lambda: url_to_fs(self.address, use_listings_cache=False)
        )
        if _answer(lambda: self._remote.isfile(self._root)):
            self.address, _, name = self.address.rpartition("/")
            self._root = self._root.rpartition("/")[0]
            self.place = self.folder / name
            self._get(name)
        else:
            for path in _answer(lambda: self._remote.find(self._root)):
                self._get(path.removeprefix(self._root).lstrip("/"))

    def _get(self, name: str) -> None:
        path = self.folder / name
        if path.suffix in SUFFIXES and ".." not in PurePosixPath(name).parts:
            path.parent.mkdir(parents=True, exist_ok=True)
            _answer(lambda: self._remote.get_file(f"{self._root}/{name}", str(path)))
            self._copied[path] = path.stat().st_mtime_ns
            if path.suffix == ".json":
                self._records[path] = name, path.read_bytes()

    def before(self, listener: Listener) -> Listener:
        """A listener that uploads, and passes a failure on when it is at the address."""
        held: deque[tuple[float, Event, set[Path]]] = deque()

        def listen(event: Event) -> None:
            from fuzz.failures.corpus import COMPLAINT_SUFFIX
            from fuzz.sessions.record import INTERRUPTED
            from fuzz.sessions.session_events import FailureReported, Finished

            now = time.monotonic()
            if now - self._last_upload > UPLOAD_SECONDS:
                self._last_upload = now
                self._add(self.folder.glob("sessions/*.json"))
            if isinstance(event, FailureReported) and event.saved.path is not None:
                path = event.saved.path
                files = path, path.with_suffix(COMPLAINT_SUFFIX)
                self._add(files)
                held.append((now, event, {*files}))
                return
            if isinstance(event, Finished):
                if event.stop_reason == INTERRUPTED:
                    self._end_seconds = INTERRUPTED_SECONDS
                self._end_by = now + self._end_seconds
                self._uploader.wait(self._end_by)
            while held and (
                isinstance(event, Finished)
                or not self._uploader.missing & held[0][2]
                or now - held[0][0] > HELD_SECONDS
            ):
                listener(held.popleft()[1])
            listener(event)

        return listen

    def _add(self, paths: Iterable[Path]) -> None:
        self._uploader.add(path for path in paths if path.is_file())

    def _put(self, path: Path) -> None:
        """Upload a file, unless that is done, or it is still being written, or was removed."""
        from fuzz.failures.trace_files import PARTIAL

        if PARTIAL in path.suffixes or not path.exists():
            return
        written = path.stat().st_mtime_ns
        if self._copied.get(path) != written:
            name = f"{self._root}/{path.relative_to(self.folder).as_posix()}"
            if path.suffix == ".json":
                self._put_record(path)
            elif path.suffix in REPLACED or not self._remote.exists(name):
                self._remote.makedirs(name.rpartition("/")[0], exist_ok=True)
                self._remote.put_file(str(path), name)
            self._copied[path] = written

    def _put_record(self, path: Path) -> None:
        """Upload a record in place of this command's own; beside one that another session wrote."""
        from fuzz.sessions.record import numbered

        own = path.relative_to(self.folder)
        first, known = self._records.get(path, (own.as_posix(), None))
        content = path.read_bytes()
        for each in (PurePosixPath(first), *islice(numbered(own), NUMBERS_MAX)):
            name = f"{self._root}/{each}"
            # The answer to an earlier upload may have been lost.
            if not self._remote.exists(name) or self._remote.cat_file(name) in {known, content}:
                self._remote.makedirs(name.rpartition("/")[0], exist_ok=True)
                self._remote.pipe_file(name, content)
                self._records[path] = str(each), content
                return
        raise OSError(f"{own} has {NUMBERS_MAX} records of other sessions beside it")

    def shown(self, text: str) -> str:
        """The text with the address in place of the folder, unless the file is not there."""
        if any(str(path) in text for path in self._uploader.missing):
            return text
        return text.replace(str(self.folder), self.address)

    def end(self) -> None:
        """Upload new files, and remove the folder. Raises BadInputError."""
        self._add(sorted(self.folder.rglob("*")))
        try:
            self._uploader.wait(min(self._end_by, time.monotonic() + self._end_seconds))
        finally:
            if self._uploader.missing:
                del _local_copies[self.folder]  # The message names the folder.
                why = self._uploader.problem or "the store does not answer"
                raise BadInputError(
                    f"{self.address}: cannot be written: {why}; the files that are not there are "
                    f"in {self.folder}"
                )
        shutil.rmtree(self.folder)


class Uploader:
    """Uploads files one after another in a thread, each until that succeeds."""

    def __init__(self, put: Callable[[Path], None]) -> None:
        self._put = put
        self._changed = threading.Condition()
        self._waiting: dict[Path, None] = {}
        self.problem: Exception | None = None
        """Why the last call failed, if none has succeeded since."""
        self._is_started = False

    @property
    def missing(self) -> set[Path]:
        """The files that are not uploaded yet."""
        with self._changed:
            return {*self._waiting}

    def add(self, paths: Iterable[Path]) -> None:
        """Upload these files, too."""
        with self._changed:
            self._waiting.update(dict.fromkeys(paths))
            if self._waiting and not self._is_started:
                self._is_started = True
                threading.Thread(target=self._work, daemon=True).start()
            self._changed.notify_all()

    def wait(self, until: float) -> None:
        """Wait until all are uploaded, or until that time of the monotonic clock."""
        with self._changed:
            seconds = max(0.0, until - time.monotonic())
            self._changed.wait_for(lambda: not self._waiting, timeout=seconds)

    def _work(self) -> None:
        pause_seconds = RETRY_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                path = next(iter(self._waiting))
            problem = None
            try:
                _answer(functools.partial(self._put, path))
            except Exception as raised:  # noqa: BLE001 - each kind of address has its own
                problem = raised
            with self._changed:
                self.problem = problem
                del self._waiting[path]
                if problem is not None:
                    self._waiting[path] = None  # It comes last now.
                self._changed.notify_all()
            if problem is None:
                pause_seconds = RETRY_SECONDS
            else:
                time.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, RETRY_SECONDS_MAX)


T = TypeVar("T")


def _answer(call: Callable[[], T]) -> T:
    """Make a call of a store. One that takes CALL_SECONDS is left alone in its thread.

    Raises what the call raises, and TimeoutError.
    """
    from concurrent.futures import Future, wait  # Few sessions need it.

    answer = Future[T]()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as problem:  # noqa: BLE001 - it is raised in the other thread
            answer.set_exception(problem)

    threading.Thread(target=run, daemon=True).start()
    wait([answer], CALL_SECONDS)
    if not answer.done():
        raise TimeoutError(f"no answer for {CALL_SECONDS:.0f} s")
    return answer.result()


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


def uploading(folder: Path, listener: Listener) -> Listener:
    """The listener of a session, with that of the local copy in that folder, if there is one."""
    copy = _local_copies.get(folder)
    return listener if copy is None else copy.before(listener)


def with_addresses(text: str) -> str:
    """The text with addresses in place of the folders of local copies."""
    for copy in _local_copies.values():
        text = copy.shown(text)
    return text
