"""The contract: what a target promises, as plain data.

A target states it in its answer to each header, since what an allocation costs may depend on the
configuration. The rules and the oracles know nothing else about a target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal, get_args

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol.counting import Bytes, Way
from fuzz.protocol.counting.limits import Count, Limits, Positive, Seeds
from fuzz.protocol.counting.way import ONE_DRAW, ONE_SAMPLE
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.groups import Groups
from fuzz.protocol.layout import Layout, rounded_up

Drawn = Literal[
    "geometric",
    "dotnet",
    "dotnet_document",
    "jemalloc",
    "tcmalloc",
    "gperftools",
    "hotspot",
    "ocaml",
    "ocaml_5_3",
    "ddtrace",
    "go",
    "go_1_19",
    "v8",
    "v8_14_6",
]
"""Distances that a stated generator draws, so that they can be predicted."""
DRAWN: tuple[str, ...] = get_args(Drawn)
Distances = Literal["period", "unstated", "random", Drawn]
ZERO_IS_EVERY = ("hotspot", "random", "unstated")
"""Distances for which a period of 0 means that each allocation is sampled."""
ZERO_FOR_ONE = ("dotnet", "dotnet_document", "tcmalloc", "go", "go_1_19")
"""Distances that may be 0 for a period of 1: an allocation could take any number of samples."""
UNIT_BYTES = {"ocaml": 8, "ocaml_5_3": 8}
"""Distances that are drawn in words, which periods must be multiples of."""
DRAWN_PERIODS = Limits(0, 2**53)
"""For longer periods, 1 - 1/period is 1 in floating point."""
SAMPLES = Limits(0, 2**20)
"""How many distances may be drawn for one object. More would take seconds."""
THREADS = Limits(1, 64)
MEANINGS: dict[tuple[str, object], str] = {
    ("is_drawn", True): "distances that a known generator draws",
    ("is_stated", True): "distances that can be predicted",
    ("is_stated", False): "distances that are random or unstated",
    ("samples_once", False): "surplus carried, or samples_per_allocation all",
}
"""What the properties of a rule mean in its keys."""
Estimates = Literal[
    "none", "itself", "probability", "present_probability", "weight", "whole_weight", "dumped"
]
"""What a sample of a block stands for in a profile."""
Promise = Literal["collections", "memory", "progress", "pressure"]


@attrs.frozen
class Range:
    """Whole numbers from `minimum` to `maximum`, both included, that are multiples."""

    minimum: int
    maximum: int
    multiple: Positive = 1

    def __contains__(self, number: int) -> bool:
        return self.minimum <= number <= self.maximum and number % self.multiple == 0

    def nearest(self, number: int) -> int:
        """The greatest member up to `number`, or else the least."""
        least = rounded_up(self.minimum, self.multiple)
        number = min(number, self.maximum)
        return max(number - number % self.multiple, least)

    def __str__(self) -> str:
        multiples = f"a multiple of {self.multiple} " if self.multiple > 1 else ""
        return f"{multiples}from {self.minimum} to {self.maximum}"


@attrs.frozen
class Setting:
    """A key that a header's `config` may have."""

    name: str
    default: int
    range: Range
    choices: tuple[int, ...] = ()
    """The only legal values, if there are any. A repeated value is drawn more often."""
    at_most: str | None = None
    """The setting whose value this one must not exceed."""
    of_process: bool = False
    """Whether the first header of a process determines it. Then each value has its own process."""

    @property
    def legal_values(self) -> str:
        """The legal values, as text."""
        return f"one of {_listed(self.choices)}" if self.choices else str(self.range)

    @property
    def least(self) -> int:
        """The least legal value."""
        return min(self.choices, default=self.range.nearest(self.range.minimum))

    def problems(self, settings: Mapping[str, Setting]) -> Iterator[str]:
        """What is wrong with it beside these settings, each in a sentence."""
        legal, bound = self.range, settings.get(self.at_most or "")
        if legal.nearest(legal.minimum) not in legal:
            yield f"{self.name} has no legal value: {legal}"
        elif any(choice not in legal for choice in self.choices):
            yield f"{self.name} has a choice that is not {legal}"
        elif bound is not None:
            # For each value of the bound, which is drawn first, this one must have a legal value.
            pair = f"{self.name} is at most {bound.name}"
            if bound.at_most is not None:
                yield f"{pair}, which must not have such a bound itself"
            if self.of_process or bound.of_process:
                yield f"{pair}; of_process must be false for both"
            if self.least > bound.least:
                yield f"{pair}, but their least values are {self.least} and {bound.least}"
        if self.at_most is not None and bound is None:
            yield f"{self.name} is at most {self.at_most!r}, which is not a setting"


