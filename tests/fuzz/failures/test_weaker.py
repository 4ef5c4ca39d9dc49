"""A weaker contract: what a later version promises, observes or carries out less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from fuzz.failures.weaker import IS_WEAKER, why_weaker
from fuzz.protocol.contract import AtOnce, Contract, OldSpace, Range, SamplingRule, Setting
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.groups import Groups
from fuzz.protocol.layout import Layout

NEITHER_IS_WEAKER = {
    *("nursery_bytes", "boundary_bytes", "started_with", "batch", "version"),
    *("layout.kinds", "layout.large_object_bytes", "layout.word_bytes", "layout.size_classes"),
    *("layout.page_bytes", "layout.shared_bytes", "layout.shared_rounded", "layout.nonmovable"),
    *("sampling.counting", "sampling.counts", "sampling.crosses", "sampling.surplus"),
    *("sampling.samples_per_allocation", "sampling.realloc", "sampling.paused"),
    *("sampling.setting_period", "sampling.enabling", "sampling.first_bytes"),
    *("old_space.card_items", "old_space.arena_object_bytes_max", "old_space.arena_bytes"),
    *("old_space.arena_pages", "old_space.page_room_bytes"),
    *("finalizers.unregistering", "finalizers.weak", "finalizers.objects", "finalizers.again"),
    *("finalizers.ephemerons", "groups.counted", "groups.sampled"),
}
"""The keys of which each value promises something else."""
PARTS: dict[str, Any] = {
    "layout": Layout,
    "sampling": SamplingRule,
    "old_space": OldSpace,
    "at_once": AtOnce,
    "finalizers": Finalizers,
    "exhaustion": Exhaustion,
    "groups": Groups,
}
SETTING = Setting("nursery_bytes", 256, Range(64, 512))


def keys() -> Iterator[str]:
    for field in attrs.fields(Contract):
        part = PARTS.get(field.name)
        if part is None or field.name in IS_WEAKER:
            yield field.name
        if part is not None:
            yield from (f"{field.name}.{each.name}" for each in attrs.fields(part))


def test_each_key_of_a_contract_may_be_weaker_or_states_something_else() -> None:
    assert sorted(keys()) == sorted({*IS_WEAKER, *NEITHER_IS_WEAKER})


def changed(contract: Contract, key: str, value: Any) -> Contract:
    name, _, rest = key.partition(".")
    if rest:
        value = attrs.evolve(getattr(contract, name), **{rest: value})
    fields: dict[str, Any] = {name: value}
    return attrs.evolve(contract, **fields)


@pytest.mark.parametrize(
    ("key", "strong", "weak", "why"),
    [
        ("actions", ("free", "read", "check_heap"), ("free",), "no longer carries out read, check"),
        ("observes", ("samples", "size"), ("size",), "no longer observes samples"),
        ("promises", ("collections", "memory"), ("memory",), "no longer promises collections"),
        ("layout.object_bytes_max", 4096, 2048, "layout.object_bytes_max 4096 → 2048"),
        ("sampling.period_bytes", Range(8, 64), Range(8, 32), "sampling.period_bytes.maximum 64"),
        ("sampling.period_bytes", Range(8, 64), Range(8, 64, 8), "sampling.period_bytes.multiple"),
        ("sampling.periods", (), (8, 16), "sampling.periods [] → [8, 16]"),
        ("sampling.periods", (8, 16), (8,), "sampling.periods [8, 16] → [8]"),
        ("sampling.distances", "jemalloc", "random", 'sampling.distances "jemalloc" → "random"'),
        ("sampling.distances", "random", "unstated", 'sampling.distances "random" → "unstated"'),
        ("sampling.weights", "passed", "sums", 'sampling.weights "passed" → "sums"'),
        ("sampling.estimates", "weight", "none", 'sampling.estimates "weight" → "none"'),
        ("sampling.disabling", ("drop", "report"), ("drop",), "sampling.disabling.report gone"),
        ("sampling.seeds", (0, 0), (0,), "sampling.seeds [0, 0] → [0]"),
        ("sampling.initial_period_bytes", 8, 0, "sampling.initial_period_bytes 8 → 0"),
        ("settings", (SETTING,), (), "settings.nursery_bytes gone"),
        (
            "settings",
            (SETTING,),
            (attrs.evolve(SETTING, range=Range(64, 256)),),
            "settings.nursery_bytes.range.maximum 512 → 256",
        ),
        (
            "settings",
            (SETTING,),
            (attrs.evolve(SETTING, choices=(64, 256)),),
            "settings.nursery_bytes.choices [] → [64, 256]",
        ),
        ("survivor_bytes", None, 64, "survivor_bytes null → 64"),
        ("survivor_bytes", 64, 32, "survivor_bytes 64 → 32"),
        ("dead_within", 1, 2, "dead_within 1 → 2"),
        ("dead_within", 2, 0, "dead_within 2 → 0"),
        ("weak_reads", "kept", "answered", 'weak_reads "kept" → "answered"'),
        ("steps", "minor", "open", 'steps "minor" → "open"'),
        (
            "finalizers",
            Finalizers(weak="cleared_before"),
            Finalizers(weak="cleared_before", weak_in_dead="kept"),
            'finalizers.weak_in_dead "cleared" → "kept"',
        ),
        (
            "finalizers",
            Finalizers(),
            Finalizers(called="later"),
            'finalizers.called "in_collection" → "later"',
        ),
        (
            "finalizers",
            Finalizers(),
            Finalizers(taken_back="kept_once"),
            'finalizers.taken_back "dropped" → "kept_once"',
        ),
        ("at_once", AtOnce(), None, "at_once gone"),
        ("at_once", AtOnce(8), AtOnce(16), "at_once.unseen_bytes 8 → 16"),
        ("finalizers", Finalizers(), None, "finalizers gone"),
        ("finalizers", Finalizers(within=2), Finalizers(within=0), "finalizers.within 2 → 0"),
        ("finalizers", Finalizers(within=1), Finalizers(within=2), "finalizers.within 1 → 2"),
        (
            "finalizers",
            Finalizers(within_collections=3),
            Finalizers(),
            "finalizers.within_collections 3 → 0",
        ),
        (
            "finalizers",
            Finalizers(within_collections=2),
            Finalizers(within_collections=3),
            "finalizers.within_collections 2 → 3",
        ),
        ("exhaustion", None, Exhaustion(4096), "exhaustion new"),
        ("exhaustion", Exhaustion(4096), Exhaustion(2048), "exhaustion.heap_bytes_max 4096 → 2048"),
        (
            "exhaustion",
            Exhaustion(4096),
            Exhaustion(4096, survivable=1),
            "exhaustion.survivable null → 1",
        ),
        ("contents", "checksums", None, 'contents "checksums" → null'),
        ("fresh_process", False, True, "fresh_process false → true"),
    ],
)
def test_a_weaker_value_is_named_and_a_stronger_one_is_not(
    key: str, strong: object, weak: object, why: str, contract: Contract
) -> None:
    then, now = changed(contract, key, strong), changed(contract, key, weak)
    assert why_weaker(then, now).startswith(why)
    assert why_weaker(now, then) == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "2"),
        ("nursery_bytes", 512),
        ("contents", "checksums"),
        ("sampling.distances", "geometric"),
        ("sampling.crosses", "at"),
    ],
)
def test_another_promise_is_not_a_weaker_one(key: str, value: object, contract: Contract) -> None:
    assert why_weaker(contract, changed(contract, key, value)) == ""


def test_all_that_is_weaker_is_in_one_line(contract: Contract) -> None:
    weaker = attrs.evolve(contract, actions=contract.actions[1:], observes=(), pins_max=0)
    why = why_weaker(attrs.evolve(contract, pins_max=1), weaker)
    lost = f"no longer carries out {contract.actions[0]}; no longer observes "
    assert why == f"{lost}{', '.join(contract.observes)}; pins_max 1 → 0"
