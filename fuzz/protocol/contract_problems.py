"""What is wrong with a contract that a target stated.

Whoever writes a contract by hand makes mistakes in it, and a mistake there must not look like one
of the collector. Invariant: a contract without a problem can be drawn from and judged by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import attrs

from fuzz.problems import did_you_mean
from fuzz.protocol.actions import ACTIONS, Action
from fuzz.protocol.contract import (
    NO_SAMPLING,
    AtOnce,
    Contract,
    Layout,
    Range,
    SamplingRule,
    Setting,
    problem_of_configuration,
    rounded_up,
)
from fuzz.protocol.counting import ONE_DRAW
from fuzz.protocol.observation import FIELDS

KINDS = tuple(dict.fromkeys(each.kind for each in ACTIONS.values() if each.kind))
"""The kinds of objects."""
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("alive", "state"), ("minors",)),
    **dict.fromkeys(("order", "reports"), ("minors", "samples")),
    **dict.fromkeys(("offsets", "weights"), ("samples",)),
    "limit": ("minors", "free", "top", "sample_point"),
}
"""Fields of observations, and those without which nobody can judge them."""
OF_PROMISES = {
    "collections": "minors",
    "memory": "memory",
    "progress": "state",
    "pressure": "state",
}
"""The field of observations without which nobody can judge a promise."""
OF_SAMPLING = ("samples", "sample_point")
"""The fields that nothing needs where sampling cannot be enabled."""
INTEGERS = Range(-(2**62), 2**62)
SEEDS = Range(0, 2**64 - 1)
THREADS_MAX = 64
DRAWN_PERIOD_MAX = 2**53
"""Beyond it one minus the probability of a byte, one over the period, is 1 in floating point."""
ZERO_IS_EVERY = ("hotspot", "random", "unstated")
"""Where a period of 0 means that each allocation is sampled."""
ZERO_FOR_ONE = ("dotnet", "dotnet_document", "tcmalloc", "go", "go_1_19")
"""Distances that may be 0 for a period of 1: an allocation would be sampled without end."""
UNIT_BYTES = {"ocaml": 8}
"""Distances that are drawn in words, which periods must be multiples of."""
SAMPLES_MAX = 2**20
"""So many distances may be drawn for one object, which takes a second."""
NUMBERS_MAX = 2**16
"""So many numbers may a contract have in all: several contracts are kept at once."""
PREBUILT_MAX = 4096
"""So many prebuilt objects and items may there be: all are walked after each collection."""
KINDS_WITH_LENGTH = ("string", "array", "block")


def problems_of(contract: Contract) -> Iterator[str]:
    """What is wrong with a contract, each in a sentence; nothing if it can be worked with."""
    yield from _problems_of_numbers(contract)
    yield from _unknown("actions", contract.actions, ACTIONS)
    yield from _unknown("observes", contract.observes, FIELDS)
    if not contract.actions:
        yield "actions is empty"
    yield from _problems_of_nursery(contract)
    if contract.pins_max < 0:
        yield f"pins_max is {contract.pins_max}; it must be at least 0"
    if contract.survivor_bytes is not None and contract.survivor_bytes < 0:
        yield f"survivor_bytes is {contract.survivor_bytes}; it must be at least 0"
    for name in (*contract.actions, *contract.observes):
        for field in _needed_by(name, contract):
            if field not in contract.observes:
                yield f"{name} means nothing without {field} in observes"
    yield from _problems_of_layout(contract.layout)
    yield from _problems_of_kinds(contract)
    yield from _problems_of_prebuilt(contract)
    yield from _problems_of_sampling(contract)
    yield from _problems_of_generators(contract.sampling)
    yield from _problems_of_distances(contract)
    yield from contract.sampling.counting.problems(contract)
    yield from _problems_of_shared_blocks(contract)
    yield from _problems_of_rounding(contract)
    yield from _problems_of_threads(contract)
    yield from _problems_of_threads_at_once(contract)
    yield from _problems_of_estimates(contract)
    yield from _problems_of_boundaries(contract)
    yield from _problems_of_promises(contract)
    yield from _problems_of_settings(contract.settings)


def _problems_of_numbers(contract: Contract) -> Iterator[str]:
    numbers = _integers(contract)
    if len(numbers) > NUMBERS_MAX:
        yield f"it has {len(numbers)} numbers; it may have {NUMBERS_MAX}"
    for key, number in numbers:
        if key == "seeds":
            if number not in SEEDS:
                yield f"{key} has {number}; a seed must be {SEEDS}"
        elif number not in INTEGERS:
            yield f"{key} is too far from 0; integers must be {INTEGERS}"


def _problems_of_nursery(contract: Contract) -> Iterator[str]:
    """A mutator of blocks, which frees them itself, needs no nursery; any other does."""
    least = int(set(contract.layout.kinds) != {"block"})
    if contract.nursery_bytes < least:
        yield f"nursery_bytes is {contract.nursery_bytes}; it must be at least {least}"


def _integers(contract: Contract) -> list[tuple[str, int]]:
    """All integers in a contract, each with the key under which it stands."""
    integers = []
    pending: list[tuple[str, Any]] = [("contract", contract)]
    for key, data in pending:  # It grows.
        if isinstance(data, int):
            integers.append((key, data))
        elif isinstance(data, dict):
            pending += data.items()
        elif isinstance(data, tuple):
            pending += ((key, each) for each in data)
        else:
            kind: Any = type(data)
            pending += ((name, getattr(data, name)) for name in _fields_of(kind))
    return integers


@cache
def _fields_of(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - any type
    return tuple(field.name for field in attrs.fields(kind)) if attrs.has(kind) else ()


def _unknown(key: str, names: Collection[str], known: Collection[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"{key} lists {name!r}, which is unknown{did_you_mean(name, known)}"


def _needed_by(name: str, contract: Contract) -> Iterator[str]:
    """The fields without which nobody can judge what an action or a field means."""
    action = ACTIONS.get(name)
    for field in action.needs if action else NEEDS.get(name, ()):
        if field not in OF_SAMPLING or contract.samples:
            yield field
    if action and _may_collect(action, contract):
        yield "minors"
    if name == "limit" and "size" in contract.observes:
        yield from ("outside", "at")


def _may_collect(action: type[Action], contract: Contract) -> bool:
    """Whether an action has a collection as a part, in a way that the target supports."""
    has_ways = "report" in attrs.fields_dict(action)
    return action.collects != "never" and (not has_ways or "report" in contract.sampling.disabling)


def _problems_of_layout(layout: Layout) -> Iterator[str]:
    for name in ("word_bytes", "large_object_bytes", "object_bytes_max", "page_bytes"):
        if getattr(layout, name) < 1:
            yield f"{name} is {getattr(layout, name)}; it must be at least 1"
    if any(high <= low for low, high in pairwise((0, *layout.size_classes))):
        yield "size_classes must rise, from at least 1"
    if "block" in layout.kinds and len(layout.kinds) > 1:
        yield "layout has blocks beside other kinds, which could refer to one that was freed"
    for kind, each in layout.kinds.items():
        if kind not in KINDS:
            yield f"layout has the unknown kind {kind!r}{did_you_mean(kind, KINDS)}"
        if each.item_bytes < (kind in KINDS_WITH_LENGTH):
            yield f"item_bytes of a {kind} is {each.item_bytes}; it is too small"
        if not 0 <= each.fixed_bytes <= layout.object_bytes_max:
            most = layout.object_bytes_max
            yield f"fixed_bytes of a {kind} is {each.fixed_bytes}; it must be from 0 to {most}"


def _problems_of_kinds(contract: Contract) -> Iterator[str]:
    for name, action in ACTIONS.items():
        if name in contract.actions and action.kind not in {None, *contract.layout.kinds}:
            yield f"actions lists {name}, but layout has no kind {action.kind!r}"


def _problems_of_prebuilt(contract: Contract) -> Iterator[str]:
    for each in contract.prebuilt:
        if each.kind not in contract.layout.kinds or each.length < 0:
            yield f"prebuilt has a {each.kind} of length {each.length}, which layout does not have"
    count = sum(1 + each.length for each in contract.prebuilt)
    if count > PREBUILT_MAX:
        yield f"prebuilt has {count} objects and items; it may have {PREBUILT_MAX}"


def _problems_of_sampling(contract: Contract) -> Iterator[str]:
    periods = contract.sampling.period_bytes
    if periods.multiple < 1:
        yield f"multiple of period_bytes is {periods.multiple}; it must be at least 1"
        return
    if not contract.samples:
        return
    if contract.sampling == NO_SAMPLING:
        yield "sampling is left out; with enable_sampling it must say which period_bytes are legal"
        return
    least = int(contract.sampling.distances not in ZERO_IS_EVERY)
    if periods.minimum < least or periods.nearest(1) not in periods:
        yield f"sampling has no legal period_bytes: {periods}"
    if any(period_bytes not in periods for period_bytes in contract.sampling.periods):
        yield f"one of periods is not {periods}"
    initial_bytes = contract.sampling.initial_period_bytes
    if initial_bytes and contract.sampling.why_illegal(initial_bytes):
        yield f"initial_{contract.sampling.why_illegal(initial_bytes)}"
    if "disable_sampling" in contract.actions and not contract.sampling.disabling:
        yield "disabling is empty, but actions lists disable_sampling"
    if contract.sampling.paused == "placeholders" and contract.sampling.distances != "gperftools":
        yield f"paused is placeholders, but distances is {contract.sampling.distances}"


def _problems_of_generators(rule: SamplingRule) -> Iterator[str]:
    """Each thread has what it begins from."""
    threads = len(rule.seeds)
    if not 1 <= threads <= THREADS_MAX:
        yield f"seeds has {threads} numbers, one a thread; it must have 1 to {THREADS_MAX}"
    firsts = len(rule.first_bytes)
    if firsts not in (0, threads):
        yield f"first_bytes has {firsts} numbers; it must have none, or {threads} like seeds"
    if rule.first_bytes and not rule.is_drawn:
        yield f"first_bytes means nothing where distances is {rule.distances}"
    is_first_known = rule.first_bytes and None not in rule.first_bytes
    is_drawn_at_once = rule.initial_period_bytes and rule.is_drawn
    is_drawn_first = is_drawn_at_once or rule.counting.local_buffers_end_distances
    if rule.enabling == "keeps" and not (is_first_known or is_drawn_first):
        yield "enabling is keeps, but first_bytes does not say what"
    least = int(rule.crosses == "at")
    if any(first_bytes is not None and first_bytes < least for first_bytes in rule.first_bytes):
        yield f"first_bytes has a number below {least}"


def _problems_of_distances(contract: Contract) -> Iterator[str]:
    """What is drawn must be a number that the formula can give, and that an allocation can pass."""
    rule = contract.sampling
    unit_bytes = UNIT_BYTES.get(rule.distances, 1)
    if rule.period_bytes.multiple % unit_bytes:
        yield f"distances is {rule.distances}: period_bytes must be multiples of {unit_bytes}"
    longest = rule.period_bytes.maximum
    if rule.is_drawn and longest > DRAWN_PERIOD_MAX:
        yield f"period_bytes is up to {longest}; {rule.distances} is drawn up to {DRAWN_PERIOD_MAX}"
    if rule.distances in ZERO_FOR_ONE and 1 in rule.period_bytes and not rule.samples_once:
        yield f"distances is {rule.distances}, which may be 0 for a period of 1: {ONE_DRAW}"


def _problems_of_shared_blocks(contract: Contract) -> Iterator[str]:
    shared_bytes = contract.layout.shared_bytes
    most = max(contract.layout.size_classes, default=0)
    if not 0 <= shared_bytes <= most:
        yield f"shared_bytes is {shared_bytes}; it must be from 0 to {most}, as are size_classes"
    if shared_bytes and "realloc" in contract.actions:
        yield "shared_bytes means nothing with realloc"


def _problems_of_rounding(contract: Contract) -> Iterator[str]:
    """An object counts what it is rounded up to, and each distance that it passes takes time."""
    rule = contract.sampling
    if any(_problems_of_layout(contract.layout)):
        return  # Then nobody can tell what that is.
    largest_bytes = _rounded_bytes_max(contract.layout, rule)
    if largest_bytes not in INTEGERS:
        yield f"an object could take {largest_bytes} bytes; {INTEGERS.maximum} are the most"
    samples = largest_bytes // max(rule.period_bytes.minimum, 1)
    if rule.is_drawn and not rule.samples_once and samples > SAMPLES_MAX:
        yield f"an object could pass {samples} distances that are drawn; {SAMPLES_MAX} are the most"


def _rounded_bytes_max(layout: Layout, rule: SamplingRule) -> int:
    """The most that an object takes: rounded up to words, to a class or to pages."""
    largest_bytes = layout.object_bytes_max
    if "block" not in layout.kinds:
        return rounded_up(largest_bytes, layout.word_bytes)
    if rule.realloc != "always":  # To grow, it may ask for a quarter more.
        largest_bytes += largest_bytes // 4
    return layout.room_bytes(largest_bytes)


def _problems_of_threads(contract: Contract) -> Iterator[str]:
    """Where each thread has its own place in the nursery, nobody tells where all of it is."""
    rule = contract.sampling
    if "limit" in contract.observes and contract.threads > 1:
        yield "limit means nothing where threads have their own"
    if rule.enabling == "reseeds" and "seed" not in contract.observes:
        yield "enabling is reseeds, which no oracle can judge without seed in observes"
    if "tlab" in contract.observes and not rule.counting.shows_local_buffers:
        yield f"tlab means nothing where counting is by {rule.counting.by}"
    if "set_callback" in contract.actions and rule.paused != "stopped":
        yield "set_callback means nothing where pausing goes on counting"


def _problems_of_threads_at_once(contract: Contract) -> Iterator[str]:
    """After that nobody foretells a thread's next sample, nor what a collection has left."""
    if "run_at_once" not in contract.actions:
        return
    if "string" not in contract.layout.kinds:
        yield "actions lists run_at_once, but layout has no kind 'string'"
    if contract.samples and contract.sampling.is_stated:
        yield "run_at_once means nothing where the next sample is foretold"
    if "collections" in contract.promises or "reports" in contract.observes:
        yield "run_at_once means nothing where collections are promised, or reports observed"
    if "end_thread" in contract.actions:
        yield "run_at_once means nothing with end_thread"
    if contract.at_once is not None and "set_period" in contract.actions:
        yield "at_once means nothing with set_period"
    for name, number in attrs.asdict(contract.at_once or AtOnce()).items():
        if number < 0:
            yield f"{name} is {number}; it must be at least 0"


