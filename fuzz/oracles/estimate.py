"""The estimate oracle: what samples stand for, and whether chance allows their number.

A profile adds up what the sampled living blocks stand for: first unbias each sample, then sum. The
samples predict it, except that each may be rounded to whole objects and bytes.

If distances are random, only the number of samples can be judged, for each kind of object, for each
size, and for the members of groups. Each byte is sampled independently of all others, so s samples
where m are expected have a probability of at most exp(-(s ln(s/m) - s + m)), to either side
(Chernoff). If each of n allocations is sampled at most once, it is exp(-(s ln(s/m) + f ln(f/(n -
m)))). Here f = n - s of them are not: a large object without a sample counts as much as many small
ones. The oracle reports what is less probable than exp(-40). With 10^12 comparisons, it would blame
one correct target in a hundred thousand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.oracles.stands_for import STANDS_FOR, CountedBlock, dumped, one_over_chance
from fuzz.protocol.actions import Action, AllocateGroup, ReadProfile, Realloc, SetPeriod
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

BEGINNING = ("starts", "sets period")
"""What begins distances of another period."""
NAMES = "objects", "bytes"
ROUNDING_SHARE = 1e-6
"""The error of a sum of small probabilities 1 - exp(-x), as a share of the sum."""
IMPROBABLE = 40.0
"""How improbable a number of samples may be, as the negative logarithm of its bound."""


class Chance(NamedTuple):
    """The samples of allocations that are alike, and how many chance is expected to take."""

    samples: int
    expected: float
    missed: int = 0
    """Allocations without a sample, if an allocation takes at most one."""
    expected_missed: float = 0

    def plus(self, other: Chance) -> Chance:
        """Those of both."""
        return Chance(
            self.samples + other.samples,
            self.expected + other.expected,
            self.missed + other.missed,
            self.expected_missed + other.expected_missed,
        )


class EstimateOracle(Oracle):
    """Judges samples together. The sampling oracle has judged each of them as far as it can."""

    name = "estimate"
    judges = ("profile", "samples", "samples_by_member")
    relies_on = (SamplingOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._rule = contract.sampling
        # The objects and bytes that the sample of a block stands for.
        self._stands_for: dict[ShadowObject, tuple[float, float]] = {}
        # The same for all sampled blocks since the samples were dropped.
        self._of_all: tuple[float, float] = 0, 0
        self._set_period_bytes = contract.sampling.initial_period_bytes
        # By what the allocations have in common.
        self._chances: defaultdict[str, Chance] = defaultdict(lambda: Chance(0, 0))
        groups = contract.groups
        self._names_containing = groups is not None and groups.sampled == "containing"
        # Blocks that are freed only together with a sampled block.
        self._beside: defaultdict[ShadowObject, list[ShadowObject]] = defaultdict(list)
        # False after the period was set, since the present distance is of the period before.
        self._is_of_one_period = True

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        rule = contract.sampling
        return rule.distances == "random" or rule.estimates != "none"

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        if isinstance(action, ReadProfile):
            self._check_profile(observation, sampling.period_bytes)
            return
        if not (action.allocates or action.sampling in BEGINNING or isinstance(action, Realloc)):
            return
        if self._rule.estimates != "none":
            self._follow_blocks(action, sampling)
        if self._rule.distances == "random":
            self._check_chance(action, observation, sampling)

    # Profiles.

    def _follow_blocks(self, action: Action, sampling: SamplingState) -> None:
        if isinstance(action, SetPeriod):
            self._set_period_bytes = action.period_bytes
            if self._rule.setting_period == "drops":
                self._stands_for.clear()
                self._of_all = 0, 0
        counted_bytes = sampling.counted_bytes
        if sampling.beside is not None:
            self._beside[sampling.beside].append(self._shadow.placed)
        if counted_bytes is None:
            return
        block = self._shadow.placed
        self._stands_for.pop(block, None)
        for hit in sampling.hits:
            sampled = CountedBlock(
                *(counted_bytes, block.size_bytes, hit.weight, sampling.period_bytes)
            )
            stands_for = STANDS_FOR[self._rule.estimates](sampled)
            self._stands_for[block] = stands_for
            self._of_all = _sums([self._of_all, stands_for])

    def _check_profile(self, observation: Observation, period_bytes: int | None) -> None:
        roots = {*self._shadow.roots}
        alive = [
            stands_for
            for block, stands_for in self._stands_for.items()
            if block in roots or not roots.isdisjoint(self._beside.get(block, ()))
        ]
        if self._rule.estimates == "present_probability" and (period_bytes or 1) > 1:
            scales = [one_over_chance(size, period_bytes or 1) for _, size in alive]
            alive = [(scale, scale * size) for scale, (_, size) in zip(scales, alive, strict=True)]
        expected = {"living": [*_sums(alive)]}
        rounding = len(alive) + 1
        if self._rule.estimates == "dumped":
            of_all = {"living": _sums(alive), "all": self._of_all}
            expected = {
                whose: dumped(*sums, self._set_period_bytes) for whose, sums in of_all.items()
            }
            rounding = 1
        got = observation.profile
        if got is None or len(got) != 2 * len(expected):
            raise self.mismatch("profile", "objects and bytes", got, "asked for")
        for index, (whose, wanted_pair) in enumerate(expected.items()):
            numbers = got[2 * index : 2 * index + 2]
            why = f"what the samples of {whose} blocks stand for, {len(alive)} living ones"
            for name, wanted, number in zip(NAMES, wanted_pair, numbers, strict=True):
                if abs(number - wanted) > rounding + wanted * ROUNDING_SHARE:
                    raise self.mismatch(name, round(wanted), number, why)

    # Chance.

    def _check_chance(
        self, action: Action, observation: Observation, sampling: SamplingState
    ) -> None:
        """Count the samples of an object, unless a callback has allocated too."""
        if action.sampling in BEGINNING:
            self._is_of_one_period = action.sampling == "starts"
        counted_bytes = sampling.counted_bytes
        if counted_bytes is None and not action.allocates:
            return
        obj = self._shadow.placed
        if counted_bytes is None and obj.kind == "block":
            return
        size_bytes = obj.size_bytes if counted_bytes is None else counted_bytes
        period_bytes = sampling.period_bytes
        beside_callback = observation.minors and self._shadow.callback_bytes
        if period_bytes is None or beside_callback or not self._is_of_one_period:
            return
        samples, sizes = observation.samples, [part for part, _ in obj.parts] or [size_bytes]
        if period_bytes == 0:
            if samples < len(sizes):
                why = "each allocation is, where the period is 0"
                raise self.mismatch("samples", len(sizes), samples, why)
            return
        chance = Chance(samples, size_bytes / period_bytes)
        if self._rule.samples_per_allocation == "one":
            expected_missed = sum((1 - 1 / period_bytes) ** each for each in sizes)
            missed = max(len(sizes) - samples, 0)
            chance = Chance(samples, len(sizes) - expected_missed, missed, expected_missed)
        for like in (obj.kind, f"{obj.kind} of {size_bytes} bytes"):
            self._add("samples", like, chance)
        if isinstance(action, AllocateGroup) and self._names_containing:
            self._check_members(action, observation.samples_by_member or (), period_bytes)

    def _check_members(
        self, action: AllocateGroup, by_member: Sequence[int], period_bytes: int
    ) -> None:
        """Count the samples that name each member: no member has those of another one."""
        start = 0
        members = self._shadow.members(action)
        for place, (member, samples) in enumerate(zip(members, by_member, strict=False), 1):
            end = start + member.size_bytes
            chance = Chance(samples, member.size_bytes / period_bytes)
            if self._rule.samples_per_allocation == "one":
                # The first byte that is due is one of this member.
                missing = 1 - 1 / period_bytes
                expected = missing**start - missing**end
                chance = Chance(samples, expected, max(1 - samples, 0), 1 - expected)
            like = f"{member.kind} of {member.size_bytes} bytes in place {place} of a group"
            self._add("samples_by_member", like, chance)
            start = end

    def _add(self, field: str, like: str, chance: Chance) -> None:
        """Add to the samples of all allocations that are alike, and judge their sum."""
        of_all = self._chances[like] = self._chances[like].plus(chance)
        of_missed = improbability(of_all.missed, of_all.expected_missed)
        if improbability(of_all.samples, of_all.expected) + of_missed > IMPROBABLE:
            why = f"of every {like}; for their bytes {of_all.expected:.3g} are expected"
            raise self.mismatch(field, round(of_all.expected), of_all.samples, why)


def _sums(pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The sum of the objects, and that of the bytes."""
    objects, sizes = [*zip(*pairs, strict=True)] or ((), ())
    return sum(objects), sum(sizes)


def improbability(times: int, expected: float) -> float:
    """The negative logarithm of a bound of the probability that an event happens `times` times.

    The sum of that for an event and for its opposite is a bound too.
    """
    if times and not expected:
        return math.inf
    return (times * math.log(times / expected) if times else 0.0) - times + expected
