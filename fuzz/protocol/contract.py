"""The contract: what a target promises, as plain data.

It is all that the rules and the oracles know of a target. A target states it in answer to each
header, since what an allocation costs may depend on the configuration.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping
from typing import Literal, get_args

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol.counting import Bytes, Counting

Drawn = Literal[
    "geometric",
    "dotnet",
    "dotnet_document",
    "jemalloc",
    "tcmalloc",
    "gperftools",
    "hotspot",
    "ocaml",
    "ddtrace",
    "go",
    "go_1_19",
    "v8",
]
"""The distances that are drawn at random, and can be foretold."""
DRAWN: tuple[str, ...] = get_args(Drawn)
Distances = Literal["period", "unstated", "random", Drawn]
Promise = Literal["collections", "memory", "progress", "pressure"]


def rounded_up(number: int, multiple: int) -> int:
    """The least multiple that is not below `number`."""
    return -(-number // multiple) * multiple


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
    """A key that a header's `config` may have.

    `choices`, if any, are all its legal values; one that stands there twice is drawn more often.
    """

    name: str
    default: int
    range: Range
    choices: tuple[int, ...] = ()
    at_most: str | None = None
    """The setting whose value this one must not exceed."""
    of_process: bool = False
    """Whether a process settles it at its first header, so that each value has one of its own."""

    @property
    def legal_values(self) -> str:
        """In words."""
        return f"one of {_listed(self.choices)}" if self.choices else str(self.range)


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
    size_classes: tuple[int, ...] = ()
    """A block gets the room of the least of these that holds it, in rising order."""
    page_bytes: int = 1
    """One that is larger than all of them gets whole pages."""
    shared_bytes: int = 0
    """Blocks that are smaller are put together in one of so many bytes, each aligned by its size:
    one that is begun for the first of them, and for which alone anything counts. One of 0 bytes
    lies nowhere (Go)."""
    nonmovable: Literal["outside", "ignored"] = "outside"
    """What an object is that is asked to be non-movable.

    outside: it lies outside the nursery.
    ignored: one like any other.
    """

    def class_bytes(self, requested_bytes: int) -> int | None:
        """The size class of a block; None if it is larger than all."""
        index = bisect.bisect_left(self.size_classes, requested_bytes)
        return self.size_classes[index] if index < len(self.size_classes) else None

    def room_bytes(self, requested_bytes: int) -> int:
        """How much a block has room for."""
        block = self.kinds.get("block")
        requested_bytes += block.fixed_bytes if block else 0
        class_bytes = self.class_bytes(max(requested_bytes, self.shared_bytes))
        return class_bytes or rounded_up(requested_bytes, self.page_bytes)

    def cost(self, kind: str, length: int, nonmovable: bool) -> tuple[int, bool]:
        """The bytes that the sampler counts for an object, and whether it lies outside."""
        layout = self.kinds[kind]
        raw_bytes = layout.fixed_bytes + layout.item_bytes * length
        is_outside = nonmovable and self.nonmovable == "outside"
        if is_outside or raw_bytes >= self.large_object_bytes:
            return raw_bytes, True
        return rounded_up(raw_bytes, self.word_bytes), False


BYTES = Bytes()


@attrs.frozen
class SamplingRule:
    """When an allocation is sampled.

    `distances` are how far samples are apart: the `period` itself; drawn at random, with the mean
    of the period, by the named system's own generator and formula, which docs/sampling-rules.md
    gives; drawn at `random` by a generator of which nothing is stated, so that the estimate oracle
    judges; or `unstated`, as the target likes, which only invariance judges.
    """

    period_bytes: Range
    """The legal periods."""
    counting: Counting = BYTES
    """How bytes are counted; see `fuzz/protocol/counting`."""
    periods: tuple[int, ...] = ()
    """If there are any, these are all the legal ones of them."""
    counts: Literal["size", "requested", "requested_plus_one", "class_or_requested"] = "size"
    """How many bytes of an allocation count.

    size: what the object costs, or what a block has room for.
    requested, requested_plus_one: what was asked for (TCMalloc adds one).
    class_or_requested: the size class; what was asked for, if no class is so large (gperftools).
    """
    crosses: Literal["beyond", "at"] = "beyond"
    """When a sample is due.

    beyond: when the bytes since the last one exceed the distance.
    at: when they reach it.
    """
    surplus: Literal["carried", "dropped"] = "carried"
    """What becomes of the bytes beyond the distance when a sample was taken.

    carried: they count for the next distance.
    dropped: they do not.
    """
    samples_per_allocation: Literal["all", "one"] = "all"
    """How often an allocation that spans several distances is sampled.

    all: for each of them.
    one: once.
    """
    realloc: Literal["always", "when_moved", "unless_alike"] = "always"
    """When a block that is made another size counts again.

    always: in any case (jemalloc).
    when_moved: not if it stays, since it is not to grow, nor to lose more than half. One that is to
        grow by less than a quarter is asked to grow by a quarter (gperftools).
    unless_alike: not if it stays, since its room would be the same, it was no sample itself, and no
        sample is due, or no size class holds what is asked for (TCMalloc).
    """
    weights: Literal["none", "passed", "since", "whole_objects"] = "none"
    """What a sample is said to stand for.

    none: nothing is said.
    passed: the period, and what of the allocation lies beyond the byte that was drawn (TCMalloc).
    since: all bytes that count since the last sample (ddtrace, Scalene).
    whole_objects: as many objects of its size as make one sample, 1 / (1 - exp(-bytes/period)),
        rounded to a whole number, in bytes (V8).
    """
    disabling: tuple[Literal["drop", "report"], ...] = ("drop", "report")
    """The supported ways of disabling.

    drop: the pending samples are dropped.
    report: a minor collection reports them.
    """
    paused: Literal["stopped", "counting", "placeholders"] = "stopped"
    """What pausing does.

    stopped: the count stops, and resuming begins a new one.
    counting: it goes on, and nothing is said of its samples (jemalloc's `prof.active`).
    placeholders: likewise, but each distance that ends is followed by one that is not drawn but
        long (gperftools, with a sampling parameter of 0).
    """
    setting_period: Literal["keeps", "drops"] = "keeps"
    """What becomes of the samples taken when the period is set.

    keeps: they stay.
    drops: they are forgotten (jemalloc's `prof.reset`).
    """
    enabling: Literal["draws", "keeps", "reseeds"] = "draws"
    """What enabling does, each time.

    draws: a distance begins.
    keeps: the present one goes on, as disabling has left it; the first is in `first_bytes`.
    reseeds: the generator begins anew, from the observation's `seed`, and then a distance (V8).
    """
    distances: Distances = "period"
    seeds: tuple[int, ...] = (0,)
    """What each thread's generator begins from at the header; there are as many threads."""
    initial_period_bytes: int = 0
    """The period with which sampling is on from the header on; 0 if it is off."""
    first_bytes: tuple[int | None, ...] = ()
    """Each thread's first distance, where it is not drawn like every further one."""
    estimates: Literal["none", "probability", "present_probability", "weight"] = "none"
    """What a sample of a block stands for in a profile.

    none: nothing is said.
    probability: one over the chance that a block of its counted bytes is sampled,
        1 - exp(-bytes/period) (jemalloc).
    present_probability: likewise, for the period when the profile is read; one with a period of
        1, or while sampling is off (Go).
    weight: its weight over its counted bytes (TCMalloc).
    """
    pinning: Literal["excluded", "allowed"] = "excluded"
    """Whether objects may be pinned while sampling is on.

    excluded: neither begins beside the other (PyPy).
    allowed: they may.
    """

    @property
    def is_drawn(self) -> bool:
        """Whether distances are drawn from a generator that is stated."""
        return self.distances in DRAWN

    @property
    def is_stated(self) -> bool:
        """Whether each distance can be predicted."""
        return self.distances == "period" or self.is_drawn

    @property
    def samples_once(self) -> bool:
        """Whether an object passes one distance at most, since another begins behind it."""
        return (self.surplus, self.samples_per_allocation) == ("dropped", "one")

    def why_illegal(self, period_bytes: int) -> str | None:
        """What is wrong with a period, in a sentence; None if it is legal."""
        if period_bytes not in self.period_bytes:
            return f"period_bytes is {period_bytes}; it must be {self.period_bytes}"
        if self.periods and period_bytes not in self.periods:
            return f"period_bytes is {period_bytes}; it must be one of {_listed(self.periods)}"
        return None

    def nearest(self, period_bytes: int) -> int:
        """The greatest legal period up to `period_bytes`, or else the least."""
        nearest = self.period_bytes.nearest(period_bytes)
        if not self.periods:
            return nearest
        return max((each for each in self.periods if each <= nearest), default=min(self.periods))


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(map(str, dict.fromkeys(numbers)))


NO_SAMPLING = SamplingRule(period_bytes=Range(1, 0))
"""The rule of a target that does not sample: no period is legal."""


@attrs.frozen
class Prebuilt:
    """An immortal object that exists from the start, all its references null."""

    kind: Literal["node", "array"]
    length: int = 0


@attrs.frozen
class OldSpace:
    """What lies outside the nursery takes, and when a major collection of it begins.

    An object counts its bytes there, rounded up to words; prebuilt ones do not count. The threshold
    is `threshold_bytes`, and after a major collection up to `threshold_percent` of what that left,
    if this is more.
    """

    card_items: int = 0
    """So many items of an array that is large have a bit, and the bits of one array whole words,
    which count too; 0 if there are none."""
    arena_object_bytes_max: int = 0
    """Up to so many bytes, what is moved out of the nursery lies in arenas; 0 if there are none."""
    arena_bytes: int = 0
    arena_pages: int = 1
    """The pages of an arena that can be used. Each takes objects of one size, and is begun if no
    page of that size has room that is not to be swept yet; an arena, if no page is free."""
    page_room_bytes: int = 0
    """What all objects of one page may take."""
    threshold_bytes: int = 0
    threshold_percent: int = 0


@attrs.frozen
class AtOnce:
    """How many samples threads take that run at once: each as many as chance allows.

    Whatever the order, each byte is as likely to be sampled as any other, with a mean distance of
    the period, or of a word more, but for these.
    """

    unseen_bytes: int = 0
    """So many bytes of a thread's may count for nothing."""
    phantom_bytes: int = 0
    """So many that a thread does not allocate may count, and again for each collection."""
    phantom_percent: int = 0
    """And so many for a hundred that it allocates."""


@attrs.frozen
class Contract:
    """All that a target promises under one configuration."""

    nursery_bytes: int
    """0 if there is no nursery, and no collector: blocks that the mutator frees itself."""
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
    promises: tuple[Promise, ...] = ()
    """What it promises of collections, and of the old space.

    collections: the same actions cause the same ones, with sampling and without, and no others
        come. Without it they come whenever they like.
    memory: after a full collection only what lives takes bytes, and arenas for no more than that.
    progress: beyond the threshold, a collection that an allocation causes begins a major one, and
        the allocation of an object outside causes one.
    pressure: memory pressure lowers the threshold; below zero, the next allocation collects.
    """
    old_space: OldSpace = OldSpace()
    survivor_bytes: int | None = None
    """How many bytes surely stay young when they survive, counted from one full collection to the
    next. Beyond that, a new object may become old in its first collection. If it is a weak
    reference, it may keep its object alive until the next full collection. None: no weak reference
    keeps its object alive."""
    at_once: AtOnce | None = None
    """None if nothing is promised of it."""
    boundary_bytes: tuple[int, ...] = ()
    """Sizes of objects, or of blocks with their headers, at which the target may behave differently
    although the contract promises no difference. Sessions draw them more often."""
    started_with: tuple[str, ...] = ()
    """The options with which the target was started, which a find keeps."""
    fresh_process: bool = False
    """Whether each trace is to have a process of its own, since a header does not undo all."""
    batch: bool = False
    """Whether a trace is taken as a whole, and answered when it is over: a profile that is read at
    the end. What is legal in it must not depend on answers."""
    version: str = ""
    """What runs, for people: "OpenJDK 17.0.15". It is judged by nobody."""

    @property
    def samples(self) -> bool:
        """Whether sampling can ever be on."""
        return "enable_sampling" in self.actions or self.sampling.initial_period_bytes != 0

    @property  # Not a cached one: with it each field of a class with slots takes long to read.
    def threads(self) -> int:
        """How many threads the mutator has; actions name them from 0 up."""
        return len(self.sampling.seeds)

    def without(self, actions: Collection[str]) -> Contract:
        """The same contract, but for these actions."""
        if not actions:
            return self
        left = tuple(action for action in self.actions if action not in actions)
        return attrs.evolve(self, actions=left)


def layout_of_blocks(
    object_bytes_max: int,
    size_classes: tuple[int, ...] = (),
    page_bytes: int = 1,
    header_bytes: int = 0,
) -> Layout:
    """The layout of an allocator that knows blocks only, each with so much before its bytes."""
    return Layout(
        kinds={"block": KindLayout(type_index=1, fixed_bytes=header_bytes, item_bytes=1)},
        large_object_bytes=1,
        word_bytes=1,
        object_bytes_max=object_bytes_max,
        size_classes=size_classes,
        page_bytes=page_bytes,
    )


def chosen_settings(
    configuration: Mapping[str, int], settings: tuple[Setting, ...]
) -> dict[str, int]:
    """The value of every setting. Raises BadInputError for one that is not allowed."""
    problem = problem_of_configuration(configuration, settings)
    if problem:
        raise BadInputError(problem)
    return {setting.name: setting.default for setting in settings} | dict(configuration)


def problem_of_configuration(
    configuration: Mapping[str, int], settings: tuple[Setting, ...]
) -> str | None:
    """What is wrong with a header's `config`, in a sentence; None if it is legal."""
    known = {setting.name: setting for setting in settings}
    for name, value in configuration.items():
        if name not in known:
            return f"config has no setting {name!r}; it has {', '.join(known)}"
        setting = known[name]
        if value not in setting.range or (setting.choices and value not in setting.choices):
            return f"{name} is {value}; it must be {setting.legal_values}"
        if setting.at_most:
            most = configuration.get(setting.at_most, known[setting.at_most].default)
            if value > most:
                return f"{name} is {value}; it must be at most {setting.at_most}, {most}"
    return None
