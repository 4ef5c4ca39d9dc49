"""The two text formats, which sum the samples of each site.

    node [died young] ◄ make_tree gcbench.py:31 ◄ … ◄ gcbench

The site of a sample is its type and fate on top of its call stack. Invariant: frames of different
functions, lines or files have different names. Neither format has samples by time.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gcmodel.estimation.heap_v2 import DumpedStack, write_with_names
from gcmodel.estimation.samples import Site
from gcmodel.estimation.unbiased import Totals
from gcmodel.profiling.profile import Profile, ProfileSample

NO_NAME = "[no name]"
SEPARATORS = str.maketrans("()<>;", "[][]:")
UNBIASED_PERIOD_BYTES = 1


def write_collapsed(profile: Profile, path: Path) -> None:
    """Write a line for each site: its frames, the outermost first, and the bytes allocated there.

        gcbench;run gcbench.py:80;make_tree gcbench.py:31;node [died young] 1228800

    Flame graph tools such as speedscope read it. Raises OSError.
    """
    weights: Counter[Site] = Counter()
    for site, sample in with_sites(profile):
        weights[site] += sample.weight_bytes
    lines = [f"{';'.join(map(str, reversed(site)))} {weights[site]}\n" for site in sorted(weights)]
    path.write_text("".join(lines), encoding="utf-8")


def write_heap_dump(profile: Profile, path: Path) -> None:
    """Write a heap_v2 dump with names, which `jeprof FILE` reads without a program.

    An object is live until a collection reports it dead. The dump has a period of one byte, so that
    jeprof shows its figures, which are unbiased already, as they are. Raises OSError.
    """
    live: defaultdict[Site, Totals] = defaultdict(Totals)
    allocated: defaultdict[Site, Totals] = defaultdict(Totals)
    for site, sample in with_sites(profile):
        allocated[site] += stands_for(sample)
        if sample.died_at_us is None:
            live[site] += stands_for(sample)
    stacks = {site: DumpedStack(live=live[site], allocated=of) for site, of in allocated.items()}
    path.write_text(write_with_names(stacks, UNBIASED_PERIOD_BYTES), encoding="utf-8")


def stands_for(sample: ProfileSample) -> Totals:
    """The objects and bytes that a sample stands for."""
    return Totals(sample.weight_bytes / sample.counted_bytes, sample.weight_bytes)


def with_sites(
    profile: Profile, *, with_lines: bool = True
) -> Iterator[tuple[Site, ProfileSample]]:
    """Each sample with its site, as named in all text formats and on the screen."""
    files = profile.short_files()
    names = {}
    for frame in profile.frames:
        file, line = files[frame.file], f":{frame.line}" if with_lines else ""
        names[frame] = _carried(f"{frame.function} {file}{line}" if file else frame.function)

    @cache
    def names_of(stack: int) -> Site:
        return tuple(names[frame] for frame in profile.frames_of(stack))

    for sample in profile.samples:
        top = _carried(f"{sample.type} [{sample.fate}]")
        yield (top, *names_of(sample.stack)), sample


def _carried(name: str) -> str:
    """A name that every text format can contain.

    Line ends, `;` and `--` are separators, and surrogates are not characters. jeprof leaves out
    what is in round or pointed brackets, as in C++ names.
    """
    words = name.encode(errors="replace").decode().split()
    return re.sub("--+", "-", " ".join(words)).translate(SEPARATORS) or NO_NAME
