"""`gcfuzz profile`: what can be profiled, what is written, and the message for each mistake."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from command_line import Complaint, Gcfuzz
from firefox_check import check
from night import rest_at_night
from waiting import PATIENCE_SECONDS, killed_at_end, wait_until

from fuzz.failures.corpus import shipped_traces
from fuzz.problems import InterruptedWorkError
from fuzz.profiling import profile_report
from fuzz.profiling.making import keeping
from fuzz.protocol.actions import EnableSampling
from fuzz.protocol.trace import dumps
from fuzz.terminal.commands.cli import run_command_line
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
HEADER = '{"gcfuzz": 2, "target": "reference"}\n'

Profiled = Callable[..., str]


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules that scripts import from the folder, and their changes to the path, are removed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(profile_report, "PLAIN_SECONDS", math.inf)  # No progress is printed.
    Path("nodes.py").write_text(SCRIPT)
    yield
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def profiled(gcfuzz: Gcfuzz) -> Profiled:
    """Profile something; returns the output. The Firefox Profiler could open the files."""

    def run(*arguments: str) -> str:
        printed = gcfuzz(CLEAN, "profile", *arguments).out
        for name in arguments:
            if name.endswith((".json", ".json.gz")):
                opened = gzip.open if name.endswith(".gz") else open
                with opened(name, "rt", encoding="utf-8") as file:
                    check(json.load(file))
        return printed

    return run


def write_trace(*actions: Mapping[str, object], header: str = HEADER) -> None:
    Path("trace.jsonl").write_text(header + "".join(json.dumps(each) + "\n" for each in actions))


def enable(period_bytes: int) -> dict[str, object]:
    return {"do": "enable_sampling", "period_bytes": period_bytes}


def node(number: int) -> dict[str, object]:
    return {"do": "allocate_node", "number": number}


def string(length: int) -> dict[str, object]:
    return {"do": "allocate_string", "length": length}


COLLECT, COLLECT_ALL = {"do": "collect_minor"}, {"do": "collect_full"}


def collapsed(path: str = "out.collapsed") -> dict[str, int]:
    lines = Path(path).read_text().splitlines()
    return {site: int(weight) for site, _, weight in (line.rpartition(" ") for line in lines)}


# What can be profiled.


def test_a_script_is_profiled_by_its_functions(profiled: Profiled) -> None:
    profiled("nodes.py", "--period", "64", "--fixed", "-o", "out.collapsed")
    assert list(collapsed()) == ["nodes.py;main nodes.py:8;make nodes.py:3;node [died young]"]
    assert sum(collapsed().values()) == ALLOCATED_BYTES - 64


def test_a_trace_is_profiled_by_its_actions(profiled: Profiled) -> None:
    write_trace(enable(8), node(1), string(30), COLLECT)
    profiled("trace.jsonl", "-o", "out.collapsed")
    assert collapsed() == {
        "trace.jsonl;allocate_node;node [survived]": 24,
        "trace.jsonl;allocate_string;string [survived]": 56,
    }


@pytest.mark.parametrize(
    ("target", "action", "sites"),
    [
        (
            "groups",
            {"do": "allocate_group", "members": [{"kind": "node"}, {"kind": "array", "length": 1}]},
            {"allocate_group;node [survived]": 24, "allocate_group;array [survived]": 24},
        ),
        (
            "finalizers",
            {"do": "allocate_node", "number": 1, "destructor": 3},
            {"allocate_node;node [survived]": 24},
        ),
    ],
)
def test_a_trace_is_profiled_on_the_heap_of_its_target(
    target: str, action: dict[str, object], sites: dict[str, int], profiled: Profiled
) -> None:
    header = HEADER.replace('"reference"', f'"reference-{target}"')
    write_trace(enable(8), action, COLLECT, header=header)
    profiled("trace.jsonl", "-o", "out.collapsed")
    assert collapsed() == {f"trace.jsonl;{site}": size for site, size in sites.items()}


def test_an_object_of_a_trace_is_followed_until_it_is_freed(profiled: Profiled) -> None:
    free = {"do": "free", "root": 0}
    write_trace(enable(8), string(30), string(31), COLLECT_ALL, free, COLLECT_ALL, COLLECT)
    printed = profiled("trace.jsonl", "-o", "out.collapsed")
    assert collapsed() == {
        "trace.jsonl;allocate_string;string [survived]": 56,
        "trace.jsonl;allocate_string;string [died old]": 48,
    }
    for name, figure in {"live at the end": 56, "8 to 15 collections": 48}.items():
        assert re.search(rf"^{name} +{figure} bytes", printed, re.MULTILINE), printed


def test_a_trace_can_be_sampled_with_another_period(profiled: Profiled) -> None:
    disable = {"do": "disable_sampling", "report": True}
    write_trace(node(1), enable(4096), node(2), disable, node(3))
    profiled("trace.jsonl", "--period", "32", "-o", "out.collapsed")
    # The trace still collects as before, so the last node has no fate yet.
    assert collapsed() == {
        "trace.jsonl;allocate_node;node [survived]": 32,
        "trace.jsonl;allocate_node;unknown type [fate not known yet]": 32,
    }


@pytest.mark.slow
def test_each_corpus_trace_that_samples_a_heap_leaves_a_recording(profiled: Profiled) -> None:
    for trace in shipped_traces().values():
        samples = any(isinstance(each, EnableSampling) for each in trace.actions)
        if samples and trace.header.target in ("reference", "reference-geometric"):
            Path("trace.jsonl").write_text(dumps(trace))
            profiled("trace.jsonl", "-o", "out.jsonl")
            assert read(Path("out.jsonl")).is_complete


def test_a_recording_is_exported_without_running_it(profiled: Profiled) -> None:
    profiled("nodes.py", "-o", "first.jsonl", "-o", "first.collapsed")
    Path("nodes.py").unlink()
    printed = profiled("first.jsonl", "-o", "second.collapsed")
    assert collapsed("second.collapsed") == collapsed("first.collapsed")
    assert printed.startswith("nodes.py: ")


def test_half_a_recording_is_exported_with_a_warning(profiled: Profiled) -> None:
    profiled("nodes.py", "--period", "64", "-o", "whole.jsonl")
    content = Path("whole.jsonl").read_bytes()
    Path("half.jsonl").write_bytes(content[: len(content) // 2])
    printed = profiled("half.jsonl", "-o", "out.collapsed", "-o", "out.heap", "-o", "out.json")
    assert "the recording ends early" in printed
    assert 0 < sum(collapsed().values()) < ALLOCATED_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_at_night(WORKLOADS))
def test_a_workload_is_profiled_over_an_existing_file(profiled: Profiled, name: str) -> None:
    Path("out.collapsed").write_text("old")
    assert profiled(name, "--period", "64k", "-o", "out.collapsed").startswith(f"{name}: ")
    assert all(site.startswith(f"{name};run {name}.py:") for site in collapsed())


# How it is sampled.


@pytest.mark.parametrize(("seed", "is_same"), [("7", True), ("8", False)])
def test_the_seed_decides_the_samples(profiled: Profiled, seed: str, is_same: bool) -> None:
    for name, each in (("one", "7"), ("two", seed)):
        profiled("nodes.py", "--period", "64", "--seed", each, "-o", f"{name}.collapsed")
    assert (collapsed("one.collapsed") == collapsed("two.collapsed")) is is_same


@pytest.mark.slow
def test_a_program_can_be_repeated(profiled: Profiled) -> None:
    profiled("nodes.py", "--period", "64", "--fixed", "--repeat", "3", "-o", "out.collapsed")
    assert sum(collapsed().values()) == 3 * ALLOCATED_BYTES - 64


def test_time_is_sampled_as_well(profiled: Profiled) -> None:
    Path("slow.py").write_text(
        "import signal\n\ndef main(heap):\n"
        "    timed = signal.getitimer(signal.ITIMER_REAL) != (0, 0)\n"
        "    for _ in range(5 * timed): signal.pause()\n"
    )
    printed = profiled("slow.py", "--time-period", "10ms", "-o", "out.jsonl")
    assert re.search(r"^\d+ samples by time$", printed, re.MULTILINE)
    assert len(read(Path("out.jsonl")).time_samples) >= 5


# What is printed and written.


def test_period_and_samples_are_printed(profiled: Profiled) -> None:
    printed = profiled("nodes.py", "--period", "64", "--fixed", "-o", "out.collapsed")
    assert "1,249 samples, exactly 64 bytes apart; 2 minor collections" in printed
    assert re.search(r"^all samples +79\.94 kB *$", printed, re.MULTILINE)
    assert re.search(r"^allocated 80\.0 kB; [\d.]+ kB recorded$", printed, re.MULTILINE)


def test_a_period_without_samples_gets_a_hint(profiled: Profiled) -> None:
    printed = profiled("nodes.py", "--period", "1G", "-o", "out.json")
    assert "no object was sampled; a shorter --period may hit one" in printed


def test_every_random_figure_has_its_bounds(profiled: Profiled) -> None:
    printed = profiled("nodes.py", "--period", "64", "-o", "out.collapsed")
    figures = r"(\d+\.\d+) kB +(\d+\.\d+) kB +(\d+\.\d+) kB$"
    for name in ("all samples", r"node \[died young\]", r"node \[died young\] in make nodes.py:3"):
        found = re.search(rf"^{name} +{figures}", printed, re.MULTILINE)
        assert found is not None, printed
        estimate, low, high = map(float, found.groups())
        assert low < estimate < high < 1.2 * low
        assert low < ALLOCATED_BYTES / 1000 < high


def test_the_live_heap_is_printed(profiled: Profiled) -> None:
    Path("nodes.py").write_text(
        "def main(heap):\n"
        "    for _ in range(100): heap.allocate_array(100)\n"
        "    heap.collect_full()\n"
        "    del heap.roots[:60]\n"
        "    heap.collect_full()\n"
    )
    printed = profiled("nodes.py", "--period", "8", "--fixed", "-o", "out.jsonl")
    for line in (r"live at most, after 1 collection +81\.59 kB", r"live at the end +32\.64 kB"):
        assert re.search(rf"^{line} *$", printed, re.MULTILINE), printed


def test_lifetimes_are_printed_in_minor_collections(profiled: Profiled) -> None:
    Path("nodes.py").write_text(
        "def main(heap):\n"
        "    for _ in range(100): heap.allocate_node(1)\n"
        "    del heap.roots[:10]\n"
        "    heap.collect_full()\n"
        "    del heap.roots[:60]\n"
        "    for _ in range(2): heap.collect_full()\n"
    )
    printed = profiled("nodes.py", "--period", "8", "--fixed", "-o", "out.jsonl")
    lines = printed.partition("lifetime  ")[2].partition("\nsite,")[0].splitlines()[1:]
    assert dict(re.split(r"  +", line.strip(), maxsplit=1) for line in lines) == {
        "0 collections": "312 bytes",
        "4 to 7 collections": "1.92 kB",
        "not freed": "960 bytes",
    }


def test_a_site_with_a_long_name_fits_in_a_line(profiled: Profiled) -> None:
    long = "make_" + "very_" * 20 + "long"
    Path("nodes.py").write_text(SCRIPT.replace("make", long))
    printed = profiled("nodes.py", "-o", "out.collapsed")
    (site,) = re.findall(r"^node \[died young\] in .*…\w+ nodes\.py:3  .*$", printed, re.MULTILINE)
    assert len(site) <= 80


def test_the_recording_is_removed_unless_it_was_asked_for(profiled: Profiled) -> None:
    profiled("nodes.py", "-o", "out.collapsed")
    assert [path.name for path in Path().glob("out*")] == ["out.collapsed"]
    profiled("nodes.py", "-o", "out.collapsed", "-o", "out.jsonl")
    assert read(Path("out.jsonl")).weight_bytes == sum(collapsed().values())


def test_several_files_are_written_from_one_run(profiled: Profiled) -> None:
    names = ["a.json", "b.json.gz", "c.heap", "d.collapsed", "e.jsonl", "f.pb.gz"]
    printed = profiled("nodes.py", *(word for name in names for word in ("-o", name)))
    assert all(Path(name).stat().st_size for name in names)
    assert [line.partition(":")[0] for line in printed.splitlines()[-6:]] == names


# What has changed.


CHANGED = (
    f"import sys  # So all lines have moved.\n{SCRIPT}        if number % 5 == 0: also(heap)\n"
)
CHANGED += "def also(heap):\n    heap.allocate_array(9)\n    heap.free(len(heap.roots) - 1)\n"


@pytest.mark.slow
def test_only_a_change_of_a_program_is_shown(profiled: Profiled) -> None:
    profiled("nodes.py", "--period", "64", "-o", "before.jsonl")
    Path("nodes.py").write_text(CHANGED)
    profiled("nodes.py", "--period", "64", "--seed", "7", "-o", "after.jsonl")
    printed = profiled("after.jsonl", "--diff", "before.jsonl")
    row = r"^array \[died young\] in also nodes.py +\+\S+ kB +\+(\S+) kB +\+(\S+) kB$"
    found = re.search(row, printed, re.MULTILINE)
    assert found is not None, printed
    # Some of the five hundred arrays may have survived: that is another site.
    assert float(found[1]) < 44 < float(found[2])
    assert "1 of 1 that differ" in printed
    assert re.search(
        "^[12] sites?: the same, or as far apart as chance may have them$", printed, re.MULTILINE
    )


def test_what_chance_alone_has_changed_is_not_shown(profiled: Profiled) -> None:
    profiled("nodes.py", "--period", "64", "-o", "before.jsonl")
    options = ("--period", "64", "--seed", "7", "--diff", "before.jsonl")
    printed = profiled("nodes.py", *options, "-o", "after.jsonl")
    assert "that differ" not in printed
    assert "1 site: the same, or as far apart as chance may have them" in printed


def test_at_fixed_distances_all_differences_are_shown_without_bounds(profiled: Profiled) -> None:
    fixed = ("nodes.py", "--period", "64", "--fixed")
    profiled(*fixed, "-o", "before.jsonl")
    Path("nodes.py").write_text(SCRIPT.replace("2500", "2000"))
    printed = profiled(*fixed, "--diff", "before.jsonl", "-o", "after.jsonl")
    row = r"^node \[died young\] in make nodes.py +-16.00 kB *$"
    assert re.search(row, printed, re.MULTILINE), printed
    assert printed.count("the same\n") == 1


# Mistakes.


ILLEGAL_VALUES = [
    *(("--period", each, f"period_bytes is {each}; it must be") for each in ("12", "0", "7", "1")),
    ("--period", str(2**64), f"period_bytes is {2**64}; it must be a multiple of 8"),
    *(
        ("--period", each, "is no size; write 64, 4k, 1M or 2G")
        for each in ("-8", "4kB", "4.5k", "k", "", "8 8")
    ),
    *(
        ("--time-period", each, "it must be from 0.1ms to 1h")
        for each in ("0.01ms", "2h", "999999999h")
    ),
    ("--time-period", f"{'9' * 400}h", "--time-period"),
    ("--max-size", "9" * 5000, "--max-size"),
    ("--max-size", "500", "raise --max-size"),
    ("--period", "9" * 5000, "--period"),
    ("--repeat", "9" * 300, "--repeat"),
    ("--repeat", "0", "--repeat"),
    ("--seed", "-1", "--seed"),
]


@pytest.mark.parametrize(("option", "value", "message"), ILLEGAL_VALUES)
def test_an_illegal_value_of_an_option_is_named(
    option: str, value: str, message: str, complaint: Complaint
) -> None:
    assert message in complaint("profile", "nodes.py", option, value, "-o", "out.json")
    assert [path.name for path in Path().iterdir()] == ["nodes.py"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nodes.py", "nodes.py: is not a recording yet; name a file for it: -o FILE.jsonl"),
        ("nodes.py --diff nodes.py -o a.jsonl", "nodes.py:1: a recording begins with a header"),
        ("gcbnech -o a.json", "is not a workload (gcbench, expressions, interpreter, allocate)"),
        ("folder -o a.json", "folder: is a folder: name a script"),
        ("noname -o a.json", "noname: is neither a trace nor a recording"),
        ("nodes.py -o a.svg", "a.svg: unknown format; end the name in one of .json"),
        *(
            (f"nodes.py -o {each}", f"{each}: unknown format")
            for each in (".json", ".json.gz", ".pb.gz", ".heap", ".collapsed", ".jsonl")
        ),
        ("nodes.py -o a.jsonl -o b.jsonl", "b.jsonl: there is one recording; name one file"),
        ("nodes.py -o a.heap -o ./folder/../a.heap", "a.heap: is named twice"),
        ("nodes.py -o no/a.json", "no/a.json: cannot be written: there is no folder no"),
        (f"nodes.py -o {'n' * 300}.json", "File name too long"),
        ("nodes.py -o pipe.jsonl", "pipe.jsonl: is not a regular file"),
        ("nodes.py -o trace.jsonl", "trace.jsonl: exists already, and is not a recording"),
        ("nodes.py -o trace", "trace: unknown format"),
        ("nodes.py --fixed --seed 1 -o a.json", "--seed is for random distances"),
        (
            "nodes.py --time-period 1ms -o a.heap -o a.collapsed",
            "only .json and .jsonl files have samples by time",
        ),
        ("trace.jsonl -o trace.jsonl", "is the trace itself; name another file"),
        ("trace.jsonl -o a.json", "trace.jsonl: never enables sampling; give a --period"),
        (
            "trace.jsonl --seed 3 --repeat 2 -o a.json",
            "trace.jsonl is a trace, and not a program; leave out --seed, --repeat",
        ),
        ("first.jsonl -o second.jsonl", "second.jsonl: first.jsonl is the recording; copy that"),
        ("first.jsonl --period 64 -o a.json", "nothing is recorded; leave out --period"),
        ("first.jsonl --max-size 1 -o a.json", "leave out --max-size"),
        ("broken.jsonl -o a.json", "broken.jsonl:5: not a line of a recording"),
        ("illegal.jsonl -o a.json", "illegal.jsonl:3: free"),
        ("jemalloc.jsonl -o a.json", "its target is reference-jemalloc, which has no heap"),
        ("incminimark.jsonl -o a.json", "its target is incminimark, which has no heap"),
        (
            "dotnet.jsonl --period 64 -o a.json",
            "its target is reference-dotnet, which samples an object once, however large it is",
        ),
    ],
)
def test_a_mistake_gets_one_line(
    arguments: str, message: str, complaint: Complaint, profiled: Profiled
) -> None:
    Path("folder").mkdir()
    Path("noname").write_text(SCRIPT)
    Path("trace.jsonl").write_text(HEADER + json.dumps(node(1)) + "\n")
    free = json.dumps({"do": "free", "root": 3})
    Path("illegal.jsonl").write_text(f"{HEADER}{json.dumps(enable(64))}\n{free}\n")
    for target in ("reference-jemalloc", "reference-dotnet", "incminimark"):
        path = Path(f"{target.rpartition('-')[2]}.jsonl")
        path.write_text(HEADER.replace("reference", target))
    os.mkfifo("pipe.jsonl")
    if arguments.startswith(("first", "broken")):
        profiled("nodes.py", "-o", "first.jsonl")
        lines = Path("first.jsonl").read_text().splitlines()
        Path("broken.jsonl").write_text("\n".join([*lines[:4], '["sample", 1]', *lines[5:], ""]))
    before = sorted(Path().iterdir())
    assert message in complaint("profile", *shlex.split(arguments))
    assert sorted(Path().iterdir()) == before


def test_an_existing_file_in_place_of_the_recording_is_not_lost(complaint: Complaint) -> None:
    Path("out.json.jsonl").write_text(HEADER)
    line = complaint("profile", "out.json.jsonl", "-o", "out.json")
    assert (
        "out.json.jsonl: exists already, and the recording would replace it; if a profile" in line
    )
    assert Path("out.json.jsonl").read_text() == HEADER


def test_an_export_that_fails_leaves_the_old_file(profiled: Profiled, complaint: Complaint) -> None:
    profiled("nodes.py", "-o", "first.jsonl", "-o", "out.json")
    before = Path("out.json").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        line = complaint("profile", "first.jsonl", "-o", "out.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "out.json: cannot be written: File too large" in line
    assert Path("out.json").read_bytes() == before
    assert len(list(Path().iterdir())) == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_an_export_that_fails_keeps_the_recording_and_names_it(complaint: Complaint) -> None:
    Path("full.heap").symlink_to("/dev/full")
    line = complaint("profile", "nodes.py", "-o", "full.heap")
    assert "full.heap: cannot be written: No space left on device; the recording is kept in" in line
    assert read(Path("full.heap.jsonl")).is_complete


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_of_an_export_keeps_the_recording_and_names_it() -> None:
    recording = Path("out.json.jsonl")
    with pytest.raises(InterruptedWorkError, match=f"is kept in {recording}"), keeping(recording):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_a_period_that_would_write_too_much_is_refused_with_one_that_fits(
    complaint: Complaint, profiled: Profiled
) -> None:
    options = ["--repeat", "20", "--max-size", "200k", "-o", "out.jsonl"]
    line = complaint("profile", "nodes.py", "--period", "64", *options)
    found = re.search(r"--max-size is 204,800; --period (\d+) would fit", line)
    assert found is not None
    assert not Path("out.jsonl").exists()
    profiled("nodes.py", "--period", found[1], *options)
    assert Path("out.jsonl").stat().st_size <= 204_800


@pytest.mark.slow
def test_a_recording_that_becomes_too_large_ends_there_and_can_be_shown(
    complaint: Complaint, profiled: Profiled
) -> None:
    growing = SCRIPT.replace("range(2500)", "range(getattr(main, 'count', 0))")
    ended = "    if hasattr(main, 'count'): open('ended', 'w')\n"
    Path("nodes.py").write_text(growing + ended + "    main.count = 40_000\n")
    line = complaint(
        "profile", "nodes.py", "--period", "64", "--max-size", "200k", "-o", "out.jsonl"
    )
    assert "out.jsonl: it would be larger than 204,800 bytes; the recording ends there" in line
    assert not Path("ended").exists()
    profiled("out.jsonl", "-o", "out.collapsed")
    assert sum(collapsed().values()) > 10_000


# Scripts.


RAISING = "    error = ValueError('the error')\n    error.add_note('a note')\n    raise error\n"


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
        (
            "def main(heap):\n    raise SystemExit(0)\n",
            "nodes.py:2: SystemExit: 0; return from main instead\n",
        ),
        ("def main():\n    pass\n", "nodes.py: main: too many positional arguments; the"),
        ("def main(heap, size):\n    pass\n", "main: missing a required argument: 'size'; the"),
        ("class Stop(BaseException): pass\ndef main(heap):\n    raise Stop", "nodes.py:3: "),
        ("def main(heap):\n    eval('1 +')\n", "nodes.py:2: SyntaxError"),
        ("class E(Exception):\n    __str__ = None\ndef main(heap):\n    raise E", "nodes.py:4: "),
        ("async def main(heap):\n    pass\n", "nodes.py: main does nothing when it is called"),
        ("def main(heap):\n    yield\n", "nodes.py: main does nothing when it is called"),
        (f"def main(heap):\n{RAISING}", "gcfuzz: nodes.py:4: ValueError: the error\n"),
        (
            "import os\n\ndef main(heap):\n    os.chdir('/')\n    1 / 0\n",
            "nodes.py:5: ZeroDivisionError",
        ),
        ("", "nodes.py: has no function main"),
        ("\x00", "nodes.py"),
    ],
)
def test_a_script_that_fails_is_named_with_its_line_and_leaves_no_file(
    complaint: Complaint, source: str, message: str
) -> None:
    Path("nodes.py").write_text(source)
    folder = Path.cwd()
    assert message in complaint("profile", "nodes.py", "-o", "out.json", "-o", "out.jsonl")
    assert [path.name for path in folder.iterdir()] == ["nodes.py"]


def test_a_script_that_fails_the_second_time_keeps_what_was_recorded(complaint: Complaint) -> None:
    once = SCRIPT + "    if hasattr(main, 'ran'): raise ValueError('again')\n    main.ran = True\n"
    Path("nodes.py").write_text(once)
    line = complaint("profile", "nodes.py", "--period", "64", "-o", "out.json")
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
    ("name", "source"),
    [
        ("beside", "from helper import main\n"),
        ("beside", "def main(heap):\n    import helper\n    helper.main(heap)\n"),
        (
            "lib",
            "import sys; sys.path.append('lib')\ndef main(heap): import helper; helper.main(heap)",
        ),
    ],
    ids=["at once", "when it runs", "from a path that it adds"],
)
def test_a_script_imports_other_files(profiled: Profiled, name: str, source: str) -> None:
    Path(name).mkdir()
    script = Path("nodes.py" if name == "lib" else "beside/nodes.py")
    script.write_text(source)
    Path(name, "helper.py").write_text(SCRIPT)
    profiled(str(script), "-o", "out.collapsed")
    assert all(";make helper.py:3;" in site for site in collapsed())


@pytest.mark.parametrize(
    "statement",
    [
        "pass",
        "import sys; del sys.path[0]",
        "import os; os.chdir('elsewhere')",
        "import pickle; pickle.loads(pickle.dumps(make))",
        "import sys; assert sys.argv == ['nodes.py']",
        "from pathlib import Path; assert Path('out.collapsed.jsonl').exists()",
    ],
)
def test_a_script_may_change_its_process(statement: str, profiled: Profiled) -> None:
    before = [*sys.path], [*sys.argv], Path.cwd()
    Path("elsewhere").mkdir()
    Path("nodes.py").write_text(f"{SCRIPT}    {statement}\n")
    profiled("nodes.py", "-o", "out.collapsed")
    assert collapsed()
    assert ([*sys.path], [*sys.argv], Path.cwd()) == before


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_script_may_close_a_stream(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = os.fdopen(os.dup(1), "w")
    monkeypatch.setattr(sys, name, stream)
    Path("nodes.py").write_text(f"import sys\n{SCRIPT}    sys.{name}.close()\n")
    assert run_command_line(["profile", "nodes.py", "-o", "out.collapsed"]) == CLEAN
    assert stream.closed


@pytest.mark.slow
def test_files_of_the_same_name_are_distinguished(profiled: Profiled) -> None:
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


USED_FRAMES = (
    "    frame, used = sys._getframe(), 0\n    while frame: frame, used = frame.f_back, used + 1\n"
)


def test_a_program_near_the_recursion_limit_is_sampled_by_time(profiled: Profiled) -> None:
    Path("nodes.py").write_text(
        "import signal, sys\n\n"
        "def dive(frames):\n"
        "    if frames: return dive(frames - 1)\n"
        "    if signal.getitimer(signal.ITIMER_REAL) != (0, 0): signal.pause()\n\n"
        f"def main(heap):\n{USED_FRAMES}"
        f"    dive({sys.getrecursionlimit()} - used - 4)\n"
    )
    profiled("nodes.py", "--time-period", "1ms", "-o", "out.jsonl")
    assert read(Path("out.jsonl")).time_samples


def test_a_program_with_a_full_stack_goes_on_without_a_recorder(complaint: Complaint) -> None:
    # Each stack is new, so the recorder needs more frames than the heap.
    Path("nodes.py").write_text(
        f"import sys\n\ndef main(heap):\n{USED_FRAMES}"
        "    sys.setrecursionlimit(used + 150)\n"
        "    dive(heap)\n\n"
        "def dive(heap):\n"
        "    try:\n"
        "        heap.allocate_string(100)\n"
        "        dive(heap)\n"
        "    except RecursionError:\n"
        "        pass\n"
    )
    line = complaint("profile", "nodes.py", "--period", "8", "-o", "out.jsonl")
    assert "out.jsonl: RecursionError was raised while it was written" in line
    assert read(Path("out.jsonl")).weight_bytes > 0


FORK = """
def main(heap):
    import os, psutil
    make(heap, 1)
    child = os.fork()
    if not child:
        for number in range(3000):
            make(heap, number)
        {how}
    assert psutil.Process(child).wait({seconds}) == {code}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code"), [("return", 0), ("raise SystemExit(7)", 7), ("os._exit(9)", 9), ("1 / 0", 1)]
)
def test_a_forked_process_is_not_recorded(profiled: Profiled, how: str, code: int) -> None:
    make, _, _ = SCRIPT.partition("def main")
    Path("nodes.py").write_text(make + FORK.format(how=how, code=code, seconds=PATIENCE_SECONDS))
    printed = profiled("nodes.py", "--period", "8", "--fixed", "-o", "out.collapsed")
    # The last of its four sample points is reached and not passed.
    assert sum(collapsed().values()) == 32 - 8
    assert printed.count("all samples") == 1


