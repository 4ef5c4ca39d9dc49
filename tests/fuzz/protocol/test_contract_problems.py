"""What a target may not state: each mistake in a contract is told in a sentence."""

import re
from typing import Any

import attrs
import pytest

from fuzz.protocol.contract import (
    NO_SAMPLING,
    AtOnce,
    Contract,
    KindLayout,
    Layout,
    OldSpace,
    Prebuilt,
    Range,
    SamplingRule,
    Setting,
)
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.counting import (
    ONE_DRAW,
    Buffers,
    Contexts,
    LazySeeds,
    NetBytes,
    ProfileRate,
    Streams,
)
from fuzz.protocol.lines import contract_from_data, unstructured
from fuzz.protocol.target import Target


def problems_with(contract: Contract, **changes: Any) -> list[str]:
    return list(problems_of(attrs.evolve(contract, **changes)))


def layout_with(contract: Contract, **changes: Any) -> Layout:
    return attrs.evolve(contract.layout, **changes)


def rule_with(contract: Contract, **changes: Any) -> SamplingRule:
    return attrs.evolve(contract.sampling, **changes)


def test_the_contract_of_the_reference_has_no_problem(reference: Target) -> None:
    assert list(problems_of(reference.start({}))) == []


def test_a_contract_is_read_as_it_was_written(reference: Target) -> None:
    contract = reference.start({})
    assert contract_from_data(unstructured(contract)) == contract


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"actions": ("alocate_node",)},
            "actions lists 'alocate_node', which is unknown; did you mean `allo",
        ),
        ({"actions": ()}, "actions is empty"),
        (
            {"observes": ("sample",)},
            "observes lists 'sample', which is unknown; did you mean `samples`?",
        ),
        ({"nursery_bytes": 0}, "nursery_bytes is 0; it must be at least 1"),
        ({"pins_max": -1}, "pins_max is -1; it must be at least 0"),
        ({"survivor_bytes": -1}, "survivor_bytes is -1; it must be at least 0"),
        ({"prebuilt": (Prebuilt("array", -1),)}, "prebuilt has a array of length -1"),
        (
            {"prebuilt": (Prebuilt("array", 10**12),)},
            "prebuilt has 1000000000001 objects and items; it may have 4096",
        ),
        (
            {"actions": ("free",), "sampling": SamplingRule(Range(1, 10, 0))},
            "multiple of period_bytes is 0; it must be at least 1",
        ),
        (
            {"actions": ("enable_sampling",), "sampling": NO_SAMPLING},
            "sampling is left out; with enable_sampling it must say which period_bytes are legal",
        ),
        (
            {"actions": ("enable_sampling",), "sampling": SamplingRule(Range(9, 15, 8))},
            "sampling has no legal period_bytes: a multiple of 8 from 9 to 15",
        ),
        (
            {"actions": ("enable_sampling",), "sampling": SamplingRule(Range(0, 64))},
            "sampling has no legal period_bytes: from 0 to 64",
        ),
        (
            {
                "actions": ("enable_sampling", "disable_sampling"),
                "sampling": SamplingRule(Range(8, 64), disabling=()),
            },
            "disabling is empty, but actions lists disable_sampling",
        ),
        (
            {
                "actions": ("enable_sampling",),
                "sampling": SamplingRule(Range(8, 64), paused="placeholders"),
            },
            "paused is placeholders, but distances is period",
        ),
        ({"settings": (Setting("cards", 4, Range(0, 8)),) * 2}, "settings has two of one name"),
        ({"settings": (Setting("cards", 4, Range(9, 8)),)}, "cards has no legal value: from 9 to"),
        (
            {"settings": (Setting("cards", 4, Range(0, 8), at_most="nursery"),)},
            "cards is at most 'nursery', which is no setting",
        ),
        (
            {"settings": (Setting("cards", 4, Range(0, 8), choices=(4, 16)),)},
            "cards has a choice that is not from 0 to 8",
        ),
        ({"settings": (Setting("cards", 16, Range(0, 8)),)}, "by default, cards is 16; it must"),
        (
            {"settings": (Setting("cards", 4, Range(0, 8), at_most="cards"),)},
            "cards is at most cards, which has such a bound itself",
        ),
        (
            {
                "settings": (
                    Setting("small", 1, Range(0, 8), at_most="middle"),
                    Setting("middle", 2, Range(0, 8), at_most="large"),
                    Setting("large", 3, Range(0, 8)),
                )
            },
            "small is at most middle, which has such a bound itself",
        ),
        (
            {
                "settings": (
                    Setting("cards", 50, Range(50, 100), at_most="size"),
                    Setting("size", 100, Range(0, 100)),
                )
            },
            "cards is at most size, but their least values are 50 and 0",
        ),
        (
            {
                "settings": (
                    Setting("cards", 50, Range(0, 100), choices=(50, 60), at_most="size"),
                    Setting("size", 100, Range(40, 100)),
                )
            },
            "cards is at most size, but their least values are 50 and 40",
        ),
        ({"promises": ("memories",)}, "promises lists 'memories', which is unknown"),
        ({"promises": ("memory",)}, "promises lists memory, which nobody can judge without memory"),
        ({"promises": ("progress",)}, "promises lists progress, which nobody can judge without st"),
        ({"promises": ("pressure",)}, "promises lists pressure, which nobody can judge without st"),
        ({"observes": ("memory",)}, "memory is observed, but nothing is promised of it"),
        ({"old_space": OldSpace(card_items=-1)}, "card_items is -1; it must be at least 0"),
        ({"old_space": OldSpace(arena_pages=0)}, "arena_pages is 0; it must be at least 1"),
        (
            {"old_space": OldSpace(arena_object_bytes_max=40, page_room_bytes=39)},
            "page_room_bytes is 39; it must be at least 40",
        ),
    ],
)
def test_a_mistake_in_a_contract_is_told(
    contract: Contract, changes: dict[str, Any], problem: str
) -> None:
    contract = attrs.evolve(contract, observes=(*contract.observes, "samples"))
    assert any(each.startswith(problem) for each in problems_with(contract, **changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"word_bytes": 0}, "word_bytes is 0; it must be at least 1"),
        ({"large_object_bytes": 0}, "large_object_bytes is 0; it must be at least 1"),
        ({"object_bytes_max": 16}, "fixed_bytes of a node is 32; it must be from 0 to 16"),
        ({"kinds": {"tuple": KindLayout(1, 16)}}, "layout has the unknown kind 'tuple'"),
        ({"kinds": {"string": KindLayout(1, 16)}}, "item_bytes of a string is 0; it is too small"),
        ({"kinds": {}}, "actions lists allocate_node, but layout has no kind 'node'"),
    ],
)
def test_a_mistake_in_a_layout_is_told(
    contract: Contract, changes: dict[str, Any], problem: str
) -> None:
    problems = problems_with(contract, layout=layout_with(contract, **changes))
    assert any(each.startswith(problem) for each in problems)


