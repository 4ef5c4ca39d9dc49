"""What a target may not state: for each mistake in a contract there is a sentence."""

import re
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from stated_contracts import (
    AT_ONCE,
    BLOCKS,
    BUFFERS,
    CONTEXTS,
    DUE,
    FINALIZERS,
    LIMITED,
    PERIOD,
    PLAIN,
    STREAMS,
    WITHOUT_CALLBACKS,
    Mistake,
    changed,
    each_mistake,
    first_problem,
    problems_with,
)

from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import (
    NO_SAMPLING,
    AtOnce,
    Contract,
    OldSpace,
    Prebuilt,
    Range,
    SamplingRule,
    Setting,
)
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.counting import LazySeeds
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.groups import Groups
from fuzz.protocol.layout import KindLayout, PartLayout
from fuzz.protocol.lines import contract_from_data, unstructured
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target, contract_of


def with_parts(*parts: tuple[int, int]) -> dict[str, Any]:
    """Arrays of these parts; those of the contract take 16 bytes, and 8 an item."""
    array = KindLayout(3, 16, 8, tuple(PartLayout(*part) for part in parts))
    kinds = {"node": KindLayout(1, 32), "string": KindLayout(4, 25, 1)}
    return {"kinds": {**kinds, "array": array, "weakref": KindLayout(2, 16)}}


PARTS = with_parts((8, 8), (8, 0))

# Contracts without a problem.


def test_a_contract_is_read_as_it_was_written(reference: Target, blocks: Contract) -> None:
    for contract in (reference.start({}), blocks):
        assert list(problems_of(contract)) == []
        assert contract_from_data(unstructured(contract)) == contract


@pytest.mark.parametrize(
    "right",
    [
        CONTEXTS | {"seeds": (1, 2)},
        CONTEXTS | {"distances": "dotnet", "enabling": "keeps"},
        STREAMS,
        BUFFERS,
        BUFFERS | {"period_bytes": Range(0, 64)},  # 0 means each allocation.
        AT_ONCE,
        PLAIN | {"observes": (*PLAIN["observes"], "limit", "free", "top", "sample_point")},
        PLAIN | {"distances": "geometric", "observes": (*PLAIN["observes"], "offsets")},
        PLAIN | {"enabling": "keeps"},
        PLAIN | DUE,
    ],
    ids=str,
)
def test_a_contract_may_state(contract: Contract, right: dict[str, Any]) -> None:
    assert problems_with(contract, **right) == []


@pytest.mark.parametrize(
    "right",
    [
        {"seeds": (0,) * 3, "counting": LazySeeds((0,) * 3), "first_bytes": (0, None, 1)},
        {"seeds": (2**64 - 1,) * 3, "counting": LazySeeds((2**64 - 1,) * 3)},
        {**PERIOD, "period_bytes": Range(1, 2**62)},
        {"actions": ("malloc", "free"), "periods": (4097,), "initial_period_bytes": 0},
        {
            "actions": ("malloc", "read_profile"),
            "observes": ("samples", "profile"),
            "estimates": "probability",
        },
    ],
    ids=str,
)
def test_a_contract_of_blocks_may_state(blocks: Contract, right: dict[str, Any]) -> None:
    assert problems_with(blocks, **right) == []


def test_a_contract_without_sampling_needs_no_rule(contract: Contract) -> None:
    data = unstructured(attrs.evolve(contract, actions=("allocate_node", "free")))
    del data["sampling"]
    assert 8 not in contract_from_data(data).sampling.period_bytes


# Mistakes. Only the first stage of checks with a problem reports.

