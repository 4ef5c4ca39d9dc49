"""`gcfuzz check --suggest` on the command line, and who points to it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import misbehaving_adapter
import pytest
from command_line import Gcfuzz

CLEAN, MISMATCH, BAD_INPUT = range(3)
SUGGEST = ("check", "--suggest", "--target")
FITS = "{} fit what the contract states of sizes and sampling: no key has to change."


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of the user's is found beside the folder in which gcfuzz runs, which it adds."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def hanging() -> str:
    """A program that never answers a full collection."""
    return shlex.join([sys.executable, misbehaving_adapter.__file__, "hang"])


def target(name: str) -> str:
    return f"small_sampler:{name}"


def test_one_key_is_suggested_with_what_it_may_mean(gcfuzz: Gcfuzz) -> None:
    assert gcfuzz(MISMATCH, *SUGGEST, target("AtThePeriod")).out.splitlines()[1:] == [
        "All 150 traces behave like `crosses: at`; the contract states `beyond`.",
        "If your documentation says `beyond`, this is a bug: keep the contract.",
        "confirmed by 400 fresh traces; nothing was written into the contract",
    ]


@pytest.mark.slow
def test_several_keys_are_suggested_together(gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(MISMATCH, *SUGGEST, target("OneByOne")).out
    keys = "`surplus: due` and `samples_per_allocation: one`"
    assert f"behave like {keys}; the contract states `carried` and `all`." in printed
    assert "If your documentation says what the contract states, this is a bug" in printed


@pytest.mark.slow
def test_a_contract_that_fits_needs_no_change(gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(CLEAN, *SUGGEST, target("SmallSampler")).out
    assert FITS.format("All 150 traces") in printed


def test_if_nothing_fits_the_actions_that_refute_all_keys_are_shown(gcfuzz: Gcfuzz) -> None:
    _, nothing, refute, *actions = gcfuzz(
        MISMATCH, *SUGGEST, target("Alternating")
    ).out.splitlines()
    assert nothing.startswith("No contract fits: the answers refute each one with up to 3 changed")
    assert refute.endswith(" actions refute the contract, and each one with a single changed key:")
    assert any("  enable_sampling period_bytes=" in line for line in actions)
    assert '"samples": ' in actions[-1]


@pytest.mark.slow
def test_sizes_that_no_layout_explains_are_reported(gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(MISMATCH, *SUGGEST, target("Unequal")).out
    assert "No fixed_bytes, item_bytes, word_bytes and large_object_bytes explain all" in printed
    assert "\n  string length=7: of 22 bytes\n" in printed


@pytest.mark.slow
def test_traces_that_end_with_an_error_are_counted(gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(MISMATCH, *SUGGEST, target("Failing")).out
    assert " ended early with an error, the first: Broken: a long string" in printed
    assert FITS.format("All answers before these errors") in printed


def test_a_target_that_always_fails_is_not_asked_550_times(gcfuzz: Gcfuzz) -> None:
    error = gcfuzz(BAD_INPUT, *SUGGEST, target("Broken")).err
    assert "the first 5 traces had no right answer, but errors, the last one: Broken: all" in error


@pytest.mark.slow
def test_a_target_that_hangs_late_in_each_trace_is_asked_few_times(
    gcfuzz: Gcfuzz, hanging: str
) -> None:
    options = "check", "--suggest", "--command", hanging, "--timeout", "300ms"
    error = gcfuzz(BAD_INPUT, *options).err
    assert "traces ended with a hang, the last one: hang: no answer within 0.3 s" in error
    assert "`gcfuzz run -x` finds the actions that lead to it" in error


def test_a_check_that_finds_a_wrong_sample_ends_with_the_command(gcfuzz: Gcfuzz) -> None:
    *_, last = gcfuzz(MISMATCH, "check", "--target", target("AtThePeriod")).out.splitlines()
    assert last == f"the keys that fit: gcfuzz check --suggest --target {target('AtThePeriod')}"


@pytest.mark.slow
def test_the_first_wrong_sample_of_a_session_is_followed_by_the_command(
    gcfuzz: Gcfuzz, tmp_path: Path
) -> None:
    budget = "--actions", "3000", "--seed", "1", "--corpus", tmp_path / "failures"
    printed = gcfuzz(MISMATCH, "run", "--target", target("Alternating"), *budget).out
    command = f"  suggest   gcfuzz check --suggest --target {target('Alternating')}"
    assert [line for line in printed.splitlines() if "--suggest" in line] == [command]
