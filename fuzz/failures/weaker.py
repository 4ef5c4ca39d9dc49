"""What a contract promises less than another one: what a later version no longer has to do right.

A wrong answer is a failure only if a contract forbids it. So a version whose contract is weaker may
pass although it is worse. Invariants: equal contracts are not weaker; each key of a contract is in
`IS_WEAKER`, or has values of which none promises less than another.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fuzz.failures.compare import contract_changes
from fuzz.protocol.contract import Contract, Range, Setting

Judged = Callable[[Any, Any], bool]
"""Whether the second value promises less than the first."""


_falls: Judged = operator.gt
_rises: Judged = operator.lt
"""For numbers: the second one is smaller, or larger, than the first."""


def _loses(then: Collection[object], now: Collection[object]) -> bool:
    return any(each not in now for each in then)


def _is_shorter(then: Collection[object], now: Collection[object]) -> bool:
    return len(now) < len(then)


def _becomes(*weaker: object) -> Judged:
    """The given values promise less than all others, and each less than the one before it."""
    strength = {value: -number for number, value in enumerate(weaker, 1)}
    return lambda then, now: strength.get(now, 0) < strength.get(then, 0)


def _or_none(judged: Judged, none: float) -> Judged:
    """The same for numbers, of which None stands for `none`."""
    return lambda then, now: judged(*(none if each is None else each for each in (then, now)))


def _takes_longer(then: int, now: int) -> bool:
    """For numbers of collections, of which 0 stands for any number."""
    return (now or math.inf) > (then or math.inf)


def _limits_more(then: Range, now: Range) -> bool:
    return (
        now.minimum > then.minimum
        or now.maximum < then.maximum
        or then.multiple % now.multiple != 0
    )


def _allows_fewer(then: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """An empty tuple allows each number of a range."""
    return bool(now) and (not then or _loses(then, now))


def _sets_less(then: tuple[Setting, ...], now: tuple[Setting, ...]) -> bool:
    later = {setting.name: setting for setting in now}
    for setting in then:
        other = later.get(setting.name)
        if (
            other is None
            or _limits_more(setting.range, other.range)
            or _allows_fewer(setting.choices, other.choices)
            or other.at_most not in (None, setting.at_most)
        ):
            return True
    return False


LISTED = {"actions": "carries out", "observes": "observes", "promises": "promises"}
"""The keys of lists, with what a target does that has less there."""
IS_WEAKER: Mapping[str, Judged] = {
    **dict.fromkeys(LISTED, _loses),
    "layout.object_bytes_max": _falls,
    "sampling.period_bytes": _limits_more,
    "sampling.periods": _allows_fewer,
    "sampling.distances": _becomes("random", "unstated"),
    "sampling.weights": _becomes("sums", "none"),
    "sampling.own_bytes": _rises,
    "sampling.estimates": _becomes("none"),
    "sampling.disabling": _loses,
    "sampling.pinning": _becomes("excluded"),
    "sampling.seeds": _is_shorter,
    "sampling.initial_period_bytes": _becomes(0),
    "settings": _sets_less,
    "prebuilt": _is_shorter,
    "pins_max": _falls,
    "old_space.threshold_bytes": _rises,
    "old_space.threshold_percent": _rises,
    "survivor_bytes": _or_none(_falls, math.inf),
    "dead_within": _takes_longer,
    "weak_reads": _becomes("answered"),
    "steps": _becomes("open"),
    "at_once": _becomes(None),
    "at_once.unseen_bytes": _rises,
    "at_once.phantom_bytes": _rises,
    "at_once.phantom_percent": _rises,
    "finalizers": _becomes(None),
    "finalizers.within": _takes_longer,
    "finalizers.called": _becomes("later"),
    "finalizers.within_collections": _takes_longer,
    "finalizers.registrations": _becomes("one_at_a_time", "one"),
    "finalizers.order": _becomes("none"),
    "finalizers.cycles": _becomes("any"),
    "finalizers.weak_in_dead": _becomes("kept"),
    "finalizers.taken_back": _becomes("kept_once"),
    "finalizers.destructors": _falls,
    "exhaustion": lambda then, now: then is None and now is not None,
    "exhaustion.heap_bytes_max": _falls,
    "exhaustion.overshoot_bytes": _rises,
    "exhaustion.found_by": _becomes("major_collections"),
    "exhaustion.survivable": _or_none(_falls, math.inf),
    "exhaustion.soft": _rises,
    "groups": _becomes(None),
    "groups.bytes_max": _falls,
    "groups.members_max": _falls,
    "groups.kinds": _loses,
    "tier_setting": _becomes(None),
    "contents": _becomes(None),
    "fresh_process": _rises,
}
"""The keys of which one value may promise less than another."""
MISSING = object()
"""Stands for the keys of a part that a contract does not have."""


def why_weaker(before: Contract, after: Contract) -> str:
    """What the later contract promises, observes or carries out less, in a line; empty if nothing.

    It compares the contracts of the default configuration.
    """
    weaker, lines = [], []
    for key, judged in IS_WEAKER.items():
        then, now = _value(key, before), _value(key, after)
        if MISSING in (then, now) or not judged(then, now):
            continue
        weaker.append(key)
        if key in LISTED:
            lost = (each for each in then if each not in now)
            lines.append(f"no longer {LISTED[key]} {', '.join(lost)}")
    for change in contract_changes(before, after):
        place = change.split()[0]
        if any(place == key or place.startswith(f"{key}.") for key in weaker if key not in LISTED):
            lines.append(change)
    return "; ".join(lines)


def _value(key: str, contract: Contract) -> Any:  # noqa: ANN401 - of any key
    value: Any = contract
    for name in key.split("."):
        value = MISSING if value is None else getattr(value, name)
    return value
