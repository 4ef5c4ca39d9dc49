"""The text formats: collapsed stacks, and the dump for jeprof, have the recorder's totals."""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from heap_v2_reading import read
from recorded_programs import AFTER, BEFORE, MORE_BYTES
from waiting import completed

from gcmodel.profiling.firefox import processed
from gcmodel.profiling.profile import Fate, Frame, Profile
from gcmodel.profiling.text_formats import stands_for, write_collapsed, write_heap_dump

Recorded = Callable[..., Profile]

needs_jeprof = pytest.mark.skipif(
    shutil.which("jeprof") is None, reason="needs jeprof: apt install libjemalloc-dev"
)


def test_a_sample_with_several_hits_is_one_large_object(profile: Profile) -> None:
    # Three hits of 4,096 bytes in a string of 9,000: a third more bytes, and so objects.
    string = profile.samples[3]
    assert stands_for(string).objects == pytest.approx(3 * 4096 / 9000)


# Collapsed stacks.


def collapsed(profile: Profile, path: Path) -> dict[str, int]:
    write_collapsed(profile, path)
    rows = [line.rpartition(" ") for line in path.read_text().splitlines()]
    figures = {site: int(figure) for site, _, figure in rows}
    assert len(figures) == len(rows)
    return figures


def test_a_line_goes_from_program_to_type_and_fate(profile: Profile, tmp_path: Path) -> None:
    figures = collapsed(profile, tmp_path / "out")
    assert figures["gcbench;build tree.py:12;build tree.py:14;node [died young]"] == 12288
    assert sum(figures.values()) == profile.weight_bytes
    assert len([site for site in figures if "unknown type [fate not known yet]" in site]) == 1
    assert len(figures) == 4


@pytest.mark.slow
def test_the_lines_have_the_recorder_s_bytes(
    real: Profile, counted: dict[str, int], tmp_path: Path
) -> None:
    by_fate: Counter[str] = Counter()
    for site, figure in collapsed(real, tmp_path / "out").items():
        by_fate[site.partition("[")[2]] += figure
    young, later = by_fate["died young]"], by_fate["died old]"]
    assert young > 0 < later
    total = by_fate.total()
    assert counted == {"alloc": total, "survived": total - young, "live": total - young - later}


def test_a_separator_in_a_name_does_not_make_a_frame(profile: Profile, tmp_path: Path) -> None:
    frames = [Frame("a;b\nc\ud800", "", 0, 0), *profile.frames[1:]]
    figures = collapsed(attrs.evolve(profile, frames=frames), tmp_path / "out")
    assert len(figures) == 4
    assert all(site.startswith("a:b c?;build") for site in figures)


# The dump.


def jeprof(path: Path, *options: str) -> tuple[int, dict[str, int]]:
    """The total that `jeprof --text` prints, and the figure of each name, with `--cum` its sum."""
    command = ["jeprof", "--text", *options, str(path)]
    ran = completed(command)
    total = re.search(r"^Total: (\d+)", ran.stdout, re.MULTILINE)
    assert total is not None, ran.stdout + ran.stderr
    row = r"^\s*(-?\d+)\s+\S+%\s+\S+%\s+(-?\d+)\s+\S+%\s+(.*?)\s*$"
    rows = re.findall(row, ran.stdout, re.MULTILINE)
    return int(total[1]), {name: int(of["--cum" in options]) for *of, name in rows}


@pytest.fixture
def path(real: Profile, tmp_path: Path) -> Path:
    write_heap_dump(real, tmp_path / "real.heap")
    return tmp_path / "real.heap"


@pytest.mark.slow
@needs_jeprof
def test_jeprof_prints_the_same_bytes(path: Path, real: Profile, counted: dict[str, int]) -> None:
    allocated, by_name = jeprof(path, "--show_bytes", "--alloc_space")
    survived = sum(figure for name, figure in by_name.items() if "[died young]" not in name)
    in_use, _ = jeprof(path, "--show_bytes", "--inuse_space")
    assert {"alloc": allocated, "survived": survived, "live": in_use} == counted
    weights: Counter[str] = Counter()
    for each in real.samples:
        weights[f"{each.type} [{each.fate}]"] += each.weight_bytes
    assert {name: figure for name, figure in by_name.items() if figure} == weights
    total, objects = jeprof(path, "--alloc_objects")
    assert objects["node [survived]"] == pytest.approx(weights["node [survived]"] / 32, abs=2)
    assert total == sum(objects.values())


@pytest.mark.slow
@needs_jeprof
def test_jeprof_shows_functions_and_fates_by_their_names(real: Profile, path: Path) -> None:
    frames = [attrs.evolve(real.frames[0], function="main.<locals>.<lambda>")]
    write_heap_dump(attrs.evolve(real, frames=[*frames, *real.frames[1:]]), path)
    _, by_name = jeprof(path, "--show_bytes", "--alloc_space", "--cum")
    assert {"main.[locals].[lambda]", "node [survived]", "string [died young]"} <= by_name.keys()
    assert [name for name in by_name if name.startswith("leave_some recorded_programs.py:")]


@needs_jeprof
def test_jeprof_reads_any_function_s_name(profile: Profile, tmp_path: Path) -> None:
    frames = [Frame(name, "", 0, 0) for name in ("", "--- heap", "a\nb")]
    odd = attrs.evolve(profile, frames=[profile.frames[0], *frames])
    write_heap_dump(odd, tmp_path / "odd.heap")
    total, _ = jeprof(tmp_path / "odd.heap", "--show_bytes", "--alloc_space")
    assert total == profile.weight_bytes


@pytest.mark.slow
@needs_jeprof
def test_jeprof_subtracts_versions(recorded: Recorded, tmp_path: Path) -> None:
    """Every word is sampled. The new function comes first, so each name has another rank."""
    for name, program in (("before", BEFORE), ("after", AFTER)):
        write_heap_dump(recorded(program, 8), tmp_path / name)
    base = f"--base={tmp_path / 'before'}"
    total, by_name = jeprof(tmp_path / "after", "--show_bytes", "--alloc_space", "--cum", base)
    # The last sample point of each run may not have been passed.
    assert total == pytest.approx(MORE_BYTES, abs=8)
    changed = {name.split()[0] for name, figure in by_name.items() if abs(figure) > 8}
    assert changed == {"a", "main", "answer", "also", "array"}


def test_a_sample_that_is_not_judged_may_be_alive(profile: Profile, tmp_path: Path) -> None:
    write_heap_dump(profile, tmp_path / "out.heap")
    dump = read((tmp_path / "out.heap").read_text().partition("--- heap\n")[2])
    alive = [each for each in profile.samples if each.fate is not Fate.DIED_YOUNG]
    assert dump.head.live.bytes == sum(each.weight_bytes for each in alive)


@pytest.mark.slow
def test_dump_and_firefox_file_agree(real: Profile, path: Path, counted: dict[str, int]) -> None:
    dump = read(path.read_text().partition("--- heap\n")[2])
    threads: Any = processed(real)["threads"]
    retained = threads[0]["nativeAllocations"]["weight"]
    assert dump.head.live.bytes == sum(retained) == counted["live"] > 0