# Blocks, threads, and what is drawn.


def test_the_contract_of_an_allocator_has_no_problem(blocks: Contract) -> None:
    assert list(problems_of(blocks)) == []
    assert contract_from_data(unstructured(blocks)) == blocks


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"page_bytes": 0}, "page_bytes is 0; it must be at least 1"),
        ({"size_classes": (0, 8)}, "size_classes must rise, from at least 1"),
        ({"size_classes": (8, 8)}, "size_classes must rise, from at least 1"),
        ({"size_classes": (16, 8)}, "size_classes must rise, from at least 1"),
        ({"kinds": {"block": KindLayout(1, 0, 0)}}, "item_bytes of a block is 0; it is too small"),
        (
            {"kinds": {"block": KindLayout(1, 0, 1), "node": KindLayout(2, 16)}},
            "layout has blocks beside other kinds, which could refer to one that was freed",
        ),
    ],
)
def test_a_mistake_in_a_layout_of_blocks_is_told(
    blocks: Contract, changes: dict[str, Any], problem: str
) -> None:
    assert problem in problems_with(blocks, layout=layout_with(blocks, **changes))


def test_what_acts_on_blocks_needs_that_kind(contract: Contract) -> None:
    for action in ("malloc", "calloc", "realloc"):
        problem = f"actions lists {action}, but layout has no kind 'block'"
        assert problems_with(contract, actions=(action,)) == [problem]


