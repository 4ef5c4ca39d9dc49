"""`gcfuzz profile`: what can be profiled, what is written, and what each mistake gets."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from firefox_check import problems

from fuzz.problems import InterruptedWorkError
from fuzz.profiling import screen
from fuzz.profiling.making import keeping
from fuzz.protocol.actions import EnableSampling
from fuzz.protocol.trace import dumps
from fuzz.sessions.corpus import shipped_traces
from fuzz.terminal.cli import run_command_line
from gcmodel.profiling.recording import read
from gcmodel.workloads import WORKLOADS

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE, HARNESS_BUG = range(5)
SCRIPT = """
def make(heap, number):
    heap.allocate_node(number)
    heap.free(len(heap.roots) - 1)

def main(heap):
    for number in range(2500):
        make(heap, number)
"""
ALLOCATED_BYTES = 2500 * 32

Complaint = Callable[..., str]
Profiled = Callable[..., str]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What scripts import from there goes with it, and so does what they put on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # However long it takes here, no line says how far it is.
    monkeypatch.setattr(screen, "PLAIN_SECONDS", math.inf)
    yield
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def script() -> str:
    Path("nodes.py").write_text(SCRIPT)
    return "nodes.py"


@pytest.fixture
def profiled(capsys: pytest.CaptureFixture[str]) -> Profiled:
    """Profile something; returns what is printed. The Firefox Profiler could open its files."""

    def run(*arguments: str) -> str:
        assert run_command_line(["profile", *arguments]) == CLEAN
        for name in arguments:
            if name.endswith((".json", ".json.gz")):
                opened = gzip.open if name.endswith(".gz") else open
                with opened(name, "rt", encoding="utf-8") as file:
                    assert problems(json.load(file)) == []
        return capsys.readouterr().out

    return run


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Complaint:
    """Profile something that is bad input; returns its one line on stderr."""

    def run(*arguments: str) -> str:
        assert run_command_line(["profile", *arguments]) == BAD_INPUT
        printed = capsys.readouterr().err
        assert printed.startswith("gcfuzz: ")
        assert printed.count("\n") == 1
        return printed

    return run


def collapsed(path: str = "out.collapsed") -> dict[str, int]:
    lines = Path(path).read_text().splitlines()
    return {site: int(weight) for site, _, weight in (line.rpartition(" ") for line in lines)}


# What can be profiled.


def test_a_script_is_profiled_by_its_functions(script: str, profiled: Profiled) -> None:
    profiled(script, "--period", "64", "--fixed", "-o", "out.collapsed")
    assert list(collapsed()) == ["nodes.py;main nodes.py:8;make nodes.py:3;node [died young]"]
    assert sum(collapsed().values()) == ALLOCATED_BYTES - 64


def test_a_trace_is_profiled_by_its_rules(profiled: Profiled) -> None:
    lines = [
        {"gcfuzz": 2, "target": "reference"},
        {"do": "enable_sampling", "period_bytes": 8},
        {"do": "allocate_node", "number": 1},
        {"do": "allocate_string", "length": 30},
        {"do": "collect_minor"},
    ]
    Path("trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    profiled("trace.jsonl", "-o", "out.collapsed")
    assert collapsed() == {
        "trace.jsonl;allocate_node;node [survived]": 24,
        "trace.jsonl;allocate_string;string [survived]": 56,
    }


def test_what_a_trace_allocates_is_followed_until_it_is_freed(profiled: Profiled) -> None:
    lines = [
        {"gcfuzz": 2, "target": "reference"},
        {"do": "enable_sampling", "period_bytes": 8},
        {"do": "allocate_string", "length": 30},
        {"do": "allocate_string", "length": 31},
        {"do": "collect_full"},
        {"do": "free", "root": 0},
        {"do": "collect_full"},
        {"do": "collect_minor"},
    ]
    Path("trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    printed = profiled("trace.jsonl", "-o", "out.collapsed")
    assert collapsed() == {
        "trace.jsonl;allocate_string;string [survived]": 56,
        "trace.jsonl;allocate_string;string [died old]": 48,
    }
    for name, figure in {"live at the end": 56, "8 to 15 collections": 48}.items():
        assert re.search(rf"^{name} +{figure} bytes", printed, re.MULTILINE), printed


def test_a_trace_can_be_sampled_with_a_period_of_ones_own(profiled: Profiled) -> None:
    lines = [
        {"gcfuzz": 2, "target": "reference"},
        {"do": "allocate_node", "number": 1},
        {"do": "enable_sampling", "period_bytes": 4096},
        {"do": "allocate_node", "number": 2},
        {"do": "disable_sampling", "report": True},
        {"do": "allocate_node", "number": 3},
    ]
    Path("trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    profiled("trace.jsonl", "--period", "32", "-o", "out.collapsed")
    # What the trace collects, it collects still: the last node is not judged.
    assert collapsed() == {
        "trace.jsonl;allocate_node;node [survived]": 32,
        "trace.jsonl;allocate_node;unknown type [fate not known yet]": 32,
    }


def test_every_trace_of_the_corpus_that_samples_a_heap_leaves_a_recording(
    profiled: Profiled,
) -> None:
    for trace in shipped_traces().values():
        samples = any(isinstance(each, EnableSampling) for each in trace.actions)
        if samples and trace.header.target in ("reference", "reference-geometric"):
            Path("trace.jsonl").write_text(dumps(trace))
            profiled("trace.jsonl", "-o", "out.jsonl")
            assert read(Path("out.jsonl")).is_complete


def test_a_recording_is_exported_without_running_it(script: str, profiled: Profiled) -> None:
    profiled(script, "-o", "first.jsonl", "-o", "first.collapsed")
    Path(script).unlink()
    printed = profiled("first.jsonl", "-o", "second.collapsed")
    assert collapsed("second.collapsed") == collapsed("first.collapsed")
    assert printed.startswith("nodes.py: ")


def test_half_a_recording_is_exported_and_says_so(script: str, profiled: Profiled) -> None:
    profiled(script, "--period", "64", "-o", "whole.jsonl")
    content = Path("whole.jsonl").read_bytes()
    Path("half.jsonl").write_bytes(content[: len(content) // 2])
    printed = profiled("half.jsonl", "-o", "out.collapsed", "-o", "out.heap", "-o", "out.json")
    assert "the recording ends early" in printed
    assert 0 < sum(collapsed().values()) < ALLOCATED_BYTES


# How it is sampled.


def test_the_same_seed_samples_the_same(script: str, profiled: Profiled) -> None:
    for name in ("one", "two"):
        profiled(script, "--seed", "7", "-o", f"{name}.collapsed")
    assert collapsed("one.collapsed") == collapsed("two.collapsed")


@pytest.mark.slow
def test_another_seed_samples_otherwise(script: str, profiled: Profiled) -> None:
    for seed in ("7", "8"):
        profiled(script, "--period", "64", "--seed", seed, "-o", f"{seed}.collapsed")
    assert collapsed("7.collapsed") != collapsed("8.collapsed")


@pytest.mark.slow
def test_a_program_can_be_repeated(script: str, profiled: Profiled) -> None:
    profiled(script, "--period", "64", "--fixed", "--repeat", "3", "-o", "out.collapsed")
    assert sum(collapsed().values()) == 3 * ALLOCATED_BYTES - 64


def test_time_is_sampled_beside_it(profiled: Profiled) -> None:
    Path("slow.py").write_text(
        "import signal\n\ndef main(heap):\n"
        "    timed = signal.getitimer(signal.ITIMER_REAL) != (0, 0)\n"
        "    for _ in range(5 * timed): signal.pause()\n"
    )
    printed = profiled("slow.py", "--time-period", "10ms", "-o", "out.jsonl")
    assert re.search(r"^\d+ samples by time$", printed, re.MULTILINE)
    assert len(read(Path("out.jsonl")).time_samples) >= 5


# What is printed and written.


def test_period_and_samples_are_told_at_the_end(script: str, profiled: Profiled) -> None:
    printed = profiled(script, "--period", "64", "--fixed", "-o", "out.collapsed")
    assert "1,249 samples, exactly 64 bytes apart; 2 minor collections" in printed
    assert re.search(r"^all samples +79\.94 kB *$", printed, re.MULTILINE)
    assert re.search(r"^allocated 80\.0 kB; [\d.]+ kB recorded$", printed, re.MULTILINE)


def test_a_period_that_hits_nothing_is_told(script: str, profiled: Profiled) -> None:
    printed = profiled(script, "--period", "1G", "-o", "out.json")
    assert "no object was sampled; a shorter --period may hit one" in printed


def test_types_are_told_with_their_fates(script: str, profiled: Profiled) -> None:
    printed = profiled(script, "--period", "64", "-o", "out.collapsed")
    assert re.search(r"^node \[died young\]  .* [78]\d\.\d\d kB", printed, re.MULTILINE)


def test_every_figure_that_chance_decides_has_its_bounds(script: str, profiled: Profiled) -> None:
    printed = profiled(script, "--period", "64", "-o", "out.collapsed")
    figures = r"(\d+\.\d+) kB +(\d+\.\d+) kB +(\d+\.\d+) kB$"
    for name in ("all samples", r"node \[died young\]", r"node \[died young\] in make nodes.py:3"):
        found = re.search(rf"^{name} +{figures}", printed, re.MULTILINE)
        assert found is not None, printed
        stands_for, low, high = map(float, found.groups())
        assert low < stands_for < high < 1.2 * low
        assert low < ALLOCATED_BYTES / 1000 < high


def test_what_was_live_is_told(profiled: Profiled) -> None:
    Path("nodes.py").write_text(
        "def main(heap):\n"
        "    for _ in range(100): heap.allocate_array(100)\n"
        "    heap.collect_full()\n"
        "    del heap.roots[:60]\n"
        "    heap.collect_full()\n"
    )
    printed = profiled("nodes.py", "--period", "8", "--fixed", "-o", "out.jsonl")
    assert re.search(r"^live at most, after 1 collection +81\.59 kB *$", printed, re.MULTILINE), (
        printed
    )
    assert re.search(r"^live at the end +32\.64 kB *$", printed, re.MULTILINE)


def test_lifetimes_are_told_in_minor_collections(profiled: Profiled) -> None:
    Path("nodes.py").write_text(
        "def main(heap):\n"
        "    for _ in range(100): heap.allocate_node(1)\n"
        "    del heap.roots[:10]\n"
        "    heap.collect_full()\n"
        "    del heap.roots[:60]\n"
        "    for _ in range(2): heap.collect_full()\n"
    )
    printed = profiled("nodes.py", "--period", "8", "--fixed", "-o", "out.jsonl")
    told = printed.partition("lifetime  ")[2].partition("\nsite,")[0].splitlines()[1:]
    figures = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in told)
    assert figures == {
        "0 collections": "312 bytes",
        "4 to 7 collections": "1.92 kB",
        "no end told": "960 bytes",
    }


def test_the_largest_sites_are_told_even_with_a_long_name(profiled: Profiled) -> None:
    long = "make_" + "very_" * 20 + "long"
    Path("nodes.py").write_text(SCRIPT.replace("make", long))
    printed = profiled("nodes.py", "-o", "out.collapsed")
    (site,) = re.findall(r"^node \[died young\] in .*…\w+ nodes\.py:3  .*$", printed, re.MULTILINE)
    assert len(site) <= 80


def test_the_recording_is_removed_when_all_is_written(script: str, profiled: Profiled) -> None:
    profiled(script, "-o", "out.collapsed")
    assert [path.name for path in Path().glob("out*")] == ["out.collapsed"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_profiled_over_a_file_that_is_there(profiled: Profiled, name: str) -> None:
    Path("out.collapsed").write_text("old")
    assert profiled(name, "--period", "64k", "-o", "out.collapsed").startswith(f"{name}: ")
    assert all(site.startswith(f"{name};run {name}.py:") for site in collapsed())


def test_the_recording_stays_where_it_is_asked_for(script: str, profiled: Profiled) -> None:
    profiled(script, "-o", "out.collapsed", "-o", "out.jsonl")
    assert read(Path("out.jsonl")).weight_bytes == sum(collapsed().values())


def test_several_files_are_written_of_one_run(script: str, profiled: Profiled) -> None:
    names = ["a.json", "b.json.gz", "c.heap", "d.collapsed", "e.jsonl", "f.pb.gz"]
    printed = profiled(script, *(word for name in names for word in ("-o", name)))
    assert all(Path(name).stat().st_size for name in names)
    assert [line.partition(":")[0] for line in printed.splitlines()[-6:]] == names


# What has changed.


CHANGED = (
    f"import sys  # So all lines have moved.\n{SCRIPT}        if number % 5 == 0: also(heap)\n"
)
CHANGED += "def also(heap):\n    heap.allocate_array(9)\n    heap.free(len(heap.roots) - 1)\n"


@pytest.mark.slow
def test_a_change_of_a_program_is_shown_and_nothing_else(script: str, profiled: Profiled) -> None:
    profiled(script, "--period", "64", "-o", "before.jsonl")
    Path(script).write_text(CHANGED)
    profiled(script, "--period", "64", "--seed", "7", "-o", "after.jsonl")
    printed = profiled("after.jsonl", "--diff", "before.jsonl")
    row = r"^array \[died young\] in also nodes.py +\+\S+ kB +\+(\S+) kB +\+(\S+) kB$"
    found = re.search(row, printed, re.MULTILINE)
    assert found is not None, printed
    # Five hundred arrays, some of which may have survived: in the table that is another site.
    assert float(found[1]) < 44 < float(found[2])
    assert "1 of 1 that differ" in printed
    assert re.search(
        "^[12] sites?: the same, or as far apart as chance may have them$", printed, re.MULTILINE
    )


def test_what_chance_alone_has_changed_is_not_shown(script: str, profiled: Profiled) -> None:
    profiled(script, "--period", "64", "-o", "before.jsonl")
    printed = profiled(
        script, "--period", "64", "--seed", "7", "--diff", "before.jsonl", "-o", "after.jsonl"
    )
    assert "that differ" not in printed
    assert "1 site: the same, or as far apart as chance may have them" in printed


def test_at_fixed_distances_all_that_differs_is_shown_without_bounds(
    script: str, profiled: Profiled
) -> None:
    profiled(script, "--period", "64", "--fixed", "-o", "before.jsonl")
    Path(script).write_text(SCRIPT.replace("2500", "2000"))
    printed = profiled(
        script, "--period", "64", "--fixed", "--diff", "before.jsonl", "-o", "after.jsonl"
    )
    assert re.search(
        r"^node \[died young\] in make nodes.py +-16.00 kB *$", printed, re.MULTILINE
    ), printed
    assert printed.count("the same\n") == 1


# Mistakes.


def test_a_program_needs_a_file_for_its_recording(script: str, complaint: Complaint) -> None:
    assert "nodes.py: is not a recording yet; name a file for it: -o FILE.jsonl" in complaint(
        script
    )


def test_a_program_is_compared_with_recordings_only(script: str, complaint: Complaint) -> None:
    line = complaint(script, "--diff", script, "-o", "out.jsonl")
    assert "nodes.py:1: a recording begins with a header line" in line
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("period", ["12", "0", str(2**64), "7", "1"])
def test_a_period_that_cannot_be_is_named(complaint: Complaint, period: str) -> None:
    line = complaint("gcbench", "--period", period, "-o", "out.json")
    assert f"--period: period_bytes is {period}; it must be a multiple of 8" in line


@pytest.mark.parametrize("period", ["-8", "4kB", "4.5k", "k", "", "8 8"])
def test_a_period_that_is_no_size_is_named(complaint: Complaint, period: str) -> None:
    line = complaint("gcbench", "--period", period, "-o", "out.json")
    assert "is no size; write 64, 4k, 1M or 2G" in line


def test_what_is_neither_a_workload_nor_a_file_is_named(complaint: Complaint) -> None:
    line = complaint("gcbnech", "-o", "out.json")
    assert "gcbnech: is no workload (gcbench, expressions, interpreter, allocate)" in line


def test_a_format_that_nobody_knows_is_named(script: str, complaint: Complaint) -> None:
    assert "out.svg: unknown format; end the name in one of .json" in complaint(
        script, "-o", "out.svg"
    )


def test_two_files_for_one_recording_are_refused(script: str, complaint: Complaint) -> None:
    line = complaint(script, "-o", "a.jsonl", "-o", "b.jsonl")
    assert "b.jsonl: there is one recording; name one file for it" in line


def test_a_recording_is_not_made_of_a_recording(
    script: str, profiled: Profiled, complaint: Complaint
) -> None:
    profiled(script, "-o", "first.jsonl")
    line = complaint("first.jsonl", "-o", "second.jsonl")
    assert "second.jsonl: first.jsonl is the recording; copy that" in line


def test_a_folder_that_is_not_there_is_named_before_the_run(
    script: str, complaint: Complaint
) -> None:
    line = complaint(script, "-o", "nowhere/out.json")
    assert "nowhere/out.json: cannot be written: there is no folder nowhere" in line


def test_a_profile_does_not_overwrite_what_it_is_made_of(
    script: str, profiled: Profiled, complaint: Complaint
) -> None:
    profiled(script, "-o", "out.jsonl")
    assert "is the trace itself; name another file" in complaint("out.jsonl", "-o", "out.jsonl")


def test_a_trace_that_lies_where_the_recording_would_go_is_not_lost(complaint: Complaint) -> None:
    Path("find.json.jsonl").write_text('{"gcfuzz": 2, "target": "reference"}\n')
    line = complaint("find.json.jsonl", "-o", "find.json")
    assert "find.json.jsonl: is there already, and the recording would replace it" in line
    assert Path("find.json.jsonl").read_text().startswith('{"gcfuzz": 2')


def test_a_recording_of_a_killed_run_is_not_lost_to_the_next(
    script: str, complaint: Complaint
) -> None:
    Path("out.json.jsonl").write_text("of a killed run")
    assert "if a profile was killed, export it" in complaint(script, "-o", "out.json")
    assert Path("out.json.jsonl").read_text() == "of a killed run"


def test_a_pipe_is_no_place_for_a_recording(script: str, complaint: Complaint) -> None:
    os.mkfifo("out.jsonl")
    assert "out.jsonl: is no regular file" in complaint(script, "-o", "out.jsonl")


def test_an_export_that_fails_leaves_what_was_there(
    script: str, profiled: Profiled, complaint: Complaint
) -> None:
    profiled(script, "-o", "first.jsonl", "-o", "out.json")
    before = Path("out.json").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        line = complaint("first.jsonl", "-o", "out.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "out.json: cannot be written: File too large" in line
    assert Path("out.json").read_bytes() == before
    assert len(list(Path().iterdir())) == 3


def test_the_place_of_a_recording_is_taken_before_the_program_runs(
    script: str, profiled: Profiled
) -> None:
    Path(script).write_text(
        f"{SCRIPT}    from pathlib import Path; assert Path('out.json.jsonl').exists()\n"
    )
    profiled(script, "-o", "out.json")


def test_a_program_that_fails_at_once_leaves_no_file(complaint: Complaint) -> None:
    Path("nodes.py").write_text("def main(heap):\n    1 / 0\n")
    complaint("nodes.py", "-o", "out.json", "-o", "out.jsonl")
    assert [path.name for path in Path().iterdir()] == ["nodes.py"]


def test_a_name_that_is_too_long_is_told(script: str, complaint: Complaint) -> None:
    assert "File name too long" in complaint(script, "-o", f"{'n' * 300}.json")


def test_a_trace_is_not_replaced_by_a_recording(script: str, complaint: Complaint) -> None:
    Path("find.jsonl").write_text('{"gcfuzz": 2, "target": "reference"}\n')
    line = complaint(script, "-o", "find.jsonl")
    assert "find.jsonl: is there already, and no recording" in line


def test_a_file_named_twice_is_refused(script: str, complaint: Complaint) -> None:
    line = complaint(script, "-o", "a.heap", "-o", str(Path("a.heap").absolute()))
    assert "a.heap: is named twice" in line


@pytest.mark.parametrize("name", [".json", ".json.gz", ".pb.gz", ".heap", ".collapsed", ".jsonl"])
def test_a_name_that_is_only_an_ending_is_refused(
    script: str, complaint: Complaint, name: str
) -> None:
    assert f"{name}: unknown format" in complaint(script, "-o", name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_an_export_that_fails_keeps_the_recording_and_says_where(
    script: str, complaint: Complaint
) -> None:
    Path("full.heap").symlink_to("/dev/full")
    line = complaint(script, "-o", "full.heap")
    assert "full.heap: cannot be written: No space left on device; the recording is kept in" in line
    assert read(Path("full.heap.jsonl")).is_complete


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "def man(heap):\n    pass\n",
            "nodes.py: has no function main; the script needs `def main(heap)`: gcfuzz calls it",
        ),
        ("def main(heap):\n    heap.free(3)\n", "nodes.py:2: IndexError: list assignment"),
        ("def main(heap)\n", "nodes.py:1: SyntaxError: expected ':'"),
        ("import sys\nsys.exit(3)\n", "nodes.py:2: SystemExit: 3"),
        ("def main():\n    pass\n", "nodes.py: main: too many positional arguments; the"),
        ("def main(heap, size):\n    pass\n", "main: missing a required argument: 'size'; the"),
        ("class Stop(BaseException): pass\ndef main(heap):\n    raise Stop", "nodes.py:3: "),
        ("def main(heap):\n    eval('1 +')\n", "nodes.py:2: SyntaxError"),
        ("class E(Exception):\n    __str__ = None\ndef main(heap):\n    raise E", "nodes.py:4: "),
        ("async def main(heap):\n    pass\n", "nodes.py: main does nothing when it is called"),
        ("def main(heap):\n    yield\n", "nodes.py: main does nothing when it is called"),
        ("", "nodes.py: has no function main"),
        ("\x00", "nodes.py"),
    ],
)
def test_a_script_that_fails_is_named_with_its_line(
    complaint: Complaint, source: str, message: str
) -> None:
    Path("nodes.py").write_text(source)
    assert message in complaint("nodes.py", "-o", "out.json")
    assert not Path("out.json").exists()


def test_a_script_that_fails_the_second_time_keeps_what_was_recorded(
    complaint: Complaint, profiled: Profiled
) -> None:
    once = SCRIPT + "    if hasattr(main, 'ran'): raise ValueError('again')\n    main.ran = True\n"
    Path("nodes.py").write_text(once)
    line = complaint("nodes.py", "--period", "64", "-o", "out.json")
    assert "nodes.py:9: ValueError: again; what was recorded before that is in out.json.jsonl" in (
        line
    )
    assert read(Path("out.json.jsonl")).weight_bytes > ALLOCATED_BYTES // 2


@pytest.mark.parametrize("name", ["rich.py", "my--script.py", "a b;c é.py", "gcmodel.py"])
def test_a_script_may_have_any_name(profiled: Profiled, name: str) -> None:
    Path(name).write_text(SCRIPT)
    profiled(name, "-o", "out.heap", "-o", "out.collapsed", "-o", "out.json")
    assert sum(collapsed().values()) > ALLOCATED_BYTES // 2


@pytest.mark.parametrize(
    "source",
    ["from helper import main\n", "def main(heap):\n    import helper\n    helper.main(heap)\n"],
    ids=["at once", "when it runs"],
)
def test_a_script_imports_what_lies_beside_it(profiled: Profiled, source: str) -> None:
    Path("beside").mkdir()
    Path("beside/nodes.py").write_text(source)
    Path("beside/helper.py").write_text(SCRIPT)
    profiled("beside/nodes.py", "-o", "out.collapsed")
    assert all(";make helper.py:3;" in site for site in collapsed())


def test_the_folder_of_a_script_leaves_the_path_with_it(script: str, profiled: Profiled) -> None:
    before = [*sys.path]
    profiled(script, "-o", "out.collapsed")
    assert sys.path == before


def test_a_script_may_leave_its_folder_out_of_the_path(profiled: Profiled) -> None:
    Path("nodes.py").write_text(SCRIPT + "    import sys; del sys.path[0]\n")
    profiled("nodes.py", "-o", "out.collapsed")
    assert collapsed()


def test_a_path_that_a_script_adds_is_there_when_it_runs(profiled: Profiled) -> None:
    Path("lib").mkdir()
    Path("lib/helper.py").write_text(SCRIPT)
    adding = "import sys\nsys.path.append('lib')\n\n"
    Path("nodes.py").write_text(adding + "def main(heap):\n    import helper; helper.main(heap)\n")
    profiled("nodes.py", "-o", "out.collapsed")
    assert all(";make helper.py:3;" in site for site in collapsed())


def test_a_script_that_changes_its_folder_changes_no_output(profiled: Profiled) -> None:
    Path("elsewhere").mkdir()
    Path("nodes.py").write_text("import os\n" + SCRIPT + "    os.chdir('elsewhere')\n")
    profiled("nodes.py", "-o", "out.collapsed")
    assert Path("out.collapsed").exists()


def test_an_error_in_another_folder_has_its_line(complaint: Complaint) -> None:
    Path("nodes.py").write_text("import os\n\ndef main(heap):\n    os.chdir('/')\n    1 / 0\n")
    assert "nodes.py:5: ZeroDivisionError" in complaint("nodes.py", "-o", "out.json")


def test_an_error_with_a_note_is_told_itself(complaint: Complaint) -> None:
    raising = "    error = ValueError('the error')\n    error.add_note('a note')\n    raise error\n"
    Path("nodes.py").write_text(f"def main(heap):\n{raising}")
    assert complaint("nodes.py", "-o", "out.json") == "gcfuzz: nodes.py:4: ValueError: the error\n"


def test_a_scripts_module_can_be_imported_while_it_runs(profiled: Profiled) -> None:
    pickling = "    import pickle\n    pickle.loads(pickle.dumps(make))\n"
    Path("nodes.py").write_text(SCRIPT + pickling)
    profiled("nodes.py", "-o", "out.collapsed")
    assert collapsed()


@pytest.mark.slow
def test_files_of_one_name_are_told_apart(profiled: Profiled) -> None:
    for name in ("one", "two"):
        Path(name).mkdir()
        Path(name, "__init__.py").write_text(SCRIPT)
    Path("both.py").write_text(
        "import one, two\n\ndef main(heap):\n    for each in (one, two): each.main(heap)\n"
    )
    profiled("both.py", "--period", "64", "--fixed", "-o", "out.collapsed")
    assert [site.split(";")[3] for site in collapsed()] == [
        "make one/__init__.py:3",
        "make two/__init__.py:3",
    ]


def test_a_program_near_the_recursion_limit_is_sampled_by_time(profiled: Profiled) -> None:
    Path("nodes.py").write_text(
        "import signal, sys\n\n"
        "def dive(frames):\n"
        "    if frames: return dive(frames - 1)\n"
        "    if signal.getitimer(signal.ITIMER_REAL) != (0, 0): signal.pause()\n\n"
        "def main(heap):\n"
        "    frame, used = sys._getframe(), 0\n"
        "    while frame: frame, used = frame.f_back, used + 1\n"
        f"    dive({sys.getrecursionlimit()} - used - 4)\n"
    )
    profiled("nodes.py", "--time-period", "1ms", "-o", "out.jsonl")
    assert read(Path("out.jsonl")).time_samples


FORK = """
def main(heap):
    import os
    make(heap, 1)
    child = os.fork()
    if not child:
        for number in range(3000):
            make(heap, number)
        {how}
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == {code}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code"), [("return", 0), ("raise SystemExit(7)", 7), ("os._exit(9)", 9), ("1 / 0", 1)]
)
def test_a_process_that_a_script_forks_is_not_recorded(
    profiled: Profiled, how: str, code: int
) -> None:
    make, _, _ = SCRIPT.partition("def main")
    Path("nodes.py").write_text(make + FORK.format(how=how, code=code))
    printed = profiled("nodes.py", "--period", "8", "--fixed", "-o", "out.collapsed")
    # The last of its four sample points is reached and not passed.
    assert sum(collapsed().values()) == 32 - 8
    assert printed.count("all samples") == 1


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_script_may_close_a_stream(
    name: str, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = os.fdopen(os.dup(1), "w")
    monkeypatch.setattr(sys, name, stream)
    Path(script).write_text(f"import sys\n{SCRIPT}    sys.{name}.close()\n")
    assert run_command_line(["profile", script, "-o", "out.collapsed"]) == CLEAN
    assert stream.closed


def test_a_script_finds_its_own_name_among_the_arguments(profiled: Profiled) -> None:
    Path("nodes.py").write_text(f"{SCRIPT}    import sys; assert sys.argv == ['nodes.py']\n")
    profiled("nodes.py", "-o", "out.collapsed")
    assert sys.argv != ["nodes.py"]


def test_a_script_that_exits_is_told_to_return(complaint: Complaint) -> None:
    Path("nodes.py").write_text("def main(heap):\n    raise SystemExit(0)\n")
    line = complaint("nodes.py", "-o", "out.json")
    assert line == "gcfuzz: nodes.py:2: SystemExit: 0; return from main instead\n"


def test_a_script_that_samples_by_itself_has_its_own_periods(profiled: Profiled) -> None:
    Path("nodes.py").write_text(
        SCRIPT.replace("def main(heap):", "def main(heap):\n    heap.enable_sampling(64)")
    )
    printed = profiled("nodes.py", "-o", "out.collapsed")
    assert "allocated 80.0 kB" in printed
    assert "on average 64 bytes apart" in printed


def test_one_run_does_not_pay_for_what_the_last_one_kept(profiled: Profiled) -> None:
    keeping = (
        "def main(heap):\n    for number in range(3000):\n        heap.allocate_node(number)\n"
    )
    Path("nodes.py").write_text(keeping)
    profiled("nodes.py", "--repeat", "5", "-o", "out.jsonl")
    used = [each.memory_used_bytes for each in read(Path("out.jsonl")).minor_collections]
    # Most of one run's nodes, and those of the last that no major collection has freed yet.
    assert max(used) < 3 * 3000 * 32


def test_a_program_whose_stack_is_full_goes_on_without_a_recorder(complaint: Complaint) -> None:
    # Every stack is a new one, with which the recorder needs more frames than the heap.
    Path("nodes.py").write_text(
        "import sys\n\n"
        "def main(heap):\n"
        "    frame, used = sys._getframe(), 0\n"
        "    while frame: frame, used = frame.f_back, used + 1\n"
        "    sys.setrecursionlimit(used + 150)\n"
        "    dive(heap)\n\n"
        "def dive(heap):\n"
        "    try:\n"
        "        heap.allocate_string(100)\n"
        "        dive(heap)\n"
        "    except RecursionError:\n"
        "        pass\n"
    )
    line = complaint("nodes.py", "--period", "8", "-o", "out.jsonl")
    assert "out.jsonl: RecursionError was raised while it was written" in line
    assert read(Path("out.jsonl")).weight_bytes > 0


@pytest.mark.slow
def test_a_period_that_would_write_too_much_is_refused_with_one_that_fits(
    script: str, complaint: Complaint, profiled: Profiled
) -> None:
    options = ["--repeat", "20", "--max-size", "200k", "-o", "out.jsonl"]
    line = complaint(script, "--period", "64", *options)
    found = re.search(r"--max-size is 204,800; --period (\d+) would fit", line)
    assert found is not None
    assert not Path("out.jsonl").exists()
    profiled(script, "--period", found[1], *options)
    assert Path("out.jsonl").stat().st_size <= 204_800


def test_a_size_in_which_nothing_fits_says_so(script: str, complaint: Complaint) -> None:
    line = complaint(script, "--max-size", "500", "-o", "out.jsonl")
    assert "raise --max-size" in line


@pytest.mark.slow
def test_a_recording_that_outgrows_its_forecast_ends_there_and_can_be_shown(
    complaint: Complaint, profiled: Profiled
) -> None:
    growing = SCRIPT.replace("range(2500)", "range(getattr(main, 'count', 0))")
    ended = "    if hasattr(main, 'count'): open('ended', 'w')\n"
    Path("nodes.py").write_text(growing + ended + "    main.count = 40_000\n")
    line = complaint("nodes.py", "--period", "64", "--max-size", "200k", "-o", "out.jsonl")
    assert "out.jsonl: it would be larger than 204,800 bytes; the recording ends there" in line
    assert not Path("ended").exists()
    profiled("out.jsonl", "-o", "out.collapsed")
    assert sum(collapsed().values()) > 10_000


def test_a_trace_that_never_samples_needs_a_period(complaint: Complaint) -> None:
    trace = '{"gcfuzz": 2, "target": "reference"}\n{"do": "allocate_node", "number": 1}\n'
    Path("trace.jsonl").write_text(trace)
    line = complaint("trace.jsonl", "-o", "out.json")
    assert "trace.jsonl: never enables sampling; give a --period" in line


def test_a_trace_takes_no_seed(complaint: Complaint) -> None:
    Path("trace.jsonl").write_text('{"gcfuzz": 2, "target": "reference"}\n')
    line = complaint("trace.jsonl", "--seed", "3", "--repeat", "2", "-o", "out.json")
    assert "trace.jsonl is a trace, and not a program; leave out --seed, --repeat" in line


def test_a_recording_takes_no_period(script: str, profiled: Profiled, complaint: Complaint) -> None:
    profiled(script, "-o", "first.jsonl")
    line = complaint("first.jsonl", "--period", "64", "-o", "out.json")
    assert "first.jsonl is a recording already; nothing is recorded; leave out --period" in line


def test_a_recording_takes_no_size(script: str, profiled: Profiled, complaint: Complaint) -> None:
    profiled(script, "-o", "first.jsonl")
    assert "leave out --max-size" in complaint("first.jsonl", "--max-size", "1", "-o", "out.json")


def test_samples_by_time_need_a_file_that_has_them(script: str, complaint: Complaint) -> None:
    line = complaint(script, "--time-period", "1ms", "-o", "out.heap", "-o", "out.collapsed")
    assert "samples by time are in .json and .jsonl files alone" in line


def test_a_script_without_its_suffix_is_told_of_it(complaint: Complaint) -> None:
    Path("nodes").write_text(SCRIPT)
    assert "nodes: is no trace and no recording, and the name of a script ends in .py" in complaint(
        "nodes", "-o", "out.json"
    )


def test_a_folder_is_nothing_to_profile(complaint: Complaint) -> None:
    Path("nodes").mkdir()
    assert "nodes: is a folder: name a script" in complaint("nodes", "-o", "out.json")


def test_fixed_distances_take_no_seed(script: str, complaint: Complaint) -> None:
    assert "--seed is of random distances" in complaint(
        script, "--fixed", "--seed", "1", "-o", "out.json"
    )


@pytest.mark.parametrize("period", ["0.01ms", "2h", "999999999h"])
def test_a_time_that_is_too_short_or_too_long_is_named(
    script: str, complaint: Complaint, period: str
) -> None:
    line = complaint(script, "--time-period", period, "-o", "out.json")
    assert "it must be from 0.1ms to 1h" in line


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--time-period", f"{'9' * 400}h"),
        ("--max-size", "9" * 5000),
        ("--period", "9" * 5000),
        ("--repeat", "9" * 300),
        ("--repeat", "0"),
        ("--seed", "-1"),
    ],
)
def test_a_number_that_is_far_too_large_is_one_line(
    script: str, complaint: Complaint, option: str, value: str
) -> None:
    assert option in complaint(script, option, value, "-o", "out.json")


