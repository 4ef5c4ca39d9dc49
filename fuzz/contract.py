"""The contract: what a target promises, as plain data.

It is all that the rules and the oracles know of a target. A target states it in answer to each
header, since what an allocation costs may depend on the configuration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import attrs


@attrs.frozen
class Range:
    """Whole numbers from `minimum` to `maximum`, both included, that are multiples."""

    minimum: int
    maximum: int
    multiple: int = 1

    def __contains__(self, number: int) -> bool:
        return self.minimum <= number <= self.maximum and number % self.multiple == 0

    def nearest(self, number: int) -> int:
        """The greatest member up to `number`, or else the least."""
        least = -(-self.minimum // self.multiple) * self.multiple
        number = min(number, self.maximum)
        return max(number - number % self.multiple, least)

    def __str__(self) -> str:
        multiples = f"a multiple of {self.multiple} " if self.multiple > 1 else ""
        return f"{multiples}from {self.minimum} to {self.maximum}"


@attrs.frozen
class Setting:
    """A key that a header's `config` may have. `choices`, if any, are all its legal values."""

    name: str
    default: int
    range: Range
    choices: tuple[int, ...] = ()
    at_most: str | None = None
    """The setting whose value this one must not exceed."""


@attrs.frozen
class KindLayout:
    """What an object of one kind costs: `fixed_bytes`, and `item_bytes` for each of its length."""

    type_index: int
    """The number by which reports and graphs name the kind."""
    fixed_bytes: int
    item_bytes: int = 0


@attrs.frozen
class Layout:
    """What each allocation costs."""

    kinds: Mapping[str, KindLayout]
    large_object_bytes: int
    """An object of this unrounded size or more lies outside the nursery."""
    word_bytes: int
    """An object in the nursery is rounded up to a multiple; one outside counts unrounded."""
    object_bytes_max: int
    """No object may be larger, unrounded."""

    def cost(self, kind: str, length: int, nonmovable: bool) -> tuple[int, bool]:
        """The bytes that the sampler counts for an object, and whether it lies outside."""
        layout = self.kinds[kind]
        raw_bytes = layout.fixed_bytes + layout.item_bytes * length
        if nonmovable or raw_bytes >= self.large_object_bytes:
            return raw_bytes, True
        return -(-raw_bytes // self.word_bytes) * self.word_bytes, False


@attrs.frozen
class SamplingRule:
    """When an allocation is sampled. The first distance is like every further one."""

    period_bytes: Range
    """The legal periods."""
    crosses: Literal["beyond", "at"] = "beyond"
    """A sample is due when the bytes since the last one exceed the period, or reach it."""
    surplus: Literal["carried", "dropped"] = "carried"
    """What happens to the bytes beyond the period when a sample was taken."""
    samples_per_allocation: Literal["all", "one"] = "all"
    """Whether an allocation that spans several periods is sampled for each of them."""
    disabling: tuple[Literal["drop", "report"], ...] = ("drop", "report")
    """The supported ways of disabling: drop the pending samples, or collect and report them."""
    distances: Literal["period", "unstated"] = "period"
    """How far samples are apart: the period, or as the target likes, which only invariance
    judges."""
    pinning: Literal["excluded", "allowed"] = "excluded"
    """Whether objects may be pinned while sampling is on. If excluded, neither begins beside the
    other (PyPy)."""


NO_SAMPLING = SamplingRule(period_bytes=Range(1, 0))
"""The rule of a target that does not sample: no period is legal."""


@attrs.frozen
class Prebuilt:
    """An immortal object that exists from the start, all its references null."""

    kind: Literal["node", "array"]
    length: int = 0


@attrs.frozen
class Contract:
    """All that a target promises under one configuration."""

    nursery_bytes: int
    layout: Layout
    actions: tuple[str, ...]
    """The names of the actions that it carries out."""
    observes: tuple[str, ...]
    """The fields of an observation that it fills, where they apply."""
    sampling: SamplingRule = NO_SAMPLING
    settings: tuple[Setting, ...] = ()
    prebuilt: tuple[Prebuilt, ...] = ()
    pins_max: int = 0
    """How many objects may be pinned at once."""

    def without(self, actions: Collection[str]) -> Contract:
        """The same contract, but for these actions."""
        if not actions:
            return self
        left = tuple(action for action in self.actions if action not in actions)
        return attrs.evolve(self, actions=left)


def problem_of_configuration(
    configuration: Mapping[str, int], settings: tuple[Setting, ...]
) -> str | None:
    """What is wrong with a header's `config`, in a sentence; None if it is legal."""
    known = {setting.name: setting for setting in settings}
    for name, value in configuration.items():
        if name not in known:
            return f"config has no setting {name!r}; it has {', '.join(known)}"
        setting = known[name]
        if setting.choices and value not in setting.choices:
            return f"{name} is {value}; it must be one of {', '.join(map(str, setting.choices))}"
        if value not in setting.range:
            return f"{name} is {value}; it must be {setting.range}"
        if setting.at_most:
            most = configuration.get(setting.at_most, known[setting.at_most].default)
            if value > most:
                return f"{name} is {value}; it must be at most {setting.at_most}, {most}"
    return None
