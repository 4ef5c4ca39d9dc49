"""The program behind the targets `ddtrace` and `ddtrace-as-documented`.

ddtrace's memory profiler is begun at each header, which seeds its generator with the interval, and
what it sampled is written into a file, in pprof's format, after each allocation. What writes that
file allocates nothing of which the sampler knows.

`python -m fuzz.targets.python_profilers.ddtrace_driver NAME PYTHON` answers, for the interpreter
that has ddtrace.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting, layout_of_blocks
from fuzz.protocol.observation import Observation
from fuzz.targets.process.serve import serve
from fuzz.targets.python_profilers import mutator
from fuzz.targets.python_profilers.profiler_target import (
    ACTIONS,
    BLOCK_BYTES_MAX,
    HEADER_BYTES,
    OBSERVES,
    Mutator,
    ProfilerTarget,
    ToldSample,
)
from fuzz.targets.python_profilers.profilers import DDTRACE, DDTRACE_AS_DOCUMENTED, HOW_TO_INSTALL

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

INTERVALS = Range(256, 2**17 - 1)
SETTINGS = (Setting("period_bytes", 4096, INTERVALS),)
NOTHING_ELSE = {
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_ENABLED": "false",
}
"""Without them ddtrace begins threads, and looks for somebody to talk to."""
BYTES = 2
"""The kind of a field that is not a number (protocol buffers; profile.proto has only these two)."""
SAMPLE_TYPES, SAMPLES, STRINGS = 1, 2, 6
"""Fields of a profile in pprof's profile.proto."""
NAME, VALUES = 1, 2
"""Fields of a sample's type, and of a sample."""
CONTINUES = 0x80
"""A byte of a number that has another behind it."""


def contract_as_built(period_bytes: int, version: str) -> Contract:
    """What ddtrace 4.16.0 does."""
    return Contract(
        nursery_bytes=0,
        layout=layout_of_blocks(BLOCK_BYTES_MAX, header_bytes=HEADER_BYTES),
        actions=ACTIONS,
        observes=OBSERVES,
        sampling=SamplingRule(
            period_bytes=INTERVALS,
            counts="requested",
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            weights="since",
            distances="ddtrace",
            seeds=(period_bytes,),
            initial_period_bytes=period_bytes,
        ),
        settings=SETTINGS,
        version=f"ddtrace {version}",
    )


def contract_as_documented(as_built: Contract) -> Contract:
    """What the comments in _memalloc_heap.cpp promise of the heap profile.

    A block's bytes and objects are estimated by the chance with which it is sampled.
    """
    promised = attrs.evolve(as_built.sampling, weights="none", estimates="probability")
    return attrs.evolve(
        as_built,
        actions=(*ACTIONS, "read_profile"),
        observes=("samples", "profile"),
        sampling=promised,
    )


class DdtraceTarget(ProfilerTarget):
    """See ProfilerTarget."""

    settings = SETTINGS

    def __init__(self, name: str, python: str) -> None:
        super().__init__(name, python)
        # No folder, which would stay behind a program that is killed.
        self._output = str(Path(gettempdir(), f"gcfuzz-{token_hex()}"))
        self._mutator: Mutator | None = None
        self._reports = 0

    @property
    def mutator(self) -> Mutator:
        if self._mutator is None:
            try:
                self._mutator = Mutator(self.python, DDTRACE, (self._output,), NOTHING_ELSE)
            except BadInputError as problem:
                raise BadInputError(f"{problem}: {HOW_TO_INSTALL}") from problem
        return self._mutator

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        period_bytes = chosen["period_bytes"]
        self.report(mutator.BEGIN, period_bytes)
        as_built = contract_as_built(period_bytes, self.mutator.version)
        return contract_as_documented(as_built) if self.name == DDTRACE_AS_DOCUMENTED else as_built

    def new_samples(self) -> list[ToldSample]:
        reported = self.report(mutator.REPORT)
        return [ToldSample(values["alloc-space"]) for values in reported if values["alloc-space"]]

    def _perform(self, action: Action) -> Observation:
        if not isinstance(action, actions.ReadProfile):
            return super()._perform(action)
        reported = self.report(mutator.PROFILE)
        names = ("heap-live-samples", "heap-space")
        return Observation(profile=[sum(values[name] for values in reported) for name in names])

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
        """End the process."""
        if self._mutator is not None:
            self._mutator.close()


def samples_in(profile: bytes) -> Iterator[dict[str, int]]:
    """The values of each sample, by name."""
    fields = [*fields_in(profile)]
    strings = [part.decode() for field, _, part in fields if field == STRINGS]
    types = [[*fields_in(part)] for field, _, part in fields if field == SAMPLE_TYPES]
    names = [strings[number] for each in types for field, number, _ in each if field == NAME]
    for sample in (part for field, _, part in fields if field == SAMPLES):
        [values] = (part for field, _, part in fields_in(sample) if field == VALUES)
        place, numbers = 0, []
        while place < len(values):
            number, place = varint_at(values, place)
            numbers.append(number)
        yield dict(zip(names, numbers, strict=True))


def fields_in(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Of each field of such a message its number, and its value or, if that is bytes, these."""
    place = 0
    while place < len(message):
        tag, place = varint_at(message, place)
        value, place = varint_at(message, place)
        length = value if tag % 8 == BYTES else 0
        yield tag // 8, value, message[place : place + length]
        place += length


def varint_at(data: bytes, place: int) -> tuple[int, int]:
    """The number there, seven bits a byte, and where it ends."""
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= byte % CONTINUES << shift
        if byte < CONTINUES:
            return number, place
        shift += 7


if __name__ == "__main__":
    target = DdtraceTarget(*sys.argv[1:])
    serve(target, sys.stdin, sys.stdout)
    target.close()
