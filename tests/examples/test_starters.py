"""What `gcfuzz init` copies works as it is, finds a mistake, and never overwrites anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest
from command_line import Gcfuzz
from waiting import completed

from fuzz.terminal.starters import STARTERS, UNSTATED_RULE, WORKFLOW

CLEAN, MISMATCH, BAD_INPUT = range(3)
ROOT = Path(__file__).parents[2]
PLANTED = {
    "c": ("adapter.c", "counted_bytes >= period_bytes", "counted_bytes > period_bytes"),
    "python": ("my_collector.py", "counted_bytes > self", "counted_bytes >= self"),
}
"""A mistake in the sampler of each starter."""
STEP = re.compile(r"^      - run: (.*)$", re.MULTILINE)
BUDGET = "--actions 3000 --seed 1"
"""In place of a time."""


@attrs.frozen
class Started:
    """A folder that `gcfuzz init` filled, and a shell in it that has this gcfuzz."""

    language: str
    folder: Path
    environment: Mapping[str, str]

    def run(self, command: str, code: int = CLEAN) -> str:
        ran = completed(command, shell=True, cwd=self.folder, env=self.environment, check=False)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout

    def build(self) -> None:
        if self.language == "c":
            self.run("make")

    @property
    def target(self) -> str:
        return " ".join(STARTERS[self.language].target)


@pytest.fixture(params=STARTERS)
def started(
    request: pytest.FixtureRequest,
    need: Callable[..., None],
    with_command: Mapping[str, str],
    tmp_path: Path,
    gcfuzz: Gcfuzz,
) -> Started:
    need(*{"c": ("gcc", "make")}.get(request.param, ()))
    gcfuzz(CLEAN, "init", request.param, tmp_path / "mine")
    return Started(request.param, tmp_path / "mine", with_command)


@pytest.mark.slow
def test_the_job_for_ci_passes(started: Started) -> None:
    install, *steps = STEP.findall((started.folder / WORKFLOW).read_text())
    assert install == 'pip install "${{ vars.GCFUZZ }}"'
    assert [step.split()[:2] for step in steps[-2:]] == [["gcfuzz", "check"], ["gcfuzz", "run"]]
    for step in steps:
        started.run(step.replace("--time 2m", BUDGET))


@pytest.mark.slow
def test_a_planted_mistake_is_found(started: Started) -> None:
    name, right, wrong = PLANTED[started.language]
    source = started.folder / name
    assert source.read_text().count(right) == 1
    source.write_text(source.read_text().replace(right, wrong))
    started.build()
    printed = started.run(f"gcfuzz run -x {started.target} {BUDGET}", MISMATCH)
    assert "FAILURE 1: sampling / samples" in printed


def test_comments_say_where_the_collector_comes_in(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    for language, (name, _, _) in PLANTED.items():
        gcfuzz(CLEAN, "init", language, tmp_path / language)
        assert (tmp_path / language / name).read_text().count("YOURS: ") >= 5


def test_the_printed_command_checks_what_was_copied(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    *_, last = gcfuzz(CLEAN, "init", "c", tmp_path / "a b").out.splitlines()
    assert last == f"next: cd '{tmp_path}/a b' && make && gcfuzz check --command ./adapter"


def test_a_folder_whose_name_begins_with_a_dash_is_no_option_of_cd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gcfuzz: Gcfuzz
) -> None:
    monkeypatch.chdir(tmp_path)
    *_, last = gcfuzz(CLEAN, "init", "python", "--", "-mine").out.splitlines()
    assert last.startswith("next: cd ./-mine && ")


def test_the_starter_in_c_states_the_rule_of_its_counter() -> None:
    example = (ROOT / "examples" / "native" / "smallest.c").read_text()
    assert example.count(UNSTATED_RULE) == 1


def test_the_starter_in_python_is_the_readme_s() -> None:
    readme = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    copied = (ROOT / "examples" / "starters" / "python" / "my_collector.py").read_text()
    code = [line for line in copied.splitlines() if not line.lstrip().startswith(("#", '"""'))]
    assert readme
    assert code[1:] == readme[1].splitlines()


@pytest.mark.parametrize("language", STARTERS)
def test_nothing_is_overwritten(language: str, tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    name = next(iter(STARTERS[language].files))
    (tmp_path / name).write_text("mine")
    printed = gcfuzz(BAD_INPUT, "init", language, tmp_path)
    assert printed.err == f"gcfuzz: {tmp_path / name}: exists; name another folder\n"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(str(name), "mine")]


def test_a_folder_with_other_files_is_filled(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    (tmp_path / ".git").mkdir()
    gcfuzz(CLEAN, "init", "python", tmp_path)
    assert (tmp_path / "my_collector.py").is_file()


def test_a_file_is_no_folder(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    printed = gcfuzz(BAD_INPUT, "init", "c", tmp_path / "notes.txt")
    assert printed.err == f"gcfuzz: {tmp_path}/notes.txt: is a file; name a new folder\n"


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    printed = gcfuzz(BAD_INPUT, "init", "c", tmp_path / "notes.txt" / "mine")
    assert printed.err == f"gcfuzz: {tmp_path}/notes.txt/mine: Not a directory\n"


def test_an_unknown_language_is_bad_input(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    assert "'ruby' is none (c, python)" in gcfuzz(BAD_INPUT, "init", "ruby", tmp_path / "m").err
