"""The drivers of allocators compare blocks when they are checked, freed, resized, and left.

The allocator is the C library's own. Some of them damage a block.
"""

from __future__ import annotations

import ctypes
import sys
from itertools import product
from pathlib import Path

import attrs
import damaging_allocator
import pytest
from damaging_allocator import DamagingDriver
from target_helpers import Changed, first_failure

from fuzz.failure import Failure
from fuzz.protocol.actions import Action, Calloc, CheckContents, Free, Malloc, Realloc
from fuzz.protocol.observation import Observation
from fuzz.protocol.written import contents_of
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.allocators.pieces import WHOLE_BYTES, pieces_of

BLOCK, CHECK = Malloc(24), CheckContents()
LARGE_BYTES = 2 * WHOLE_BYTES + 5
OFFSET = damaging_allocator.KEPT_BYTES + 1


def last_of(when: str, *actions: Action) -> Observation:
    driver = DamagingDriver("damaging", when)
    driver.start({})
    *earlier, last = actions
    for action in earlier:
        assert driver.perform(action).error is None
    return driver.perform(last)


def failure_of(when: str, *actions: Action) -> Failure | None:
    """The failure of a trace that a process carries out."""
    program = (sys.executable, str(Path(damaging_allocator.__file__)), when)
    return run_actions(make_target("process", TargetOptions(program)), {}, actions)


def test_a_block_keeps_its_number_until_it_is_freed() -> None:
    actions = (BLOCK, Calloc(3, 5), Malloc(0), Realloc(0, 4000), Free(1), Malloc(3), CHECK)
    assert last_of("never", *actions).contents == [[1], [0], [4]]


def test_a_byte_beyond_the_first_eight_is_answered_once_with_those_after_it() -> None:
    driver = DamagingDriver("damaging", "allocation")
    driver.start({})
    observations = [driver.perform(action) for action in (BLOCK, BLOCK, CHECK, CHECK)]
    after = list(contents_of(1, 24)[OFFSET + 1 :])
    rows = [each.contents for each in observations]
    assert rows == [None, None, [[1, OFFSET, 0, *after], [2]], [[1], [2]]]


def test_a_block_that_is_freed_is_compared() -> None:
    problem = last_of("allocation", BLOCK, BLOCK, Free(0)).error
    assert problem is not None
    assert problem.startswith(f"DamageError: block 1 is damaged: at offset {OFFSET} it has 00 ")


def test_a_byte_that_was_not_requested_is_compared_too() -> None:
    problem = last_of("beyond", Malloc(20), Malloc(20), CHECK).error
    assert problem is not None
    assert problem.startswith("DamageError: block 1 is damaged: at offset ")


def test_a_resized_block_keeps_all_that_fits() -> None:
    problem = last_of("resize", BLOCK, Realloc(0, 20)).error
    assert (
        problem
        == f"DamageError: realloc lost what was in block 1: at offset 8 it has {'00 ' * 12}"[:-1]
    )


def test_a_block_of_calloc_is_zero() -> None:
    assert last_of("calloc", Calloc(3, 5)).error == "DamageError: calloc's block is not all zero"


def test_a_page_of_callocs_block_that_is_not_zero_is_noticed() -> None:
    problem = last_of("calloc-page", Calloc(3, LARGE_BYTES)).error
    assert problem == "DamageError: calloc's block is not all zero"


@pytest.mark.parametrize("size_bytes", [1000, WHOLE_BYTES, WHOLE_BYTES + 1, LARGE_BYTES])
@pytest.mark.parametrize("resized_bytes", [999, WHOLE_BYTES - 1, LARGE_BYTES - 1, 2 * LARGE_BYTES])
def test_the_last_byte_that_a_resized_block_keeps_is_compared(
    size_bytes: int, resized_bytes: int
) -> None:
    last = min(size_bytes, resized_bytes) - 1
    problem = last_of("tail", Malloc(size_bytes), Realloc(0, resized_bytes)).error
    assert problem is not None
    assert problem.startswith(f"DamageError: realloc lost what was in block 1: at offset {last} ")