BYTES = Bytes()
ONE_BY_ONE: Mapping[str, object] = {
    **ONE_SAMPLE,
    "counting": BYTES,
    "weights": "none",
    "estimates": "none",
}
"""What a rule needs whose samples may be overdue: no other key states what such a sample is."""


@attrs.frozen
class SamplingRule:
    """When an allocation is sampled. docs/sampling-rules.md explains the keys."""

    period_bytes: Range
    """The legal periods."""
    counting: Way = BYTES
    """How bytes are counted; see `fuzz/protocol/counting`."""
    periods: tuple[int, ...] = ()
    """If there are any, only these periods are legal."""
    counts: Literal["size", "requested", "requested_plus_one", "class_or_requested"] = "size"
    """The bytes of an allocation that count. `size`: what it costs, or what a block has room for;
    `class_or_requested`: the size class, or what was requested beyond all classes (gperftools);
    `requested_plus_one` is TCMalloc's."""
    crosses: Literal["beyond", "at"] = "beyond"
    """A sample is due when the bytes since the last one are `beyond` the distance, or `at` it."""
    surplus: Literal["carried", "dropped", "due"] = "carried"
    """The bytes beyond the distance are `carried` to the next one, or `dropped`. `due`: they are
    carried, and a distance that ends in them is due at the next allocation."""
    samples_per_allocation: Literal["all", "one"] = "all"
    """An allocation that spans several distances is sampled for `all` of them, or for `one`."""
    realloc: Literal["always", "when_moved", "unless_alike"] = "always"
    """When a block that gets another size counts again.

    when_moved: if it moves. It stays if it does not grow and keeps at least half of its room. If it
        grows by less than a quarter, a quarter more is requested (gperftools).
    unless_alike: unless it stays. It stays if its room would be the same, it was not sampled, and
        either no sample is due or no size class is large enough (TCMalloc).
    """
    weights: Literal["none", "passed", "since", "whole_objects", "sums"] = "none"
    """The weight that is reported with a sample.

    passed: the period, and the bytes of the allocation after the sampled one (TCMalloc).
    since: all bytes that count since the last sample (ddtrace, Scalene).
    whole_objects: as many objects of its size as make one sample, 1 / (1 - exp(-bytes/period)),
        rounded to a whole number, in bytes (V8).
    sums: any, but those of a thread's samples add up to at most what it allocated while sampling
        was on, and those of many samples of a kind to about the bytes of that kind (JFR).
    """
    disabling: tuple[Literal["drop", "report"], ...] = ("drop", "report")
    """Whether disabling may drop the pending samples, and report them in a minor collection."""
    paused: Literal["stopped", "counting", "placeholders"] = "stopped"
    """What pausing does.

    stopped: the count stops, and resuming begins a new one.
    counting: it continues, but samples are not recorded (jemalloc's `prof.active`).
    placeholders: likewise, and long distances follow that are not drawn (gperftools, parameter 0).
    """
    own_bytes: Count = 0
    """What a thread may allocate by itself besides the objects of actions, with weights `sums`."""
    setting_period: Literal["keeps", "drops"] = "keeps"
    """Setting the period `keeps` the samples of the profile, or `drops` them (jemalloc)."""
    enabling: Literal["draws", "keeps", "reseeds"] = "draws"
    """`draws`: enabling begins a new distance; `keeps`: the present one continues, and the first is
    in `first_bytes`, or the first period with distances `period`; `reseeds`: the generator restarts
    from the observation's `seed` (V8)."""
    distances: Distances = "period"
    """How far samples are apart. `random`: drawn in a way that is not stated; `unstated`: not
    promised; a system's name: see `fuzz/oracles/counting/distances`."""
    seeds: Seeds = (0,)
    """For each thread, the seed of its generator at the header. There are as many threads."""
    initial_period_bytes: int = 0
    """The period with which sampling is on from the header on; 0 if it is off."""
    first_bytes: tuple[int | None, ...] = ()
    """Each thread's first distance, if it is not drawn like the others."""
    estimates: Estimates = "none"
    """What a sample of a block stands for in a profile.

    itself: for one block of its counted bytes (gperftools' list).
    probability: one over the chance that a block of its counted bytes is sampled,
        1 - exp(-bytes/period) (jemalloc).
    present_probability: likewise, for the period when the profile is read; one with a period of
        1, or while sampling is off (Go).
    weight: its weight over its counted bytes.
    whole_weight: likewise, rounded to whole blocks of its size (TCMalloc).
    dumped: as `probability`, rounded to eighths of a block and to bytes. The sums are divided by
        one over the chance for their mean size. The profile has them for living blocks, and for
        all since the samples were dropped (jemalloc's dump).
    """
    pinning: Literal["excluded", "allowed"] = "excluded"
    """Whether objects may be pinned while sampling is on (PyPy excludes it)."""

    @property
    def is_drawn(self) -> bool:
        """Whether a stated generator draws the distances."""
        return self.distances in DRAWN

    @property
    def is_stated(self) -> bool:
        """Whether each distance can be predicted."""
        return self.distances == "period" or self.is_drawn

    @property
    def samples_once(self) -> bool:
        """Whether an object passes one distance at most, since the next one begins behind it."""
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
        return max((size for size in self.periods if size <= nearest), default=min(self.periods))

    def problems(self, contract: Contract) -> Iterator[str]:
        """What is wrong with a contract that has this rule, each in a sentence."""
        yield from self._problems_of_numbers()
        yield from self._problems_of_periods(contract)
        yield from self._problems_of_keys()
        yield from self.counting.problems(contract)

    def _problems_of_numbers(self) -> Iterator[str]:
        """What each thread has."""
        threads, least = len(self.seeds), int(self.crosses == "at")
        firsts = [first for first in self.first_bytes if first is not None]
        yield from THREADS.problems("the number of seeds, one a thread,", threads)
        numbers = len(self.first_bytes) or threads
        yield from Limits(threads, threads).problems("the number of first_bytes", numbers)
        yield from Limits(least).problems("the least of first_bytes", min(firsts, default=least))

    def _problems_of_periods(self, contract: Contract) -> Iterator[str]:
        """The periods are legal, and the formula has a distance for each."""
        periods = self.period_bytes
        if contract.samples and self == NO_SAMPLING:
            yield "sampling is left out; enable_sampling needs its period_bytes"
        elif contract.samples:
            least = int(self.distances not in ZERO_IS_EVERY)
            if periods.minimum < least:
                why = f", since distances {self.distances} give 0 no meaning" if least else ""
                yield f"period_bytes is {periods}; it must start at {least} or above{why}"
            elif periods.nearest(1) not in periods:
                yield f"period_bytes has no legal period: {periods}"
            if any(period_bytes not in periods for period_bytes in self.periods):
                yield f"one of periods is not {periods}"
            initial_bytes = self.initial_period_bytes
            if initial_bytes and (problem := self.why_illegal(initial_bytes)):
                yield f"initial_{problem}"
        unit_bytes = UNIT_BYTES.get(self.distances, 1)
        if periods.multiple % unit_bytes:
            yield f"distances is {self.distances}: period_bytes must be multiples of {unit_bytes}"
        largest_bytes = self._rounded_bytes_max(contract.layout)
        yield from Limits(0, 2**62 - 1).problems("the size of the largest object", largest_bytes)
        if self.is_drawn:
            yield from DRAWN_PERIODS.problems("the longest period that is drawn", periods.maximum)
        if self.is_drawn and not self.samples_once:
            samples = largest_bytes // max(periods.minimum, 1)
            yield from SAMPLES.problems("the number of distances drawn for an object", samples)

    def _rounded_bytes_max(self, layout: Layout) -> int:
        """The most that an object takes, rounded up to words, to a class or to pages."""
        largest_bytes = layout.object_bytes_max
        if "block" not in layout.kinds:
            return rounded_up(largest_bytes, layout.word_bytes)
        if self.realloc != "always":  # To grow, it may request a quarter more.
            largest_bytes += largest_bytes // 4
        return layout.capacity_bytes(largest_bytes)

    def _problems_of_keys(self) -> Iterator[str]:
        """What a key needs of the others."""
        drawn, counting = {"is_drawn": True}, self.counting
        is_one = self.distances in ZERO_FOR_ONE and 1 in self.period_bytes
        for what, applies, values in (
            ("first_bytes", self.first_bytes, drawn),
            ("weights", self.weights in ("passed", "whole_objects"), drawn),
            ("weights sums", self.weights == "sums", {"distances": "unstated"}),
            ("own_bytes", self.own_bytes, {"weights": "sums"}),
            ("weights since", self.weights == "since", {"is_stated": True, **ONE_DRAW}),
            ("estimates", self.estimates != "none", {"is_stated": True, **ONE_SAMPLE}),
            ("surplus due", self.surplus == "due", ONE_BY_ONE),
            ("paused placeholders", self.paused == "placeholders", {"distances": "gperftools"}),
            (f"{self.distances} with a period of 1", is_one, ONE_DRAW),
            (f"counting by {counting.by}", True, counting.needs),
        ):
            if applies:
                yield from self.problems_of_needs(what, values)
        is_first_known = (self.first_bytes and None not in self.first_bytes) or (
            self.is_drawn and self.initial_period_bytes
        )
        # With `period` the first enabling begins the first distance.
        is_first_open = self.distances == "period" or counting.local_buffers_end_distances
        is_kept = is_first_known or is_first_open
        if self.enabling == "keeps" and not is_kept:
            yield "enabling keeps needs first_bytes, a number for each thread"
        if self.estimates in ("weight", "whole_weight") and self.weights == "none":
            yield f"estimates {self.estimates} needs weights in sampling"

    def problems_of_needs(self, what: str, values: Mapping[str, object]) -> Iterator[str]:
        """Which keys and properties do not have the values that `what` needs."""
        for key, value in values.items():
            if getattr(self, key) != value:
                found = self.distances if key.startswith("is_") else _name_of(getattr(self, key))
                meaning = MEANINGS.get((key, value), f"{key} {_name_of(value)}")
                yield f"{what} needs {meaning}, not {found}"


