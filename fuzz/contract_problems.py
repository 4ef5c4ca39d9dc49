"""What is wrong with a contract that a target stated.

Whoever writes a contract by hand makes mistakes in it, and a mistake there must not look like one
of the collector. Invariant: a contract without a problem can be drawn from and judged by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import attrs

from fuzz.actions import ACTIONS
from fuzz.contract import Contract, Layout, Range, Setting, problem_of_configuration
from fuzz.observation import Observation

NEEDED_BY: dict[str, tuple[str, ...]] = {
    "node": ("allocate_node",),
    "string": ("allocate_string", "allocate_old_string", "set_callback"),
    "array": ("allocate_array",),
    "weakref": ("allocate_weakref",),
}
"""The kinds of objects, and the actions that cannot do without."""
COLLECTING = ("collect_minor", "collect_progress", "collect_step", "collect_full")
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*COLLECTING, "pin", "alive"), ("minors",)),
    "set_callback": ("order",),
    "order": ("minors", "samples"),
    "reports": ("minors", "samples"),
    "limit": ("minors", "free", "top", "sample_point"),
}
"""Actions, and fields of observations, and the fields without which nobody can judge them."""
OF_SAMPLING = ("samples", "sample_point")
"""The fields that nothing needs where sampling cannot be enabled."""
INTEGERS = Range(-(2**62), 2**62)
PREBUILT_MAX = 4096
"""So many prebuilt objects and items may there be: all are walked after each collection."""
KINDS_WITH_LENGTH = ("string", "array")
FIELDS = [field.name for field in attrs.fields(Observation)]


def problems_of(contract: Contract) -> Iterator[str]:
    """What is wrong with a contract, each in a sentence; nothing if it can be worked with."""
    for key, number in _integers("contract", attrs.asdict(contract)):
        if number not in INTEGERS:
            yield f"{key} is too far from 0; integers must be {INTEGERS}"
    yield from _unknown("actions", contract.actions, ACTIONS)
    yield from _unknown("observes", contract.observes, FIELDS)
    if not contract.actions:
        yield "actions is empty"
    if contract.nursery_bytes < 1:
        yield f"nursery_bytes is {contract.nursery_bytes}; it must be at least 1"
    if contract.pins_max < 0:
        yield f"pins_max is {contract.pins_max}; it must be at least 0"
    for name in (*contract.actions, *contract.observes):
        for field in _needed_by(name, contract):
            if field not in contract.observes:
                yield f"{name} means nothing without {field} in observes"
    yield from _problems_of_layout(contract.layout)
    yield from _problems_of_kinds(contract)
    yield from _problems_of_prebuilt(contract)
    yield from _problems_of_sampling(contract)
    yield from _problems_of_settings(contract.settings)


def _integers(key: str, data: object) -> Iterator[tuple[str, int]]:
    """All integers in plain data, each with the key under which it stands."""
    if isinstance(data, int):
        yield key, data
    elif isinstance(data, dict):
        for name, value in data.items():
            yield from _integers(name, value)
    elif isinstance(data, tuple):
        for value in data:
            yield from _integers(key, value)


def _unknown(key: str, names: Collection[str], known: Collection[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"{key} lists {name!r}, which is unknown; known are {', '.join(known)}"


def _needed_by(name: str, contract: Contract) -> Iterator[str]:
    """The fields without which nobody can judge what an action or a field means."""
    for field in NEEDS.get(name, ()):
        if field not in OF_SAMPLING or "enable_sampling" in contract.actions:
            yield field
    if name == "disable_sampling" and "report" in contract.sampling.disabling:
        yield "minors"
    if name == "limit" and "size" in contract.observes:
        yield from ("outside", "at")


def _problems_of_layout(layout: Layout) -> Iterator[str]:
    for name in ("word_bytes", "large_object_bytes", "object_bytes_max"):
        if getattr(layout, name) < 1:
            yield f"{name} is {getattr(layout, name)}; it must be at least 1"
    for kind, each in layout.kinds.items():
        if kind not in NEEDED_BY:
            yield f"layout has the unknown kind {kind!r}; known are {', '.join(NEEDED_BY)}"
        if each.item_bytes < (kind in KINDS_WITH_LENGTH):
            yield f"item_bytes of a {kind} is {each.item_bytes}; it is too small"
        if not 0 <= each.fixed_bytes <= layout.object_bytes_max:
            most = layout.object_bytes_max
            yield f"fixed_bytes of a {kind} is {each.fixed_bytes}; it must be from 0 to {most}"


def _problems_of_kinds(contract: Contract) -> Iterator[str]:
    kinds = contract.layout.kinds
    for kind, actions in NEEDED_BY.items():
        for action in actions:
            if action in contract.actions and kind not in kinds:
                yield f"actions lists {action}, but layout has no kind {kind!r}"


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
    if "enable_sampling" not in contract.actions:
        return
    if periods.minimum < 1 or periods.nearest(1) not in periods:
        yield f"sampling has no legal period_bytes: {periods}"
    if "disable_sampling" in contract.actions and not contract.sampling.disabling:
        yield "disabling is empty, but actions lists disable_sampling"


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
        if _least(setting) > _least(bound):
            yield (
                f"{setting.name} is at most {bound.name}, but their least values are"
                f" {_least(setting)} and {_least(bound)}"
            )


def _least(setting: Setting) -> int:
    return min(setting.choices, default=setting.range.nearest(setting.range.minimum))
