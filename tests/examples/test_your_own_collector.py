"""The commands of the page "Your own collector in an afternoon" work, from the first one on.

They run in a copy of the repository's examples.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from page_reader import Reader

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-own-collector.md").read_text()


@pytest.fixture
def reader(need: Callable[..., None], with_command: Mapping[str, str], tmp_path: Path) -> Reader:
    need("gcc", "make")
    ignored = shutil.ignore_patterns("build")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=ignored)
    return Reader(tmp_path, with_command)


@pytest.mark.slow
def test_the_page_does_what_it_says(reader: Reader) -> None:
    reader.follow(PAGE)


def test_the_page_s_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert links
    for link in links:
        assert (ROOT / "docs" / link).exists(), link


def test_the_page_names_every_file_that_an_adapter_is_built_from() -> None:
    for name in ("gcfuzz_adapter.h", "gcfuzz_adapter.c", "collector.c", "sampling.c", "main.c"):
        assert name in PAGE
