"""The targets `reference-geometric` and `reference-random`: sampling at random distances.

The distances are geometric with the period as mean, one for each sample, as the authors of PyPy's
sampling plan. The contract of `reference-geometric` states their generator, so that each is
predicted. That of `reference-random` does not, as for a generator without a known seed: only the
number of samples is judged.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from typing_extensions import override

from fuzz.protocol.contract import Range, SamplingRule, Setting
from fuzz.targets.references.collector import SETTINGS, ReferenceTarget
from gcmodel import Configuration

SAMPLER_SEED = Setting("sampler_seed", 0, Range(0, 2**32))


class GeometricTarget(ReferenceTarget):
    """With a contract that states the generator of the distances and its seed."""

    settings = (*SETTINGS, SAMPLER_SEED)

    @override
    def configuration_of(self, chosen: Mapping[str, int]) -> Configuration:
        configuration = super().configuration_of(chosen)
        seeds = (chosen["sampler_seed"],)
        return attrs.evolve(configuration, random_periods=True, sampler_seeds=seeds)

    @override
    def rule_of(self, chosen: Mapping[str, int]) -> SamplingRule:
        seeds = (chosen["sampler_seed"],)
        return attrs.evolve(super().rule_of(chosen), distances="geometric", seeds=seeds)


class RandomTarget(GeometricTarget):
    """The same, with a contract that does not state how distances are drawn."""

    @override
    def rule_of(self, chosen: Mapping[str, int]) -> SamplingRule:
        return attrs.evolve(super().rule_of(chosen), distances="random", seeds=(0,))
