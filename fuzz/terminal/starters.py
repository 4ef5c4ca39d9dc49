"""What `gcfuzz init` copies: the smallest target of a language, its Makefile, and a job for CI.

Invariants: what is copied passes `gcfuzz check` and `gcfuzz run` as it is; nothing is overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from fuzz.failures.trace_files import shipped_folder
from fuzz.files import write_text
from fuzz.problems import BadInputError

WORKFLOW = Path(".github", "workflows", "gcfuzz.yml")
UNSTATED_RULE = "                     .drops_when_disabled = true},"
STATED_RULE = f"""\
                     .crosses = "at", .surplus = "dropped", .samples_per_allocation = "one",
{UNSTATED_RULE}"""
"""The example for readers of docs/your-own-collector.md states another rule than its counter has.
A starter states the right one."""


@attrs.frozen
class Starter:
    """The files, by where they are copied to, and the commands that come next."""

    files: Mapping[Path, str]
    """Their places in the examples that ship with the package."""
    build: tuple[str, ...]
    target: tuple[str, ...]
    """The arguments that name the target."""
    changes: tuple[tuple[str, str], ...] = ()
    """Lines of the files that are copied as others."""

    def write(self, folder: Path) -> Iterator[Path]:
        """Copy the files. Raises BadInputError if one exists, or the folder cannot be written."""
        try:
            for name in self.files:
                if (folder / name).exists():
                    raise BadInputError(f"{folder / name}: exists; name another folder")
            if folder.exists() and not folder.is_dir():
                raise BadInputError(f"{folder}: is a file; name a new folder")
            for name in self.files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise BadInputError(f"{folder}: {problem.strerror}") from problem
        for name, place in self.files.items():
            text = (shipped_folder("examples") / place).read_text(encoding="utf-8")
            for line, copied in self.changes:
                text = text.replace(line, copied)
            write_text(folder / name, text)
            yield folder / name


STARTERS = {
    "c": Starter(
        {
            Path("adapter.c"): "native/smallest.c",
            Path("gcfuzz_adapter.c"): "native/gcfuzz_adapter.c",
            Path("gcfuzz_adapter.h"): "native/gcfuzz_adapter.h",
            Path("Makefile"): "starters/c/Makefile",
            WORKFLOW: "starters/c/gcfuzz.yml",
        },
        ("make",),
        ("--command", "./adapter"),
        ((UNSTATED_RULE, STATED_RULE),),
    ),
    "python": Starter(
        {
            Path("my_collector.py"): "starters/python/my_collector.py",
            WORKFLOW: "starters/python/gcfuzz.yml",
        },
        (),
        ("--target", "my_collector:MyCollector"),
    ),
}
"""The languages."""
