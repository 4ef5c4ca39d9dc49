"""The target `reference-dotnet`: the collector with several threads, as .NET samples them.

Each thread allocates in contexts of its own and is sampled on its own; an object is sampled once
at most, and a sample names the byte that was drawn. (Nasarre and Falk, Randomized Allocation
Sampling.)
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fuzz.contract import Contract, Range, Setting
from fuzz.observation import Observation
from fuzz.targets.reference import OBSERVES, SETTINGS, ReferenceTarget
from gcmodel import Configuration

DOTNET_SETTINGS = (
    *(setting for setting in SETTINGS if setting.name != "pin_while_sampling"),
    Setting("context_bytes", 64, Range(8, 8192, 8), at_most="nursery_bytes"),
    Setting("threads", 2, Range(1, 4)),
    Setting("sampler_seed", 0, Range(0, 2**27)),
)
WITHOUT = ("pin", "unpin", "set_callback", "add_memory_pressure", "fork")
"""What this collector is not asked for: what pins and what collects, beside contexts, is PyPy's."""
UNOBSERVED = ("at", "free", "limit", "top", "sample_point")
"""There is one of these a thread, and no promise where."""


class DotnetTarget(ReferenceTarget):
    """See ReferenceTarget. The seeds of the threads follow each other."""

    settings = DOTNET_SETTINGS

    def configuration_of(self, chosen: Mapping[str, int]) -> Configuration:
        """See ReferenceTarget."""
        configuration = super().configuration_of({**chosen, "pin_while_sampling": 0})
        return attrs.evolve(
            configuration, context_bytes=chosen["context_bytes"], sampler_seeds=_seeds(chosen)
        )

    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        """See ReferenceTarget."""
        contract = super().contract_of({**chosen, "pin_while_sampling": 0})
        rule = attrs.evolve(
            contract.sampling,
            surplus="dropped",
            samples_per_allocation="one",
            context_bytes=chosen["context_bytes"],
            distances="dotnet",
            seeds=_seeds(chosen),
        )
        observes = tuple(field for field in OBSERVES if field not in UNOBSERVED)
        return attrs.evolve(
            contract.without(WITHOUT), sampling=rule, observes=(*observes, "offsets"), pins_max=0
        )

    def _tell_events(self, observation: Observation) -> None:
        super()._tell_events(observation)
        observation.offsets = [sample.offset for sample in self._heap.events.take_samples()]

    def _tell_pointers(self, observation: Observation) -> None:
        observation.state = self._heap.major.state


def _seeds(chosen: Mapping[str, int]) -> tuple[int, ...]:
    first = chosen["sampler_seed"]
    return tuple(range(first, first + chosen["threads"]))
