"""The targets `reference-jemalloc`, `-tcmalloc` and `-gperftools`: blocks that the mutator frees.

Their contracts are written in figures, as in `collector`. Sampling is on from the start, as in
these allocators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import attrs

from fuzz.protocol import actions
from fuzz.protocol.actions import Action, requested_bytes
from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting, chosen_settings
from fuzz.protocol.layout import Layout, layout_of_blocks
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget
from fuzz.protocol.written import contents_of, row_of
from gcmodel import HeapError
from gcmodel.blocks.block_heap import GPERFTOOLS, JEMALLOC, TCMALLOC, Block, BlockParts

BLOCK_BYTES_MAX = 2**20
ACTIONS = ("malloc", "calloc", "realloc", "free", "set_period", "read_profile", "check_contents")
OBSERVES = ("samples", "size", "profile", "contents")
PERIODS = Range(1, 2**30)
POWERS_OF_TWO = tuple(2**lg for lg in range(21))
THREADS = (Setting("threads", 2, Range(1, 4)), Setting("sampler_seed", 0, Range(0, 2**32)))
JEMALLOC_CLASSES = (
    8,
    *range(16, 129, 16),
    *(2**lg + quarters * 2 ** (lg - 2) for lg in range(7, 20) for quarters in range(1, 5)),
)
"""Four for each doubling, up to the largest block."""
PAGE_BYTES = 8192
GPERFTOOLS_CLASSES = (
    8,
    *range(16, 129, 16),
    *(2**lg + eighths * 2 ** (lg - 3) for lg in range(7, 17) for eighths in range(1, 9)),
    *range(2**17 + PAGE_BYTES, 2**18 + 1, PAGE_BYTES),
)
"""Eight for each doubling, but at most a page apart, up to 256 KiB."""


class BlocksTarget(FullTarget):
    """gcmodel's allocator, made of `parts`."""

    PARTS: ClassVar[BlockParts]
    settings: tuple[Setting, ...]
    layout: Layout
    rule: SamplingRule
    """The rule of sampling, without the first period and the seeds, which are settings."""
    carries_out: tuple[str, ...] = ACTIONS
    observes: tuple[str, ...] = OBSERVES

    def __init__(self, name: str, parts: BlockParts, without: Collection[str] = ()) -> None:
        self.name = name
        self._parts = parts
        self._without = without
        self._carry_out: dict[type[Action], Callable[[Any], Any]] = {
            actions.Malloc: lambda each: self._allocated(
                self._heap.malloc(each.size_bytes), each.size_bytes
            ),
            actions.Calloc: lambda each: self._allocated(
                self._heap.calloc(each.count, each.size_bytes), requested_bytes(each)
            ),
            actions.Realloc: self._realloc,
            actions.Free: self._free,
            actions.SetPeriod: lambda each: self._heap.set_period(each.period_bytes),
            actions.PauseSampling: lambda _: self._heap.pause_sampling(),
            actions.ResumeSampling: lambda _: self._heap.resume_sampling(),
            actions.ReadProfile: lambda _: [*self._heap.profile()],
            actions.CheckContents: lambda _: [row_of(each.contents) for each in self._roots],
        }
        self._heap = parts.heap(parts, 1, (0,))
        self._roots: list[Block] = []
        self._numbers: list[int] = []
        self._blocks = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        chosen = chosen_settings(configuration, self.settings)
        first = chosen["sampler_seed"]
        seeds = tuple(range(first, first + chosen["threads"]))
        period_bytes = chosen["period_bytes"]
        self._heap = self._parts.heap(self._parts, period_bytes, seeds)
        self._roots, self._numbers, self._blocks = [], [], 0
        return Contract(
            nursery_bytes=0,
            layout=self.layout,
            sampling=attrs.evolve(self.rule, seeds=seeds, initial_period_bytes=period_bytes),
            settings=self.settings,
            actions=self.carries_out,
            observes=self.observes,
            contents="bytes",
        ).without(self._without)

    def perform(self, action: Action) -> Observation:
        observation = Observation()
        self._heap.thread = action.thread
        try:
            result = self._carry_out[type(action)](action)
            answer = "size" if action.allocates else action.answer
            if answer:
                setattr(observation, answer, result)
        except HeapError as problem:
            observation.error = f"{type(problem).__name__}: {problem}"
        except Exception as problem:  # noqa: BLE001 - of the allocator under test
            observation.error = f"crash {type(problem).__name__}: {problem}"
        hits = self._heap.hits
        observation.samples = len(hits)
        observation.weights = [hit.weight_bytes for hit in hits if hit.weight_bytes is not None]
        hits.clear()
        return observation

    def _allocated(self, block: Block, size_bytes: int) -> int:
        self._blocks += 1
        self._roots.append(block)
        self._numbers.append(self._blocks)
        block.contents = contents_of(self._blocks, size_bytes)
        return block.usable_bytes

    def _free(self, action: actions.Free) -> None:
        del self._numbers[action.root]
        self._heap.free(self._roots.pop(action.root))

    def _realloc(self, action: actions.Realloc) -> int:
        """Resize the block, and write the bytes that it has got."""
        root, size_bytes = action.root, action.size_bytes
        # What the heap must keep is not written again: else no oracle would see that it was lost.
        kept_bytes = min(len(self._roots[root].contents), size_bytes)
        resized = self._heap.realloc(self._roots[root], size_bytes)
        self._roots[root] = resized
        resized.contents += contents_of(self._numbers[root], size_bytes)[kept_bytes:]
        return resized.usable_bytes


class JemallocTarget(BlocksTarget):
    """As jemalloc 5.3.0: it counts usable sizes, even while paused."""

    PARTS = JEMALLOC
    settings = (Setting("period_bytes", 4096, Range(1, 2**20), choices=POWERS_OF_TWO), *THREADS)
    layout = layout_of_blocks(BLOCK_BYTES_MAX, JEMALLOC_CLASSES)
    rule = SamplingRule(
        period_bytes=Range(1, 2**20),
        periods=POWERS_OF_TWO,
        crosses="at",
        surplus="dropped",
        samples_per_allocation="one",
        paused="counting",
        setting_period="drops",
        distances="jemalloc",
        estimates="probability",
    )
    carries_out = (*ACTIONS, "pause_sampling", "resume_sampling")


class TcmallocTarget(BlocksTarget):
    """As google/tcmalloc: it counts the requested bytes plus one, and samples have weights."""

    PARTS = TCMALLOC
    settings = (Setting("period_bytes", 4096, PERIODS), *THREADS)
    layout = layout_of_blocks(BLOCK_BYTES_MAX, GPERFTOOLS_CLASSES, PAGE_BYTES)
    rule = SamplingRule(
        period_bytes=PERIODS,
        counts="requested_plus_one",
        surplus="dropped",
        samples_per_allocation="one",
        realloc="when_moved",
        weights="passed",
        distances="tcmalloc",
        estimates="weight",
    )
    observes = (*OBSERVES, "weights")


class GperftoolsTarget(BlocksTarget):
    """As gperftools 2.10 is documented: it counts the sizes of classes."""

    PARTS = GPERFTOOLS
    settings = TcmallocTarget.settings
    layout = TcmallocTarget.layout
    rule = attrs.evolve(
        TcmallocTarget.rule,
        counts="class_or_requested",
        weights="none",
        distances="gperftools",
        estimates="probability",
    )
