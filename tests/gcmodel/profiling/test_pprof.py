"""The file for pprof: `go tool pprof` prints the recorder's totals, to the byte."""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from recorded_programs import AFTER, AFTER_MOVED, BEFORE, MORE_BYTES
from waiting import completed

from gcmodel.profiling.pprof import write
from gcmodel.profiling.profile import Frame, Profile
from gcmodel.profiling.sampled_run import Program
from gcmodel.profiling.text_formats import write_collapsed

Recorded = Callable[..., Profile]

GO = shutil.which("go")
pytestmark = pytest.mark.skipif(GO is None, reason="needs go tool pprof: apt install golang-go")


def pprof(path: Path, *options: str) -> str:
    command = [str(GO), "tool", "pprof", "-symbolize=none", "-unit=bytes", *options, str(path)]
    return completed(command).stdout


def top(path: Path, *options: str) -> dict[str, int]:
    """The sum of each function, with the functions that it calls."""
    printed = pprof(path, "-top", "-cum", "-nodefraction=0", *options)
    rows = re.findall(
        r"^ *\S+ +\S+% +\S+% +(-?\d+)(?:B|bytes)? +\S+% +(.*)$", printed, re.MULTILINE
    )
    return {name: int(figure) for figure, name in rows}


@pytest.fixture
def path(real: Profile, tmp_path: Path) -> Path:
    write(real, tmp_path / "real.pb.gz")
    return tmp_path / "real.pb.gz"


@pytest.mark.slow
def test_pprof_prints_the_recorder_s_bytes(path: Path, counted: dict[str, int]) -> None:
    names = {"alloc": "alloc", "survived": "survived", "live": "inuse"}
    printed = {
        kind: top(path, f"-sample_index={name}_space")["a program"] for kind, name in names.items()
    }
    assert printed == counted
    assert top(path)["leave_some"] == counted["alloc"]


@pytest.mark.slow
def test_pprof_prints_the_objects_that_samples_stand_for(real: Profile, path: Path) -> None:
    nodes = sum(each.weight_bytes / 32 for each in real.samples if each.type == "node")
    shown = top(path, "-sample_index=alloc_objects", "-tagfocus=type=node")
    assert shown["a program"] == round(nodes)


@pytest.mark.slow
def test_pprof_prints_the_bytes_of_each_line(real: Profile, path: Path, tmp_path: Path) -> None:
    write_collapsed(real, tmp_path / "collapsed")
    lines: Counter[str] = Counter()
    for row in (tmp_path / "collapsed").read_text().splitlines():
        site, _, figure = row.rpartition(" ")
        lines[site.split(";")[-2]] += int(figure)
    assert len(lines) == 3
    assert lines.items() <= top(path, "-lines").items()


@pytest.mark.slow
def test_pprof_has_types_fates_lifetimes_and_places(real: Profile, path: Path) -> None:
    labels: Counter[str] = Counter()
    for each in real.samples:
        place = "outside" if each.is_outside else "nursery"
        for label in (each.type, each.fate, each.lifetime, place):
            labels[label] += each.weight_bytes
    rows = re.findall(r"^ +(\d+)\.0B \( *\S+%\): (.*)$", pprof(path, "-tags"), re.MULTILINE)
    assert {name: int(figure) for figure, name in rows} == labels


@pytest.mark.slow
@pytest.mark.parametrize("after", [AFTER, AFTER_MOVED], ids=["in place", "all lines moved"])
def test_pprof_subtracts_versions(after: Program, recorded: Recorded, tmp_path: Path) -> None:
    """Every word is sampled; the last sample point of each run may not have been passed."""
    for name, program in (("before", BEFORE), ("after", after)):
        write(recorded(program, 8), tmp_path / name)
    changes = top(tmp_path / "after", f"-diff_base={tmp_path / 'before'}")
    changed = {name: change for name, change in changes.items() if abs(change) > 8}
    assert changed == dict.fromkeys(
        ("a program", "main", "answer", "also"), pytest.approx(MORE_BYTES, abs=8)
    )


def test_pprof_reads_any_function_s_name(profile: Profile, tmp_path: Path) -> None:
    names = ("main.<locals>.<lambda>", "a\ud800b", "Ä(b)::c")
    frames = [Frame(name, "", 0, 0) for name in names]
    write(attrs.evolve(profile, frames=[profile.frames[0], *frames]), tmp_path / "odd")
    assert {"main.<locals>.<lambda>", "a?b", "Ä(b)::c"} < top(tmp_path / "odd").keys()


def test_pprof_reads_an_empty_profile(profile: Profile, tmp_path: Path) -> None:
    write(attrs.evolve(profile, samples=[]), tmp_path / "empty")
    assert top(tmp_path / "empty") == {}
