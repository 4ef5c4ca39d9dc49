"""The message for each mistake in what `gcfuzz profile` is to do, and what is left then."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import signal
from pathlib import Path

import pytest
from command_line import Complaint
from profiled import HEADER, SCRIPT, Profiled, collapsed, enable, node

from fuzz.problems import InterruptedWorkError
from fuzz.profiling.making import keeping
from gcmodel.profiling.recording import read

pytestmark = pytest.mark.usefixtures("script_folder")

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
