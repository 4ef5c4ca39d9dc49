"""`gcfuzz profile`: what can be profiled, how it is sampled, and what is printed and written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import Gcfuzz
from night import rest_at_night
from profiled import ALLOCATED_BYTES, HEADER, SCRIPT, Profiled, collapsed, enable, node

from fuzz.failures.trace_files import shipped_traces
from fuzz.protocol.actions import EnableSampling
from fuzz.protocol.trace import dumps
from gcmodel.profiling.recording import read
from gcmodel.workloads import WORKLOADS

pytestmark = pytest.mark.usefixtures("script_folder")

CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE, HARNESS_BUG = range(5)


def write_trace(*actions: Mapping[str, object], header: str = HEADER) -> None:
    Path("trace.jsonl").write_text(header + "".join(json.dumps(each) + "\n" for each in actions))


def string(length: int) -> dict[str, object]:
    return {"do": "allocate_string", "length": length}


COLLECT, COLLECT_ALL = {"do": "collect_minor"}, {"do": "collect_full"}


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


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_help_names_every_workload(gcfuzz: Gcfuzz, name: str) -> None:
    assert name in gcfuzz(CLEAN, "profile", "--help").out