def test_a_script_that_samples_by_itself_has_its_own_periods(profiled: Profiled) -> None:
    Path("nodes.py").write_text(
        SCRIPT.replace("def main(heap):", "def main(heap):\n    heap.enable_sampling(64)")
    )
    printed = profiled("nodes.py", "-o", "out.collapsed")
    assert "allocated 80.0 kB" in printed
    assert "on average 64 bytes apart" in printed


def test_a_run_does_not_keep_the_objects_of_the_last_one(profiled: Profiled) -> None:
    Path("nodes.py").write_text(
        "def main(heap):\n    for number in range(3000):\n        heap.allocate_node(number)\n"
    )
    profiled("nodes.py", "--repeat", "5", "-o", "out.jsonl")
    used = [each.memory_used_bytes for each in read(Path("out.jsonl")).minor_collections]
    # Most nodes of one run, and those of the last that no major collection has freed yet.
    assert max(used) < 3 * 3000 * 32


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_help_names_every_workload(gcfuzz: Gcfuzz, name: str) -> None:
    assert name in gcfuzz(CLEAN, "profile", "--help").out


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
    with killed_at_end(process):
        wait_until(
            lambda: recording.exists() and recording.stat().st_size > 100_000,
            "the recording",
            process,
        )
        yield process


@pytest.mark.slow
def test_a_kill_leaves_a_recording(endless: subprocess.Popen[bytes], profiled: Profiled) -> None:
    endless.kill()
    endless.wait(PATIENCE_SECONDS)
    printed = profiled("out.collapsed.jsonl", "-o", "late.collapsed")
    assert "the recording ends early" in printed
    assert sum(collapsed("late.collapsed").values()) > 50_000


@pytest.mark.slow
def test_an_interrupt_writes_what_was_recorded(endless: subprocess.Popen[bytes]) -> None:
    endless.send_signal(signal.SIGINT)
    assert endless.wait(PATIENCE_SECONDS) == INCONCLUSIVE
    assert sum(collapsed().values()) > 50_000
    assert not Path("out.collapsed.jsonl").exists()
