"""A trace as something to profile: the site of an allocation is the rule that drew it.

The trace is replayed on its own target with all oracles, as `gcfuzz replay` does, and the target's
heap has a recorder. A trace samples as it says itself; with a period of one's own, sampling is left
out of it and enabled before its first action. Invariant: the recorder changes no action, so what is
pending at the end of the trace is not judged.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from fuzz.oracles.transparency import TransparencyOracle
from fuzz.problems import BadInputError
from fuzz.profiling.profiled import Listener, Recorded
from fuzz.protocol.actions import NAMES, EnableSampling
from fuzz.protocol.trace import Trace
from fuzz.run import Step, replay_steps
from fuzz.targets import make_target
from fuzz.targets.references.collector import ReferenceTarget
from fuzz.targets.references.kin import REFERENCES
from gcmodel import Events, Report
from gcmodel.memory.events import ContextSample
from gcmodel.profiling.cost import Cost
from gcmodel.profiling.profile import Frame, ProfileHeader
from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.recording import RecordingWriter
from gcmodel.profiling.stacks import StackTable


class RuleStacks:
    """The stack of an allocation is its rule alone, below the trace."""

    def __init__(self, writer: RecordingWriter, program: str) -> None:
        self.rule = ""
        self._table = StackTable(writer)
        self._root = self._table.number(None, Frame(program, "", 0, 0))

    def of_allocation(self) -> int:
        """The number of the stack of the rule that acts."""
        return self._table.number(self._root, Frame(self.rule, "", 0, 0))


class HeardRecorder(Recorder):
    """A recorder of a heap whose target wants to take the events, too."""

    def sample(self, sample: ContextSample | None = None) -> None:
        Events.sample(self, sample)

    def minor_collection(self) -> None:
        Events.minor_collection(self)
        super().minor_collection()

    def report(self, report: Report) -> None:
        Events.report(self, report)
        super().report(report)


@attrs.frozen
class TraceSource:
    """A trace that was read from a file."""

    name: str
    trace: Trace
    time_period_us: int | None = attrs.field(default=None, init=False)
    is_quiet: bool = attrs.field(default=True, init=False)

    @property
    def period_bytes(self) -> int:
        return min(self._periods_bytes)

    def cost(self) -> Cost:
        bytes_by_size: Counter[int] = Counter()
        collections = 0
        for step in self._steps(Events):
            size_bytes = step.observation.size or 0
            bytes_by_size[size_bytes] += size_bytes
            collections += step.observation.minors
        return Cost(
            seconds=0,  # It would be that of the oracles.
            allocated_bytes=bytes_by_size.total(),
            collections=collections,
            bytes_by_size=dict(bytes_by_size),
        )

    def record(self, path: Path, max_bytes: int, listener: Listener) -> Recorded:
        contract = self._target().start(self.trace.header.config)
        header = ProfileHeader.of_now(
            self.name,
            period_bytes=self.period_bytes,
            is_random=contract.sampling.distances != "period",
            nursery_bytes=contract.nursery_bytes,
        )
        writer = RecordingWriter(path, header, max_bytes)
        stacks = RuleStacks(writer, self.name)
        recorder = HeardRecorder(writer, stacks.of_allocation, lambda: listener(recorder))
        # What some oracles run once more at the end is not recorded.
        hears = iter([recorder])
        steps = self._steps(lambda: next(hears, None) or Events())
        began = time.perf_counter()
        with writer:
            for action in self.trace.actions:
                stacks.rule = NAMES[type(action)]
                next(steps)
            seconds = time.perf_counter() - began
            recorder.end()
        return Recorded(seconds, writer.stopped_by)

    @property
    def _periods_bytes(self) -> list[int]:
        enabled = (each for each in self.trace.actions if isinstance(each, EnableSampling))
        return [each.period_bytes for each in enabled]

    def _target(self) -> ReferenceTarget:
        """The trace's own target. Raises BadInputError unless it can be profiled there."""
        base = self.trace.header.target.partition("+")[0]
        target = make_target(base) if base in REFERENCES else None
        if not isinstance(target, ReferenceTarget):
            raise BadInputError(
                f"{self.name}: is of {base}, which has no heap that can be profiled"
            )
        # Such a sample stands for as many bytes as the object's chance to be sampled says.
        if target.start({}).sampling.samples_per_allocation == "one":
            raise BadInputError(
                f"{self.name}: is of {base}, which samples an object once however large it is, "
                "so its samples have no weight here; name a trace of another target"
            )
        if not self._periods_bytes:
            raise BadInputError(f"{self.name}: never enables sampling; give a --period")
        return target

    def _steps(self, make_events: Callable[[], Events]) -> Iterator[Step]:
        target = self._target()
        target.make_events = make_events
        for step in replay_steps(target, self.trace, self.name):
            if step.failure is not None:
                raise BadInputError(
                    f"{self.name}: fails on {target.name} in action {step.number}; "
                    f"`gcfuzz explain {self.name} --target {target.name}` shows it"
                )
            yield step


def sampled_every(trace: Trace, period_bytes: int) -> Trace:
    """The same actions, sampled from the first one on with a period of one's own."""
    instead = map(TransparencyOracle().instead, trace.actions)
    actions = EnableSampling(period_bytes), *(each for each in instead if each is not None)
    return attrs.evolve(trace, actions=actions, recorded=None)
