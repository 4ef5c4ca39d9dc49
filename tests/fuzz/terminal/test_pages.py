"""`gcfuzz help`: the pages exist, and no message names a file that a wheel does not have."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Gcfuzz

import fuzz
from fuzz.terminal.pages import page_names

CLEAN, BAD_INPUT = 0, 2
PACKAGE = Path(str(fuzz.__file__)).parent
ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
COMMAND = re.compile(r"(?:^|&& |if |do )\s*gcfuzz (.*?)(?: && |; |\|\||$)")
WITH_COMMANDS = [
    each
    for each in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
    if re.search(r"^gcfuzz ", each.read_text("utf-8"), re.MULTILINE)
]


def test_a_page_is_printed_as_it_is(gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(CLEAN, "help", "protocol").out
    assert printed == (DOCS / "protocol.md").read_text(encoding="utf-8")


def test_a_terminal_gets_a_formatted_page(gcfuzz: Gcfuzz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    printed = gcfuzz(CLEAN, "help", "findings/lines-in-step").out
    assert "\x1b[" in printed
    assert "\n# " not in printed


def test_without_a_page_they_are_listed(gcfuzz: Gcfuzz) -> None:
    listed = {line.split()[0] for line in gcfuzz(CLEAN, "help").out.splitlines()}
    assert listed == {path.stem for path in DOCS.glob("*.md")} - {"index"} | {"findings/README"}


@pytest.mark.parametrize("name", ["protocols", "../README", "findings", ""])
def test_an_unknown_page_is_bad_input(name: str, gcfuzz: Gcfuzz) -> None:
    assert "`gcfuzz help` lists the pages" in gcfuzz(BAD_INPUT, "help", name).err


def _messages(path: Path) -> Iterator[str]:
    """The strings of a module that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


@pytest.mark.slow
def test_no_message_names_a_file_of_the_documentation() -> None:
    named = [
        (str(path), text)
        for path in PACKAGE.rglob("*.py")
        for text in _messages(path)
        if "docs/" in text
    ]
    assert named == []


@pytest.mark.slow
def test_each_page_that_a_message_names_exists() -> None:
    named = {
        text.partition("gcfuzz help ")[2].partition("`")[0]
        for path in PACKAGE.rglob("*.py")
        for text in _messages(path)
        if "gcfuzz help " in text
    }
    assert {"protocol", "test-suites"} <= named
    assert {name for name in named if name and not name.endswith("/")} <= {*page_names()}


def commands_in(page: Path) -> Iterator[list[str]]:
    """The arguments of each `gcfuzz` in a shell block; they may be variables and placeholders."""
    for block in re.findall(
        r"^```sh.*?\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        for line in block.replace("\\\n", " ").splitlines():
            for command in COMMAND.findall(line):
                yield shlex.split(command.split(" > ")[0], comments=True)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_commands_of_a_page_exist(page: Path, gcfuzz: Gcfuzz) -> None:
    for command in commands_in(page):
        gcfuzz(CLEAN, *command, "--help")