CARDS = Setting("cards", 4, Range(0, 8))
MISTAKES: list[Mistake] = [
    (PLAIN, {"actions": ("alocate_node",)}, "actions lists 'alocate_node', which is unknown; did"),
    (PLAIN, {"actions": ()}, "actions is empty"),
    (PLAIN, {"actions": FINALIZERS}, "register_finalizer in actions needs finalizers"),
    (
        PLAIN,
        {"actions": FINALIZERS, "finalizers": Finalizers()},
        "register_finalizer in actions needs run_finalizers",
    ),
    (
        PLAIN,
        {"actions": ("resurrect",), "finalizers": Finalizers(objects="dead")},
        "resurrect in actions needs objects that are kept",
    ),
    (LIMITED, {"exhaustion": None}, "exhausted in observes needs exhaustion"),
    (PLAIN, {"exhaustion": Exhaustion(8)}, "exhaustion needs exhausted in observes"),
    (LIMITED, {"observes": ("exhausted",)}, "exhaustion needs minors in observes"),
    (LIMITED, {"actions": ("pin",)}, "pin cannot be listed with exhaustion"),
    (
        BLOCKS,
        {"observes": ("minors", "exhausted"), "exhaustion": Exhaustion(8)},
        "exhaustion cannot be stated for blocks",
    ),
    (LIMITED, {"batch": True}, "batch cannot be true with exhaustion"),
    (LIMITED, {"exhaustion": Exhaustion(0)}, "exhaustion.heap_bytes_max is 0; it must be at le"),
    (LIMITED, {"exhaustion": Exhaustion(15)}, "heap_bytes_max is 15, but the smallest object"),
    (
        LIMITED,
        {"actions": ("allocate_node",), "exhaustion": Exhaustion(16)},
        "heap_bytes_max is 16, but the smallest object that an action allocates takes",
    ),
    (
        PLAIN,
        {"actions": ("allocate_node",), "finalizers": Finalizers(destructors=True)},
        "destructors in finalizers need run_finalizers in actions",
    ),
    (PLAIN, {"observes": ("sample",)}, "observes lists 'sample', which is unknown; did you mean `"),
    (PLAIN, {"promises": ("memories",)}, "promises lists 'memories', which is unknown; did you me"),
    (PLAIN, {"kinds": {"tuple": KindLayout(1, 16)}}, "layout.kinds lists 'tuple', which is unknow"),
    # Numbers.
    (PLAIN, {"nursery_bytes": 0}, "nursery_bytes is 0; it must be at least 1"),
    (BLOCKS, {"nursery_bytes": -1}, "nursery_bytes is -1; it must be at least 0"),
    (PLAIN, {"pins_max": -1}, "pins_max is -1; it must be at least 0"),
    (PLAIN, {"survivor_bytes": -1}, "survivor_bytes is -1; it must be at least 0"),
    (PLAIN, {"boundary_bytes": (1, 0)}, "boundary_bytes[…] is 0; it must be at least 1"),
    (PLAIN, {"word_bytes": 0}, "layout.word_bytes is 0; it must be at least 1"),
    (PLAIN, {"large_object_bytes": 0}, "layout.large_object_bytes is 0; it must be at least 1"),
    (PLAIN, {"object_bytes_max": 16}, "fixed_bytes of a node is 32; it must be from 0 to 16"),
    (BLOCKS, {"page_bytes": 0}, "layout.page_bytes is 0; it must be at least 1"),
    (PLAIN, {"kinds": {"string": KindLayout(1, 16)}}, "item_bytes of a string is 0; it must be at"),
    (PLAIN, {"prebuilt": (Prebuilt("array", -1),)}, "prebuilt[…].length is -1; it must be at leas"),
    (PLAIN, {"prebuilt": (Prebuilt("array", 10**12),)}, "the number of prebuilt objects and items"),
    (PLAIN, {"old_space": OldSpace(card_items=-1)}, "old_space.card_items is -1; it must be at le"),
    (PLAIN, {"old_space": OldSpace(arena_pages=0)}, "old_space.arena_pages is 0; it must be at le"),
    (
        PLAIN,
        {"old_space": OldSpace(arena_object_bytes_max=40, page_room_bytes=39)},
        "old_space.page_room_bytes is 39; it must be at least 40",
    ),
    (PLAIN, {"period_bytes": Range(1, 10, 0)}, "sampling.period_bytes.multiple is 0; it must be a"),
    (BLOCKS, {"seeds": (), "first_bytes": ()}, "the number of seeds, one a thread, is 0; it must"),
    (BLOCKS, {"seeds": (0,) * 65, "first_bytes": ()}, "the number of seeds, one a thread, is 65;"),
    (BLOCKS, {"seeds": (-1, 0, 0)}, f"sampling.seeds[…] is -1; it must be from 0 to {2**64 - 1}"),
    (BLOCKS, {"seeds": (2**64, 0, 0)}, "sampling.seeds[…] is further from 0 than 2**62; it must b"),
    (BLOCKS, {"counting": LazySeeds((0, 0, -1))}, "sampling.counting.seeds[…] is -1; it must be f"),
    (BLOCKS, {"first_bytes": (1, 2)}, "the number of first_bytes is 2; it must be from 3 to 3"),
    (BLOCKS, {"first_bytes": (1, None, -1)}, "the least of first_bytes is -1; it must be at least"),
    (
        BLOCKS,
        {"first_bytes": (1, None, 0), "crosses": "at", "distances": "jemalloc"},
        "the least of first_bytes is 0; it must be at least 1",
    ),
    (BLOCKS, {"size_classes": tuple(range(1, 2**16))}, "the number of numbers is 65567; it must b"),
    (BLOCKS, {"shared_bytes": 129}, "layout.shared_bytes is 129; it must be from 0 to 128"),
    (BLOCKS, {"shared_rounded": True}, "layout.shared_rounded needs shared_bytes"),
    (AT_ONCE, {"at_once": AtOnce(phantom_percent=-1)}, "at_once.phantom_percent is -1; it must be"),
    # Kinds of objects.
    (PLAIN, {"kinds": {}}, "actions lists allocate_node, but layout has no kind 'node'"),
    (PLAIN, {"actions": ("malloc",)}, "actions lists malloc, but layout has no kind 'block'"),
    (PLAIN, {"actions": ("realloc",)}, "actions lists realloc, but layout has no kind 'block'"),
    *[
        (BLOCKS, {"size_classes": classes}, "layout.size_classes must rise, from at least 1")
        for classes in ((0, 8), (8, 8), (16, 8))
    ],
    (
        BLOCKS,
        {"kinds": {"block": KindLayout(1, 0, 1), "node": KindLayout(2, 16)}, "nursery_bytes": 1},
        "layout has blocks beside other kinds, which could refer to one that was freed",
    ),
    (
        AT_ONCE,
        {"kinds": {"node": KindLayout(1, 32)}, "prebuilt": ()},
        "actions lists run_at_once, but layout has no kind 'string'",
    ),
    # Groups.
    (PLAIN, {"groups": Groups(0)}, "groups.bytes_max is 0; it must be from 1 to"),
    (PLAIN, {"groups": Groups(8, 65)}, "groups.members_max is 65; it must be from 1 to 64"),
    (PLAIN, {"groups": Groups(64, kinds=())}, "groups.kinds is empty"),
    (PLAIN, {"groups": Groups(8, kinds=("array",))}, "groups.bytes_max is 8, but the least arr"),
    (PLAIN, {"groups": Groups(64)}, "groups.bytes_max is 64; it must be below large_"),
    (PLAIN, {"actions": ("allocate_group",)}, "allocate_group in actions needs groups"),
    (
        PLAIN,
        {"groups": Groups(56), "nursery_bytes": 48},
        "groups.bytes_max is 56; it must be at most nursery_bytes, 48, where a group counts as_one",
    ),
    (
        PLAIN,
        {"groups": Groups(56, counted="each")},
        "groups counted each needs members in observes",
    ),
    (
        PLAIN,
        {"groups": Groups(56), "observes": (*PLAIN["observes"], "members")},
        "members in observes needs groups counted each",
    ),
    # Parts.
    (PLAIN, with_parts((8, 8), (16, 0)), "fixed_bytes of a array is 16; it must be that of its p"),
    (PLAIN, with_parts((8, 0), (8, 0)), "item_bytes of a array is 8; it must be that of its part"),
    (PLAIN, with_parts((17, 8), (-1, 0)), "layout.kinds.array.parts[…].fixed_bytes is -1; it must"),
    (PLAIN, PARTS, "set_callback cannot be listed with parts in layout"),
    (
        {**PLAIN, "actions": WITHOUT_CALLBACKS},
        {**PARTS, "groups": Groups(56, kinds=("array",))},
        "groups.kinds lists array, which has parts, so it is never counted as_one",
    ),
    (LIMITED, PARTS, "parts in layout cannot be there with exhaustion"),
    (CONTEXTS, PARTS, "parts in layout cannot be predicted where counting is by contexts"),
    (STREAMS, PARTS, "parts in layout cannot be predicted where counting is by streams"),
    (
        STREAMS,
        {"groups": Groups(32, kinds=("string",))},
        "groups.kinds lists string, which is postponed: compiled code makes none",
    ),
    # Settings.
    (PLAIN, {"settings": (CARDS,) * 2}, "settings has two of one name"),
    (PLAIN, {"tier_setting": "tier"}, "tier_setting is 'tier', which is not a setting"),
    (
        PLAIN,
        {"settings": (attrs.evolve(CARDS, range=Range(9, 8)),)},
        "cards has no legal value: fr",
    ),
    (
        PLAIN,
        {"settings": (attrs.evolve(CARDS, at_most="nursery"),)},
        "cards is at most 'nursery', which is not a setting",
    ),
    (
        PLAIN,
        {"settings": (attrs.evolve(CARDS, choices=(4, 16)),)},
        "cards has a choice that is not from 0 to 8",
    ),
    (PLAIN, {"settings": (attrs.evolve(CARDS, default=16),)}, "by default, cards is 16; it must b"),
    (
        PLAIN,
        {"settings": (attrs.evolve(CARDS, at_most="cards"),)},
        "cards is at most cards, which must not have such a bound itself",
    ),
    (
        PLAIN,
        {
            "settings": (
                attrs.evolve(CARDS, at_most="middle"),
                Setting("middle", 4, Range(0, 8), at_most="large"),
                Setting("large", 4, Range(0, 8)),
            )
        },
        "cards is at most middle, which must not have such a bound itself",
    ),
    (
        PLAIN,
        {
            "settings": (
                Setting("cards", 50, Range(0, 100), choices=(50, 60), at_most="size"),
                Setting("size", 100, Range(40, 100)),
            )
        },
        "cards is at most size, but their least values are 50 and 40",
    ),
]


