"""Translates a program with a source of PyPy's collector, and keeps it in the user's cache.

The program is `translated.py`, or with the JIT `compiled.py`.

Invariant: a program in the cache is named after all that it depends on: the content of the
source and of the program, the constants, the interpreter and the C compiler.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import attrs
import click

from fuzz.problems import BadInputError, noted
from fuzz.targets.incminimark.find import checked_source, find_python
from fuzz.targets.options import TargetOptions
from fuzz.targets.process.user_programs import cache_folder, kept_program, output_of

HERE = Path(__file__).parent
LAUNCH, TRANSLATED = HERE / "launch.py", HERE / "translated.py"
COMPILED = HERE / "compiled.py"
PARTS = (
    *(TRANSLATED, HERE / "translated.c", HERE / "contract.py"),
    *(COMPILED, HERE / "compiled.c", HERE / "jit_switches.py", HERE / "sample_limit.py"),
)
CONSTANTS = ("tests", "shipped")
"""The values of `shipped_constants`: those of the collector's own tests, and those of PyPy."""
OF_MACHINE_CODE = ("compiled",)
"""The constants of the JIT's machine code."""
TOOLS = ("gcc", "make")
SUFFIXES = frozenset({".py", ".c", ".h"})
NOT_TRANSLATED = frozenset({"test", "_cache"})
TRANSLATION = ("-B", "-m", "rpython", "--batch", "--gc=incminimark")
TRANSLATION_SECONDS = 3600
LOG_LINES = 5


@attrs.frozen
class Build:
    """A build: assignments to environment variables, of the translation and of the program."""

    at_translation: tuple[str, ...] = ()
    at_run: tuple[str, ...] = ()


RELEASE = Build()
WITH_JIT = Build(("CFLAGS=-O1",))
"""More takes minutes, and nothing here is faster."""
ASSERTIONS = "-O1 -g -fno-omit-frame-pointer -DRPY_ASSERT -DRPY_LL_ASSERT"
"""What RPython's own `--lldebug` sets, and frame pointers."""
SANITIZER, CHECKS = "-fsanitize=address", "PYPY_GC_DEBUG=2"
BUILDS = {
    "release": RELEASE,
    "debug": Build((f"CFLAGS={ASSERTIONS}",), (CHECKS,)),
    # The mutator's own tables are never freed.
    "sanitized": Build(
        (f"CFLAGS={ASSERTIONS} {SANITIZER}", f"LDFLAGS={SANITIZER}", "ASAN_OPTIONS=detect_leaks=0"),
        (CHECKS, "ASAN_OPTIONS=detect_leaks=0"),
    ),
}
"""The builds of `--build`. RPython adds these variables to its own options of the C compiler."""


def launcher_command(_name: str, options: TargetOptions) -> tuple[str, ...]:
    """The launcher's command line. Raises BadInputError."""
    return _launcher(options, CONSTANTS, BUILDS[str(options.paths.get("build", "release"))])


def compiled_command(_name: str, options: TargetOptions) -> tuple[str, ...]:
    """The same for the program with the JIT. Raises BadInputError."""
    return _launcher(options, OF_MACHINE_CODE, WITH_JIT)


def _launcher(options: TargetOptions, constants: tuple[str, ...], build: Build) -> tuple[str, ...]:
    python = find_python(options.paths.get("python"))
    source = checked_source(options.paths.get("source"))
    programs = translated(python, source.resolve(), constants, build)
    return "env", *build.at_run, sys.executable, "-I", str(LAUNCH), *map(str, programs)


@cache
def translated(
    python: Path, source: Path, constants: tuple[str, ...] = CONSTANTS, build: Build = RELEASE
) -> tuple[Path, ...]:
    """The programs with these constants, from the cache or new ones. Raises BadInputError."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise BadInputError(
                f"PyPy's collector in C needs {' and '.join(TOOLS)}, and there is no {tool} on "
                f"PATH: apt install {' '.join(TOOLS)}"
            )
    compiler = output_of([TOOLS[0], "--version"])
    parts = (content_of(source), compiler, str(python), TRANSLATION, build.at_translation)

    def program(constants: str) -> Path:
        make = partial(_translate, python, source, constants, build)
        return kept_program((parts, constants), make)

    with ThreadPoolExecutor() as pool:
        return tuple(pool.map(program, constants))


def content_of(source: Path) -> str:
    """A digest of both programs, and of RPython without its tests."""
    digest = hashlib.sha256()
    files = sorted(each for each in (source / "rpython").rglob("*") if each.suffix in SUFFIXES)
    kept = (each for each in files if NOT_TRANSLATED.isdisjoint(each.relative_to(source).parts))
    for path in (*kept, *PARTS):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _translate(python: Path, source: Path, constants: str, build: Build, folder: Path) -> Path:
    click.echo(f"gcfuzz: translating {source} ({constants} constants) …", err=True)
    program, log = folder / "translated", cache_folder() / f"translation-{constants}.log"
    modules = os.pathsep.join(filter(None, (str(source), os.environ.get("PYTHONPATH"))))
    command = ["env", *build.at_translation, str(python), *TRANSLATION, f"--output={program}"]
    if constants in OF_MACHINE_CODE:
        command += ["--opt=jit", str(COMPILED), constants]
    else:
        command += ["-O2", str(TRANSLATED), constants]
    with log.open("wb") as output, suppress(subprocess.TimeoutExpired):
        subprocess.run(  # noqa: S603 - the user's interpreter
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": modules, "PYPY_USESSION_DIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=TRANSLATION_SECONDS,
            check=False,
        )
    if not program.is_file():
        lines = log.read_text("utf-8", "replace").splitlines()
        error = BadInputError(f"{source}: the translation fails; the end of {log}:")
        raise noted(error, tuple(lines[-LOG_LINES:]))
    log.unlink(missing_ok=True)
    return program
