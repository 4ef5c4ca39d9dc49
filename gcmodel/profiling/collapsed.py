"""Collapsed stacks: a line a site, its frames from the outermost in, and the bytes allocated there.

    gcbench;run gcbench.py:80;make_tree gcbench.py:31;node (died young) 1228800

The format that flame graph tools read, speedscope among them; `time` samples are not in it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from gcmodel.estimation.samples import Site
from gcmodel.profiling.profile import Profile
from gcmodel.profiling.sites import Sites


def write(profile: Profile, path: Path) -> None:
    """Write a profile. Raises OSError."""
    weights: Counter[Site] = Counter()
    sites = Sites(profile)
    for sample in profile.samples:
        weights[sites.of(sample)] += sample.weight_bytes
    lines = [f"{';'.join(map(str, reversed(site)))} {weights[site]}\n" for site in sorted(weights)]
    path.write_text("".join(lines), encoding="utf-8")