def test_where_there_are_only_blocks_there_may_be_no_nursery(blocks: Contract) -> None:
    problems = problems_with(blocks, nursery_bytes=-1)
    assert problems == ["nursery_bytes is -1; it must be at least 0"]


DRAWN_IN_CONTEXTS = {
    "distances": "dotnet_document",
    "surplus": "dropped",
    "samples_per_allocation": "one",
    "counting": Contexts(64),
}
NOT_IN_CONTEXTS = f"contexts need distances that are drawn: crosses must be beyond, {ONE_DRAW}"
NOT_PLAIN = "contexts mean nothing unless paused is stopped and weights is none"


def without_callbacks(contract: Contract) -> Contract:
    return attrs.evolve(
        contract.without({"set_callback"}), observes=(*contract.observes, "samples", "order")
    )


IN_STREAMS = {
    "distances": "ocaml",
    "counting": Streams(postponed=("string",), renewed_by=("collections", "callbacks")),
}


def in_streams(contract: Contract) -> Contract:
    observes = ("samples", "minors", "size", "value", "alive", "identity", "graph")
    return attrs.evolve(contract.without({"set_callback"}), observes=observes)


def test_streams_as_those_of_ocaml_have_no_problem(contract: Contract) -> None:
    rule = rule_with(contract, **IN_STREAMS)
    assert problems_with(in_streams(contract), sampling=rule) == []


ALL_SAMPLES = "streams mean nothing unless one thread draws distances, and takes all samples"
AT_FIRST = "streams mean nothing unless enabling draws the first, and sampling is off before"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"period_bytes": Range(12, 120, 4)},
            "distances is ocaml: period_bytes must be multiples of 8",
        ),
        ({"counting": Streams(("cat",))}, "postponed lists 'cat', which is unknown"),
        ({"distances": "period"}, ALL_SAMPLES),
        ({"seeds": (1, 2)}, ALL_SAMPLES),
        ({"surplus": "dropped", "samples_per_allocation": "one"}, ALL_SAMPLES),
        ({"initial_period_bytes": 64}, AT_FIRST),
        ({"first_bytes": (8,)}, AT_FIRST),
        (
            {"paused": "counting"},
            "streams mean nothing with set_callback, or unless paused is stopped",
        ),
    ],
    ids=str,
)
def test_streams_that_nobody_could_follow_are_told(
    contract: Contract, changes: dict[str, Any], problem: str
) -> None:
    rule = rule_with(contract, **{**IN_STREAMS, **changes})
    assert any(
        each.startswith(problem) for each in problems_with(in_streams(contract), sampling=rule)
    )


@pytest.mark.parametrize(
    ("observes", "problem"),
    [
        (("samples", "minors", "offsets"), "limit, offsets and weights mean nothing with streams"),
        (("minors",), "streams mean nothing without samples in observes"),
    ],
    ids=str,
)
def test_streams_need_what_is_observed_of_them(
    contract: Contract, observes: tuple[str, ...], problem: str
) -> None:
    rule = rule_with(contract, **IN_STREAMS)
    assert problem in problems_with(in_streams(contract), sampling=rule, observes=observes)


