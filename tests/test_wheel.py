"""In tox the tested packages come from the built wheel, which contains the corpus and the docs."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import attrs
import pytest
from waiting import LONG_SECONDS, completed

import fuzz
import gcmodel
from fuzz.terminal.pages import page_names
from fuzz.terminal.starters import STARTERS

CHECKOUT = Path(__file__).parents[1]
PASSED, FAILED = 0, 1
SUITE = """
from fuzz import state_machine_for
from fuzz.targets import make_target


def my_target():
    return make_target("reference+disable-before-enable")


TestMine = state_machine_for(my_target).TestCase


def test_a_trace(gcfuzz_corpus):
    gcfuzz_corpus.replay(my_target)
"""

pytestmark = pytest.mark.skipif(
    "GCFUZZ_EXPECT_WHEEL" not in os.environ, reason="run it through tox"
)


def contents_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("package", [fuzz, gcmodel], ids=["fuzz", "gcmodel"])
def test_the_package_comes_from_the_wheel(package: ModuleType) -> None:
    place = Path(str(getattr(package, "__file__", "")))
    assert place.parents[1].name == "site-packages"
    assert place.parents[1] / place.parent.name != CHECKOUT / place.parent.name


@pytest.mark.parametrize(
    "name", ["explain_page.html", "night_page.html", "night_plot.svg", "night_summary.md"]
)
def test_the_wheel_ships_the_template(name: str) -> None:
    shipped = Path(fuzz.__file__).parent / "terminal" / name
    assert shipped.read_bytes() == (CHECKOUT / "fuzz" / "terminal" / name).read_bytes()


def test_the_wheel_ships_the_corpus() -> None:
    assert contents_of(Path(fuzz.__file__).parent / "corpus") == contents_of(CHECKOUT / "corpus")


def test_the_wheel_ships_each_page_of_help() -> None:
    shipped = contents_of(Path(fuzz.__file__).parent / "docs")
    ours = contents_of(CHECKOUT / "docs")
    assert {path.stem for path in (CHECKOUT / "docs").glob("*.md")} - {"index"} <= {*page_names()}
    assert [name for name in page_names() if shipped[f"{name}.md"] != ours[f"{name}.md"]] == []


@pytest.mark.parametrize(
    "place", sorted({place for starter in STARTERS.values() for place in starter.files.values()})
)
def test_the_wheel_ships_what_init_copies(place: str) -> None:
    shipped = Path(fuzz.__file__).parent / "examples" / place
    assert shipped.read_bytes() == (CHECKOUT / "examples" / place).read_bytes()


@pytest.mark.parametrize("package", [fuzz, gcmodel], ids=["fuzz", "gcmodel"])
def test_the_packages_are_marked_as_typed(package: ModuleType) -> None:
    assert (Path(str(package.__file__)).parent / "py.typed").is_file()


@attrs.frozen
class Project:
    """A folder outside of the checkout, where only the installed wheel is importable."""

    folder: Path

    def test(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run its tests with the installed pytest."""
        command = [
            str(Path(sys.executable).with_name("pytest")),
            "-p",
            "no:cacheprovider",
            *options,
        ]
        environment = {name: os.environ[name] for name in os.environ.keys() - {"PYTHONPATH"}}
        return completed(
            command, cwd=self.folder, env=environment, check=False, timeout=LONG_SECONDS
        )

    def failures(self, *options: str) -> list[str]:
        """The messages of its failing tests, from the JUnit report."""
        assert self.test("--junitxml=junit.xml", *options).returncode == FAILED
        return [str(each.text) for each in ET.parse(self.folder / "junit.xml").iter("failure")]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.slow
def test_a_project_may_have_its_own_folder_fuzz(project: Project) -> None:
    (project.folder / "fuzz").mkdir()
    (project.folder / "fuzz" / "__init__.py").touch()
    (project.folder / "test_mine.py").write_text(
        "from fuzz import state_machine_for\n"
        "def test_mine() -> None:\n    assert state_machine_for\n"
    )
    ran = project.test("--import-mode=importlib", "test_mine.py")
    assert ran.returncode == PASSED, ran.stdout


@pytest.mark.slow
def test_pytest_has_the_plugin(project: Project) -> None:
    ran = project.test("--help")
    assert "--gcfuzz-time=TIME" in ran.stdout
    assert "gcfuzz_corpus (string)" in ran.stdout


@pytest.mark.slow
def test_the_plugin_finds_saves_and_replays_in_another_project(project: Project) -> None:
    (project.folder / "test_mine.py").write_text(SUITE)
    [found] = project.failures("--gcfuzz-time=10m")
    # Its seed is random, and the oracle that sees this bug first depends on the seed.
    assert "FAILURE 1: " in found
    assert "← first wrong answer" in found
    [saved] = (project.folder / "gcfuzz-failures").glob("*.jsonl")
    assert f"gcfuzz replay gcfuzz-failures/{saved.name} --command" in found
    assert [f"FAILED {saved.name}" in each for each in project.failures()] == [True, True]
