"""Follows a page of the documentation, block by block, as its reader does.

The lines of an `sh` block are commands. One may say how it ends (`# exit 1`). A `text` block has
lines that the command before it prints. A `python` block with a file's name is added to that file,
a `c` block with one is a part of it, and a `diff` block is a change to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from waiting import completed

BLOCK = re.compile(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"\s+# exit (\d)$")


class Reader:
    """Follows a page in a folder and with an environment."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.printed = ""

    def follow(self, page: str) -> None:
        """All blocks, in their order."""
        for language, name, block in BLOCK.findall(page):
            match language:
                case "sh":
                    self._run(block)
                case "text":
                    assert {*block.splitlines()} <= {*self.printed.splitlines()}
                case "python":
                    self.add(name, block)
                case "c":
                    self._change(name, block, block)
                case "diff":
                    self._change(name, *(_side(block, sign) for sign in "-+"))
                case _:
                    raise AssertionError(f"a block of {language}")

    def add(self, name: str, block: str) -> None:
        """Add lines to the end of a file."""
        with (self.folder / name).open("a") as file:
            file.write(f"{block}\n\n")

    def _run(self, block: str) -> None:
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

    def _change(self, name: str, before: str, after: str) -> None:
        code = (self.folder / name).read_text()
        assert code.count(before) == 1, f"these lines are not once in {name}:\n{before}"
        (self.folder / name).write_text(code.replace(before, after))


def _side(diff: str, sign: str) -> str:
    """The lines before a change (`-`), or after it (`+`)."""
    return "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] in (" ", sign))
