"""The target incminimark: PyPy's own collector, as in rpython 0.2.1.

GCFUZZ_RPYTHON names the folder with it, and GCFUZZ_PYTHON27 the interpreter if it is not the first
one found. Tests that need the collector are skipped without the folder. (The tests of the sampling
fork are in tests/fork.)
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Gcfuzz
from scripts import shell_script
from target_helpers import BAD_INPUT, ROOT, pypy_options
from waiting import completed

from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, CollectFull
from fuzz.protocol.target import Target
from fuzz.replay import replay
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.incminimark import INCMINIMARK
from fuzz.targets.incminimark.find import find_python

FILES = [
    path
    for path in sorted((ROOT / "corpus" / "incminimark").glob("*.jsonl"))
    if traces.read(path).header.target == INCMINIMARK.name
]
"""The others are of the JIT's machine code."""
STOCK_FAILURES = (
    *(
        "arraycopy-while-marking",
        "pressure-beside-pinned",
        "arraycopy-between-cards-while-marking",
        "arraycopy-into-prebuilt",
    ),
    *("arraycopy-clean-cards-while-marking", "copied-cards-beyond-end", "pinned-shadow-freed"),
    *("weakref-to-pinned-cleared", "marking-without-end"),
)
"""The failures of rpython 0.2.1; the others are the fork's."""


@pytest.fixture(scope="module")
def stock_options() -> TargetOptions:
    return pypy_options("incminimark")


@pytest.fixture(scope="module")
def stock(stock_options: TargetOptions) -> Target:
    return make_target("incminimark", stock_options)


# The findings.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_known_failure_passes_on_the_reference(path: Path) -> None:
    assert replay(make_target("reference"), traces.read(path), path.name) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.name.startswith(STOCK_FAILURES)],
    ids=lambda path: path.name,
)
def test_rpython_has_the_known_failure(path: Path, stock: Target) -> None:
    trace = traces.read(path)
    failure = replay(stock, trace, path.name)
    assert failure is not None
    found = trace.header.found
    assert found is not None
    assert (failure.message, failure.oracle) == (found.message, found.oracle)
    assert len(failure.actions) == len(trace.actions)


# The driver.


@pytest.mark.slow
def test_after_a_wrong_line_only_a_header_is_carried_out(stock_options: TargetOptions) -> None:
    header, check = '{"gcfuzz": 2}\n', '{"do": "check_heap"}\n'
    wrong = (header, "nonsense\n", header, '{"do": "free", "root": 0}\n')
    command = INCMINIMARK.command_line(stock_options)
    lines = "".join((*wrong, check, header, check))
    done = completed(command, input=lines)
    keys = [{*json.loads(line)} for line in done.stdout.splitlines()]
    assert keys[:5] == [{"contract"}, {"error"}, {"contract"}, {"error"}, {"error"}]
    assert keys[5] == {"contract"}
    assert "graph" in keys[6]


@pytest.mark.slow
@pytest.mark.parametrize(("paged_arenas", "arena_bytes"), [(0, 0), (1, 512)])
def test_memory_is_observed_after_a_full_collection(
    stock: Target, paged_arenas: int, arena_bytes: int
) -> None:
    assert "memory" in stock.start({"paged_arenas": paged_arenas}).promises
    stock.perform(AllocateNode(0))
    assert stock.perform(CollectFull()).memory == [32, arena_bytes]


@pytest.mark.slow
def test_a_collector_without_sampling_promises_none(stock: Target) -> None:
    contract = stock.start({})
    assert "enable_sampling" not in contract.actions
    assert "reports" not in contract.observes


# Finding the interpreter and the source.


def fake_python(folder: Path, script: str = "printf 2.7") -> Path:
    """A program that only states its version."""
    folder.mkdir(parents=True, exist_ok=True)
    return shell_script(folder / "python2.7", script)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["python"], r"pip install --target DIR rpython==0\.2\.1"),
        (["python", "source"], r"has no rpython/memory/gc/incminimark\.py"),
    ],
)
def test_a_folder_without_rpython_is_bad_input(
    names: list[str], problem: str, tmp_path: Path
) -> None:
    paths = {"python": fake_python(tmp_path), "source": tmp_path}
    with pytest.raises(BadInputError, match=problem):
        INCMINIMARK.command_line(TargetOptions(paths={name: paths[name] for name in names}))


def test_an_interpreter_of_another_version_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"is not a Python 2\.7 that runs"):
        find_python(fake_python(tmp_path, "printf 3.11"))


@pytest.mark.parametrize("folder", ["real", "versions/2.7.18/bin"])
def test_the_first_interpreter_that_runs_on_path_or_in_pyenv_is_used(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_python(tmp_path / "shim", "exit 127")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shim'}:{tmp_path / 'real'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(BadInputError, match=r"pyenv install 2\.7\.18"):
        find_python(None)
    python = fake_python(tmp_path / folder)
    assert find_python(None) == python


def test_a_source_alone_means_incminimark(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(BAD_INPUT, "run", "--source", tmp_path).err
    assert "has no rpython/memory/gc/incminimark.py" in printed
