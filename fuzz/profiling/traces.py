"""A trace as a program to profile: the site of an allocation is its kind of action.

The trace is replayed on its own target with all oracles, like `gcfuzz replay`, and the heap of the
target has a recorder. With `--period` the trace's own switches of sampling are left out, and
sampling is enabled before the first action. Invariant: the recorder changes no action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import ClassVar

import attrs

from fuzz.oracles.transparency import TransparencyOracle
from fuzz.plain import path_argument, shell_words
from fuzz.problems import BadInputError
from fuzz.protocol.actions import NAMES, EnableSampling
from fuzz.protocol.trace import Trace
from fuzz.replay import Step, replay_steps
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES
from fuzz.targets.references.collector import ReferenceTarget
from gcmodel import Configuration, Events, Heap, Parts, Report
from gcmodel.memory.events import ContextSample
from gcmodel.profiling.cost import Cost
from gcmodel.profiling.following import followed_heap
from gcmodel.profiling.profile import Frame, ProfileHeader
from gcmodel.profiling.recorder import Listener, Recorder
from gcmodel.profiling.recording import RecordingWriter
from gcmodel.profiling.stacks import StackTable

MakeHeap = Callable[[Configuration, Parts], Heap]


class HeardRecorder(Recorder):
    """A recorder of a heap whose target takes the events, too."""

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
    """A trace from a file."""

    name: str
    trace: Trace
    is_quiet: ClassVar = True

    def cost(self) -> Cost:
        bytes_by_size: Counter[int] = Counter()
        collections = 0
        for step in self._steps(self._target().make_heap):
            size_bytes = step.observation.size or 0
            bytes_by_size[size_bytes] += size_bytes
            collections += step.observation.minors
        return Cost(
            seconds=0,  # It would include the oracles.
            allocated_bytes=bytes_by_size.total(),
            collections=collections,
            bytes_by_size=dict(bytes_by_size),
        )

    def header(self) -> ProfileHeader:
        contract = self._target().start(self.trace.header.config)
        return ProfileHeader.of_now(
            self.name,
            period_bytes=min(self._periods_bytes),
            is_random=contract.sampling.distances != "period",
            nursery_bytes=contract.nursery_bytes,
        )

    def record(self, writer: RecordingWriter, listener: Listener) -> None:
        table, rule = StackTable(writer.line), ""
        root = table.number(None, Frame(self.name, "", 0, 0))
        # The stack of an allocation is the kind of the action, below the trace.
        recorder = HeardRecorder(
            writer, lambda: table.number(root, Frame(rule, "", 0, 0)), listener
        )
        # The second runs of some oracles are not recorded.
        own = self._target().make_heap
        followed = partial(followed_heap, recorder, make=own)
        makers: Iterator[MakeHeap] = chain([followed], repeat(own))

        def make_heap(configuration: Configuration, parts: Parts) -> Heap:
            return next(makers)(configuration, parts)

        steps = self._steps(make_heap)
        for action in self.trace.actions:
            rule = NAMES[type(action)]
            next(steps)
        recorder.end()

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
                f"{self.name}: its target is {base}, which has no heap that can be profiled"
            )
        # The weight of such a sample depends on the size of the object.
        if target.start({}).sampling.samples_per_allocation == "one":
            raise BadInputError(
                f"{self.name}: its target is {base}, which samples an object once, however large "
                "it is, so its samples have no weight here; name a trace of another target"
            )
        if not self._periods_bytes:
            raise BadInputError(f"{self.name}: never enables sampling; give a --period")
        return target

    def _steps(self, make_heap: MakeHeap) -> Iterator[Step]:
        target = self._target()
        target.make_heap = make_heap
        for step in replay_steps(target, self.trace, self.name):
            if step.failure is not None:
                path = path_argument(Path(self.name))
                command = shell_words(["gcfuzz", "explain", path, "--target", target.name])
                raise BadInputError(
                    f"{self.name}: fails on {target.name} in action {step.number}; "
                    f"`{command}` shows it"
                )
            yield step


def sampled_every(trace: Trace, period_bytes: int) -> Trace:
    """The same actions, sampled from the first one on with another period."""
    instead = map(TransparencyOracle().instead, trace.actions)
    actions = EnableSampling(period_bytes), *(each for each in instead if each is not None)
    return attrs.evolve(trace, actions=actions, recorded=None)
