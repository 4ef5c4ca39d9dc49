"""Files of traces: those that a user names, and those that ship with the package.

They are apart from `corpus`, because a replay needs nothing that reduces and saves failures.
"""

from __future__ import annotations

from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.trace import Trace

PACKAGE = Path(__file__).parents[1]
SUFFIX = ".jsonl"
PARTIAL = ".partial"
"""Part of the name of a file that is still being written, or whose writer was killed."""


def traces_in(place: Path) -> list[Path]:
    """The trace files at `place`, a file or a folder. Raises BadInputError if there are none."""
    if place.is_dir():
        found = sorted(each for each in place.glob(f"*{SUFFIX}") if PARTIAL not in each.suffixes)
        if not found:
            raise BadInputError(f"{place}: the folder has no traces (*{SUFFIX}) to replay")
        return found
    if not place.exists():
        raise BadInputError(f"{place}: there is no such file or folder")
    return [place]


def shipped_traces(folder: str = "") -> dict[str, Trace]:
    """The traces that ship with the package, by file name: those of the references' bugs.

    A subfolder has the traces of findings in other collectors.
    """
    corpus = shipped_folder("corpus") / folder
    return {path.name: traces.read(path) for path in sorted(corpus.glob(f"*{SUFFIX}"))}


def shipped_folder(name: str) -> Path:
    """A folder that ships with the package; in a checkout it is beside the package."""
    folder = PACKAGE / name
    return folder if folder.is_dir() else PACKAGE.parent / name
