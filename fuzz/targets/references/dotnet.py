"""The targets `reference-dotnet` and `-document`: the collector with several threads, as in .NET.

Each thread has its own allocation contexts and its own sampler. An object is sampled at most once,
and a sample names the byte that was drawn. `reference-dotnet` follows what .NET 10 ships, the other
the design document. (Nasarre and Falk, Randomized Allocation Sampling.)
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import attrs
from typing_extensions import override

from fuzz.protocol.contract import Contract, Promise, Range, SamplingRule, Setting
from fuzz.protocol.counting import Contexts
from fuzz.protocol.observation import Observation
from fuzz.targets.references.collector import SETTINGS, ReferenceTarget
from gcmodel import CONTEXTS, SHIPPED_CONTEXTS, Configuration

DOTNET_SETTINGS = (
    *(setting for setting in SETTINGS if setting.name != "pin_while_sampling"),
    Setting("context_bytes", 64, Range(8, 8192, 8), at_most="nursery_bytes"),
    Setting("threads", 2, Range(1, 4)),
    Setting("sampler_seed", 0, Range(0, 2**27)),
)
ACTIONS = (
    *("allocate_node", "allocate_string", "allocate_array", "allocate_weakref"),
    *("allocate_old_string", "load_prebuilt", "free", "read", "read_number", "read_weakref"),
    *("write", "write_number", "copy_array", "take_identity", "collect_minor", "collect_progress"),
    *("collect_step", "collect_full", "enable_sampling", "disable_sampling", "pause_sampling"),
    *("resume_sampling", "check_heap"),
)
"""Pinning, forks, callbacks and memory pressure are PyPy's."""
OBSERVES = (
    *("samples", "minors", "order", "size", "outside", "value", "alive", "identity"),
    *("reports", "graph", "state", "memory", "offsets"),
)
"""Each thread has its own pointers in the nursery, and no place is promised."""
PROMISES: tuple[Promise, ...] = ("collections", "memory", "progress")


class DotnetDocumentTarget(ReferenceTarget):
    """By the design document. The threads have consecutive seeds."""

    PARTS = CONTEXTS
    settings = DOTNET_SETTINGS

    @override
    def configuration_of(self, chosen: Mapping[str, int]) -> Configuration:
        return attrs.evolve(super().configuration_of(chosen), sampler_seeds=self._seeds(chosen))

    @override
    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().contract_of({**chosen, "pin_while_sampling": 0})
        return attrs.evolve(
            contract, actions=ACTIONS, observes=OBSERVES, pins_max=0, promises=PROMISES
        )

    @override
    def rule_of(self, chosen: Mapping[str, int]) -> SamplingRule:
        return attrs.evolve(
            super().rule_of(chosen),
            surplus="dropped",
            samples_per_allocation="one",
            counting=Contexts(chosen["context_bytes"]),
            distances="dotnet_document",
            seeds=self._seeds(chosen),
        )

    def _seeds(self, chosen: Mapping[str, int]) -> tuple[int, ...]:
        first = chosen["sampler_seed"]
        return tuple(range(first, first + chosen["threads"]))

    def _add_events(self, observation: Observation) -> None:
        super()._add_events(observation)
        observation.offsets = [sample.offset for sample in self._heap.events.take_samples()]

    def _add_pointers(self, observation: Observation) -> None:
        observation.state = self._heap.major.state


class DotnetTarget(DotnetDocumentTarget):
    """What ships. Each thread's seed is random."""

    PARTS = SHIPPED_CONTEXTS

    @override
    def rule_of(self, chosen: Mapping[str, int]) -> SamplingRule:
        return attrs.evolve(
            super().rule_of(chosen),
            counting=Contexts(chosen["context_bytes"], outside="in_turn"),
            enabling="keeps",
            distances="dotnet",
        )

    @override
    def _seeds(self, chosen: Mapping[str, int]) -> tuple[int, ...]:
        random = Random(chosen["sampler_seed"])  # noqa: S311 - no secret
        return tuple(random.getrandbits(64) for _ in range(chosen["threads"]))