def _name_of(value: object) -> object:
    return value.by if isinstance(value, Way) else value


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(map(str, dict.fromkeys(numbers)))


NO_SAMPLING = SamplingRule(period_bytes=Range(1, 0))
"""The rule of a target that does not sample: no period is legal."""


@attrs.frozen
class Prebuilt:
    """An immortal object that exists from the start. All its references are null."""

    kind: Literal["node", "array"]
    length: Count = 0


@attrs.frozen
class OldSpace:
    """What objects cost outside the nursery, and when a major collection of them begins.

    An object counts its bytes there, rounded up to words. Prebuilt objects do not count. The
    threshold is `threshold_bytes`. After a major collection it may be up to `threshold_percent` of
    what remained, if this is more.
    """

    card_items: Count = 0
    """A large array has a bit for this many items, in whole words, which count too; 0 if there are
    no bits."""
    arena_object_bytes_max: Count = 0
    """Objects up to this size that leave the nursery lie in arenas; 0 if there are no arenas."""
    arena_bytes: Count = 0
    arena_pages: Positive = 1
    """The usable pages of an arena. A page has objects of one size. A new one begins if no page of
    that size has room that is already swept; a new arena, if no page is free."""
    page_room_bytes: Count = 0
    """What all objects of one page may take."""
    threshold_bytes: Count = 0
    threshold_percent: Count = 0


