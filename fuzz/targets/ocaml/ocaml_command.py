"""How the target `ocaml` is started: the mutator is compiled, and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fuzz.problems import BadInputError

OCAML = "ocaml"
COMPILER = "ocamlopt"
VERSION = "4.13"
"""That of which the rule is."""
SOURCES = (Path(__file__).with_name("nursery.c"), Path(__file__).with_name("mutator.ml"))
HOW_TO_INSTALL = f"apt install ocaml, where that is {VERSION}, or name its ocamlopt with --ocaml"


def driver_command(compiler: Path | None) -> tuple[str, ...]:
    """The command line of the driver that is the target. Raises BadInputError."""
    return sys.executable, "-m", f"{__package__}.ocaml_driver", *made_program(compiler)


def find_compiler(compiler: Path | None) -> tuple[str, str]:
    """That one, or the one that is installed, and its version. Raises BadInputError."""
    found = shutil.which(compiler or COMPILER)
    if found is None:
        named = f"{compiler} is no program" if compiler else f"there is no {COMPILER}"
        raise BadInputError(f"the target {OCAML} needs OCaml, and {named}: {HOW_TO_INSTALL}")
    found = str(Path(found).resolve())
    version = _said([found, "-version"]).strip()
    if not version.startswith(f"{VERSION}."):
        raise BadInputError(f"{found} is OCaml {version}: {HOW_TO_INSTALL}")
    return found, version


def made_program(compiler: Path | None) -> tuple[str, str]:
    """The mutator's program, which is made if it is not there yet, and OCaml's version.

    Raises BadInputError.
    """
    found, version = find_compiler(compiler)
    parts = (found, version, *(source.read_bytes() for source in SOURCES))
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gcfuzz"
    program = cache / f"mutator-{name}"
    if not program.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            # What is compiled is left beside its source, or where the compiler was started.
            sources = [Path(shutil.copy(source, folder)).name for source in SOURCES]
            made = Path(folder, "mutator")
            _said([found, "unix.cmxa", *sources, "-o", made.name], folder)
            made.rename(program)
    return str(program), version


def _said(words: list[str], folder: str | None = None) -> str:
    """What a program of OCaml's prints. Raises BadInputError where it fails."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - the user's
    if done.returncode:
        [*_, said] = (done.stdout + done.stderr).strip().splitlines() or [""]
        raise BadInputError(f"{words[0]} fails: {said}")
    return done.stdout
