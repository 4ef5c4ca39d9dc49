"""The commands of the page "Your own collector in an afternoon" work, from the first one on.

Its `sh` blocks are run in order, in a copy of the repository's examples. A line may say how it ends
(`# exit 1`). A `text` block has lines that the command before it prints. A `c` block with a file's
name is a part of it. A `diff` block with one is a change to it, applied where its lines are.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from waiting import completed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-own-collector.md").read_text()
BLOCK = re.compile(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"\s+# exit (\d)$")


class Reader:
    """Follows the page in a folder and with an environment."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.printed = ""

    def run(self, block: str) -> None:
        for line in block.splitlines():
            exit_code = EXIT.search(line)
            command = EXIT.sub("", line)
            if command.startswith("cd "):
                self.folder /= command.removeprefix("cd ")
                continue
            ran = completed(command, shell=True, cwd=self.folder, env=self.environment, check=False)
            expected = int(exit_code[1]) if exit_code else 0
            assert ran.returncode == expected, f"{command}\n{ran.stdout}{ran.stderr}"
            self.printed = ran.stdout

    def change(self, name: str, before: str, after: str) -> None:
        code = (self.folder / name).read_text()
        assert code.count(before) == 1, f"these lines are not once in {name}:\n{before}"
        (self.folder / name).write_text(code.replace(before, after))


@pytest.fixture
def reader(need: Callable[..., None], with_command: Mapping[str, str], tmp_path: Path) -> Reader:
    need("gcc", "make")
    ignored = shutil.ignore_patterns("build")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=ignored)
    return Reader(tmp_path, with_command)


@pytest.mark.slow
def test_the_page_does_what_it_says(reader: Reader) -> None:
    blocks = BLOCK.findall(PAGE)
    assert {language for language, _, _ in blocks} == {"sh", "text", "c", "diff"}
    for language, name, block in blocks:
        if language == "sh":
            reader.run(block)
        elif language == "text":
            assert {*block.splitlines()} <= {*reader.printed.splitlines()}
        elif language == "c":
            reader.change(name, block, block)
        else:
            lines = block.splitlines(keepends=True)
            before, after = (
                "".join(line[1:] for line in lines if line[0] in sides) for sides in (" -", " +")
            )
            reader.change(name, before, after)


def test_the_page_s_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert links
    for link in links:
        assert (ROOT / "docs" / link).exists(), link


def test_the_page_names_every_file_that_an_adapter_is_built_from() -> None:
    for name in ("gcfuzz_adapter.h", "gcfuzz_adapter.c", "collector.c", "sampling.c", "main.c"):
        assert name in PAGE
