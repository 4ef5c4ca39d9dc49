"""A sample's site as names, the innermost first: the type and its fate on top of the call stack.

    node (died young) ◄ make_tree gcbench.py:31 ◄ … ◄ gcbench

The names are what text formats have; lines tell recursive calls of one function apart.
"""

from __future__ import annotations

from pathlib import PurePath

from gcmodel.estimation.samples import Site
from gcmodel.profiling.profile import Frame, Profile, Sample


def site_of(profile: Profile, sample: Sample) -> Site:
    """The site of a sample."""
    frames = map(name_of, profile.frames_of(sample.stack))
    return f"{sample.type} ({sample.fate})", *frames


def name_of(frame: Frame) -> str:
    """A frame as one name: function, file and line, if it has these."""
    file = PurePath(frame.file).name
    return f"{frame.function} {file}:{frame.line}" if file else frame.function
