"""Mutants of the reference: how they are made and named, and that some are always found."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import mutants
import pytest
from click.testing import CliRunner, Result
from mutants import EXCEPTION, HANG, NOTHING, TARGETS, equivalents, fuzz_apart
from mutations import mutants_of

import gcmodel

CLEAN, WRONG = 0, 1
KEPT = Path(__file__).with_name("mutants_found.txt").read_text(encoding="utf-8").splitlines()
"""Some of every module, drawn at random among those that an oracle finds within the budget."""
ACTIONS_MAX = 10_000
NOT_MUTATED = {
    *("collector.collected_heap", "collector.dangling", "collector.invariants", "blocks.history"),
    *("memory.configuration", "memory.errors", "memory.events"),
}
"""Types, messages of errors, another mode, what goes in and out, and what no session fuzzes."""
MODULE = "sampling.sample_point"
IS_FOUND = "Sampling.is_due: return self.sample_point [< -> <=] end"
SURVIVES = "Sampling.__init__: self.sample_point = [0 -> 1]"
ENDLESS = (
    f"{MODULE} Sampling.pass_sample_points: [self.sample_point += self.next_distance() -> pass]"
)


@pytest.fixture(scope="module")
def names() -> list[str]:
    return [name for module in TARGETS for name, _ in mutants_of(module)]


def test_every_module_is_mutated_that_sessions_judge() -> None:
    folder = Path(gcmodel.__file__).parent
    rooms = ("collector", "memory", "sampling", "blocks")
    modules = {f"{room}.{path.stem}" for room in rooms for path in (folder / room).glob("[!_]*.py")}
    assert modules - TARGETS.keys() == NOT_MUTATED


@pytest.mark.slow
def test_each_mutant_has_a_name_of_its_own(names: list[str]) -> None:
    assert len(set(names)) == len(names)


@pytest.mark.night
@pytest.mark.parametrize("module", TARGETS)
def test_each_mutant_is_a_program(module: str) -> None:
    for name, tree in mutants_of(module):
        compile(ast.fix_missing_locations(tree), name, "exec")


@pytest.mark.parametrize(
    "name",
    [
        "collector.barrier Barrier.remember: [self.remembered.append(obj) -> pass]",
        "collector.heap Heap.place_old: if obj.size_bytes [<= -> <] SMALL_OBJECT_BYTES:",
        "collector.minor MinorCollection.collect: if is_young [or -> and] is_written:",
        "memory.layout rounded: return size_bytes + WORD_BYTES - [1 -> 0] & -WORD_BYTES",
    ],
)
def test_a_mutant_is_named_after_its_place_and_its_change(name: str, names: list[str]) -> None:
    assert name in names


def test_what_refuses_misuse_is_not_mutated(names: list[str]) -> None:
    assert not [name for name in names if "raise " in name or "pin_while_sampling" in name]


def test_every_equivalent_is_a_mutant(names: list[str]) -> None:
    for entry in equivalents():
        assert any(name.startswith(entry) for name in names), entry


def test_every_equivalent_has_a_reason() -> None:
    entries = tomllib.loads(mutants.EQUIVALENT.read_text(encoding="utf-8"))
    assert all(reason for changes in entries.values() for reason in changes.values())


def test_of_every_module_a_mutant_is_kept() -> None:
    assert {name.partition(" ")[0] for name in KEPT} == TARGETS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_a_mutant_that_was_found_is_found(name: str) -> None:
    assert fuzz_apart(name, ACTIONS_MAX).found_by not in {NOTHING, HANG, EXCEPTION}


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """What the program prints and does if there is one mutant, for each number of listed ones."""

    def judge(name: str, *equivalent: str) -> Result:
        listed = tmp_path / "equivalent.toml"
        lines = [f"{json.dumps(each)} = 'no promise'" for each in equivalent]
        listed.write_text("\n".join([f"[{json.dumps(MODULE)}]", *lines]), "utf-8")
        monkeypatch.setattr(mutants, "EQUIVALENT", listed)
        monkeypatch.setattr(mutants, "mutants_of", lambda _: [(f"{MODULE} {name}", None)])
        monkeypatch.setattr(mutants, "TARGETS", {MODULE: TARGETS[MODULE]})
        return CliRunner().invoke(mutants.main, ["--actions", "1000"])

    return judge


@pytest.mark.slow
def test_a_survivor_is_a_miss(judge: Callable[..., Result]) -> None:
    result = judge(SURVIVES)
    assert f"missed: {MODULE} {SURVIVES}" in result.output
    assert result.exit_code == CLEAN


@pytest.mark.slow
def test_an_equivalent_survivor_is_none(judge: Callable[..., Result]) -> None:
    result = judge(SURVIVES, SURVIVES)
    assert "missed: " not in result.output
    assert result.exit_code == CLEAN


@pytest.mark.slow
def test_an_equivalent_that_is_found_is_an_error(judge: Callable[..., Result]) -> None:
    result = judge(IS_FOUND, IS_FOUND)
    assert f"found by sampling: {MODULE} {IS_FOUND}" in result.output
    assert result.exit_code == WRONG


@pytest.mark.slow
def test_an_equivalent_that_is_gone_is_an_error(judge: Callable[..., Result]) -> None:
    result = judge(IS_FOUND, SURVIVES)
    assert f"there is no such mutant: {MODULE} {SURVIVES}" in result.output
    assert result.exit_code == WRONG


@pytest.mark.slow
def test_a_mutant_that_never_ends_is_found() -> None:
    assert fuzz_apart(ENDLESS, ACTIONS_MAX).found_by == HANG
