"""The target tcmalloc: Google's TCMalloc in a stock program, with each sample and weight predicted.

Tests that need the program are skipped without it: `npm install @cloudflare/workerd-linux-64` in
this folder or in NODE_PATH.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from waiting import PATIENCE_SECONDS

from fuzz.oracles.counting.distances.tcmalloc import Tcmalloc as Distances
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action, Calloc, Free, Malloc, ReadProfile, Realloc, SetPeriod
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.tcmalloc import tcmalloc_program
from fuzz.targets.tcmalloc.contract import SIZE_CLASSES
from fuzz.targets.tcmalloc.driver import TcmallocDriver
from fuzz.targets.tcmalloc.elf import ElfFile
from fuzz.targets.tcmalloc.find import find_program
from fuzz.targets.tcmalloc.tcmalloc_program import SAMPLER

KINDS: Sequence[Action] = (
    *(Malloc(100), Calloc(3, 5000), Malloc(300_000, thread=1), Realloc(0, 3000)),
    *(Realloc(2, 299_000), SetPeriod(512), Malloc(0), Free(0), Malloc(40), Realloc(1, 17)),
    ReadProfile(),
)


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return find_program(None)
    except BadInputError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def target(program: Path) -> Iterator[TcmallocDriver]:
    target = TcmallocDriver("tcmalloc", str(program))
    yield target
    target.library.asked.process.kill()
    target.library.asked.close()


@pytest.mark.parametrize("size_bytes", [9, 50_000])
def test_the_first_sample_has_the_seeds_distance_and_weight(
    size_bytes: int, target: TcmallocDriver
) -> None:
    target.start({"sampler_seed": 7, "threads": 1, "period_bytes": 4096})
    until_bytes = Distances(7).draw(4096)
    count = until_bytes // (size_bytes + 1)
    *before, sampled = [target.perform(Malloc(size_bytes)) for _ in range(count + 1)]
    assert [each.samples for each in before] == [0] * count
    passed_bytes = (count + 1) * (size_bytes + 1) - until_bytes
    assert sampled.weights == [4096 + passed_bytes - 1]


def test_a_profile_has_whole_blocks_of_each_living_sample(target: TcmallocDriver) -> None:
    target.start({"threads": 2, "period_bytes": 1024})
    blocks = [target.perform(Malloc(100, thread=index % 2)) for index in range(200)]
    sampled = [index for index, block in enumerate(blocks) if block.samples]
    assert len(sampled) > 5
    sums = [0, 0]
    for index in sampled:
        [weight], size_bytes = blocks[index].weights, blocks[index].size
        assert size_bytes == 112
        count = (int(weight / 101 * 112 + 0.5) + 56) // 112
        sums = [sums[0] + count, sums[1] + 112 * count]
    assert target.perform(ReadProfile()).profile == sums
    for _ in blocks:
        target.perform(Free(0))
    assert target.perform(ReadProfile()).profile == [0, 0]


def test_a_block_has_the_size_of_its_class(target: TcmallocDriver) -> None:
    layout = target.start({}).layout
    sizes = [0, *(size + more for size in SIZE_CLASSES for more in (0, 1))]
    rooms = [target.perform(Malloc(size_bytes)).size for size_bytes in sizes]
    assert rooms == [layout.capacity_bytes(size_bytes) for size_bytes in sizes]


def test_after_the_header_no_sampler_is_read(
    target: TcmallocDriver, monkeypatch: pytest.MonkeyPatch
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


def test_a_damaged_block_is_an_error(target: TcmallocDriver) -> None:
    target.start({})
    size_bytes = target.perform(Malloc(100)).size
    assert size_bytes
    target.library.write(target.blocks[0].address + size_bytes - 1, b"\7")
    damage = f"at offset {size_bytes - 1} it has 07"
    assert target.perform(Free(0)).error == f"DamageError: block 1 is damaged: {damage}"


# Without the program, or with another.


def test_a_program_without_tcmalloc_is_bad_input() -> None:
    options = TargetOptions(paths={"library": Path(sys.executable).resolve()})
    with pytest.raises(BadInputError, match=r"has no symbol|is stripped"):
        make_target("tcmalloc", options).start({})


def test_a_file_that_is_not_a_program_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="is not a program for x86-64"):
        ElfFile(Path(__file__))


def test_without_a_compiler_the_message_has_what_to_install(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcmalloc_program, "COMPILER", "no-such-compiler")
    with pytest.raises(BadInputError, match="apt install gcc"):
        TcmallocDriver("tcmalloc", str(program)).start({})


def test_the_preloaded_library_compiles_without_a_warning(tmp_path: Path) -> None:
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    library = str(tmp_path / "calls.so")
    subprocess.run(
        [*command, "-o", library, str(tcmalloc_program.CALLS)], check=True, timeout=PATIENCE_SECONDS
    )
