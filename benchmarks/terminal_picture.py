r"""Draws the picture of a terminal in README.md: a real session, and its explanation.

    python benchmarks/terminal_picture.py docs/pictures/terminal.svg

It runs the commands in an empty folder, and exports their output with rich.

docs/pictures/explain.png is a screenshot of the failure in README.md, saved by its command:

    gcfuzz explain failures/heap-error-DanglingReferenceError-*.jsonl --html explain.html
    chromium --headless --hide-scrollbars --force-device-scale-factor=1.1 \
        --window-size=1200,920 --screenshot=docs/pictures/explain.png explain.html
    pngquant --force --ext .png docs/pictures/explain.png
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 96
COMMANDS = (
    "gcfuzz run -x --actions 20000 --seed 28 --target reference+stale-limit-after-large",
    "gcfuzz explain gcfuzz-failures/pointers-limit-less-allocate_string-a6586444.jsonl",
)
OF_LIVE_LINE = " actions/s · ", " tries · "
"""Parts of lines that a terminal overwrites."""


def main(picture: str) -> None:
    """Run the commands and write the picture into that file."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
    ):
        console = Console(record=True, width=COLUMNS, file=nowhere)
        for command in COMMANDS:
            console.print(f"$ {command}", highlight=False)
            for line in output_of(command, folder):
                console.print(line)
    console.save_svg(picture, title="gcfuzz")


def output_of(command: str, folder: str) -> list[Text]:
    """The lines that a command prints, with their colours."""
    ran = subprocess.run(  # noqa: S603 - one of the commands above
        [sys.executable, "-m", "fuzz", *shlex.split(command)[1:]],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)},
    )
    lines = map(Text.from_ansi, ran.stdout.splitlines())
    return [line for line in lines if not any(part in line.plain for part in OF_LIVE_LINE)]


if __name__ == "__main__":
    main(sys.argv[1])