@each_mistake(MISTAKES)
def test_a_mistake_in_a_contract_has_a_sentence(
    contract: Contract, blocks: Contract, mistake: Mistake
) -> None:
    assert first_problem(contract, blocks, mistake).startswith(mistake[2])


def test_all_mistakes_in_a_contract_are_reported_at_once(contract: Contract) -> None:
    wrong = changed(contract, actions=("alocate_node",), observes=(), initial_period_bytes=4097)
    wrong = attrs.evolve(wrong, settings=(attrs.evolve(CARDS, default=16),), promises=("memory",))
    with pytest.raises(BadInputError, match=re.escape("(the first of 4 mistakes)")) as raised:
        contract_of(Stating(wrong))
    notes = "\n".join(raised.value.__notes__)
    for mistake in (
        "`allocate_node`?",
        "cards is 16",
        "initial_period_bytes is 4097",
        "needs memo",
    ):
        assert mistake in notes


def test_a_wrong_setting_hides_no_other_one(contract: Contract) -> None:
    settings = (
        attrs.evolve(CARDS, choices=(4, 16), at_most="nursery"),
        attrs.evolve(CARDS, name="marks", at_most="nurseries"),
        attrs.evolve(CARDS, name="pages", range=Range(9, 8)),
    )
    assert problems_with(changed(contract, **PLAIN), settings=settings) == [
        "cards has a choice that is not from 0 to 8",
        "cards is at most 'nursery', which is not a setting",
        "marks is at most 'nurseries', which is not a setting",
        "pages has no legal value: from 9 to 8",
    ]


