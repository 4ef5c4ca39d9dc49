"""A profile as a heap_v2 dump with names, which `jeprof FILE` reads without a program.

What is live in it has survived its first minor collection, or its fate is not known; what was
allocated is all. The dump says a period of one byte, since its figures are unbiased already: so
jeprof shows them as they are, where it would multiply others, and round them.
"""

from __future__ import annotations

from pathlib import Path

from gcmodel.estimation.heap_v2 import DumpedStack, write_with_names
from gcmodel.estimation.samples import Site
from gcmodel.estimation.unbiased import Totals
from gcmodel.profiling.profile import Fate, Profile, ProfileSample
from gcmodel.profiling.sites import Sites

UNBIASED_PERIOD_BYTES = 1


def write(profile: Profile, path: Path) -> None:
    """Write a profile. Raises OSError."""
    live: dict[Site, Totals] = {}
    allocated: dict[Site, Totals] = {}
    sites = Sites(profile)
    for sample in profile.samples:
        site = sites.of(sample)
        allocated[site] = allocated.get(site, Totals()) + stands_for(sample)
        if sample.fate is not Fate.DIED_YOUNG:
            live[site] = live.get(site, Totals()) + stands_for(sample)
    stacks = {
        site: DumpedStack(live=live.get(site, Totals()), allocated=totals)
        for site, totals in allocated.items()
    }
    path.write_text(write_with_names(stacks, UNBIASED_PERIOD_BYTES), encoding="utf-8")


def stands_for(sample: ProfileSample) -> Totals:
    """The objects and bytes that a sample stands for: each hit stands for a period of bytes."""
    return Totals(sample.weight_bytes / sample.counted_bytes, sample.weight_bytes)
