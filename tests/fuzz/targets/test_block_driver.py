"""The drivers of allocators compare whole blocks: when they are checked, freed, resized, and left.

The allocator is the C library's own. Some of them damage a block.
"""

from __future__ import annotations

import sys
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

BLOCK, CHECK = Malloc(24), CheckContents()
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


def test_a_block_that_is_freed_is_compared_as_a_whole() -> None:
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


@pytest.mark.parametrize("when", ["allocation", "resize", "beyond", "calloc"])
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