def test_contexts_as_those_of_dotnet_have_no_problem(contract: Contract) -> None:
    rule = rule_with(contract, **DRAWN_IN_CONTEXTS, seeds=(1, 2))
    assert problems_with(without_callbacks(contract), sampling=rule) == []
    shipped = attrs.evolve(rule, distances="dotnet", enabling="keeps")
    assert problems_with(without_callbacks(contract), sampling=shipped) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"counting": Contexts(0)}, "context_bytes is 0; it must be from 1 to 256"),
        ({"counting": Contexts(264)}, "context_bytes is 264; it must be from 1 to 256"),
        ({"crosses": "at", "distances": "geometric"}, NOT_IN_CONTEXTS),
        ({"surplus": "carried", "distances": "geometric"}, NOT_IN_CONTEXTS),
        ({"samples_per_allocation": "all", "distances": "geometric"}, NOT_IN_CONTEXTS),
        ({"distances": "period"}, NOT_IN_CONTEXTS),
        ({"distances": "random"}, NOT_IN_CONTEXTS),
        ({"paused": "counting"}, NOT_PLAIN),
        ({"weights": "passed"}, NOT_PLAIN),
    ],
    ids=str,
)
def test_a_mistake_in_contexts_is_told(
    contract: Contract, changes: dict[str, Any], problem: str
) -> None:
    rule = rule_with(contract, **{**DRAWN_IN_CONTEXTS, **changes})
    assert problems_with(without_callbacks(contract), sampling=rule) == [problem]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"seeds": (), "first_bytes": ()},
            "seeds has 0 numbers, one a thread; it must have 1 to 64",
        ),
        (
            {"seeds": (0,) * 65, "first_bytes": ()},
            "seeds has 65 numbers, one a thread; it must have 1 to 64",
        ),
        ({"seeds": (-1, 0, 0)}, "seeds has -1; a seed must be from 0 to 18446744073709551615"),
        ({"seeds": (2**64, 0, 0)}, "seeds has 18446744073709551616; a seed must be from 0 to"),
        ({"counting": LazySeeds((0, 0, -1))}, "seeds has -1; a seed must be from 0 to"),
        ({"counting": LazySeeds((1, 2))}, "lazy_seeds has 2 seeds; it must have 3, like seeds of"),
        ({"first_bytes": (1, 2)}, "first_bytes has 2 numbers; it must have none, or 3 like seeds"),
        ({"first_bytes": (1, None, -1)}, "first_bytes has a number below 0"),
        (
            {"first_bytes": (1, None, 0), "crosses": "at", "distances": "jemalloc"},
            "first_bytes has a number below 1",
        ),
        ({"initial_period_bytes": 4097}, "initial_period_bytes is 4097; it must be from 1 to"),
        (
            {"initial_period_bytes": 3, "periods": (1, 2, 4)},
            "initial_period_bytes is 3; it must be one of 1, 2, 4",
        ),
        ({"periods": (100, 4097)}, "one of periods is not from 1 to 4096"),
        (
            {"period_bytes": Range(1, 2**53 + 1)},
            "period_bytes is up to 9007199254740993; gperftools is drawn up to 9007199254740992",
        ),
        (
            {"surplus": "carried", "distances": "dotnet_document"},
            "distances is dotnet_document, which may be 0 for a period of 1: surplus must",
        ),
        (
            {"samples_per_allocation": "all", "distances": "tcmalloc"},
            "distances is tcmalloc, which may be 0 for a period of 1: surplus must be dropped",
        ),
        (
            {"weights": "passed", "distances": "random", "first_bytes": ()},
            "weights means nothing where distances is random",
        ),
        ({"weights": "since", "surplus": "carried"}, "weights is since, which means"),
        ({"counting": NetBytes()}, "net_bytes need distances that are the period, crosses at, sur"),
        (
            {
                "counting": NetBytes(unsampled_bytes=-1),
                "distances": "period",
                "first_bytes": (),
                "crosses": "at",
            },
            "unsampled_bytes is -1; it must be at least 0",
        ),
        ({"estimates": "weight"}, "estimates is weight, but the rule says nothing of weights"),
        (
            {"estimates": "probability", "distances": "random", "first_bytes": ()},
            "estimates means nothing where distances is random",
        ),
        (
            {"estimates": "probability", "distances": "unstated", "first_bytes": ()},
            "estimates means nothing where distances is unstated",
        ),
        (
            {
                "estimates": "probability",
                "distances": "period",
                "samples_per_allocation": "all",
                "first_bytes": (),
            },
            "estimates means nothing unless samples_per_allocation is one",
        ),
        ({"distances": "period"}, "first_bytes means nothing where distances is period"),
        (
            {"distances": "unstated", "first_bytes": (), "counting": LazySeeds((1, 2, 3))},
            "lazy_seeds mean nothing where distances is unstated",
        ),
        ({"initial_period_bytes": -5}, "initial_period_bytes is -5; it must be from 1 to"),
        (
            {"counting": ProfileRate(spent_numbers=1025)},
            "spent_numbers is 1025; it must be from 0 to 1024",
        ),
        (
            {"counting": ProfileRate(certain_period_bytes=1), "samples_per_allocation": "all"},
            "profile_rate needs distances that are drawn: surplus must be dropped",
        ),
    ],
    ids=str,
)
def test_a_mistake_in_a_rule_is_told(
    blocks: Contract, changes: dict[str, Any], problem: str
) -> None:
    [told] = problems_with(blocks, sampling=rule_with(blocks, **changes))
    assert told.startswith(problem)


