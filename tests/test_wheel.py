"""In tox the packages under test come from the built wheel, with the corpus inside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fuzz
import gcmodel

CHECKOUT = Path(__file__).parents[1]

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


def test_the_wheel_ships_the_page_of_explain() -> None:
    page = Path(fuzz.__file__).parent / "terminal" / "explain_page.html"
    assert page.read_bytes() == (CHECKOUT / "fuzz" / "terminal" / "explain_page.html").read_bytes()


def test_the_wheel_ships_the_corpus() -> None:
    assert contents_of(Path(fuzz.__file__).parent / "corpus") == contents_of(CHECKOUT / "corpus")


@pytest.mark.parametrize("package", [fuzz, gcmodel], ids=["fuzz", "gcmodel"])
def test_the_packages_say_that_they_are_typed(package: ModuleType) -> None:
    assert (Path(str(package.__file__)).parent / "py.typed").is_file()


def test_a_project_may_have_a_folder_fuzz_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "fuzz").mkdir()
    (tmp_path / "fuzz" / "__init__.py").touch()
    (tmp_path / "test_mine.py").write_text(
        "from fuzz import machine_for\ndef test_mine() -> None:\n    assert machine_for\n"
    )
    pytest_ = shutil.which("pytest", path=str(Path(sys.executable).parent))
    command = [str(pytest_), "--import-mode=importlib", "-p", "no:cacheprovider", "test_mine.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_pytest_has_the_plugin(tmp_path: Path) -> None:
    pytest_ = shutil.which("pytest", path=str(Path(sys.executable).parent))
    command = [str(pytest_), "--help"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "--gcfuzz-time=TIME" in ran.stdout
    assert "gcfuzz_corpus (string)" in ran.stdout