def _problems_of_estimates(contract: Contract) -> Iterator[str]:
    """What is observed of single samples, and of all together, must be ruled."""
    rule, observes = contract.sampling, contract.observes
    if rule.distances == "random" and contract.samples and "samples" not in observes:
        yield "distances is random, which nobody can judge without samples in observes"
    if "offsets" in observes and not rule.is_drawn:
        yield f"offsets means nothing where distances is {rule.distances}"
    if "weights" in observes and rule.weights == "none":
        yield "weights is observed, but the rule says nothing of weights"
    if rule.weights in ("passed", "whole_objects") and not rule.is_drawn:
        yield f"weights means nothing where distances is {rule.distances}"
    if rule.weights == "since" and not (rule.samples_once and rule.is_stated):
        yield f"weights is since, which means nothing unless distances are stated: {ONE_DRAW}"
    if rule.estimates != "none" and not rule.is_stated:
        yield f"estimates means nothing where distances is {rule.distances}"
    if rule.estimates != "none" and rule.samples_per_allocation != "one":
        yield "estimates means nothing unless samples_per_allocation is one"
    if rule.estimates == "weight" and rule.weights == "none":
        yield "estimates is weight, but the rule says nothing of weights"
    if "read_profile" in contract.actions and rule.estimates == "none":
        yield "actions lists read_profile, but the rule says nothing of estimates"


