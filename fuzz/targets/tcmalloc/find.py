"""Finds the program that contains TCMalloc."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.process.user_programs import output_of

PACKAGE = Path("@cloudflare", "workerd-linux-64")
HOW_TO_INSTALL = f"npm install {PACKAGE}; or name a program that has it with --library"


def find_program(library: Path | None = None) -> Path:
    """The named program, or the first one that npm has installed. Raises BadInputError."""
    if library is not None:
        if not library.is_file():
            raise BadInputError(f"{library}: there is no such program")
        return library
    for folder in _folders():
        program = folder / PACKAGE / "bin" / "workerd"
        if program.is_file():
            return program
    raise BadInputError(f"there is no program with TCMalloc in it: {HOW_TO_INSTALL}")


def _folders() -> Iterator[Path]:
    """The folders of npm's packages: those of NODE_PATH, here, in a folder above, or for all."""
    for place in filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)):
        yield Path(place)
    for folder in (Path.cwd(), *Path.cwd().parents):
        yield folder / "node_modules"
    npm = shutil.which("npm")
    if npm is not None:
        with suppress(BadInputError):
            yield Path(output_of([npm, "root", "-g"]))


def version_of(program: Path) -> str:
    """The version in the description of npm's package, if the program has one."""
    description = program.parents[1] / "package.json"
    if not description.is_file():
        return program.name
    return f"{program.name} {json.loads(description.read_text(encoding='utf-8'))['version']}"
