"""The program behind the targets `scalene` and `scalene-as-documented`.

Scalene's library is preloaded into a process of its own, for each window that traces ask for, and
writes each sample into a file that is mapped here. At each header blocks are allocated until one is
a sample, after which the library counts from nothing; there is no chance in it.

`python -m fuzz.targets.python_profilers.scalene_driver NAME PYTHON` answers, for the interpreter
that has Scalene.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting, layout_of_blocks
from fuzz.protocol.counting import NetBytes
from fuzz.targets.process.serve import serve
from fuzz.targets.process.user_programs import said_by
from fuzz.targets.python_profilers.profiler_target import (
    ACTIONS,
    BLOCK_BYTES_MAX,
    HEADER_BYTES,
    OBSERVES,
    Mutator,
    ProfilerTarget,
    ToldSample,
)
from fuzz.targets.python_profilers.profilers import HOW_TO_INSTALL, SCALENE, SCALENE_AS_DOCUMENTED

LIBRARY = "libscalene.so"
WINDOWS = (512, 4096, 4096, 32_768, 262_144)
SMALL_CLASSES = tuple(range(8, 513, 8))
"""Up to 512 bytes are rounded up to words: `local_malloc` in libscalene.cpp."""
MARK_BYTES = 98_821
"""`NEWLINE` in sampleheap.hpp."""
NO_LINE = "-1"
"""What such a mark has for a line."""
FILE_BYTES = 4096 * 65536
"""So long is the file of samples, which are never taken out of it."""
SETTINGS = (Setting("period_bytes", 4096, Range(min(WINDOWS), max(WINDOWS)), WINDOWS),)


def contract_as_built(period_bytes: int, version: str) -> Contract:
    """What Scalene 2.4.0 does."""
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, SMALL_CLASSES, header_bytes=HEADER_BYTES),
        actions=ACTIONS,
        observes=OBSERVES,
        sampling=SamplingRule(
            period_bytes=SETTINGS[0].range,
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            weights="since",
            counting=NetBytes(unsampled_bytes=MARK_BYTES),
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
        version=f"Scalene {version}",
    )


def contract_as_documented(as_built: Contract) -> Contract:
    """What "per-line memory profiles" (README.md) are taken for, of a program that frees nothing.

    Each byte is as likely to be sampled as any other, whoever allocates it.
    """
    promised = SamplingRule(
        period_bytes=as_built.sampling.period_bytes,
        surplus="dropped",
        samples_per_allocation="one",
        distances="random",
        initial_period_bytes=as_built.sampling.initial_period_bytes,
    )
    return attrs.evolve(
        as_built,
        actions=("malloc",),
        observes=("samples",),
        sampling=promised,
        boundary_bytes=(MARK_BYTES,),
    )


class SampledMutator(Mutator):
    """A process with the library in it."""

    def __init__(self, python: str, window_bytes: int) -> None:
        library = str(find_package(python) / LIBRARY)
        window = {"SCALENE_ALLOCATION_SAMPLING_WINDOW": str(window_bytes)}
        super().__init__(python, SCALENE, (), {"LD_PRELOAD": library, **window})
        with Path(f"/tmp/scalene-malloc-signal{self.process.pid}").open("rb") as file:  # noqa: S108
            self._file = mmap(file.fileno(), 0, access=ACCESS_READ)
        # All that it has opened is mapped, and would stay behind a process that is killed.
        for path in Path("/tmp").glob(f"scalene-*{self.process.pid}"):  # noqa: S108
            path.unlink()
        self.read_bytes = 1

    def read(self) -> list[ToldSample]:
        """What was written since it was read before, without marks."""
        end = self._file.find(b"\0", self.read_bytes - 1)
        text = self._file[self.read_bytes - 1 : end].decode()
        self.read_bytes = max(end, 1)  # The next one is written from the last character on.
        rows = (line.split(",") for line in text.splitlines() if line)
        return [ToldSample(int(row[2]), row[0] != "M") for row in rows if row[7] != NO_LINE]


class ScaleneTarget(ProfilerTarget):
    """See ProfilerTarget."""

    settings = SETTINGS

    def __init__(self, name: str, python: str) -> None:
        super().__init__(name, python)
        self.mutators: dict[int, SampledMutator] = {}

    @property
    def mutator(self) -> SampledMutator:
        return self.mutators[self._window_bytes]

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        self._window_bytes = window_bytes = chosen["period_bytes"]
        if window_bytes in self.mutators and self.mutator.read_bytes > FILE_BYTES // 2:
            self.mutators.pop(window_bytes).close()
        if window_bytes not in self.mutators:
            self.mutators[window_bytes] = SampledMutator(self.python, window_bytes)
        self.new_samples()
        while not self.new_samples():
            if len(self._slots) * BLOCK_BYTES_MAX > 2 * max(WINDOWS):
                raise BadInputError(f"Scalene {self.mutator.version} takes no samples")
            self.allocate(BLOCK_BYTES_MAX)
        as_built = contract_as_built(window_bytes, self.mutator.version)
        return contract_as_documented(as_built) if self.name == SCALENE_AS_DOCUMENTED else as_built

    def new_samples(self) -> list[ToldSample]:
        return self.mutator.read()

    def close(self) -> None:
        """End all processes."""
        for mutator in self.mutators.values():
            mutator.close()


def find_package(python: str) -> Path:
    """Where that interpreter has Scalene. Raises BadInputError."""
    look = "import importlib.util as u; print(getattr(u.find_spec('scalene'), 'origin', ''))"
    package = Path(said_by([python, "-c", look])).parent
    if not (package / LIBRARY).is_file():
        raise BadInputError(f"{python}: there is no Scalene: {HOW_TO_INSTALL}")
    return package


if __name__ == "__main__":
    target = ScaleneTarget(*sys.argv[1:])
    serve(target, sys.stdin, sys.stdout)
    target.close()
