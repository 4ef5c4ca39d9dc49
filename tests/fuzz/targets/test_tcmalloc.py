"""The target tcmalloc: Google's TCMalloc in a stock program, each sample and its weight foretold.

Without the program everything is skipped that needs it: `npm install @cloudflare/workerd-linux-64`,
in this folder or where NODE_PATH says.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fuzz.oracles.counting.distances import Tcmalloc as Distances
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action, Calloc, Free, Malloc, Realloc, SetPeriod
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.allocators import tcmalloc_program
from fuzz.targets.allocators.elf import Program
from fuzz.targets.allocators.tcmalloc_driver import SIZE_CLASSES, StockTcmalloc
from fuzz.targets.allocators.tcmalloc_program import SAMPLER, find_program
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT = range(3)
MISTAKEN = Path(__file__).with_name("mistaken_tcmalloc.py")
MISTAKES = ("at", "requested", "moved", "drawn", "first")
KINDS: Sequence[Action] = (
    *(Malloc(100), Calloc(3, 5000), Malloc(300_000, thread=1), Realloc(0, 3000)),
    *(Realloc(2, 299_000), SetPeriod(512), Malloc(0), Free(0), Malloc(40), Realloc(1, 17)),
)


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return find_program(None)
    except BadInputError as problem:
        pytest.skip(str(problem))


def end(target: StockTcmalloc) -> None:
    target.library.asked.process.kill()
    target.library.asked.process.communicate()


@pytest.fixture(scope="module")
def target(program: Path) -> Iterator[StockTcmalloc]:
    target = StockTcmalloc(str(program))
    yield target
    end(target)


@pytest.mark.slow
def test_fifty_thousand_actions_are_foretold(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = ["--actions", "50000", "--seed", "1", "--corpus", str(tmp_path)]
    words = ["run", "--target", "tcmalloc", "--library", str(program), *plan]
    assert run_command_line(words) == CLEAN
    printed = capsys.readouterr().out
    assert "50,000 actions" in printed
    samples = printed.partition(" actions (")[2].partition(" samples")[0].split()[-1]
    assert int(samples.replace(",", "")) > 2000
    assert "all 7 probes reached" in printed


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.usefixtures("program")
def test_a_contract_with_one_mistake_is_found(mistake: str, tmp_path: Path) -> None:
    command = shlex.join([sys.executable, str(MISTAKEN), mistake])
    plan = ["--actions", "2000", "--seed", "1", "--corpus", str(tmp_path), "-x"]
    assert run_command_line(["run", "--command", command, *plan]) == MISMATCH


def test_the_first_distance_is_the_seed_s_first(target: StockTcmalloc) -> None:
    target.start({"sampler_seed": 7, "threads": 1, "period_bytes": 4096})
    until_bytes = Distances(7).draw(4096)
    blocks = [target.perform(Malloc(9)).samples for _ in range(until_bytes // 10 + 1)]
    assert blocks == [0] * (until_bytes // 10) + [1]


def test_a_sample_weighs_its_period_and_what_lies_beyond_it(target: StockTcmalloc) -> None:
    target.start({"sampler_seed": 7, "threads": 1, "period_bytes": 4096})
    until_bytes = Distances(7).draw(4096)
    said = target.perform(Malloc(50_000))
    assert said.weights == [4096 + 50_001 - until_bytes - 1]


def test_a_block_s_room_is_its_class(target: StockTcmalloc) -> None:
    layout = target.start({}).layout
    sizes = [0, *(size + more for size in SIZE_CLASSES for more in (0, 1))]
    rooms = [target.perform(Malloc(size_bytes)).size for size_bytes in sizes]
    assert rooms == [layout.room_bytes(size_bytes) for size_bytes in sizes]


def test_after_the_header_no_sampler_is_looked_at(
    target: StockTcmalloc, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.start({"threads": 2})
    library, touched = target.library, set[int]()
    samplers = {sampler + offset for sampler in target.samplers for offset in range(SAMPLER.size)}
    read, write = library.read, library.write

    def watched_read(address: int, length: int) -> bytes:
        touched.update(range(address, address + length))
        return read(address, length)

    def watched_write(address: int, data: bytes) -> None:
        touched.update(range(address, address + len(data)))
        write(address, data)

    monkeypatch.setattr(library, "read", watched_read)
    monkeypatch.setattr(library, "write", watched_write)
    assert [target.perform(action).error for action in KINDS] == [None] * len(KINDS)
    assert touched
    assert not touched & samplers


def test_a_trace_says_the_same_wherever_it_stands(target: StockTcmalloc) -> None:
    def play() -> list[object]:
        target.start({"threads": 2, "period_bytes": 256})
        said = [target.perform(action) for action in KINDS]
        return [(each.samples, each.weights, each.size) for each in said]

    first = play()
    target.start({"threads": 4, "period_bytes": 1})
    target.perform(Malloc(2**19, thread=3))
    assert play() == first


def test_a_damaged_block_is_an_error(target: StockTcmalloc) -> None:
    target.start({})
    size_bytes = target.perform(Malloc(100)).size
    assert size_bytes
    target.library.write(target.blocks[0].address + size_bytes - 1, b"\7")
    assert target.perform(Free(0)).error == "DamageError: a block is damaged"


def test_a_program_that_ends_is_an_error(program: Path) -> None:
    target = StockTcmalloc(str(program))
    target.start({})
    target.library.asked.process.kill()
    assert "the program that is asked has ended" in str(target.perform(Malloc(1)).error)
    target.library.asked.process.communicate()


# What is not there, or is another.


def test_without_a_program_a_run_ends_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NODE_PATH", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_command_line(["run", "--target", "tcmalloc"]) == BAD_INPUT
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("gcfuzz: the target tcmalloc: there is no program with TCMalloc in it")
    assert "npm install @cloudflare/workerd-linux-64" in line


def test_a_program_without_tcmalloc_is_bad_input() -> None:
    options = TargetOptions(library=Path(sys.executable).resolve())
    with pytest.raises(BadInputError, match=r"has no symbol|is stripped"):
        make_target("tcmalloc", options).start({})


def test_a_file_that_is_no_program_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="is no program for x86-64"):
        Program(Path(__file__))


def test_without_a_compiler_it_is_said_what_to_install(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcmalloc_program, "COMPILER", "no-such-compiler")
    with pytest.raises(BadInputError, match="apt install gcc"):
        StockTcmalloc(str(program)).start({})


def test_what_is_preloaded_compiles_without_a_warning(tmp_path: Path) -> None:
    words = ["gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    made = str(tmp_path / "calls.so")
    subprocess.run([*words, "-o", made, str(tcmalloc_program.CALLS)], check=True)
