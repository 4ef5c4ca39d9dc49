"""A failure of a user's program, such as a compiler, is one line of bad input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import shell_script

from fuzz.problems import BadInputError
from fuzz.targets.process.user_programs import compiled, kept_program, output_of


def program(folder: Path, script: str) -> str:
    return str(shell_script(folder / "program", script))


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("echo one; echo two; echo three >&2; exit 1", "fails: three"),
        ("exit 3", "fails: exit code 3"),
        ("kill -SEGV $$", "fails: exit code -11"),
        ("printf 'a\\377'; exit 1", "fails: a\N{REPLACEMENT CHARACTER}"),
        ("exec sleep 60", "has not ended within 0.05 s"),
    ],
    ids=["fails", "fails silently", "crashes", "no text", "hangs"],
)
def test_a_program_that_fails_is_bad_input(script: str, what: str, tmp_path: Path) -> None:
    words = [program(tmp_path, script)]
    with pytest.raises(BadInputError, match=f"{re.escape(what)}$"):
        output_of(words, seconds=0.05 if "sleep" in script else 60)


def test_a_program_that_cannot_be_started_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="nothing: No such file"):
        output_of([str(tmp_path / "nothing")])


def test_a_compiler_without_output_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="has not written mutator"):
        compiled(tmp_path / "mutator", [program(tmp_path, "exit 0")])


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_a_cache_that_cannot_be_written_is_bad_input_that_names_its_variable(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(variable, str(taken))
    with pytest.raises(BadInputError, match=rf"^{re.escape(str(taken))}/.* set XDG_CACHE_HOME to"):
        kept_program(1, Path)


def test_a_lock_that_cannot_be_written_is_bad_input_that_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = kept_program(1, lambda folder: Path(program(folder, "exit 0")))
    kept.unlink()
    kept.with_name(f"{kept.name}.lock").unlink()
    kept.with_name(f"{kept.name}.lock").mkdir()
    with pytest.raises(BadInputError, match="Is a directory; set XDG_CACHE_HOME to"):
        kept_program(1, Path)


def test_a_program_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []

    def make(folder: Path) -> Path:
        made.append(folder)
        return Path(program(folder, "exit 0"))

    first, again, other = (kept_program(parts, make) for parts in (1, 1, 2))
    assert (first == again, first == other, len(made)) == (True, False, 2)
    kept = {each for each in (tmp_path / "gcfuzz").iterdir() if each.suffix != ".lock"}
    assert kept == {first, other}