@attrs.frozen
class AtOnce:
    """How many samples threads take that run at once: as many as chance allows.

    Each byte is as likely to be sampled as any other, in any order of the threads. The mean
    distance is the period, or up to a word more.
    """

    unseen_bytes: Count = 0
    """The bytes of a thread that may count for nothing."""
    phantom_bytes: Count = 0
    """The bytes that may count although a thread does not allocate them; again for each
    collection."""
    phantom_percent: Count = 0
    """The same, in percent of what a thread allocates."""


@attrs.frozen
class Contract:
    """All that a target promises under one configuration."""

    nursery_bytes: Count
    """0 if there is no collector, but blocks that the mutator frees."""
    layout: Layout
    actions: tuple[str, ...]
    """The names of the actions that it performs."""
    observes: tuple[str, ...]
    """The fields of an observation that it fills, where they apply."""
    sampling: SamplingRule = NO_SAMPLING
    settings: tuple[Setting, ...] = ()
    prebuilt: tuple[Prebuilt, ...] = ()
    pins_max: Count = 0
    """How many objects may be pinned at once."""
    promises: tuple[Promise, ...] = ()
    """What it promises about collections and the old space.

    collections: the same actions cause the same collections, with and without sampling, and no
        others come.
    memory: after a full collection only living objects take bytes, and arenas for them alone.
    progress: beyond the threshold, a collection that an allocation causes begins a major one, and
        the allocation of an object outside causes one.
    pressure: memory pressure lowers the threshold. Below zero, the next allocation collects.
    """
    old_space: OldSpace = OldSpace()
    survivor_bytes: Annotated[int | None, Limits(0)] = None
    """How many bytes stay young when they survive, from one full collection to the next. Beyond
    that, a new weak reference may be old at once, and keep its object alive until the next full
    collection. None: no weak reference does so."""
    dead_within: Count = 1
    """After this many full collections an unreachable object is dead. 0: it may stay forever, as
    with a collector that takes words on a stack for references."""
    weak_reads: Literal["answered", "kept"] = "answered"
    """`kept`: `read_weakref` may keep what it finds as a root."""
    steps: Literal["minor", "open"] = "minor"
    """Whether `collect_step` begins with one minor collection, if collections are promised, or has
    any number of them."""
    at_once: AtOnce | None = None
    """None: nothing is promised about threads that run at once."""
    finalizers: Finalizers | None = None
    """None: there are neither finalizers nor ephemerons."""
    exhaustion: Exhaustion | None = None
    """None: every allocation succeeds."""
    groups: Groups | None = None
    """None: each allocation is one object."""
    tier_setting: str | None = None
    """The setting that says which tier of a runtime executes allocations, such as an interpreter or
    a compiler. Others are compared with its least value. None: there is one tier."""
    contents: Literal["bytes", "checksums"] | None = None
    """How `check_contents` answers for a string or a block: the mutator compares its bytes, or
    reports a checksum of them. None: the mutator writes no bytes into it."""
    boundary_bytes: Annotated[tuple[int, ...], Limits(1)] = ()
    """Sizes of objects, or of blocks with their headers, at which the target may behave differently
    although the contract promises no difference. Sessions draw them more often."""
    started_with: tuple[str, ...] = ()
    """The options with which the target was started. A failure keeps them."""
    fresh_process: bool = False
    """Whether each trace needs a new process, since a header does not reset everything."""
    batch: bool = False
    """Whether a trace is answered only when it is complete, because a profile is read at its end.
    Then no action may depend on an answer."""
    version: str = ""
    """What runs, for people: "OpenJDK 17.0.15". No oracle judges it."""

    @property
    def samples(self) -> bool:
        """Whether sampling can ever be on."""
        return "enable_sampling" in self.actions or self.sampling.initial_period_bytes != 0

    @property  # A cached one would make each field of a class with slots slow to read.
    def threads(self) -> int:
        """How many threads the mutator has. Actions name them from 0 up."""
        return len(self.sampling.seeds)

    @property
    def counts_members(self) -> bool:
        """Whether each member of a group counts by itself."""
        return self.groups is not None and self.groups.counted == "each"

    @property
    def has_parts(self) -> bool:
        """Whether an object may be several blocks."""
        return any(kind.parts for kind in self.layout.kinds.values())

    def without(self, actions: Collection[str]) -> Contract:
        """The same contract without these actions."""
        if not actions:
            return self
        left = tuple(action for action in self.actions if action not in actions)
        return attrs.evolve(self, actions=left)


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
