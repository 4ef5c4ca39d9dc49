"""In tox the packages under test come from the built wheel, with the corpus inside."""

from __future__ import annotations

import os
from pathlib import Path

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
def test_the_package_comes_from_the_wheel(package: object) -> None:
    place = Path(str(getattr(package, "__file__", "")))
    assert place.parents[1].name == "site-packages"
    assert place.parents[1] / place.parent.name != CHECKOUT / place.parent.name


def test_the_wheel_ships_the_page_of_explain() -> None:
    page = Path(fuzz.__file__).parent / "explain_page.html"
    assert page.read_bytes() == (CHECKOUT / "fuzz" / "explain_page.html").read_bytes()


def test_the_wheel_ships_the_corpus() -> None:
    assert contents_of(Path(fuzz.__file__).parent / "corpus") == contents_of(CHECKOUT / "corpus")
