"""The dump for jeprof: the stock jeprof prints the recorder's totals, to the byte."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from heap_v2_reading import read
from two_versions import AFTER, BEFORE, MORE_BYTES

from gcmodel.profiling.profile import Fate, Frame, Profile
from gcmodel.profiling.text_formats import stands_for, write_heap_dump

Recorded = Callable[..., Profile]

needs_jeprof = pytest.mark.skipif(
    shutil.which("jeprof") is None, reason="needs jeprof: apt install libjemalloc-dev"
)


def jeprof(path: Path, *options: str) -> tuple[int, dict[str, int]]:
    """The total that `jeprof --text` prints, and the figure of each name, with `--cum` its sum."""
    command = ["jeprof", "--text", *options, str(path)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    total = re.search(r"^Total: (\d+)", ran.stdout, re.MULTILINE)
    assert total is not None, ran.stdout + ran.stderr
    row = r"^\s*(-?\d+)\s+\S+%\s+\S+%\s+(-?\d+)\s+\S+%\s+(.*?)\s*$"
    rows = re.findall(row, ran.stdout, re.MULTILINE)
    return int(total[1]), {name: int(of["--cum" in options]) for *of, name in rows}


def weights_of(profile: Profile) -> dict[str, int]:
    """The bytes of each type and fate."""
    weights: Counter[str] = Counter()
    for each in profile.samples:
        weights[f"{each.type} [{each.fate}]"] += each.weight_bytes
    return weights


@pytest.fixture
def path(real: Profile, tmp_path: Path) -> Path:
    write_heap_dump(real, tmp_path / "real.heap")
    return tmp_path / "real.heap"


@needs_jeprof
def test_jeprof_prints_the_bytes_that_the_recorder_counted(
    path: Path, counted: dict[str, int]
) -> None:
    allocated, by_name = jeprof(path, "--show_bytes", "--alloc_space")
    survived = sum(figure for name, figure in by_name.items() if "[died young]" not in name)
    in_use, _ = jeprof(path, "--show_bytes", "--inuse_space")
    assert {"alloc": allocated, "survived": survived, "live": in_use} == counted


@needs_jeprof
def test_jeprof_prints_the_bytes_of_each_type_and_fate(real: Profile, path: Path) -> None:
    _, by_name = jeprof(path, "--show_bytes", "--alloc_space")
    assert {name: figure for name, figure in by_name.items() if figure} == weights_of(real)


@needs_jeprof
def test_jeprof_prints_the_objects_that_samples_stand_for(real: Profile, path: Path) -> None:
    total, by_name = jeprof(path, "--alloc_objects")
    nodes = weights_of(real)["node [survived]"] / 32
    assert by_name["node [survived]"] == pytest.approx(nodes, abs=2)
    assert total == sum(by_name.values())


@needs_jeprof
def test_jeprof_shows_functions_by_their_names(path: Path) -> None:
    _, by_name = jeprof(path, "--show_bytes", "--alloc_space", "--cum")
    assert [name for name in by_name if name.startswith("leave_some conftest.py:")]


@needs_jeprof
def test_jeprof_shows_fates_and_the_names_of_lambdas(real: Profile, path: Path) -> None:
    frames = [attrs.evolve(real.frames[0], function="main.<locals>.<lambda>")]
    write_heap_dump(attrs.evolve(real, frames=[*frames, *real.frames[1:]]), path)
    _, by_name = jeprof(path, "--show_bytes", "--alloc_space", "--cum")
    assert {"main.[locals].[lambda]", "node [survived]", "string [died young]"} <= by_name.keys()


@needs_jeprof
def test_jeprof_reads_whatever_a_function_is_called(profile: Profile, tmp_path: Path) -> None:
    names = ("", "--- heap", "a\nb")
    frames = [Frame(name, "", 0, 0) for name in names]
    odd = attrs.evolve(profile, frames=[profile.frames[0], *frames])
    write_heap_dump(odd, tmp_path / "odd.heap")
    total, _ = jeprof(tmp_path / "odd.heap", "--show_bytes", "--alloc_space")
    assert total == profile.weight_bytes


@needs_jeprof
def test_jeprof_subtracts_one_version_of_a_program_from_another(
    recorded: Recorded, tmp_path: Path
) -> None:
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


def test_a_sample_with_several_hits_is_one_large_object_still(profile: Profile) -> None:
    # Three hits of 4,096 bytes in a string of 9,000: a third more bytes, and so of objects.
    string = profile.samples[3]
    assert stands_for(string).objects == pytest.approx(3 * 4096 / 9000)
