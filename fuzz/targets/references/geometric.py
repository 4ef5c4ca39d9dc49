"""The targets `reference-geometric` and `reference-random`: sampling at random distances.

The distances are geometric with the period as their mean and drawn anew at each sample, which the
authors of PyPy's sampling plan. In the one it is stated where they come from, so that every one
can be foretold. In the other it is not, as with a generator that nobody can seed, and what is left
to judge is whether samples are as many as chance allows.
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
    """Its contract states the generator of the distances and its seed."""

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
    """The same, with a contract that does not say how distances are drawn."""

    @override
    def rule_of(self, chosen: Mapping[str, int]) -> SamplingRule:
        return attrs.evolve(super().rule_of(chosen), distances="random", seeds=(0,))
