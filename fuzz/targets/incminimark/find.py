"""Finds the Python 2.7 that runs incminimark's driver, and checks the folder with RPython."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.options import TargetOptions
from fuzz.targets.process.user_programs import output_of

DRIVER = Path(__file__).with_name("driver.py")
COLLECTOR = Path("rpython", "memory", "gc", "incminimark.py")
PYTHON = "python2.7"
HOW_TO_INSTALL = f"{PYTHON} -m pip install --target DIR rpython==0.2.1"
ASKING_SECONDS = 10


def driver_command(features: Sequence[str], _name: str, options: TargetOptions) -> tuple[str, ...]:
    """The command line of the driver with these features. Raises BadInputError."""
    python = find_python(options.paths.get("python"))
    source = checked_source(options.paths.get("source"))
    return str(python), str(DRIVER), str(source), *features


def find_python(python: Path | None) -> Path:
    """The interpreter named, or the first one found. Raises BadInputError."""
    if python is not None:
        if not _is_python27(python):
            raise BadInputError(f"{python}: is not a Python 2.7 that runs; name one with --python")
        return python
    for candidate in _candidates():
        if _is_python27(candidate):
            return candidate
    raise BadInputError(
        f"PyPy's collector needs a Python 2.7, and there is no {PYTHON} on PATH or among "
        "pyenv's versions; install one (`pyenv install 2.7.18`) or name it with --python"
    )


def _candidates() -> Iterator[Path]:
    """The places on PATH, then those of pyenv's versions, whether activated or not."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield Path(folder or ".", PYTHON)
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob(f"versions/2.7*/bin/{PYTHON}"), reverse=True)


def _is_python27(python: Path) -> bool:
    """Whether it runs. One of pyenv's shims exists also without a version behind it."""
    if not python.is_file():
        return False
    ask = [str(python), "-c", "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"]
    try:
        return output_of(ask, seconds=ASKING_SECONDS) == "2.7"
    except BadInputError:
        return False


def checked_source(source: Path | None) -> Path:
    """The folder, if it has the collector. Raises BadInputError."""
    if source is None:
        raise BadInputError(
            f"PyPy's collector needs RPython: `{HOW_TO_INSTALL}`, then --source DIR"
        )
    if not (source / COLLECTOR).is_file():
        raise BadInputError(
            f"{source}: has no {COLLECTOR}; --source names a checkout of PyPy, or a folder DIR "
            f"made by `{HOW_TO_INSTALL}`"
        )
    return source