def _problems_of_boundaries(contract: Contract) -> Iterator[str]:
    for size_bytes in contract.boundary_bytes:
        if size_bytes < 1:
            yield f"boundary_bytes has {size_bytes}; it must be at least 1"


def _problems_of_promises(contract: Contract) -> Iterator[str]:
    yield from _unknown("promises", contract.promises, OF_PROMISES)
    for promise, field in OF_PROMISES.items():
        if promise in contract.promises and field not in contract.observes:
            yield f"promises lists {promise}, which nobody can judge without {field} in observes"
    if "memory" in contract.observes and "memory" not in contract.promises:
        yield "memory is observed, but nothing is promised of it"
    space = contract.old_space
    for name, number in attrs.asdict(space).items():
        least = space.arena_object_bytes_max if name == "page_room_bytes" else name == "arena_pages"
        if number < least:
            yield f"{name} is {number}; it must be at least {int(least)}"


def _problems_of_settings(settings: Collection[Setting]) -> Iterator[str]:
    names = [setting.name for setting in settings]
    if len(set(names)) < len(names):
        yield "settings has two of one name"
    for setting in settings:
        legal = setting.range
        if legal.multiple < 1 or legal.nearest(legal.minimum) not in legal:
            yield f"{setting.name} has no legal value: {legal}"
            return
        if setting.at_most is not None and setting.at_most not in names:
            yield f"{setting.name} is at most {setting.at_most!r}, which is no setting"
            return
        if any(choice not in legal for choice in setting.choices):
            yield f"{setting.name} has a choice that is not {legal}"
    yield from _problems_of_bounds(settings)
    problem = problem_of_configuration(
        {setting.name: setting.default for setting in settings}, tuple(settings)
    )
    if problem:
        yield f"by default, {problem}"


def _problems_of_bounds(settings: Collection[Setting]) -> Iterator[str]:
    """Whatever a bound is, there must be a legal value up to it; it is drawn before that."""
    known = {setting.name: setting for setting in settings}
    for setting in settings:
        if setting.at_most is None:
            continue
        bound = known[setting.at_most]
        if bound.at_most is not None:
            yield f"{setting.name} is at most {bound.name}, which has such a bound itself"
        if setting.of_process or bound.of_process:
            yield f"{setting.name} is at most {bound.name}, which no process can settle"
        if _least(setting) > _least(bound):
            yield (
                f"{setting.name} is at most {bound.name}, but their least values are"
                f" {_least(setting)} and {_least(bound)}"
            )


def _least(setting: Setting) -> int:
    return min(setting.choices, default=setting.range.nearest(setting.range.minimum))
