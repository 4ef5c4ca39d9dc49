"""Finds a program or an SDK with a runtime of .NET 10, and makes the mutator's program of it.

Debian's C# compiler translates the mutator. The program is kept in the user's cache; nothing of the
runtime is distributed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.dotnet import bundle
from fuzz.targets.options import TargetOptions
from fuzz.targets.process.user_programs import compiled, kept_program, runtime_places

WHEEL = "msmcp_azure"
COMPILER = "mcs"
SOURCES = tuple(
    Path(__file__).with_name(name) for name in ("mutator.cs", "finalizers.cs", "sessions.cs")
)
HOW_TO_INSTALL = "pip install msmcp-azure==3.0.0, and apt install mono-mcs"
FRAMEWORK = "Microsoft.NETCore.App"
LIBRARIES = f"shared/{FRAMEWORK}/10.*/{bundle.CORE_LIBRARY}"
HOSTS = "packs/{framework}.Host.*/{version}/runtimes/*/native/singlefilehost"
"""The hosts of the same version in an SDK's folder."""


def program(options: TargetOptions) -> tuple[Path]:
    """The mutator's program. Raises BadInputError."""
    return (made_program(options.paths.get("dotnet")),)


def find_carrier(dotnet: Path | None) -> tuple[Path, ...]:
    """The program that carries a runtime, or the SDK's files. Raises BadInputError."""
    if dotnet is not None and not dotnet.exists():
        raise BadInputError(f"{dotnet}: there is no such file; --dotnet names a program or an SDK")
    places = runtime_places(WHEEL, "bin/azmcp", "DOTNET_ROOT", "dotnet", above=0)
    for place in places if dotnet is None else [dotnet]:
        files = (place,) if place.is_file() else _files_of_sdk(place)
        if files:
            return tuple(file.resolve() for file in files)
    if dotnet is not None:
        raise BadInputError(f"{dotnet}: no SDK of .NET 10 with its host pack")
    raise BadInputError(f"this target needs a runtime of .NET 10: {HOW_TO_INSTALL}")


def _files_of_sdk(folder: Path) -> tuple[Path, ...]:
    """The newest host in an SDK's folder, and its core library; empty if there is none."""
    found: tuple[Path, ...] = ()
    libraries = {library.parent.name: library for library in folder.glob(LIBRARIES)}
    for version in sorted(libraries, key=lambda name: [*map(int, re.findall(r"\d+", name))]):
        for host in folder.glob(HOSTS.format(framework=FRAMEWORK, version=version)):
            found = host, libraries[version]
    return found


def made_program(dotnet: Path | None) -> Path:
    """The mutator's program, from the cache or a new one. Raises BadInputError."""
    carrier = find_carrier(dotnet)
    states = [(path, path.stat().st_size, path.stat().st_mtime_ns) for path in carrier]
    texts = (source.read_text("utf-8") for source in SOURCES)
    parts = (*states, *texts, bundle.configured(None))

    def make(folder: Path) -> Path:
        if shutil.which(COMPILER) is None:
            raise BadInputError(f"this target needs a compiler of C#: {HOW_TO_INSTALL}")
        return make_program(bundle.runtime_of(carrier), SOURCES, folder)

    return kept_program(parts, make)


def make_program(
    runtime: bundle.CarriedRuntime,
    sources: Iterable[Path],
    folder: Path,
    properties: Mapping[str, bool] | None = None,
) -> Path:
    """A program of these sources in that folder. Raises BadInputError."""
    library, assembly = folder / bundle.CORE_LIBRARY, folder / bundle.ASSEMBLY
    library.write_bytes(runtime.core_library)
    words = [COMPILER, "-nostdlib", "-noconfig", "-unsafe", "-optimize+"]
    words += [f"-reference:{library}", f"-out:{assembly}", *map(str, sources)]
    program = folder / "program"
    made = compiled(assembly, words).read_bytes()
    program.write_bytes(runtime.with_assembly(made, properties))
    program.chmod(0o755)
    return program
