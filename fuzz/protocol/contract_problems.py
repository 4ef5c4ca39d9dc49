"""What is wrong with a contract that a target stated.

A mistake in a contract must not look like a mistake of the collector. Each key checks itself by its
`problems`; this module has what concerns several of them, and what the actions and fields that a
contract lists need. Invariant: rules can draw from a contract without a problem, and oracles can
judge by it. All problems are reported at once, except that no check computes with a number beyond
its limits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache

import attrs

from fuzz.problems import did_you_mean
from fuzz.protocol.actions import ACTIONS
from fuzz.protocol.contract import Contract, problem_of_configuration
from fuzz.protocol.counting.limits import Limits, limits_of, numbers_in
from fuzz.protocol.observation import FIELDS

KINDS = tuple(dict.fromkeys(action.kind for action in ACTIONS.values() if action.kind))
"""The kinds of objects."""
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("alive", "state"), ("minors",)),
    **dict.fromkeys(("order", "reports"), ("minors", "samples")),
    **dict.fromkeys(("offsets", "weights", "samples_by_member"), ("samples",)),
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
NUMBERS = Limits(0, 2**16)
"""How many numbers a contract may have, since several contracts are kept at once."""
PREBUILT = Limits(0, 4096)
"""How many prebuilt objects and items there may be. All are walked after each collection."""


def problems_of(contract: Contract) -> Iterator[str]:
    """What is wrong with a contract, each in a sentence; nothing if it can be used."""
    problems = [*_numbers(contract)]
    yield from problems
    yield from _names(contract)
    if not problems:
        yield from _sizes(contract)
        yield from contract.layout.problems()
        yield from _kinds(contract)
        yield from _settings(contract)
        yield from contract.sampling.problems(contract)
        if contract.exhaustion is not None:
            yield from contract.exhaustion.problems(contract)
        if contract.groups is not None:
            yield from contract.groups.problems(contract)
        if contract.tier_setting not in (None, *(setting.name for setting in contract.settings)):
            yield f"tier_setting is {contract.tier_setting!r}, which is not a setting"
    yield from _fields(contract)
    yield from _needs(contract)
    if contract.weak_reads == "kept":
        yield from _kept(contract)
    if contract.finalizers is not None:
        yield from contract.finalizers.problems(contract)
    if contract.exhaustion is not None and not problems:
        yield from _smallest_object(contract, contract.exhaustion.heap_bytes_max)


def _numbers(contract: Contract) -> Iterator[str]:
    """The numbers that are beyond the limits that their types state."""
    count = 0
    for name, limits in limits_of(Contract).items():
        found, problems = numbers_in(name, limits, getattr(contract, name))
        count += found
        yield from problems
    yield from NUMBERS.problems("the number of numbers", count)


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


def _sizes(contract: Contract) -> Iterator[str]:
    """Numbers that other parts of the contract limit."""
    space, has_nursery = contract.old_space, {*contract.layout.kinds} != {"block"}
    prebuilt = sum(1 + item.length for item in contract.prebuilt)
    yield from Limits(int(has_nursery)).problems("nursery_bytes", contract.nursery_bytes)
    yield from PREBUILT.problems("the number of prebuilt objects and items", prebuilt)
    least_bytes = Limits(space.arena_object_bytes_max)
    yield from least_bytes.problems("old_space.page_room_bytes", space.page_room_bytes)


def _kinds(contract: Contract) -> Iterator[str]:
    """The layout has the kinds of objects that the actions need."""
    known = [name for name in contract.actions if name in ACTIONS]
    needed = [(f"actions lists {name}", ACTIONS[name].kind) for name in known]
    needed += [(f"prebuilt has a {item.kind}", item.kind) for item in contract.prebuilt]
    needed += [("actions lists run_at_once", "string")] * ("run_at_once" in contract.actions)
    legal = {None, *contract.layout.kinds}
    for what, kind in needed:
        if kind not in legal:
            yield f"{what}, but layout has no kind {kind!r}"


def _settings(contract: Contract) -> Iterator[str]:
    settings = contract.settings
    known = {setting.name: setting for setting in settings}
    if len(known) < len(settings):
        yield "settings has two of one name"
    for setting in settings:
        yield from setting.problems(known)
    # The default of a bound that is not a setting is unknown.
    if all(setting.at_most in (None, *known) for setting in settings):
        defaults = {setting.name: setting.default for setting in settings}
        if problem := problem_of_configuration(defaults, settings):
            yield f"by default, {problem}"


def _smallest_object(contract: Contract, most_bytes: int) -> Iterator[str]:
    """The heap must have room for one of the objects that actions allocate."""
    known = [ACTIONS[name] for name in contract.actions if name in ACTIONS]
    kinds = contract.layout.kinds.keys() & {action.kind for action in known if action.allocates}
    sizes = (contract.layout.cost(kind, 0, nonmovable=False)[0] for kind in kinds)
    least_bytes = min(sizes, default=0)
    if most_bytes < least_bytes:
        yield (
            f"heap_bytes_max is {most_bytes}, but the smallest object that an action allocates "
            f"takes {least_bytes} bytes"
        )


def _needs(contract: Contract) -> Iterator[str]:
    """The keys that an action, a field or a promise needs, and what excludes it."""
    rule, counting, listed = contract.sampling, contract.sampling.counting, _listed_in(contract)
    of_rule: dict[str, tuple[bool, Mapping[str, object]]] = {
        "offsets in observes": ("offsets" in listed, {"is_drawn": True}),
        "set_callback in actions": ("set_callback" in listed, {"paused": "stopped"}),
        "run_at_once": (contract.samples and "run_at_once" in listed, {"is_stated": False}),
    }
    for what, (applies, values) in of_rule.items():
        if applies:
            yield from rule.problems_of_needs(what, values)
    if rule.estimates == "dumped" and (
        "enable_sampling" in listed or not rule.initial_period_bytes
    ):
        yield "estimates dumped needs initial_period_bytes, and no enable_sampling in actions"
    needed = {
        ("weights in observes", "weights in sampling"): rule.weights != "none",
        ("read_profile in actions", "estimates in sampling"): rule.estimates != "none",
        ("disable_sampling in actions", "a way in disabling"): rule.disabling,
        ("check_contents in actions", "contents, bytes or checksums"): contract.contents,
        ("memory in observes", "memory in promises"): "memory" in contract.promises,
        ("exhausted in observes", "exhaustion"): contract.exhaustion,
        ("allocate_group in actions", "groups"): contract.groups,
        ("samples_by_member in observes", "groups"): contract.groups,
        ("members in observes", "groups counted each"): contract.counts_members,
        ("register_finalizer in actions", "finalizers"): contract.finalizers,
        ("allocate_ephemeron in actions", "finalizers"): contract.finalizers,
        ("register_finalizer in actions", "run_finalizers"): "run_finalizers" in contract.actions,
        ("memory in promises", "dead_within 1"): contract.dead_within == 1,
        ("reports in observes", "dead_within 1"): contract.dead_within == 1,
    }
    for (what, need), is_there in needed.items():
        if what.split()[0] in listed and not is_there:
            yield f"{what} needs {need}"
    is_open = "buffer" in counting.needs_observed or not counting.predicts_places
    if contract.has_parts and counting.depends_on_collections and is_open:
        yield f"parts in layout cannot be predicted where counting is by {counting.by}"
    if contract.has_parts and contract.exhaustion:
        yield "parts in layout cannot be there with exhaustion"
    if "tlab" in listed and not counting.shows_local_buffers:
        yield f"tlab in observes needs buffers of threads, and counting is by {counting.by}"


def _kept(contract: Contract) -> Iterator[str]:
    """The answer to a weak read says which object is a root from then on."""
    if "alive" not in contract.observes:
        yield "weak_reads kept needs alive in observes"
    if contract.batch:
        yield "batch cannot be true with weak_reads kept, since legality depends on answers"


def _fields(contract: Contract) -> Iterator[str]:
    """The fields of observations that oracles need, and what excludes each other."""
    rule, counting, listed = contract.sampling, contract.sampling.counting, _listed_in(contract)
    is_random = contract.samples and rule.distances == "random"
    promised = [name for name in contract.promises if name in OF_PROMISES]
    traits = (
        *(contract.samples, "report" in rule.disabling, "size" in contract.observes),
        contract.batch and (not contract.samples or rule.distances == "unstated"),
    )
    needed = {
        **{name: _needed_by(name, *traits) for name in listed},
        **{f"{promise} in promises": (OF_PROMISES[promise],) for promise in promised},
        "distances random": ("samples",) if is_random else (),
        "enabling reseeds": ("seed",) if rule.enabling == "reseeds" else (),
        "groups counted each": ("members",) if contract.counts_members else (),
        f"counting by {counting.by}": counting.needs_observed,
        "exhaustion": ("exhausted", "minors") if contract.exhaustion else (),
    }
    for what, fields in needed.items():
        for field in fields:
            if field not in contract.observes:
                yield f"{what} needs {field} in observes"
    excluded: dict[str, tuple[object, Collection[str]]] = {
        "more than one thread": (contract.threads > 1, ["limit"]),
        "run_at_once": ("run_at_once" in listed, ["end_thread", "reports", "collections"]),
        "at_once": (contract.at_once, ["set_period"]),
        "surplus due": (rule.surplus == "due", ["offsets", "samples_by_member"]),
        "shared_bytes": (contract.layout.shared_bytes, ["realloc"]),
        f"counting by {counting.by}": (True, sorted(counting.excludes)),
        # Between two parts, neither a collection is predicted, nor which part is sampled.
        "parts in layout": (
            contract.has_parts,
            [*OF_PROMISES, *("limit", "outside", "reports", "offsets", "set_callback")],
        ),
        "exhaustion": (contract.exhaustion, ["pin", "run_at_once", "allocate_group"]),
    }
    for what, (applies, names) in excluded.items():
        for name in names:
            if applies and name in listed:
                yield f"{name} cannot be listed with {what}"


def _listed_in(contract: Contract) -> list[str]:
    return [*contract.actions, *contract.observes, *contract.promises]


@cache
def _needed_by(
    name: str, samples: bool, can_report: bool, shows_size: bool, may_hide: bool
) -> tuple[str, ...]:
    """The fields that an oracle needs to judge an action or a field.

    A batch may hide when it collects, if no prediction needs it: to show the heap then may change
    what it does.
    """
    action = ACTIONS.get(name)
    fields = action.needs if action else NEEDS.get(name, ())
    needed = [field for field in fields if field not in OF_SAMPLING or samples]
    collects = action and action.collects != "never" and not may_hide
    if action and collects and (can_report or "report" not in attrs.fields_dict(action)):
        needed.append("minors")
    if name == "limit" and shows_size:
        needed += ["outside", "at"]
    return tuple(needed)
