"""Sessions whose failures are known: muted in a history, or named by `--known`."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Complaint, Gcfuzz
from histories import ids_in, remember_failures

from fuzz.nights import failure_history as history
from fuzz.nights.failure_history import Triaged
from fuzz.terminal.commands.cli import run_command_line

TARGET = "reference+one-sample-per-object"
RUN = ["run", "--target", TARGET, "--seed", "1", "--actions", "700"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus with the failures of a session, and their history."""
    assert run_command_line([*RUN, "--corpus", str(tmp_path)]) == 1
    remember_failures(tmp_path, TARGET)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("stop", [[], ["-x"]])
def test_muted_failures_take_a_line_and_no_exit_code(
    stop: list[str], corpus: Path, gcfuzz: Gcfuzz
) -> None:
    mutes = [Triaged(history.now(), each, muted_until="2999-01-01") for each in ids_in(corpus)]
    history.add(corpus / history.NAME, mutes)
    count = len(history.read(corpus / history.NAME).lives())
    printed = gcfuzz(0, *RUN, *stop, "--corpus", corpus).out
    assert printed.count(", muted until 2999-01-01: ") == count
    assert "FAILURE" not in printed
    assert f"0 failures, and {count} known" in printed


@pytest.mark.slow
def test_known_mutes_for_one_session(corpus: Path) -> None:
    known = [word for each in ids_in(corpus) for word in ("--known", each)]
    assert run_command_line([*RUN, *known, "--corpus", str(corpus)]) == 0
    assert run_command_line([*RUN, "--corpus", str(corpus)]) == 1


def test_an_unknown_id_is_bad_input(tmp_path: Path, complaint: Complaint) -> None:
    said = complaint(*RUN, "--known", "ffff", "--corpus", str(tmp_path))
    assert f"--known ffff: {tmp_path / history.NAME} has no such failure" in said
