"""The arguments of `gcfuzz profile`: what is profiled, and how it is sampled.

Invariant: an option without effect is an error, and never ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import attrs

from fuzz.problems import BadInputError
from fuzz.profiling.outputs import is_recording
from fuzz.profiling.programs import ProgramSource, main_of
from fuzz.profiling.traces import TraceSource, sampled_every
from fuzz.protocol import trace as traces
from gcmodel import ConfigurationError
from gcmodel.memory.configuration import check_period
from gcmodel.workloads import WORKLOADS

PERIOD_BYTES = 4096
SEED = 1
RECORDING_BYTES = 100 * 2**20
"""Two million samples. Exports need thirty times as much memory as the recording."""
TIME_PERIOD_US_MIN, TIME_PERIOD_US_MAX = 100, 3_600_000_000
MICROSECONDS_PER_SECOND = 1e6
SCRIPT_SUFFIX = ".py"
Profiled: TypeAlias = ProgramSource | TraceSource
"""What can be profiled. It allocates the same in each run."""


@attrs.frozen(kw_only=True)
class RecordingOptions:
    """The options of a recording; None, or False, if not given."""

    period_bytes: int | None
    fixed: bool
    seed: int | None
    time_period_seconds: float | None
    repeat: int | None
    max_bytes: int | None

    @property
    def recording_bytes(self) -> int:
        """The size limit of the recording."""
        return RECORDING_BYTES if self.max_bytes is None else self.max_bytes

    @property
    def given(self) -> list[str]:
        """The names of the given options."""
        values = attrs.asdict(self).items()
        return [_NAMES[name] for name, value in values if value is not None and value is not False]


_NAMES = {
    "period_bytes": "--period",
    "fixed": "--fixed",
    "seed": "--seed",
    "time_period_seconds": "--time-period",
    "repeat": "--repeat",
    "max_bytes": "--max-size",
}


def to_profile(what: Path, options: RecordingOptions) -> Profiled | None:
    """What to run, or None for a recording. Raises BadInputError."""
    _check(options)
    if str(what) in WORKLOADS:
        return _program(what, options)
    if not what.is_file():
        kind = "a folder"
        if not what.is_dir():
            kind = f"not a workload ({', '.join(WORKLOADS)}), and not a file"
        raise BadInputError(f"{what}: is {kind}: name a script, a trace or a recording")
    if what.suffix == SCRIPT_SUFFIX:
        return _program(what, options)
    if is_recording(what):
        _refuse(options.given, f"{what} is a recording already; nothing is recorded")
        return None
    with what.open("rb") as file:
        if file.read(1) not in {b"{", b""}:
            raise BadInputError(
                f"{what}: is neither a trace nor a recording, and the name of a script ends in "
                f"{SCRIPT_SUFFIX}"
            )
    others = [name for name in options.given if name not in {"--period", "--max-size"}]
    _refuse(others, f"{what} is a trace, and not a program")
    trace = traces.read(what)
    if options.period_bytes is not None:
        trace = sampled_every(trace, options.period_bytes)
    return TraceSource(str(what), trace)


def _program(what: Path, options: RecordingOptions) -> ProgramSource:
    workload = WORKLOADS.get(str(what))
    seconds = options.time_period_seconds
    return ProgramSource(
        name=str(what) if workload else what.name,
        program=workload or main_of(what),
        script=None if workload else what,
        repeat=options.repeat or 1,
        is_random=not options.fixed,
        seed=SEED if options.seed is None else options.seed,
        period_bytes=options.period_bytes or PERIOD_BYTES,
        time_period_us=None if seconds is None else round(seconds * MICROSECONDS_PER_SECOND),
    )


def _check(options: RecordingOptions) -> None:
    if options.period_bytes is not None:
        try:
            check_period(options.period_bytes)
        except ConfigurationError as problem:
            raise BadInputError(f"--period: {problem}") from problem
    if options.fixed and options.seed is not None:
        raise BadInputError("--seed is for random distances, and --fixed has none; leave one out")
    us = (options.time_period_seconds or 1.0) * MICROSECONDS_PER_SECOND
    if not TIME_PERIOD_US_MIN <= us <= TIME_PERIOD_US_MAX:
        raise BadInputError(f"--time-period is {us / 1000:g} ms; it must be from 0.1ms to 1h")


def _refuse(names: list[str], why: str) -> None:
    if names:
        raise BadInputError(f"{why}; leave out {', '.join(names)}")
