"""Check the prose of Markdown, docstrings, comments and help texts with textlint.

The script checks a copy of each file. In the copy of a Python file, every line that is not prose is
empty. In each copy a paragraph is one line, since textlint ends sentences at line ends. A problem
is therefore reported at the first line of its paragraph. `tox -e prose` installs textlint.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HELP = ("help", "epilog", "short_help")
STARTS_PARAGRAPH = re.compile(r"\s*([-*+>|#<]|\d+\.|```|!\[)")


def prose_of(source: str) -> str:
    """The docstrings, comments and help texts of a Python file, each on its own line."""
    lines = [""] * (source.count("\n") + 2)
    for number, text in [*_docstrings(source), *_comments(source)]:
        for offset, line in enumerate(text.split("\n")):
            lines[number - 1 + offset] = line.strip()
    return "\n".join(lines)


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, also those of attributes, and help texts, with the lines where they start.

    Lines of a docstring that are indented are a table or code, and become empty.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Constant(str(text))):
                yield node.lineno, re.sub(rf"(?m)^ {{{node.col_offset + 4},}}.*", "", text)
            case ast.keyword(arg=name, value=ast.Constant(str(text))) if name in HELP:
                yield node.value.lineno, text.replace("\n", " ")


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("# ")
        if token.type == tokenize.COMMENT and not text.startswith(("noqa", "type:", "mypy:")):
            yield token.start[0], text


def unwrapped(text: str) -> str:
    """The text with each paragraph on its first line."""
    lines: list[str] = []
    start: int | None = None
    is_code = False
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        if is_code or is_fence or not line.strip() or STARTS_PARAGRAPH.match(line):
            start = None if is_code or is_fence or not line.strip() else len(lines)
            lines.append(line)
        elif start is None:
            start = len(lines)
            lines.append(line)
        else:
            lines[start] += f" {line.strip()}"
            lines.append("")
        is_code ^= is_fence
    return "\n".join(lines)


def main() -> int:
    """Check every tracked file; returns textlint's exit code."""
    listing = ["git", "ls-files", "*.md", "*.py"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in listed.stdout.splitlines():
            text = (ROOT / name).read_text("utf-8")
            copy = Path(folder, name if name.endswith(".md") else f"{name}.md")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(unwrapped(text if name.endswith(".md") else prose_of(text)), "utf-8")
        for name in ("textlintrc.json", "vocabulary.yml"):
            Path(folder, name).write_text((HERE / name).read_text("utf-8"), "utf-8")
        command = ["textlint", "--config", "textlintrc.json", "--format", "unix", "."]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
