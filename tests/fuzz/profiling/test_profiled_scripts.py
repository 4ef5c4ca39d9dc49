"""Scripts under `gcfuzz profile`: what they may do, how they fail, and how their process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Complaint
from profiled import ALLOCATED_BYTES, SCRIPT, Profiled, collapsed
from waiting import PATIENCE_SECONDS, killed_at_end, wait_until

from fuzz.terminal.commands.cli import run_command_line
from gcmodel.profiling.recording import read

pytestmark = pytest.mark.usefixtures("script_folder")
CLEAN, MISMATCH, BAD_INPUT, INCONCLUSIVE = range(4)

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