def test_a_number_beyond_its_limits_hides_no_unknown_name(contract: Contract) -> None:
    problems = problems_with(contract, pins_max=-1, actions=("alocate_node",))
    assert [each.split()[0] for each in problems] == ["pins_max", "actions"]


@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["large", "negative"])
def test_a_number_that_no_target_could_mean_is_a_mistake(contract: Contract, number: int) -> None:
    settings = (Setting("cards", 4, Range(number, 8)), Setting("size", 4, Range(0, number)))
    changes = {"nursery_bytes": number, "object_bytes_max": number, "settings": settings}
    problems = problems_with(changed(contract, **PLAIN), **changes)
    assert {problem.split()[0] for problem in problems} == {
        *("nursery_bytes", "layout.object_bytes_max"),
        *("settings[…].range.minimum", "settings[…].range.maximum"),
    }


# What needs which field of observations.


def needs_with(contract: Contract, actions: str, observes: str) -> list[str]:
    rule = SamplingRule(Range(8, 64), disabling=("drop",))
    return problems_with(
        contract, actions=tuple(actions.split()), observes=tuple(observes.split()), sampling=rule
    )


@pytest.mark.parametrize(
    ("actions", "observes", "problem"),
    [
        ("collect_full", "size", "collect_full needs minors in observes"),
        ("set_callback", "minors", "set_callback needs order in observes"),
        ("free", "order", "order needs minors in observes"),
        ("enable_sampling", "order minors", "order needs samples in observes"),
        ("enable_sampling", "reports minors", "reports needs samples in observes"),
        ("free", "limit minors top", "limit needs free in observes"),
        ("free", "limit minors free", "limit needs top in observes"),
        ("enable_sampling", "limit minors free top", "limit needs sample_point in observes"),
        ("free", "limit minors free top size at", "limit needs outside in observes"),
        ("free", "limit minors free top size outside", "limit needs at in observes"),
    ],
)
def test_what_an_oracle_cannot_judge_without_another_field_needs_it(
    contract: Contract, actions: str, observes: str, problem: str
) -> None:
    assert needs_with(contract, actions, observes) == [problem]