def test_a_mistake_in_shared_blocks_is_told(blocks: Contract) -> None:
    most = blocks.layout.size_classes[-1]
    layout = attrs.evolve(blocks.layout, shared_bytes=most + 1)
    assert problems_with(blocks, layout=layout) == [
        f"shared_bytes is {most + 1}; it must be from 0 to {most}, as are size_classes",
        "shared_bytes means nothing with realloc",
    ]


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_a_seed_may_be_any_number_of_64_bits(blocks: Contract, seed: int) -> None:
    rule = rule_with(
        blocks, seeds=(seed,) * 3, counting=LazySeeds((seed,) * 3), first_bytes=(0, None, 1)
    )
    assert problems_with(blocks, sampling=rule) == []


def test_distances_of_which_only_the_number_can_be_judged_need_it(blocks: Contract) -> None:
    rule = rule_with(blocks, distances="random", first_bytes=())
    problems = problems_with(blocks, sampling=rule, observes=("size", "minors"))
    assert problems == ["distances is random, which nobody can judge without samples in observes"]


def test_so_many_distances_as_would_take_hours_are_not_drawn(blocks: Contract) -> None:
    rule = rule_with(blocks, samples_per_allocation="all")
    layout = attrs.evolve(blocks.layout, object_bytes_max=2**20 + 1)
    [problem] = problems_with(blocks, sampling=rule, layout=layout)
    assert problem.startswith("an object could pass 1048832 distances that are drawn")


DRAWN = SamplingRule(Range(8, 2**40, 8), distances="geometric")
"""An object is sampled once for each distance that it passes."""


def test_an_object_is_rounded_up_to_words_before_it_passes_distances(contract: Contract) -> None:
    layout = layout_with(contract, word_bytes=2**40)
    observes = (*contract.observes, "samples", "order")
    [problem] = problems_with(contract, sampling=DRAWN, layout=layout, observes=observes)
    assert problem.startswith(f"an object could pass {2**37} distances that are drawn")


@pytest.mark.parametrize(
    "rounding", [{"page_bytes": 2**40}, {"size_classes": (8, 2**40)}], ids=["pages", "class"]
)
def test_a_block_has_all_its_room_before_it_passes_distances(
    blocks: Contract, rounding: dict[str, Any]
) -> None:
    rule = rule_with(blocks, samples_per_allocation="all")
    layout = attrs.evolve(blocks.layout, **rounding)
    [problem] = problems_with(blocks, sampling=rule, layout=layout)
    assert problem.startswith(f"an object could pass {2**40} distances that are drawn")


def test_a_block_that_moves_to_grow_may_have_a_quarter_more_than_asked_for(
    blocks: Contract,
) -> None:
    rule = rule_with(blocks, samples_per_allocation="all", realloc="when_moved")
    layout = attrs.evolve(blocks.layout, object_bytes_max=2**20)
    [problem] = problems_with(blocks, sampling=rule, layout=layout)
    assert problem.startswith(f"an object could pass {2**20 + 2**18} distances that are drawn")


def test_an_object_takes_no_more_bytes_than_can_be_counted(blocks: Contract) -> None:
    layout = attrs.evolve(blocks.layout, object_bytes_max=2**62, page_bytes=3 * 2**60)
    [problem] = problems_with(blocks, layout=layout)
    assert problem == f"an object could take {6 * 2**60} bytes; {2**62} are the most"


def test_a_contract_may_not_have_any_number_of_numbers(blocks: Contract) -> None:
    layout = attrs.evolve(blocks.layout, size_classes=tuple(range(1, 2**16)))
    [problem] = problems_with(blocks, layout=layout)
    assert re.fullmatch(r"it has \d+ numbers; it may have 65536", problem)


def test_callbacks_are_not_counted_where_pausing_goes_on(contract: Contract) -> None:
    rule = rule_with(contract, paused="placeholders")
    observes = (*contract.observes, "samples", "order")
    problems = problems_with(contract, sampling=rule, observes=observes)
    what = "set_callback means nothing where pausing goes on counting"
    assert any(problem.startswith(what) for problem in problems)