def test_a_trace_that_fails_is_not_profiled(complaint: Complaint) -> None:
    lines = [
        '{"gcfuzz": 2, "target": "reference"}',
        '{"do": "enable_sampling", "period_bytes": 64}',
        '{"do": "free", "root": 3}',
    ]
    Path("trace.jsonl").write_text("\n".join(lines) + "\n")
    assert "trace.jsonl:3: free" in complaint("trace.jsonl", "-o", "out.json")


def test_a_trace_of_blocks_has_no_heap(complaint: Complaint) -> None:
    Path("trace.jsonl").write_text('{"gcfuzz": 2, "target": "reference-jemalloc"}\n')
    line = complaint("trace.jsonl", "-o", "out.json")
    assert "trace.jsonl: is of reference-jemalloc, which has no heap" in line


def test_a_trace_whose_samples_have_another_weight_is_refused(complaint: Complaint) -> None:
    Path("trace.jsonl").write_text('{"gcfuzz": 2, "target": "reference-dotnet"}\n')
    line = complaint("trace.jsonl", "--period", "64", "-o", "out.json")
    assert "is of reference-dotnet, which samples an object once however large it is" in line


def test_a_find_of_another_collector_has_no_heap(complaint: Complaint) -> None:
    Path("trace.jsonl").write_text('{"gcfuzz": 2, "target": "incminimark"}\n')
    line = complaint("trace.jsonl", "-o", "out.json")
    assert "trace.jsonl: is of incminimark, which has no heap" in line