@pytest.mark.parametrize("size_bytes", [1, 1000, LARGE_BYTES])
def test_the_first_byte_of_a_resized_block_is_compared(size_bytes: int) -> None:
    problem = last_of("head", Malloc(size_bytes), Realloc(0, LARGE_BYTES + 1)).error
    assert problem is not None
    assert problem.startswith("DamageError: realloc lost what was in block 1: at offset 0 ")


@pytest.mark.parametrize("resized_bytes", [LARGE_BYTES // 2, 2 * LARGE_BYTES])
def test_a_run_that_a_resized_block_loses_in_its_middle_is_noticed(resized_bytes: int) -> None:
    problem = last_of("run", Malloc(LARGE_BYTES), Realloc(0, resized_bytes)).error
    assert problem is not None
    assert problem.startswith("DamageError: realloc lost what was in block 1: at offset ")


def test_a_resized_block_without_damage_is_right() -> None:
    sizes = (1000, WHOLE_BYTES, LARGE_BYTES, 2 * LARGE_BYTES)
    for size_bytes, resized_bytes in product(sizes, sizes):
        resized = (Malloc(size_bytes), Realloc(0, resized_bytes), Realloc(0, size_bytes + 1), CHECK)
        assert last_of("never", *resized).contents == [[1]]


@pytest.mark.parametrize("size_bytes", [24, LARGE_BYTES])
def test_a_block_that_overlaps_another_one_is_an_error_once(size_bytes: int) -> None:
    driver = DamagingDriver("damaging", "overlap")
    driver.start({})
    driver.perform(Malloc(size_bytes))
    problem = driver.perform(Malloc(8)).error
    assert problem == "DamageError: block 2 overlaps block 1"
    assert driver.perform(CHECK).contents == [[1]]


def test_a_wrong_byte_between_two_pieces_of_a_large_block_is_missed() -> None:
    """The pages of the targets say so."""
    driver = DamagingDriver("damaging", "never")
    driver.start({})
    driver.perform(Malloc(LARGE_BYTES))
    ctypes.memset(driver.blocks[0].address + LARGE_BYTES // 2 + 1, 7, 1)
    assert driver.perform(CHECK).contents == [[1]]


def test_a_wrong_byte_in_a_line_of_a_large_block_is_answered_with_those_after_it() -> None:
    driver = DamagingDriver("damaging", "never")
    driver.start({})
    driver.perform(Malloc(LARGE_BYTES))
    offset, line = pieces_of(1, LARGE_BYTES)[1]
    ctypes.memset(driver.blocks[0].address + offset + len(line) - 1, 7, 1)
    assert driver.perform(CHECK).contents == [[1, offset + len(line) - 1, 7]]


@pytest.mark.parametrize(
    "when",
    [
        *("allocation", "beyond", "overlap", "calloc", "calloc-page"),
        *("resize", "head", "tail", "run"),
    ],
)
def test_a_session_finds_each_damage(when: str) -> None:
    failure = first_failure(DamagingDriver("damaging", when), 1000)
    assert failure is not None
    assert failure.oracle in {"contents", "heap"}


def test_a_session_without_damage_is_clean() -> None:
    assert first_failure(DamagingDriver("damaging", "never"), 2000) is None


def test_a_contract_with_another_kind_of_row_is_found() -> None:
    driver = DamagingDriver("damaging", "never")
    failure = first_failure(
        Changed(driver, lambda right: attrs.evolve(right, contents="checksums")), 1000
    )
    assert failure is not None
    assert failure.oracle == "contents"


@pytest.mark.slow
def test_what_no_action_compares_is_compared_at_the_end_of_a_trace() -> None:
    failure = failure_of("allocation", BLOCK, BLOCK)
    assert failure is not None
    assert str(failure.got).startswith("refused at end: DamageError: block 1 is damaged: at offset")
    assert "refused the end of its input" in failure.what_happened


def test_what_was_reported_is_not_reported_again_at_the_end() -> None:
    driver = DamagingDriver("damaging", "allocation")
    driver.start({})
    for action in (BLOCK, BLOCK, CHECK):
        driver.perform(action)
    driver.start({})
