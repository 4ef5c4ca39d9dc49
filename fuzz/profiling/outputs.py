"""The files of a profile: the format of each by its name, its place, and how it is written.

Invariants: a file is replaced as a whole, so that no reader sees half a profile, and an export that
fails leaves the old file. A recording that was not asked for is removed only when all files that
were are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path

import attrs

from fuzz.files import check_writable, reading, writing
from fuzz.problems import BadInputError
from gcmodel.profiling import firefox, pprof, recording, text_formats
from gcmodel.profiling.profile import Profile


@attrs.frozen
class Format:
    """How a file is opened, how it is written, and whether it has samples by time."""

    opened_by: str
    write: Callable[[Profile, Path], None] | None
    """None for the recording, which exists before the other files."""
    has_time: bool


RECORDING_SUFFIX = ".jsonl"
_IN_FIREFOX = "open it at https://profiler.firefox.com"
_IN_FLAMES = "a flame graph tool reads it, speedscope for instance"
_OURSELVES = "the recording, from which `gcfuzz profile` makes the other formats"
FORMATS = {
    ".json": Format(_IN_FIREFOX, firefox.write, has_time=True),
    ".json.gz": Format(_IN_FIREFOX, firefox.write, has_time=True),
    ".pb.gz": Format("open it with `go tool pprof`", pprof.write, has_time=False),
    ".heap": Format("read it with `jeprof --text`", text_formats.write_heap_dump, has_time=False),
    ".collapsed": Format(_IN_FLAMES, text_formats.write_collapsed, has_time=False),
    RECORDING_SUFFIX: Format(_OURSELVES, None, has_time=True),
}
"""The formats by the endings of file names."""


def format_of(path: Path) -> Format:
    """The format of a file. Raises BadInputError unless its name has an ending of one."""
    for ending, kind in FORMATS.items():
        if path.name[1:].endswith(ending):  # The ending alone is not a name.
            return kind
    raise BadInputError(f"{path}: unknown format; end the name in one of {', '.join(FORMATS)}")


def check_outputs(paths: Sequence[Path], *, samples_time: bool) -> None:
    """Raise BadInputError unless each of these files can be written, and has what was asked for."""
    for path in paths:
        format_of(path)
        if not path.parent.is_dir():
            raise BadInputError(f"{path}: cannot be written: there is no folder {path.parent}")
        if [realpath(each) for each in paths].count(realpath(path)) > 1:
            raise BadInputError(f"{path}: is named twice; name another file or leave it out")
        check_writable(path)
    if len(recordings := _recordings_among(paths)) > 1:
        raise BadInputError(f"{recordings[1]}: there is one recording; name one file for it")
    if samples_time and not any(format_of(path).has_time for path in paths):
        raise BadInputError(
            "--time-period: only .json and .jsonl files have samples by time; name one of these, "
            "or leave it out"
        )


def check_exports(path: Path, paths: Sequence[Path]) -> None:
    """Raise BadInputError if one of these files would be a second recording."""
    if recordings := _recordings_among(paths):
        raise BadInputError(f"{recordings[0]}: {path} is the recording; copy that")


def is_recording(path: Path) -> bool:
    """Whether a file is a recording. Raises BadInputError if it cannot be read."""
    with reading(path):
        return recording.is_recording(path)


@contextmanager
def recording_place(paths: Sequence[Path]) -> Iterator[Path]:
    """The place of the recording: the file asked for, or a file beside the first of the others.

    The file is created at once, so that only one of two profiles can have it. It is removed if it
    is empty, or if it was not asked for. Raises BadInputError if another file would be lost.
    """
    asked_for = _recordings_among(paths)
    path = asked_for[0] if asked_for else paths[0].with_name(paths[0].name + RECORDING_SUFFIX)
    is_new = not asked_for or not path.exists()
    if is_new:
        with writing(path):
            try:
                path.touch(exist_ok=False)
            except FileExistsError:
                raise BadInputError(
                    f"{path}: exists already, and the recording would replace it; if a profile was "
                    "killed, export it; if one still runs, wait; if not, move it away"
                ) from None
    elif not path.is_file():
        raise BadInputError(f"{path}: is not a regular file, which a recording needs")
    elif path.stat().st_size and not is_recording(path):
        raise BadInputError(f"{path}: exists already, and is not a recording; name another file")
    try:
        yield path
    except BaseException:
        if is_new and path.exists() and not path.stat().st_size:
            path.unlink()
        raise
    if not asked_for:
        path.unlink()


def _recordings_among(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if format_of(path).write is None]
