"""Finds OCaml's compilers, and compiles the mutator: the programs are kept in the user's cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.ocaml.contract import DISTANCES, release_of
from fuzz.targets.options import TargetOptions
from fuzz.targets.process.user_programs import compiled, kept_program, output_of

COMPILER, BYTECODE_COMPILER = "ocamlopt", "ocamlc"
VERSION_CHARACTERS = 20
"""The length at which a message cuts the output of another program."""
SOURCES = (Path(__file__).with_name("nursery.c"), Path(__file__).with_name("mutator.ml"))
NAME_KNOWN = f"name an ocamlopt of OCaml {', '.join(DISTANCES)} with --ocaml"
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


def made_programs(options: TargetOptions) -> tuple[str, str, str]:
    """The mutator in machine code and in bytecode, from the cache or new, and OCaml's version.

    Raises BadInputError.
    """
    found, version = find_compiler(options.paths.get("ocaml"))
    commands = {
        # The debug information says on which line a sampled block was allocated.
        found: ("-g", "unix.cmxa"),
        # With -g, bytecode would have its references to local variables in the heap.
        str(Path(found).with_name(BYTECODE_COMPILER)): ("-custom", "unix.cma"),
    }

    def program(compiler: str, words: tuple[str, ...]) -> str:
        def make(folder: Path) -> Path:
            # The compiler writes beside a source and into the current folder.
            sources = [Path(shutil.copy(source, folder)).name for source in SOURCES]
            made = folder / "mutator"
            # OCaml 4 has no such folder, and ignores it.
            command = [compiler, "-I", "+unix", *words, *sources, "-o", made.name]
            return compiled(made, command, folder)

        parts = (compiler, words, version, *(source.read_bytes() for source in SOURCES))
        return str(kept_program(parts, make))

    native, bytecode = (program(*command) for command in commands.items())
    return native, bytecode, version