def test_what_a_weak_reference_hands_out_needs_to_be_seen(contract: Contract) -> None:
    kept = changed(contract, actions=("free", "read_weakref"), observes=())
    problems = problems_with(attrs.evolve(kept, weak_reads="kept"))
    assert "weak_reads kept needs alive in observes" in problems


def test_a_batch_keeps_nothing_since_its_actions_do_not_wait_for_answers(
    contract: Contract,
) -> None:
    problems = problems_with(attrs.evolve(contract, weak_reads="kept"), batch=True)
    why = "since legality depends on answers"
    assert f"batch cannot be true with weak_reads kept, {why}" in problems


@pytest.mark.parametrize(
    ("finalizers", "problem"),
    [
        (Finalizers(within=0, within_collections=1), "needs within, which it must not be below"),
        (Finalizers(within=2, within_collections=1), "needs within, which it must not be below"),
        (Finalizers(within_collections=1), "needs minors in observes"),
    ],
)
def test_a_number_of_collections_counts_full_ones_too(
    contract: Contract, finalizers: Finalizers, problem: str
) -> None:
    problems = problems_with(contract, actions=("free",), observes=(), finalizers=finalizers)
    assert f"within_collections in finalizers {problem}" in problems


def test_disabling_that_reports_needs_minor_collections(contract: Contract) -> None:
    problems = problems_with(contract, actions=("disable_sampling",), observes=("size",))
    assert problems == ["disable_sampling needs minors in observes"]


def test_a_batch_may_hide_when_it_collects(contract: Contract) -> None:
    observes = ("size",)
    without_samples = attrs.evolve(contract, sampling=NO_SAMPLING)
    actions = ("collect_full",)
    assert problems_with(without_samples, actions=actions, observes=observes, batch=True) == []


def test_a_batch_shows_when_it_collects_if_that_decides_what_is_sampled(contract: Contract) -> None:
    actions = ("enable_sampling", "collect_full")
    problems = problems_with(contract, actions=actions, observes=("samples",), batch=True)
    assert problems == ["collect_full needs minors in observes"]


@pytest.mark.parametrize(
    "observes", ["size graph", "minors order", "minors reports", "minors limit free top"]
)
def test_if_nothing_is_sampled_no_field_of_sampling_is_needed(
    contract: Contract, observes: str
) -> None:
    assert needs_with(contract, "allocate_node free disable_sampling", observes) == []


# A contract that was made in Python, where a field may have any value.


class Stating:
    """A target with that contract."""

    name = "stating"

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self._contract

    def perform(self, action: Action) -> Observation:
        return Observation()


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("surplus", "drop", 'sampling.surplus is "drop"; did you mean `dropped`?'),
        ("crosses", "reaches", 'sampling.crosses is "reaches"; it must be one of beyond, at'),
        ("disabling", ("forget",), 'sampling.disabling[0] is "forget"'),
        ("initial_period_bytes", 0.5, "sampling.initial_period_bytes must be an integer"),
        ("counting", {"by": "net_byte"}, 'sampling.counting is by "net_byte"; did you mean'),
    ],
)
def test_a_wrong_word_in_python_is_refused_as_in_json(
    contract: Contract, key: str, value: Any, problem: str
) -> None:
    changes: dict[str, Any] = {key: value}
    wrong = attrs.evolve(contract, sampling=attrs.evolve(contract.sampling, **changes))
    with pytest.raises(BadInputError, match=re.escape(problem)):
        contract_of(Stating(wrong))


def test_in_python_lists_are_tuples(contract: Contract) -> None:
    changes: dict[str, Any] = {"observes": [*PLAIN["observes"]]}
    stated = contract_of(Stating(attrs.evolve(contract, **changes)))
    assert stated == attrs.evolve(contract, **PLAIN)