def test_what_is_not_drawn_may_have_a_long_period(blocks: Contract) -> None:
    rule = rule_with(blocks, distances="period", first_bytes=(), period_bytes=Range(1, 2**62))
    assert problems_with(blocks, sampling=rule) == []


@pytest.mark.parametrize(
    ("observes", "problem"),
    [
        ("offsets", "offsets means nothing without samples in observes"),
        ("weights", "weights means nothing without samples in observes"),
        ("samples weights", "weights is observed, but the rule says nothing of weights"),
    ],
)
def test_what_is_told_of_samples_must_be_ruled(
    blocks: Contract, observes: str, problem: str
) -> None:
    blocks = blocks.without({"disable_sampling"})
    assert problem in problems_with(blocks, observes=tuple(observes.split()))


def test_offsets_are_of_distances_that_are_drawn(contract: Contract) -> None:
    contract = without_callbacks(contract)
    observes = (*contract.observes, "offsets")
    assert problems_with(contract, observes=observes) == [
        "offsets means nothing where distances is period"
    ]
    rule = rule_with(contract, distances="geometric")
    assert problems_with(contract, observes=observes, sampling=rule) == []


def test_a_profile_must_be_ruled_and_observed(blocks: Contract) -> None:
    asked = attrs.evolve(blocks, actions=(*blocks.actions, "read_profile"))
    assert list(problems_of(asked)) == [
        "read_profile means nothing without profile in observes",
        "actions lists read_profile, but the rule says nothing of estimates",
    ]
    rule = rule_with(blocks, estimates="probability")
    observes = (*blocks.observes, "profile")
    assert problems_with(asked, observes=observes, sampling=rule) == []


def test_contexts_of_which_nothing_is_told_are_a_mistake(contract: Contract) -> None:
    rule = rule_with(contract, **{**DRAWN_IN_CONTEXTS, "counting": Contexts(64, sizes="reported")})
    assert problems_with(without_callbacks(contract), sampling=rule) == [
        f"sizes is reported, which means nothing without {field} in observes"
        for field in ("at", "buffer")
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"seeds": (0, 0)}, "limit means nothing where threads have their own"),
        (DRAWN_IN_CONTEXTS, "limit and set_callback mean nothing with contexts"),
    ],
    ids=str,
)
def test_where_there_are_several_places_to_allocate_no_limit_is_observed(
    contract: Contract, changes: dict[str, Any], problem: str
) -> None:
    contract = without_callbacks(contract)
    observes = (*contract.observes, "limit", "free", "top", "sample_point")
    problems = problems_with(contract, observes=observes, sampling=rule_with(contract, **changes))
    assert problems == [problem]
    assert problems_with(contract, observes=observes) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"paused": "counting"}, "set_callback means nothing where pausing goes on counting"),
        (DRAWN_IN_CONTEXTS, "limit and set_callback mean nothing with contexts"),
    ],
    ids=str,
)
def test_what_cannot_count_a_callbacks_string_has_no_callbacks(
    contract: Contract, changes: dict[str, Any], problem: str
) -> None:
    observes = (*contract.observes, "samples", "order")
    problems = problems_with(contract, observes=observes, sampling=rule_with(contract, **changes))
    assert problems == [problem]


def test_where_sampling_is_on_from_the_start_its_rule_is_judged(blocks: Contract) -> None:
    actions = ("malloc", "free")
    rule = rule_with(blocks, periods=(4097,))
    assert problems_with(blocks, actions=actions, sampling=rule) == [
        "one of periods is not from 1 to 4096",
        "initial_period_bytes is 100; it must be one of 4097",
    ]
    off = attrs.evolve(rule, initial_period_bytes=0)
    assert problems_with(blocks, actions=actions, sampling=off) == []


def test_a_contract_without_sampling_needs_no_rule(contract: Contract) -> None:
    data = unstructured(attrs.evolve(contract, actions=("allocate_node", "free")))
    del data["sampling"]
    assert 8 not in contract_from_data(data).sampling.period_bytes


