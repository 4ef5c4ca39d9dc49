"""Finds OCaml's compiler, and compiles the mutator: the program is kept in the user's cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.ocaml.contract import DISTANCES, release_of
from fuzz.targets.options import TargetOptions
from fuzz.targets.process.user_programs import compiled, kept_program, output_of

COMPILER = "ocamlopt"
VERSION_CHARACTERS = 20
"""The length at which a message cuts the output of another program."""
SOURCES = (Path(__file__).with_name("nursery.c"), Path(__file__).with_name("mutator.ml"))
NAME_KNOWN = f"name an ocamlopt of OCaml {' or '.join(DISTANCES)} with --ocaml"
HOW_TO_INSTALL = f"apt install ocaml, or {NAME_KNOWN}"


def find_compiler(compiler: Path | None) -> tuple[str, str]:
    """The compiler that is named or on PATH, and its version. Raises BadInputError."""
    found = shutil.which(compiler or COMPILER)
    if found is None:
        named = f"{compiler} is not a program" if compiler else f"there is no {COMPILER}"
        raise BadInputError(f"the target ocaml needs OCaml, and {named}: {HOW_TO_INSTALL}")
    found = str(Path(found).resolve())
    version = output_of([found, "-version"])[:VERSION_CHARACTERS]
    if release_of(version) not in DISTANCES:
        raise BadInputError(f"{found}: the sampler of OCaml {version!r} is not known; {NAME_KNOWN}")
    return found, version


def made_program(options: TargetOptions) -> tuple[str, str]:
    """The mutator's program, from the cache or a new one, and OCaml's version.

    Raises BadInputError.
    """
    found, version = find_compiler(options.paths.get("ocaml"))

    def make(folder: Path) -> Path:
        # The compiler writes beside a source and into the current folder.
        sources = [Path(shutil.copy(source, folder)).name for source in SOURCES]
        made = folder / "mutator"
        # OCaml 4 has no such folder, and ignores it.
        words = [found, "-I", "+unix", "unix.cmxa", *sources, "-o", made.name]
        return compiled(made, words, folder)

    parts = (found, version, *(source.read_bytes() for source in SOURCES))
    return str(kept_program(parts, make)), version