def test_a_broken_recording_is_named_with_its_line(
    script: str, profiled: Profiled, complaint: Complaint
) -> None:
    profiled(script, "-o", "first.jsonl")
    lines = Path("first.jsonl").read_text().splitlines()
    lines[4] = '["sample", 1]'
    Path("first.jsonl").write_text("\n".join(lines) + "\n")
    assert "first.jsonl:5: no line of a recording" in complaint("first.jsonl", "-o", "out.json")


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_help_names_every_workload(capsys: pytest.CaptureFixture[str], name: str) -> None:
    run_command_line(["profile", "--help"])
    assert name in capsys.readouterr().out


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_the_files_are_made_keeps_the_recording_and_says_where() -> None:
    recording = Path("out.json.jsonl")
    with pytest.raises(InterruptedWorkError, match=f"is kept in {recording}"), keeping(recording):
        signal.raise_signal(signal.SIGINT)


# A process of its own.


@pytest.fixture
def endless(unmeasured: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that profiles a program which never ends, after a short first run."""
    Path("endless.py").write_text(
        SCRIPT.replace("range(2500)", "itertools.count() if hasattr(main, 'ran') else [1]")
        + "    main.ran = True\n"
        + "import itertools\n"
    )
    command = [sys.executable, "-m", "fuzz", "profile", "endless.py", "--period", "64"]
    process = subprocess.Popen(
        [*command, "-o", "out.collapsed"],
        env=unmeasured,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    recording = Path("out.collapsed.jsonl")
    while not (recording.exists() and recording.stat().st_size > 100_000):
        assert process.poll() is None
        time.sleep(0.05)
    yield process
    process.kill()
    process.wait()


@pytest.mark.slow
def test_a_kill_leaves_a_recording_that_exports(
    endless: subprocess.Popen[bytes], profiled: Profiled
) -> None:
    endless.kill()
    endless.wait()
    printed = profiled("out.collapsed.jsonl", "-o", "late.collapsed")
    assert "the recording ends early" in printed
    assert sum(collapsed("late.collapsed").values()) > 50_000


@pytest.mark.slow
def test_an_interrupt_writes_what_was_recorded(endless: subprocess.Popen[bytes]) -> None:
    endless.send_signal(signal.SIGINT)
    assert endless.wait() == INCONCLUSIVE
    assert sum(collapsed().values()) > 50_000
    assert not Path("out.collapsed.jsonl").exists()
