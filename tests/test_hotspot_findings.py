"""Each reproducer of a finding in HotSpot's sampler ends as its page shows.

The reproducers are built in a folder that contains nothing else, with `apt install gcc make
openjdk-17-jdk-headless`; without these the tests are skipped. test_findings.py tests the pages.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from waiting import LONG_SECONDS, completed

FINDINGS = Path(__file__).parents[1] / "docs" / "findings"
PAGES = {
    page.stem: page.read_text("utf-8") for page in sorted((FINDINGS / "hotspot").glob("[a-z]*.md"))
}


def shown(page: str, pattern: str) -> str:
    """The only match in the section on the reproducer."""
    section = PAGES[page].partition("\n## Reproducer\n")[2].partition("\n## ")[0]
    [found] = re.findall(pattern, section, re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder with the built reproducers, and the major version of its Java."""
    if not all(shutil.which(program) for program in ("gcc", "make", "javac", "java")):
        pytest.skip("apt install gcc make openjdk-17-jdk-headless")
    folder = tmp_path_factory.mktemp("built") / "hotspot"
    shutil.copytree(FINDINGS / "reproducers" / "hotspot", folder)
    completed(["make"], cwd=folder, timeout=LONG_SECONDS)
    java = Path(str(shutil.which("javac"))).resolve().with_name("java")
    done = completed([java, "--version"], timeout=LONG_SECONDS)
    (folder / "java").symlink_to(java)
    return folder, done.stdout.split()[1].partition(".")[0]


def test_the_table_lists_each_page() -> None:
    table = (FINDINGS / "hotspot" / "README.md").read_text("utf-8")
    assert [page for page in PAGES if f"({page}.md)" not in table] == []


BY_CHANCE = ("generator-races", "jfr-ended-threads")
"""Threads that take turns on one core need not lose a step. JFR takes 150 samples a second at most,
so what is reported depends on the machine's speed."""


@pytest.mark.night
@pytest.mark.parametrize("page", PAGES)
def test_hotspot_breaks_what_its_page_says(page: str, built: tuple[Path, str]) -> None:
    folder, version = built
    affected, *_ = re.findall(
        r"^- Affected \(measured\): (.*?)(?=^- |^$)", PAGES[page], re.MULTILINE | re.DOTALL
    )
    command = "./" + shown(page, r"```sh\n(.*?)\n```")
    done = completed(command.split(), check=False, cwd=folder, timeout=LONG_SECONDS)
    pattern = re.sub(r"\d+", r"\\d+", re.escape(shown(page, r"```text\n(.*?)\n```")))
    assert re.fullmatch(pattern, done.stdout.rstrip()), done.stdout + done.stderr
    if page in BY_CHANCE:
        assert done.returncode in {0, 1}
    else:
        assert done.returncode == (version in re.findall(r"\b(\d+)\.0\.", affected))