def meaningless(contract: Contract, actions: str, observes: str) -> list[str]:
    """What such a contract lists without what it takes to judge it."""
    rule = SamplingRule(Range(8, 64), disabling=("drop",))
    problems = problems_with(
        contract, actions=tuple(actions.split()), observes=tuple(observes.split()), sampling=rule
    )
    return [each for each in problems if "means nothing without" in each]


@pytest.mark.parametrize(
    ("actions", "observes", "missing"),
    [
        ("collect_full", "size", "collect_full means nothing without minors in observes"),
        ("set_callback", "minors", "set_callback means nothing without order in observes"),
        ("free", "order", "order means nothing without minors in observes"),
        ("enable_sampling", "order minors", "order means nothing without samples in observes"),
        ("enable_sampling", "reports minors", "reports means nothing without samples in observes"),
        ("free", "limit minors top", "limit means nothing without free in observes"),
        ("free", "limit minors free", "limit means nothing without top in observes"),
        (
            "enable_sampling",
            "limit minors free top",
            "limit means nothing without sample_point in observes",
        ),
        (
            "free",
            "limit minors free top size at",
            "limit means nothing without outside in observes",
        ),
        (
            "free",
            "limit minors free top size outside",
            "limit means nothing without at in observes",
        ),
    ],
)
def test_what_cannot_be_judged_without_another_field_needs_it(
    contract: Contract, actions: str, observes: str, missing: str
) -> None:
    assert meaningless(contract, actions, observes) == [missing]


def test_disabling_that_reports_needs_the_minor_collection_told(contract: Contract) -> None:
    problems = problems_with(contract, actions=("disable_sampling",), observes=("size",))
    assert problems == ["disable_sampling means nothing without minors in observes"]


@pytest.mark.parametrize(
    "observes", ["size graph", "minors order", "minors reports", "minors limit free top"]
)
def test_where_nothing_is_sampled_no_field_of_sampling_is_needed(
    contract: Contract, observes: str
) -> None:
    assert meaningless(contract, "allocate_node free disable_sampling", observes) == []


@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["large", "negative"])
def test_a_number_that_no_target_could_mean_is_told(contract: Contract, number: int) -> None:
    settings = (Setting("cards", 4, Range(number, 8)), Setting("size", 4, Range(0, number)))
    layout = layout_with(contract, object_bytes_max=number)
    problems = problems_with(contract, nursery_bytes=number, layout=layout, settings=settings)
    told = {problem.split()[0] for problem in problems if "is too far from 0" in problem}
    assert told == {"nursery_bytes", "object_bytes_max", "minimum", "maximum"}


BUFFERS = Buffers(64, 64, 16, 8, 8, "allocated", generators="shared")
IN_BUFFERS: dict[str, Any] = {
    "observes": ("samples", "minors", "at"),
    "actions": ("allocate_node", "enable_sampling"),
}


def test_where_a_period_of_0_means_each_allocation_it_is_legal(contract: Contract) -> None:
    right = in_buffers(contract, period_bytes=Range(0, 64))
    assert list(problems_of(right)) == []


def in_buffers(contract: Contract, **rule: Any) -> Contract:
    sampling = {
        "samples_per_allocation": "one",
        "surplus": "dropped",
        "distances": "hotspot",
        "enabling": "keeps",
        "first_bytes": (8,),
        "counting": BUFFERS,
        **rule,
    }
    layout = layout_with(contract, nonmovable="ignored", object_bytes_max=64, large_object_bytes=65)
    changed = attrs.evolve(contract, layout=layout, nursery_bytes=512, **IN_BUFFERS)
    return attrs.evolve(changed, sampling=rule_with(contract, **sampling))


def test_a_contract_with_buffers_has_no_problem(contract: Contract) -> None:
    assert list(problems_of(in_buffers(contract))) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nursery_bytes": 56}, "buffers mean nothing where an object may be larger than the"),
        ({"observes": ("samples", "minors")}, "buffers mean nothing without at in observes"),
        (
            {"observes": (*IN_BUFFERS["observes"], "offsets")},
            "limit, offsets and weights mean nothing with buffers",
        ),
        (
            {"actions": (*IN_BUFFERS["actions"], "set_callback")},
            "set_callback means nothing with buffers",
        ),
    ],
)
def test_where_each_object_lies_must_follow_from_its_buffers(
    changes: dict[str, Any], problem: str, contract: Contract
) -> None:
    problems = problems_with(in_buffers(contract), **changes)
    assert any(each.startswith(problem) for each in problems), problems


