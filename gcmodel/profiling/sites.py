"""A sample's site as names, the innermost first: the type and its fate on top of the call stack.

    node (died young) ◄ make_tree gcbench.py:31 ◄ … ◄ gcbench

The names are what text formats have; lines tell recursive calls of one function apart.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from gcmodel.estimation.samples import Site
from gcmodel.profiling.profile import Frame, Profile, Sample

NO_NAME = "(no name)"


def site_of(profile: Profile, sample: Sample) -> Site:
    """The site of a sample."""
    frames = map(name_of, profile.frames_of(sample.stack))
    return _carried(f"{sample.type} ({sample.fate})"), *frames


def name_of(frame: Frame) -> str:
    """A frame as one name: function, file and line, if it has these."""
    file = PurePath(frame.file).name
    return _carried(f"{frame.function} {file}:{frame.line}" if file else frame.function)


def _carried(name: str) -> str:
    """A name that every text format can carry.

    Line ends, `;` and `--` separate in one or the other, and surrogates are no characters.
    """
    words = name.encode(errors="replace").decode().split()
    return re.sub("--+", "-", " ".join(words)).replace(";", ":") or NO_NAME
