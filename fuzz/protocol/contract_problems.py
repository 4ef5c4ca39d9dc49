"""What is wrong with a contract that a target stated.

A mistake in a contract must not look like a mistake of the collector. Invariant: rules can draw
from a contract without a problem, and oracles can judge by it. All problems are reported at once,
except that no check computes with a number beyond its limits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import attrs

from fuzz.problems import did_you_mean
from fuzz.protocol.actions import ACTIONS
from fuzz.protocol.contract import (
    NO_SAMPLING,
    Contract,
    Layout,
    SamplingRule,
    Setting,
    problem_of_configuration,
    rounded_up,
)
from fuzz.protocol.counting.limits import LARGEST, Limits
from fuzz.protocol.counting.way import DRAWN, ONE_DRAW, ONE_SAMPLE
from fuzz.protocol.observation import FIELDS

KINDS = tuple(dict.fromkeys(each.kind for each in ACTIONS.values() if each.kind))
"""The kinds of objects."""
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("alive", "state"), ("minors",)),
    **dict.fromkeys(("order", "reports"), ("minors", "samples")),
    **dict.fromkeys(("offsets", "weights"), ("samples",)),
    "limit": ("minors", "free", "top", "sample_point"),
}
"""Fields of observations, and the fields that an oracle needs to judge them."""
OF_PROMISES = {
    "collections": "minors",
    "memory": "memory",
    "progress": "state",
    "pressure": "state",
}
"""The field of observations that an oracle needs to judge a promise."""
OF_SAMPLING = ("samples", "sample_point")
"""The fields that nothing needs if sampling cannot be enabled."""
INTEGERS = Limits(-LARGEST)
THREADS = Limits(1, 64)
DRAWN_PERIODS = Limits(0, 2**53)
"""For longer periods, 1 - 1/period is 1 in floating point."""
ZERO_IS_EVERY = ("hotspot", "random", "unstated")
"""Distances for which a period of 0 means that each allocation is sampled."""
ZERO_FOR_ONE = ("dotnet", "dotnet_document", "tcmalloc", "go", "go_1_19")
"""Distances that may be 0 for a period of 1: an allocation could take any number of samples."""
UNIT_BYTES = {"ocaml": 8, "ocaml_5_3": 8}
"""Distances that are drawn in words, which periods must be multiples of."""
SAMPLES = Limits(0, 2**20)
"""How many distances may be drawn for one object. More would take seconds."""
NUMBERS = Limits(0, 2**16)
"""How many numbers a contract may have, since several contracts are kept at once."""
PREBUILT = Limits(0, 4096)
"""How many prebuilt objects and items there may be. All are walked after each collection."""
KINDS_WITH_LENGTH = ("string", "array", "block")
MEANINGS: dict[tuple[str, object], str] = {
    ("is_drawn", True): "distances that a known generator draws",
    ("is_stated", True): "distances that can be predicted",
    ("is_stated", False): "distances that are random or unstated",
    ("samples_once", False): "surplus carried, or samples_per_allocation all",
}
"""What the properties of a rule mean in its keys."""


def problems_of(contract: Contract) -> Iterator[str]:
    """What is wrong with a contract, each in a sentence; nothing if it can be used."""
    problems = [*_numbers(contract)]
    computing = () if problems else (_limits, _objects, _settings, _periods, _needs, _exhaustion)
    yield from problems
    for check in (_names, *computing, _fields, _finalizers):
        yield from check(contract)


# Numbers, within the limits that their types state.


def _numbers(contract: Contract) -> Iterator[str]:
    count = 0
    for name, limits in _limits_of(cast(Any, Contract)).items():
        part = name, limits, getattr(contract, name)
        try:
            found, problems = _numbers_in_known(*part)
        except TypeError:  # A target in this process may have stated a list.
            found, problems = _numbers_in(*part)
        count += found
        yield from problems
    yield from _beyond("the number of numbers", count, NUMBERS)


def _numbers_in(
    name: str,
    its_limits: Limits,
    part: Any,  # noqa: ANN401 - any field
) -> tuple[int, list[str]]:
    """How many numbers a part of the contract has, and what is wrong with them."""
    count, problems, pending = 0, [], [(name, its_limits, part)]
    for path, limits, data in pending:  # It grows.
        if isinstance(data, int):
            count += 1
            if not limits.minimum <= data <= limits.maximum:
                shown = data if data in INTEGERS else "further from 0 than 2**62"
                problems.append(f"{path} is {shown}; it must be {limits}")
        elif isinstance(data, tuple):
            item = f"{path}[…]"
            pending += [(item, limits, each) for each in data]
        elif isinstance(data, dict):
            pending += [(f"{path}.{key}", INTEGERS, each) for key, each in data.items()]
        elif attrs.has(type(data)):
            fields = _limits_of(cast(Any, type(data))).items()
            pending += [(f"{path}.{name}", each, getattr(data, name)) for name, each in fields]
    return count, problems


_numbers_in_known = lru_cache(maxsize=64)(_numbers_in)
"""Most parts are the same in each trace of a target."""


@cache
def _limits_of(kind: Any) -> dict[str, Limits]:  # noqa: ANN401 - a class
    """The fields of a class, with the limits that their types state."""
    hints = get_type_hints(kind, include_extras=True)
    types = {field.name: hints[field.name] for field in attrs.fields(kind)}
    return {
        name: get_args(each)[1] if get_origin(each) is Annotated else INTEGERS
        for name, each in types.items()
    }


def _beyond(what: str, number: int, limits: Limits) -> Iterator[str]:
    if number not in limits:
        yield f"{what} is {number}; it must be {limits}"


# The parts of a contract, each for itself.


def _names(contract: Contract) -> Iterator[str]:
    known: dict[str, tuple[Iterable[str], Collection[str]]] = {
        "actions": (contract.actions, ACTIONS),
        "observes": (contract.observes, FIELDS),
        "promises": (contract.promises, OF_PROMISES),
        "layout.kinds": (contract.layout.kinds, KINDS),
    }
    for key, (names, legal) in known.items():
        for name in names:
            if name not in legal:
                yield f"{key} lists {name!r}, which is unknown{did_you_mean(name, legal)}"
    if not contract.actions:
        yield "actions is empty"


def _limits(contract: Contract) -> Iterator[str]:
    """Numbers that other parts of the contract limit."""
    layout, rule, space = contract.layout, contract.sampling, contract.old_space
    kinds, classes, threads = layout.kinds, layout.size_classes, contract.threads
    prebuilt = sum(1 + each.length for each in contract.prebuilt)
    firsts = [each for each in rule.first_bytes if each is not None]
    least = int(rule.crosses == "at")
    limits = {
        "nursery_bytes": (contract.nursery_bytes, Limits(int({*kinds} != {"block"}))),
        "layout.shared_bytes": (layout.shared_bytes, Limits(0, max(classes, default=0))),
        "the number of prebuilt objects and items": (prebuilt, PREBUILT),
        "old_space.page_room_bytes": (space.page_room_bytes, Limits(space.arena_object_bytes_max)),
        "the number of seeds, one a thread,": (threads, THREADS),
        "the number of first_bytes": (len(rule.first_bytes) or threads, Limits(threads, threads)),
        "the least of first_bytes": (min(firsts, default=least), Limits(least)),
    }
    for kind, each in kinds.items():
        length = int(kind in KINDS_WITH_LENGTH)
        limits[f"fixed_bytes of a {kind}"] = each.fixed_bytes, Limits(0, layout.object_bytes_max)
        limits[f"item_bytes of a {kind}"] = each.item_bytes, Limits(length)
    for what, (number, legal) in limits.items():
        yield from _beyond(what, number, legal)


def _objects(contract: Contract) -> Iterator[str]:
    """What the layout has is what the actions need."""
    layout, kinds = contract.layout, contract.layout.kinds
    if any(high <= low for low, high in pairwise((0, *layout.size_classes))):
        yield "layout.size_classes must rise, from at least 1"
    if "block" in kinds and len(kinds) > 1:
        yield "layout has blocks beside other kinds, which could refer to one that was freed"
    known = [name for name in contract.actions if name in ACTIONS]
    needed = [(f"actions lists {name}", ACTIONS[name].kind) for name in known]
    needed += [(f"prebuilt has a {each.kind}", each.kind) for each in contract.prebuilt]
    needed += [("actions lists run_at_once", "string")] * ("run_at_once" in contract.actions)
    legal = {None, *kinds}
    for what, kind in needed:
        if kind not in legal:
            yield f"{what}, but layout has no kind {kind!r}"


def _settings(contract: Contract) -> Iterator[str]:
    settings = contract.settings
    known = {setting.name: setting for setting in settings}
    if len(known) < len(settings):
        yield "settings has two of one name"
    for setting in settings:
        legal, bound = setting.range, known.get(setting.at_most or "")
        if legal.nearest(legal.minimum) not in legal:
            yield f"{setting.name} has no legal value: {legal}"
        elif any(choice not in legal for choice in setting.choices):
            yield f"{setting.name} has a choice that is not {legal}"
        elif bound is not None:
            yield from _bound(setting, bound)
        elif setting.at_most is not None:
            yield f"{setting.name} is at most {setting.at_most!r}, which is not a setting"
            return
    defaults = {setting.name: setting.default for setting in settings}
    if problem := problem_of_configuration(defaults, settings):
        yield f"by default, {problem}"


def _bound(setting: Setting, bound: Setting) -> Iterator[str]:
    """For each value of the bound, which is drawn later, the setting must have a legal one."""
    pair = f"{setting.name} is at most {bound.name}"
    if bound.at_most is not None:
        yield f"{pair}, which must not have such a bound itself"
    if setting.of_process or bound.of_process:
        yield f"{pair}; of_process must be false for both"
    if setting.least > bound.least:
        yield f"{pair}, but their least values are {setting.least} and {bound.least}"


# Sampling.


def _periods(contract: Contract) -> Iterator[str]:
    """The periods are legal, and the formula has a distance for each."""
    rule, periods = contract.sampling, contract.sampling.period_bytes
    if contract.samples and rule == NO_SAMPLING:
        yield "sampling is left out; enable_sampling needs its period_bytes"
    elif contract.samples:
        least = int(rule.distances not in ZERO_IS_EVERY)
        if periods.minimum < least:
            why = f", since distances {rule.distances} give 0 no meaning" if least else ""
            yield f"period_bytes is {periods}; it must start at {least} or above{why}"
        elif periods.nearest(1) not in periods:
            yield f"period_bytes has no legal period: {periods}"
        if any(period_bytes not in periods for period_bytes in rule.periods):
            yield f"one of periods is not {periods}"
        if rule.initial_period_bytes and (problem := rule.why_illegal(rule.initial_period_bytes)):
            yield f"initial_{problem}"
    unit_bytes = UNIT_BYTES.get(rule.distances, 1)
    if periods.multiple % unit_bytes:
        yield f"distances is {rule.distances}: period_bytes must be multiples of {unit_bytes}"
    largest_bytes = _rounded_bytes_max(contract.layout, rule)
    yield from _beyond("the size of the largest object", largest_bytes, Limits(0, 2**62 - 1))
    if rule.is_drawn:
        yield from _beyond("the longest period that is drawn", periods.maximum, DRAWN_PERIODS)
    if rule.is_drawn and not rule.samples_once:
        samples = largest_bytes // max(periods.minimum, 1)
        yield from _beyond("the number of distances drawn for an object", samples, SAMPLES)


def _rounded_bytes_max(layout: Layout, rule: SamplingRule) -> int:
    """The most that an object takes, rounded up to words, to a class or to pages."""
    largest_bytes = layout.object_bytes_max
    if "block" not in layout.kinds:
        return rounded_up(largest_bytes, layout.word_bytes)
    if rule.realloc != "always":  # To grow, it may request a quarter more.
        largest_bytes += largest_bytes // 4
    return layout.room_bytes(largest_bytes)


# What belongs together.


def _needs(contract: Contract) -> Iterator[str]:
    """What a key, an action or a field needs of the sampling rule."""
    rule, counting, listed = contract.sampling, contract.sampling.counting, _listed_in(contract)
    is_one = rule.distances in ZERO_FOR_ONE and 1 in rule.period_bytes
    is_first_known = (rule.first_bytes and None not in rule.first_bytes) or (
        rule.is_drawn and rule.initial_period_bytes
    )
    needs: dict[str, tuple[object, Mapping[str, object]]] = {
        "first_bytes": (rule.first_bytes, DRAWN),
        "offsets in observes": ("offsets" in listed, DRAWN),
        "weights": (rule.weights in ("passed", "whole_objects"), DRAWN),
        "weights sums": (rule.weights == "sums", {"distances": "unstated"}),
        "own_bytes": (rule.own_bytes, {"weights": "sums"}),
        "weights since": (rule.weights == "since", {"is_stated": True, **ONE_DRAW}),
        "estimates": (rule.estimates != "none", {"is_stated": True, **ONE_SAMPLE}),
        "paused placeholders": (rule.paused == "placeholders", {"distances": "gperftools"}),
        "set_callback in actions": ("set_callback" in listed, {"paused": "stopped"}),
        f"{rule.distances} with a period of 1": (is_one, ONE_DRAW),
        "run_at_once": (contract.samples and "run_at_once" in listed, {"is_stated": False}),
        f"counting by {counting.by}": (True, counting.needs),
    }
    for what, (applies, values) in needs.items():
        for key, value in values.items() if applies else ():
            if getattr(rule, key) != value:
                found = rule.distances if key.startswith("is_") else getattr(rule, key)
                yield f"{what} needs {MEANINGS.get((key, value), f'{key} {value}')}, not {found}"
    if rule.enabling == "keeps" and not (is_first_known or counting.local_buffers_end_distances):
        yield "enabling keeps needs first_bytes, a number for each thread"
    for what, applies in {
        "weights in observes": "weights" in listed,
        f"estimates {rule.estimates}": rule.estimates in ("weight", "whole_weight"),
    }.items():
        if applies and rule.weights == "none":
            yield f"{what} needs weights in sampling"
    if rule.estimates == "dumped" and (
        "enable_sampling" in listed or not rule.initial_period_bytes
    ):
        yield "estimates dumped needs initial_period_bytes, and no enable_sampling in actions"
    if "read_profile" in listed and rule.estimates == "none":
        yield "read_profile in actions needs estimates in sampling"
    if "disable_sampling" in listed and not rule.disabling:
        yield "disable_sampling in actions needs a way in disabling"
    yield from counting.problems(contract)


def _fields(contract: Contract) -> Iterator[str]:
    """The fields of observations that oracles need, and what excludes each other."""
    rule, counting, listed = contract.sampling, contract.sampling.counting, _listed_in(contract)
    is_random = contract.samples and rule.distances == "random"
    traits = contract.samples, "report" in rule.disabling, "size" in contract.observes
    needed = {
        **{each: _needed_by(each, *traits) for each in listed},
        **{
            f"{each} in promises": (OF_PROMISES[each],)
            for each in contract.promises
            if each in OF_PROMISES
        },
        "distances random": ("samples",) if is_random else (),
        "enabling reseeds": ("seed",) if rule.enabling == "reseeds" else (),
        f"counting by {counting.by}": counting.needs_observed,
    }
    for what, fields in needed.items():
        for field in fields:
            if field not in contract.observes:
                yield f"{what} needs {field} in observes"
    if "check_contents" in listed and contract.contents is None:
        yield "check_contents in actions needs contents, bytes or checksums"
    if "memory" in contract.observes and "memory" not in contract.promises:
        yield "memory in observes needs memory in promises"
    if "tlab" in listed and not counting.shows_local_buffers:
        yield f"tlab in observes needs buffers of threads, and counting is by {counting.by}"
    excluded: dict[str, tuple[object, Collection[str]]] = {
        "more than one thread": (contract.threads > 1, ["limit"]),
        "run_at_once": ("run_at_once" in listed, ["end_thread", "reports", "collections"]),
        "at_once": (contract.at_once, ["set_period"]),
        "shared_bytes": (contract.layout.shared_bytes, ["realloc"]),
        f"counting by {counting.by}": (True, sorted(counting.excludes)),
    }
    for what, (applies, names) in excluded.items():
        for name in names:
            if applies and name in listed:
                yield f"{name} cannot be listed with {what}"


def _finalizers(contract: Contract) -> Iterator[str]:
    for name in ("register_finalizer", "allocate_ephemeron"):
        if name in contract.actions and contract.finalizers is None:
            yield f"{name} in actions needs finalizers"
    if "register_finalizer" in contract.actions and "run_finalizers" not in contract.actions:
        yield "register_finalizer in actions needs run_finalizers"
    has_destructors = contract.finalizers is not None and contract.finalizers.destructors
    for name in ("allocate_node", "run_finalizers") if has_destructors else ():
        if name not in contract.actions:
            yield f"destructors in finalizers need {name} in actions"
    is_dead = contract.finalizers is not None and contract.finalizers.objects == "dead"
    if "resurrect" in contract.actions and is_dead:
        yield "resurrect in actions needs objects that are kept"


def _exhaustion(contract: Contract) -> Iterator[str]:
    if "exhausted" in contract.observes and contract.exhaustion is None:
        yield "exhausted in observes needs exhaustion"
    if contract.exhaustion is None:
        return
    for field in ("exhausted", "minors"):
        if field not in contract.observes:
            yield f"exhaustion needs {field} in observes"
    for action in ("pin", "run_at_once"):
        if action in contract.actions:
            yield f"{action} cannot be listed with exhaustion"
    if "block" in contract.layout.kinds:
        yield "exhaustion cannot be stated for blocks"
    if contract.batch:
        yield "batch cannot be true with exhaustion, since legality depends on answers"
    kinds = contract.layout.kinds
    allocated = {
        kind.kind
        for name in contract.actions
        if (kind := ACTIONS.get(name)) and kind.allocates and kind.kind in kinds
    }
    sizes = (contract.layout.cost(kind, 0, nonmovable=False)[0] for kind in allocated if kind)
    least_bytes, most_bytes = min(sizes, default=0), contract.exhaustion.heap_bytes_max
    if most_bytes < least_bytes:
        yield (
            f"heap_bytes_max is {most_bytes}, but the smallest object that an action allocates "
            f"takes {least_bytes} bytes"
        )


def _listed_in(contract: Contract) -> list[str]:
    return [*contract.actions, *contract.observes, *contract.promises]


@cache
def _needed_by(name: str, samples: bool, can_report: bool, shows_size: bool) -> tuple[str, ...]:
    """The fields that an oracle needs to judge an action or a field."""
    action = ACTIONS.get(name)
    fields = action.needs if action else NEEDS.get(name, ())
    needed = [field for field in fields if field not in OF_SAMPLING or samples]
    collects = action and action.collects != "never"
    if action and collects and (can_report or "report" not in attrs.fields_dict(action)):
        needed.append("minors")
    if name == "limit" and shows_size:
        needed += ["outside", "at"]
    return tuple(needed)
