"""How the target `dotnet` is started: a program that carries a runtime of .NET 10 is found first.

From that, and from the mutator, which Debian's C# compiler translates, a program is made once, and
kept in the user's cache. Nothing of the runtime is given to anybody.
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
from fuzz.targets.dotnet import bundle

DOTNET = "dotnet"
WHEEL = "msmcp_azure"
CARRIER = Path("bin", "azmcp")
COMPILER = "mcs"
MUTATOR = Path(__file__).with_name("mutator.cs")
HOW_TO_INSTALL = "pip install msmcp-azure==3.0.0, and apt install mono-mcs"


def driver_command(dotnet: Path | None) -> tuple[str, ...]:
    """The command line of the driver that is the target. Raises BadInputError."""
    return sys.executable, "-m", f"{__package__}.dotnet_driver", str(made_program(dotnet))


def find_carrier(dotnet: Path | None) -> Path:
    """That program with a runtime in it; by default the wheel's. Raises BadInputError."""
    if dotnet is not None:
        if not dotnet.is_file():
            raise BadInputError(f"{dotnet}: there is no such file; --dotnet names a program")
        return dotnet.resolve()
    wheel = find_spec(WHEEL)
    if wheel is None or wheel.origin is None or not Path(wheel.origin).with_name("bin").is_dir():
        raise BadInputError(f"the target {DOTNET} needs a runtime of .NET 10: {HOW_TO_INSTALL}")
    return Path(wheel.origin).parent / CARRIER


def made_program(dotnet: Path | None) -> Path:
    """The mutator's program with the runtime in it, which is made if it is not there yet.

    Raises BadInputError.
    """
    carrier = find_carrier(dotnet)
    state = carrier.stat()
    sources = (MUTATOR.read_text("utf-8"), bundle.CONFIGURATION)
    parts = (carrier, state.st_size, state.st_mtime_ns, *sources)
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    program = _cache() / f"mutator-{name}"
    if not program.is_file():
        if shutil.which(COMPILER) is None:
            raise BadInputError(f"the target {DOTNET} needs a compiler of C#: {HOW_TO_INSTALL}")
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            _make(carrier, Path(folder)).rename(program)
    return program


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gcfuzz"


def _make(carrier: Path, folder: Path) -> Path:
    """Make the program in that folder. Raises BadInputError."""
    library, assembly = folder / bundle.CORE_LIBRARY, folder / bundle.ASSEMBLY
    with bundle.opened(carrier) as carried:
        library.write_bytes(carried.core_library)
        words = [COMPILER, "-nostdlib", "-noconfig", "-unsafe", "-optimize+"]
        words += [f"-reference:{library}", f"-out:{assembly}", str(MUTATOR)]
        compiled = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        if compiled.returncode:
            [*_, said] = (compiled.stderr + compiled.stdout).strip().splitlines() or [""]
            raise BadInputError(f"{MUTATOR.name}: {COMPILER} does not compile it: {said}")
        program = folder / "program"
        program.write_bytes(carried.with_assembly(assembly.read_bytes()))
    program.chmod(0o755)
    return program
