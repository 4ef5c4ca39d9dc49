"""The site of a sample: its type and fate on top of its call stack.

    node (died young) ◄ make_tree gcbench.py:31 ◄ … ◄ gcbench

The names are what text formats have. Invariant: frames of two functions, lines or files have two
names: of a file's path there is as much as tells it from the other files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath

from gcmodel.estimation.samples import Site
from gcmodel.profiling.profile import Frame, Profile, ProfileSample

NO_NAME = "(no name)"


class Sites:
    """The sites of a profile's samples."""

    def __init__(self, profile: Profile) -> None:
        files = _short_names(frame.file for frame in profile.frames)
        self._names = {frame: _name_of(frame, files[frame.file]) for frame in profile.frames}
        self._profile = profile
        self._stacks: dict[int, Site] = {}

    def of(self, sample: ProfileSample) -> Site:
        """The site of a sample."""
        stack = self._stacks.get(sample.stack)
        if stack is None:
            frames = self._profile.frames_of(sample.stack)
            stack = self._stacks[sample.stack] = tuple(self._names[frame] for frame in frames)
        return _carried(f"{sample.type} ({sample.fate})"), *stack


def _name_of(frame: Frame, file: str) -> str:
    """A frame as one name: function, file and line, if it has these."""
    return _carried(f"{frame.function} {file}:{frame.line}" if file else frame.function)


def _short_names(files: Iterable[str]) -> dict[str, str]:
    """The end of each file's path, long enough to tell it from the others'."""
    names: dict[str, str] = {}
    alike = {file: PurePath(file).parts for file in files}
    length = 1
    while alike:
        ends = Counter(parts[-length:] for parts in alike.values())
        for file, parts in alike.items():
            if ends[parts[-length:]] == 1 or length >= len(parts):
                names[file] = str(PurePath(*parts[-length:])) if file else ""
        alike = {file: parts for file, parts in alike.items() if file not in names}
        length += 1
    return names


def _carried(name: str) -> str:
    """A name that every text format can carry.

    Line ends, `;` and `--` separate in one or the other, and surrogates are no characters.
    """
    words = name.encode(errors="replace").decode().split()
    return re.sub("--+", "-", " ".join(words)).replace(";", ":") or NO_NAME
