"""The two text formats, which have a line or more for each site: its samples, summed.

    node [died young] ◄ make_tree gcbench.py:31 ◄ … ◄ gcbench

The site of a sample is its type and fate on top of its call stack. Invariant: frames of two
functions, lines or files have two names: of a file's path there is as much as tells it from the
other files. `time` samples are in neither format.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gcmodel.estimation.heap_v2 import DumpedStack, write_with_names
from gcmodel.estimation.samples import Site
from gcmodel.estimation.unbiased import Totals
from gcmodel.profiling.profile import Frame, Profile, ProfileSample

NO_NAME = "[no name]"
SEPARATORS = str.maketrans("()<>;", "[][]:")
UNBIASED_PERIOD_BYTES = 1


def write_collapsed(profile: Profile, path: Path) -> None:
    """Write a line a site: its frames from the outermost in, and the bytes allocated there.

        gcbench;run gcbench.py:80;make_tree gcbench.py:31;node [died young] 1228800

    Flame graph tools read that, speedscope among them. Raises OSError.
    """
    weights: Counter[Site] = Counter()
    for site, sample in with_sites(profile):
        weights[site] += sample.weight_bytes
    lines = [f"{';'.join(map(str, reversed(site)))} {weights[site]}\n" for site in sorted(weights)]
    path.write_text("".join(lines), encoding="utf-8")


def write_heap_dump(profile: Profile, path: Path) -> None:
    """Write a heap_v2 dump with names, which `jeprof FILE` reads without a program.

    What is live in it no collection has told to be dead; what was allocated is all. The dump says
    a period of one byte, since its figures are unbiased already: so jeprof shows them as they are,
    where it would multiply others, and round them. Raises OSError.
    """
    live: defaultdict[Site, Totals] = defaultdict(Totals)
    allocated: defaultdict[Site, Totals] = defaultdict(Totals)
    for site, sample in with_sites(profile):
        allocated[site] += stands_for(sample)
        if sample.died_at_us is None:
            live[site] += stands_for(sample)
    stacks = {
        site: DumpedStack(live=live[site], allocated=totals) for site, totals in allocated.items()
    }
    path.write_text(write_with_names(stacks, UNBIASED_PERIOD_BYTES), encoding="utf-8")


def stands_for(sample: ProfileSample) -> Totals:
    """The objects and bytes that a sample stands for: each hit stands for a period of bytes."""
    return Totals(sample.weight_bytes / sample.counted_bytes, sample.weight_bytes)


def with_sites(
    profile: Profile, *, with_lines: bool = True
) -> Iterator[tuple[Site, ProfileSample]]:
    """Each sample, and its site as it is named in all text formats and to people."""
    files = profile.short_files()
    names = {
        frame: _name_of(frame, files[frame.file], with_lines=with_lines) for frame in profile.frames
    }

    @cache
    def names_of(stack: int) -> Site:
        return tuple(names[frame] for frame in profile.frames_of(stack))

    for sample in profile.samples:
        top = _carried(f"{sample.type} [{sample.fate}]")
        yield (top, *names_of(sample.stack)), sample


def _name_of(frame: Frame, file: str, *, with_lines: bool) -> str:
    """A frame as one name: function, file and line, if it has these."""
    line = f":{frame.line}" if with_lines else ""
    return _carried(f"{frame.function} {file}{line}" if file else frame.function)


def _carried(name: str) -> str:
    """A name that every text format can carry.

    Line ends, `;` and `--` separate in one or the other, surrogates are no characters, and jeprof
    takes what stands in round or pointed brackets for C++'s, and leaves it out.
    """
    words = name.encode(errors="replace").decode().split()
    return re.sub("--+", "-", " ".join(words)).translate(SEPARATORS) or NO_NAME
