"""Collapsed stacks: a line a site, the outermost frame first, and the bytes that it stands for."""

from collections import Counter
from pathlib import Path

import attrs
import pytest

from gcmodel.profiling.profile import Frame, Profile
from gcmodel.profiling.text_formats import write_collapsed


@pytest.fixture
def lines(profile: Profile, tmp_path: Path) -> list[str]:
    write_collapsed(profile, tmp_path / "out.collapsed")
    return (tmp_path / "out.collapsed").read_text().splitlines()


def test_a_line_goes_from_the_program_to_the_type_and_its_fate(lines: list[str]) -> None:
    assert "gcbench;build tree.py:12;build tree.py:14;node [died young] 12288" in lines


def test_every_site_and_fate_is_one_line(lines: list[str]) -> None:
    sites = [line.rpartition(" ")[0] for line in lines]
    assert len(sites) == len(set(sites)) == 4


def test_the_lines_stand_for_all_samples(profile: Profile, lines: list[str]) -> None:
    total = sum(int(line.rpartition(" ")[2]) for line in lines)
    assert total == profile.weight_bytes


def test_the_lines_have_the_bytes_that_the_recorder_counted(
    real: Profile, counted: dict[str, int], tmp_path: Path
) -> None:
    write_collapsed(real, tmp_path / "real.collapsed")
    figures: Counter[str] = Counter()
    for line in (tmp_path / "real.collapsed").read_text().splitlines():
        site, _, figure = line.rpartition(" ")
        figures[site.partition("[")[2]] += int(figure)
    young, later = figures["died young]"], figures["died old]"]
    assert young > 0 < later
    assert counted == {
        "alloc": figures.total(),
        "survived": figures.total() - young,
        "live": figures.total() - young - later,
    }


def test_what_is_not_known_yet_says_so(lines: list[str]) -> None:
    assert [line for line in lines if "unknown type [fate not known yet]" in line]


def test_a_separator_in_a_name_does_not_make_a_frame(profile: Profile, tmp_path: Path) -> None:
    frames = [Frame("a;b\nc\ud800", "", 0, 0), *profile.frames[1:]]
    write_collapsed(attrs.evolve(profile, frames=frames), tmp_path / "out.collapsed")
    lines = (tmp_path / "out.collapsed").read_text().splitlines()
    assert len(lines) == 4
    assert all(line.startswith("a:b c?;build") for line in lines)
