"""The driver of `ddtrace`: `python -m fuzz.targets.ddtrace.driver NAME PYTHON`.

Each header starts ddtrace's memory profiler, which seeds its generator with the interval. After
each allocation its samples are written into a file, in pprof's format. What writes that file
allocates nothing that the sampler sees.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir
from typing import ClassVar

from fuzz.problems import BadInputError
from fuzz.protocol import actions
from fuzz.protocol.contract import Contract
from fuzz.targets.ddtrace.contract import SETTINGS, as_documented, contract
from fuzz.targets.process.byte_reader import ByteReader
from fuzz.targets.process.driver import CarryOut
from fuzz.targets.python_profilers import HOW_TO_INSTALL, mutator
from fuzz.targets.python_profilers.profiler_driver import Mutator, ProfilerDriver, ReportedSample

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NOTHING_ELSE = {
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_ENABLED": "false",
}
"""Without them ddtrace starts threads, and connects to an agent."""
BYTES = 2
"""The kind of a field that is not a number (protocol buffers; profile.proto has only these two)."""
SAMPLE_TYPES, SAMPLES, STRINGS = 1, 2, 6
"""Fields of a profile in pprof's profile.proto."""
NAME, VALUES = 1, 2
"""Fields of a sample's type, and of a sample."""


class DdtraceDriver(ProfilerDriver):
    """ddtrace."""

    settings = SETTINGS

    def __init__(self, name: str, python: str) -> None:
        super().__init__(name, python)
        # Not a folder, which would stay behind a program that is killed.
        self._output = str(Path(gettempdir(), f"gcfuzz-{token_hex()}"))
        self._mutator: Mutator | None = None
        self._reports = 0

    @property
    def mutator(self) -> Mutator:
        if self._mutator is None:
            try:
                self._mutator = Mutator(self.python, "ddtrace", (self._output,), NOTHING_ELSE)
            except BadInputError as problem:
                raise BadInputError(f"{problem}: {HOW_TO_INSTALL}") from problem
        return self._mutator

    def begin_sampler(self, chosen: Mapping[str, int]) -> Contract:
        self.report(mutator.BEGIN, chosen["period_bytes"])
        stated = contract(self.mutator.version, chosen["period_bytes"])
        return as_documented(stated) if self.is_as_documented else stated

    def new_samples(self) -> list[ReportedSample]:
        sizes = (values["alloc-space"] for values in self.report(mutator.REPORT))
        return [ReportedSample(size) for size in sizes if size]

    def profile(self) -> list[int]:
        reported = self.report(mutator.PROFILE)
        names = ("heap-live-samples", "heap-space")
        return [sum(values[name] for values in reported) for name in names]

    def report(self, what: int, number: int = 0) -> list[dict[str, int]]:
        """What a command has reported: the values of each sample, by name."""
        self.mutator.ask(what, number)
        self._reports += 1
        stem = f"{self._output}.{self.mutator.process.pid}.{self._reports}"
        profile = Path(f"{stem}.pprof")
        data = zstd.decompress(profile.read_bytes())
        profile.unlink()
        Path(f"{stem}.internal_metadata.json").unlink()
        return [*samples_in(data)]

    def close(self) -> None:
        if self._mutator is not None:
            self._mutator.close()

    CARRY_OUT: ClassVar[CarryOut] = {
        **ProfilerDriver.CARRY_OUT,
        actions.ReadProfile: lambda driver, _: driver.profile(),
    }


def samples_in(profile: bytes) -> Iterator[dict[str, int]]:
    """The values of each sample, by name."""
    fields = [*fields_in(profile)]
    strings = [part.decode() for field, _, part in fields if field == STRINGS]
    types = [[*fields_in(part)] for field, _, part in fields if field == SAMPLE_TYPES]
    names = [strings[number] for each in types for field, number, _ in each if field == NAME]
    for sample in (part for field, _, part in fields if field == SAMPLES):
        [values] = (part for field, _, part in fields_in(sample) if field == VALUES)
        reader, numbers = ByteReader(values), []
        while reader.at < len(values):
            numbers.append(reader.number())
        yield dict(zip(names, numbers, strict=True))


def fields_in(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The number of each field of a message, and its value, or its bytes."""
    reader = ByteReader(message)
    while reader.at < len(message):
        tag, value = reader.number(), reader.number()
        yield tag // 8, value, reader.taken(value if tag % 8 == BYTES else 0)


if __name__ == "__main__":
    DdtraceDriver.main()
