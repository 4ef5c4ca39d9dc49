"""The file for pprof: `go tool pprof` prints the recorder's totals, to the byte."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from two_versions import AFTER, AFTER_MOVED, BEFORE, MORE_BYTES

from gcmodel import Heap
from gcmodel.profiling.pprof import write
from gcmodel.profiling.profile import Fate, Frame, Profile
from gcmodel.profiling.sampled_run import Program
from gcmodel.profiling.text_formats import write_collapsed

Recorded = Callable[..., Profile]

GO = shutil.which("go")
needs_go = pytest.mark.skipif(GO is None, reason="needs go tool pprof: apt install golang-go")


def pprof(path: Path, *options: str) -> str:
    command = [str(GO), "tool", "pprof", "-symbolize=none", "-unit=bytes", *options, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def top(path: Path, *options: str) -> dict[str, int]:
    """The sum of each function, with the functions that it calls."""
    printed = pprof(path, "-top", "-cum", "-nodefraction=0", *options)
    rows = re.findall(
        r"^ *\S+ +\S+% +\S+% +(-?\d+)(?:B|bytes)? +\S+% +(.*)$", printed, re.MULTILINE
    )
    return {name: int(figure) for figure, name in rows}


def leave_some(heap: Heap) -> None:
    """Strings die, nodes stay, and so do arrays, outside of the nursery."""
    for number in range(3000):
        heap.allocate_node(number)
        heap.allocate_string(number % 500)
        heap.free(len(heap.roots) - 1)
    heap.allocate_array(2000)


@pytest.fixture
def real(recorded: Recorded, tmp_path: Path) -> tuple[Profile, Path]:
    profile = recorded(leave_some, 200)
    write(profile, tmp_path / "real.pb.gz")
    return profile, tmp_path / "real.pb.gz"


@needs_go
@pytest.mark.parametrize(
    ("kind", "fates"),
    [("alloc", {*Fate}), ("survived", {Fate.SURVIVED}), ("inuse", {Fate.SURVIVED, Fate.UNKNOWN})],
)
def test_pprof_prints_the_bytes_that_the_recorder_counted(
    kind: str, fates: set[Fate], real: tuple[Profile, Path]
) -> None:
    profile, path = real
    counted = sum(each.weight_bytes for each in profile.samples if each.fate in fates)
    assert top(path, f"-sample_index={kind}_space")["a program"] == counted > 0


@needs_go
def test_pprof_shows_what_was_allocated_unless_it_is_asked(real: tuple[Profile, Path]) -> None:
    profile, path = real
    assert top(path)["leave_some"] == profile.weight_bytes


@needs_go
def test_pprof_prints_the_objects_that_samples_stand_for(real: tuple[Profile, Path]) -> None:
    profile, path = real
    nodes = sum(each.weight_bytes / 32 for each in profile.samples if each.type == "node")
    shown = top(path, "-sample_index=alloc_objects", "-tagfocus=type=node")
    assert shown["a program"] == round(nodes)


@needs_go
def test_pprof_has_all_formats_bytes_of_each_line(
    real: tuple[Profile, Path], tmp_path: Path
) -> None:
    profile, path = real
    write_collapsed(profile, tmp_path / "collapsed")
    lines: Counter[str] = Counter()
    for row in (tmp_path / "collapsed").read_text().splitlines():
        site, _, figure = row.rpartition(" ")
        lines[site.split(";")[-2]] += int(figure)
    assert len(lines) == 3
    assert lines.items() <= top(path, "-lines").items()


@needs_go
def test_pprof_tells_types_fates_and_what_lay_outside(real: tuple[Profile, Path]) -> None:
    profile, path = real
    labels: Counter[str] = Counter()
    for each in profile.samples:
        for label in (each.type, each.fate, "outside" if each.is_outside else "nursery"):
            labels[label] += each.weight_bytes
    rows = re.findall(r"^ +(\d+)\.0B \( *\S+%\): (.*)$", pprof(path, "-tags"), re.MULTILINE)
    assert {name: int(figure) for figure, name in rows} == labels


@needs_go
@pytest.mark.parametrize("after", [AFTER, AFTER_MOVED], ids=["in place", "all lines moved"])
def test_pprof_subtracts_one_version_of_a_program_from_another(
    after: Program, recorded: Recorded, tmp_path: Path
) -> None:
    """Every word is sampled; the last sample point of each run may not have been passed."""
    for name, program in (("before", BEFORE), ("after", after)):
        write(recorded(program, 8), tmp_path / name)
    changes = top(tmp_path / "after", f"-diff_base={tmp_path / 'before'}")
    changed = {name: change for name, change in changes.items() if abs(change) > 8}
    assert changed == dict.fromkeys(
        ("a program", "main", "answer", "also"), pytest.approx(MORE_BYTES, abs=8)
    )


@needs_go
def test_pprof_reads_whatever_a_function_is_called(profile: Profile, tmp_path: Path) -> None:
    names = ("main.<locals>.<lambda>", "a\ud800b", "Ä(b)::c")
    frames = [Frame(name, "", 0, 0) for name in names]
    write(attrs.evolve(profile, frames=[profile.frames[0], *frames]), tmp_path / "odd")
    assert {"main.<locals>.<lambda>", "a?b", "Ä(b)::c"} < top(tmp_path / "odd").keys()


@needs_go
def test_pprof_reads_a_profile_of_nothing(profile: Profile, tmp_path: Path) -> None:
    write(attrs.evolve(profile, samples=[]), tmp_path / "empty")
    assert top(tmp_path / "empty") == {}