def test_a_boundary_is_at_least_one_byte(contract: Contract) -> None:
    problems = problems_with(contract, boundary_bytes=(1, 0))
    assert "boundary_bytes has 0; it must be at least 1" in problems


@pytest.mark.parametrize("changes", [{"nonmovable": "outside"}, {"large_object_bytes": 64}])
def test_beside_buffers_no_object_lies_outside_the_nursery(
    changes: dict[str, Any], contract: Contract
) -> None:
    right = in_buffers(contract)
    problems = problems_with(right, layout=layout_with(right, **changes))
    assert problems == ["buffers mean nothing where an object may lie outside the nursery"]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"samples_per_allocation": "all"}, "buffers mean nothing unless distances are drawn, for"),
        ({"distances": "period", "first_bytes": ()}, "enabling is keeps, but first_bytes does not"),
        ({"enabling": "draws"}, "buffers mean nothing unless enabling is keeps, and paused stopp"),
        (
            {"counting": attrs.evolve(BUFFERS, taken="anywhere")},
            "buffers mean nothing without buffer in observes",
        ),
        (
            {"counting": attrs.evolve(BUFFERS, taken="anywhere", callback_bytes=24)},
            "callback_bytes mean nothing where buffers are taken anywhere",
        ),
        (
            {"counting": attrs.evolve(BUFFERS, waste_bytes=4)},
            "waste_bytes is 4; it must be a multiple of word_bytes, and at least 0",
        ),
        (
            {"counting": attrs.evolve(BUFFERS, births="reseeds")},
            "births is reseeds, which no oracle can judge without seed in observes",
        ),
        ({"first_bytes": (None,)}, "enabling is keeps, but first_bytes does not say what"),
        ({"seeds": (1, 2), "first_bytes": (8, 8)}, "generators is shared, but seeds differ"),
    ],
)
def test_what_is_sampled_in_buffers_must_be_ruled(
    rule: dict[str, Any], problem: str, contract: Contract
) -> None:
    problems = list(problems_of(in_buffers(contract, **rule)))
    assert any(each.startswith(problem) for each in problems), problems


AT_ONCE = AtOnce(unseen_bytes=8)


def at_once(contract: Contract) -> Contract:
    return attrs.evolve(
        contract,
        actions=("allocate_node", "run_at_once", "enable_sampling"),
        observes=("samples", "minors", "shares"),
        sampling=rule_with(contract, distances="unstated"),
        at_once=AT_ONCE,
    )


def test_a_contract_of_threads_at_once_has_no_problem(contract: Contract) -> None:
    assert problems_with(at_once(contract)) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"observes": ("samples", "minors")}, "run_at_once means nothing without shares"),
        ({"sampling": SamplingRule(Range(8, 2**40, 8))}, "the next sample is foretold"),
        ({"promises": ("collections",)}, "where collections are promised, or reports observed"),
        ({"observes": ("samples", "minors", "shares", "reports")}, "or reports observed"),
        ({"actions": ("run_at_once", "end_thread")}, "run_at_once means nothing with end_thread"),
        ({"actions": ("run_at_once", "set_period")}, "at_once means nothing with set_period"),
        ({"at_once": AtOnce(phantom_percent=-1)}, "phantom_percent is -1; it must be at least 0"),
    ],
)
def test_a_mistake_in_a_contract_of_threads_at_once_is_told(
    changes: dict[str, Any], problem: str, contract: Contract
) -> None:
    [told] = problems_with(at_once(contract), **changes)
    assert problem in told


def test_threads_at_once_need_strings(contract: Contract) -> None:
    kinds = {"node": contract.layout.kinds["node"]}
    layout = attrs.evolve(contract.layout, kinds=kinds)
    changes = {"layout": layout, "prebuilt": ()}
    [told] = problems_with(at_once(contract), **changes)
    assert told == "actions lists run_at_once, but layout has no kind 'string'"


def test_what_shows_a_buffer_needs_buffers(contract: Contract) -> None:
    problems = problems_with(contract, observes=(*contract.observes, "tlab"))
    assert "tlab means nothing where counting is by bytes" in problems
