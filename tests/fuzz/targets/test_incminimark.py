"""The target incminimark: PyPy's own collector, as rpython 0.2.1 has it.

GCFUZZ_RPYTHON names the folder with that, GCFUZZ_PYTHON27 the interpreter if it is not the first
that is there. Without the folder, what needs the collector is skipped. (The sampling fork has tests
of its own, in tests/fork.)
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from target_helpers import BAD_INPUT, MISMATCH, ROOT, options_for

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import AllocateNode, CollectFull
from fuzz.protocol.target import Target
from fuzz.run import replay
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.incminimark.find import driver_command, find_python
from fuzz.terminal.cli import run_command_line

CORPUS = ROOT / "corpus" / "incminimark"
FILES = sorted(CORPUS.glob("*.jsonl"))

STOCK_FINDS = (
    *(
        "arraycopy-while-marking",
        "arraycopy-between-cards-while-marking",
        "arraycopy-into-prebuilt",
    ),
    *("arraycopy-clean-cards-while-marking", "copied-cards-beyond-end", "pinned-shadow-freed"),
    *("weakref-to-pinned-cleared", "marking-without-end"),
)
"""What rpython 0.2.1 has; the others are the fork's."""


def files_of(finds: tuple[str, ...]) -> list[Path]:
    return [path for path in FILES if path.name.startswith(finds)]


def named(path: Path) -> str:
    return path.name


@pytest.fixture(scope="module")
def stock_options() -> TargetOptions:
    if "GCFUZZ_RPYTHON" not in os.environ:
        pytest.skip("python2.7 -m pip install --target DIR rpython==0.2.1; GCFUZZ_RPYTHON=DIR")
    return options_for("incminimark")


@pytest.fixture(scope="module")
def stock(stock_options: TargetOptions) -> Target:
    return make_target("incminimark", stock_options)


# The finds.


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_find_passes_on_the_reference(path: Path) -> None:
    assert replay(make_target("reference"), traces.read(path), path.name) is None


@pytest.mark.slow
@pytest.mark.parametrize("path", files_of(STOCK_FINDS), ids=named)
def test_rpython_fails_as_told(path: Path, stock: Target) -> None:
    trace = traces.read(path)
    failure = replay(stock, trace, path.name)
    assert failure is not None
    assert trace.header.found is not None
    assert failure.message == trace.header.found.message
    assert len(failure.actions) == len(trace.actions)


@pytest.mark.slow
def test_the_array_copy_is_found_by_the_heap_oracle(stock: Target) -> None:
    path = files_of(("arraycopy-while-marking",))[0]
    failure = replay(stock, traces.read(path), path.name)
    assert failure is not None
    assert failure.oracle == "heap"


# Sessions.


@pytest.mark.slow
def test_without_what_is_told_a_session_is_clean(stock_options: TargetOptions) -> None:
    without = ("copy_array", "pin")
    target = make_target("incminimark", attrs.evolve(stock_options, without=without))
    engine = RandomEngine(target, "1")
    done = list(slices_of(engine, 3000, ProbeCounter()))
    assert [failure.message for each in done for failure in each.failures] == []


@pytest.mark.slow
def test_a_session_finds_the_array_copy(
    stock_options: TargetOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--target", "incminimark", *stock_options.arguments, "--corpus", str(tmp_path)]
    code = run_command_line(["run", *words, "--seed", "1", "--actions", "3000"])
    assert code == MISMATCH
    assert "copy_array" in capsys.readouterr().out


@pytest.mark.slow
def test_a_replay_of_a_find_is_a_mismatch(stock_options: TargetOptions) -> None:
    path = files_of(("arraycopy-while-marking",))[0]
    assert run_command_line(["replay", str(path), *stock_options.arguments]) == MISMATCH


# The driver.


@pytest.fixture(scope="module")
def answers(stock_options: TargetOptions) -> Callable[[str], list[dict[str, object]]]:
    """Gives the driver some lines, and returns its answers."""
    command = driver_command("incminimark", stock_options)

    def ask(lines: str) -> list[dict[str, object]]:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return ask


HEADER = '{"gcfuzz": 2}\n'


@pytest.mark.slow
def test_a_line_that_is_no_json_is_an_error(
    answers: Callable[[str], list[dict[str, object]]],
) -> None:
    assert [set(answer) for answer in answers(HEADER + "nonsense\n")] == [{"contract"}, {"error"}]


@pytest.mark.slow
def test_after_an_error_only_a_header_helps(
    answers: Callable[[str], list[dict[str, object]]],
) -> None:
    check = '{"do": "check_heap"}\n'
    told = answers(HEADER + '{"do": "free", "root": 0}\n' + check + HEADER + check)
    assert [("error" in answer) for answer in told] == [False, True, True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize(("paged_arenas", "arena_bytes"), [(0, 0), (1, 512)])
def test_memory_is_told_after_a_full_collection(
    stock: Target, paged_arenas: int, arena_bytes: int
) -> None:
    assert "memory" in stock.start({"paged_arenas": paged_arenas}).promises
    stock.perform(AllocateNode(0))
    assert stock.perform(CollectFull()).memory == [32, arena_bytes]


@pytest.mark.slow
def test_without_sampling_no_sampling_is_promised(stock: Target) -> None:
    contract = stock.start({})
    assert "enable_sampling" not in contract.actions
    assert "reports" not in contract.observes


# Finding the interpreter and the source.


def fake_python(folder: Path, script: str = "printf 2.7") -> Path:
    """A program that answers as an interpreter would, and does nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "python2.7"
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)
    return python


def test_without_a_source_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"pip install --target DIR rpython==0\.2\.1"):
        driver_command("incminimark", TargetOptions(paths={"python": fake_python(tmp_path)}))


def test_a_folder_without_rpython_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"has no rpython/memory/gc/incminimark\.py"):
        driver_command(
            "incminimark",
            TargetOptions(paths={"python": fake_python(tmp_path), "source": tmp_path}),
        )


def test_an_interpreter_of_another_version_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"is no Python 2\.7 that runs"):
        find_python(fake_python(tmp_path, "printf 3.11"))


def test_the_first_interpreter_that_runs_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_python(tmp_path / "shim", "exit 127")
    real = fake_python(tmp_path / "real")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shim'}:{tmp_path / 'real'}")
    assert find_python(None) == real


def test_pyenvs_versions_are_looked_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = fake_python(tmp_path / "versions" / "2.7.18" / "bin")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert find_python(None) == python


def test_without_any_interpreter_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(BadInputError, match=r"pyenv install 2\.7\.18"):
        find_python(None)


def test_a_bug_cannot_be_planted_in_it() -> None:
    with pytest.raises(BadInputError, match="reference targets only"):
        make_target("incminimark+stale-limit-after-large")


def test_a_source_alone_means_incminimark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["run", "--source", str(tmp_path)]) == BAD_INPUT
    assert "has no rpython/memory/gc/incminimark.py" in capsys.readouterr().err
