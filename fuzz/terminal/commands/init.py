"""`gcfuzz init`: a folder with the smallest target of a language, to start from."""

from __future__ import annotations

from pathlib import Path

import click

from fuzz.plain import path_argument, shell_word
from fuzz.terminal.commands.group import cli
from fuzz.terminal.exit_codes import CLEAN
from fuzz.terminal.screen import Screen
from fuzz.terminal.target_options import OneOf


@cli.command("init")
@click.argument("language", metavar="c|python", type=OneOf("fuzz.terminal.starters", "STARTERS"))
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
def init_command(language: str, folder: Path) -> int:
    """Copy the smallest target of a language into a new folder, with a job for CI.

    It works as it is. Comments with YOURS say where your collector comes in.
    """
    from fuzz.terminal.starters import STARTERS

    screen, starter = Screen(), STARTERS[language]
    for path in starter.write(folder):
        screen.print(str(path))
    into = shell_word(path_argument(folder))
    steps = ["cd", into, *(["&&", *starter.build] if starter.build else [])]
    check = "gcfuzz", "check", *starter.target
    screen.print_command("next:", [*steps, "&&", *check], "bold")
    return CLEAN
