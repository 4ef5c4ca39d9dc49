"""The driver of `scalene`: `python -m fuzz.targets.scalene.driver NAME PYTHON`.

Scalene's library is preloaded into a process for each window that traces ask for, and writes each
sample into a file that is mapped here. A header allocates blocks until one is sampled: after that
the library counts from zero. Nothing in it is random.
"""

from __future__ import annotations

from collections.abc import Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.protocol.contract import Contract
from fuzz.targets.process.user_programs import output_of
from fuzz.targets.python_profilers import HOW_TO_INSTALL
from fuzz.targets.python_profilers.profiler_driver import (
    BLOCK_BYTES_MAX,
    Mutator,
    ProfilerDriver,
    ReportedSample,
)
from fuzz.targets.scalene.contract import SETTINGS, WINDOWS, as_documented, contract

LIBRARY = "libscalene.so"
NO_LINE = "-1"
"""The line of a mark, which is not a sample."""
FILE_BYTES = 4096 * 65536
"""The length of the file of samples. They are never removed from it."""


class SampledMutator(Mutator):
    """A process with the library in it."""

    def __init__(self, python: str, window_bytes: int) -> None:
        library = str(find_package(python) / LIBRARY)
        window = {"SCALENE_ALLOCATION_SAMPLING_WINDOW": str(window_bytes)}
        super().__init__(python, "scalene", (), {"LD_PRELOAD": library, **window})
        with Path(f"/tmp/scalene-malloc-signal{self.process.pid}").open("rb") as file:  # noqa: S108
            self._file = mmap(file.fileno(), 0, access=ACCESS_READ)
        # All its files are mapped already. They would stay behind a process that is killed.
        for path in Path("/tmp").glob(f"scalene-*{self.process.pid}"):  # noqa: S108
            path.unlink()
        self.read_bytes = 1

    def read(self) -> list[ReportedSample]:
        """What was written since the last call, without marks."""
        end = self._file.find(b"\0", self.read_bytes - 1)
        text = self._file[self.read_bytes - 1 : end].decode()
        self.read_bytes = max(end, 1)  # The next one overwrites the last character.
        rows = (line.split(",") for line in text.splitlines() if line)
        return [ReportedSample(int(row[2]), row[0] != "M") for row in rows if row[7] != NO_LINE]


class ScaleneDriver(ProfilerDriver):
    """Scalene."""

    settings = SETTINGS

    def __init__(self, name: str, python: str) -> None:
        super().__init__(name, python)
        self.mutators: dict[int, SampledMutator] = {}

    @property
    def mutator(self) -> SampledMutator:
        return self.mutators[self._window_bytes]

    def begin_sampler(self, chosen: Mapping[str, int]) -> Contract:
        self._window_bytes = window_bytes = chosen["period_bytes"]
        if window_bytes in self.mutators and self.mutator.read_bytes > FILE_BYTES // 2:
            self.mutators.pop(window_bytes).close()
        if window_bytes not in self.mutators:
            self.mutators[window_bytes] = SampledMutator(self.python, window_bytes)
        self.new_samples()
        while not self.new_samples():
            if len(self.blocks) * BLOCK_BYTES_MAX > 2 * max(WINDOWS):
                raise BadInputError(f"Scalene {self.mutator.version} takes no samples")
            self.allocate(BLOCK_BYTES_MAX)
        stated = contract(self.mutator.version, window_bytes)
        return as_documented(stated) if self.is_as_documented else stated

    def new_samples(self) -> list[ReportedSample]:
        return self.mutator.read()

    def close(self) -> None:
        for mutator in self.mutators.values():
            mutator.close()


def find_package(python: str) -> Path:
    """The folder of Scalene in that interpreter's packages. Raises BadInputError."""
    look = "import importlib.util as u; print(getattr(u.find_spec('scalene'), 'origin', ''))"
    package = Path(output_of([python, "-c", look])).parent
    if not (package / LIBRARY).is_file():
        raise BadInputError(f"{python}: there is no Scalene: {HOW_TO_INSTALL}")
    return package


if __name__ == "__main__":
    ScaleneDriver.main()
