"""Each reproducer of a finding in HotSpot's sampler ends as its page says, far from this project.

What the page tells to run is run, in a folder that has nothing but the reproducers, by the Java
that javac is of. Without `apt install gcc make openjdk-17-jdk-headless`, what needs it is skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

FINDINGS = Path(__file__).parents[1] / "docs" / "findings"
REPRODUCERS = FINDINGS / "reproducers" / "hotspot"
PAGES = {
    page.stem: page.read_text("utf-8") for page in sorted((FINDINGS / "hotspot").glob("[a-z]*.md"))
}


def told(page: str, pattern: str) -> str:
    """What the page's section on its reproducer has there, and only once."""
    [found] = re.findall(pattern, PAGES[page].partition("\n## Reproducer\n")[2], re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder where the reproducers are built, and which Java that is: 17."""
    if not all(shutil.which(program) for program in ("gcc", "make", "javac", "java")):
        pytest.skip("apt install gcc make openjdk-17-jdk-headless")
    folder = tmp_path_factory.mktemp("built") / "hotspot"
    shutil.copytree(REPRODUCERS, folder)
    subprocess.run(["make"], check=True, capture_output=True, cwd=folder)
    java = Path(str(shutil.which("javac"))).resolve().with_name("java")
    said = subprocess.run([java, "--version"], check=True, capture_output=True, text=True).stdout
    (folder / "java").symlink_to(java)
    return folder, said.split()[1].partition(".")[0]


def test_each_page_has_a_reproducer_of_its_own_and_is_listed() -> None:
    named = [told(page, r"\]\(\.\./reproducers/hotspot/(\w+)\.java\)") for page in PAGES]
    assert sorted([*named, "Sampler"]) == sorted(path.stem for path in REPRODUCERS.glob("*.java"))
    listed = (FINDINGS / "hotspot" / "README.md").read_text("utf-8")
    assert [page for page in PAGES if f"({page}.md)" not in listed] == []


@pytest.mark.parametrize("path", sorted(REPRODUCERS.iterdir()), ids=lambda path: path.name)
def test_a_reproducer_needs_nothing_of_this_project(path: Path) -> None:
    assert not re.search("fuzz|gcmodel", path.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_hotspot_breaks_what_its_page_says(page: str, built: tuple[Path, str]) -> None:
    folder, version = built
    [versions] = re.findall(r"^\*HotSpot ([\d, ]+)\.", PAGES[page], re.MULTILINE)
    command = "./" + told(page, r"```sh\n(.*?)\n```")
    done = subprocess.run(command.split(), check=False, capture_output=True, text=True, cwd=folder)
    pattern = re.sub(r"\d+", r"\\d+", re.escape(told(page, r"```text\n(.*?)\n```")))
    assert re.fullmatch(pattern, done.stdout.rstrip()), done.stdout + done.stderr
    if page == "generator-races":  # Where threads take turns on one core no step need be lost.
        assert done.returncode in {0, 1}
    else:
        assert done.returncode == (version in versions.split(", "))
