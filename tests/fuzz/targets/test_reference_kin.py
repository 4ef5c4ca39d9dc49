"""The other references: each has a contract to be worked with, and is clean when fuzzed."""

from __future__ import annotations

import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.random import RandomEngine
from fuzz.problems import BadInputError
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    Calloc,
    CheckHeap,
    CollectMinor,
    EnableSampling,
    Free,
    Malloc,
    PauseSampling,
    ReadNumber,
    ReadProfile,
    Realloc,
    SetPeriod,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.observation import Observation
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES
from gcmodel.blocks.size_classes import GperftoolsSizes, JemallocSizes, Sizes, TcmallocSizes
from gcmodel.sampling.distances import DotnetDocument, Geometric, Gperftools, Jemalloc

BLOCKS = {
    "reference-jemalloc": JemallocSizes(),
    "reference-tcmalloc": TcmallocSizes(),
    "reference-gperftools": GperftoolsSizes(),
}
SLICES = 8
"""Each of 500 actions."""

each_reference = pytest.mark.parametrize("name", REFERENCES)
each_allocator = pytest.mark.parametrize("name", BLOCKS)


def contract_of(name: str, **configuration: int) -> Contract:
    return make_target(name).start(configuration)


def told(name: str, *actions: Action, **configuration: int) -> list[Observation]:
    target = make_target(name)
    target.start(configuration)
    return [target.perform(action) for action in actions]


def last_told(name: str, *actions: Action, **configuration: int) -> Observation:
    return told(name, *actions, **configuration)[-1]


# All of them.


@each_reference
def test_its_contract_can_be_worked_with(name: str) -> None:
    assert [*problems_of(contract_of(name))] == []


@each_reference
def test_a_fuzz_run_finds_nothing_in_it(name: str) -> None:
    engine = RandomEngine(make_target(name), "kin")
    for number in range(SLICES):
        assert engine.run_slice(number, 500, ProbeCounter()).failures == []


@each_reference
def test_a_setting_out_of_range_is_bad_input(name: str) -> None:
    setting = contract_of(name).settings[0]
    with pytest.raises(BadInputError, match=f"{setting.name} is {2**62};"):
        make_target(name).start({setting.name: 2**62})


@each_reference
def test_it_begins_anew_with_each_trace(name: str) -> None:
    target = make_target(name)
    action = Malloc(5000) if name in BLOCKS else AllocateNode(0)
    answers = []
    for _ in range(2):
        target.start({})
        answers.append([target.perform(action) for _ in range(20)])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", [name for name in REFERENCES if name != "reference"])
def test_a_bug_of_the_plain_reference_cannot_be_planted_in_another(name: str) -> None:
    with pytest.raises(BadInputError, match="can be planted in reference only, not in"):
        make_target(f"{name}+sample-on-equality")


@pytest.mark.parametrize("name", ["reference-dotnet-document", *BLOCKS])
def test_there_are_as_many_threads_as_were_chosen(name: str) -> None:
    contract = contract_of(name, threads=3, sampler_seed=7)
    assert (contract.threads, contract.sampling.seeds) == (3, (7, 8, 9))


# Random distances.


def test_the_geometric_distances_begin_from_the_seed() -> None:
    found = last_told("reference-geometric", EnableSampling(64), sampler_seed=7)
    assert found.sample_point == Geometric(7).draw(64)


def test_where_nothing_is_stated_of_distances_no_seed_is_either() -> None:
    rule = contract_of("reference-random", sampler_seed=7).sampling
    assert (rule.distances, rule.seeds) == ("random", (0,))


# Contexts.


def test_a_sample_names_the_byte_that_was_drawn() -> None:
    seed = next(seed for seed in range(100) if DotnetDocument(seed).draw(64) < 16)
    drawn = DotnetDocument(seed)
    drawn.draw(64)  # When enabled: the thread has no context.
    offset = drawn.draw(64)
    found = last_told(
        "reference-dotnet-document", EnableSampling(64), AllocateNode(0), sampler_seed=seed
    )
    assert found.offsets == ([offset] if offset < 32 else [])


def test_threads_have_contexts_of_their_own() -> None:
    actions = [AllocateNode(0, thread=thread) for thread in (0, 1, 0, 1)]
    places = [each.at for each in told("reference-dotnet-document", *actions, context_bytes=64)]
    assert places == [0, 64, 32, 96]


def test_a_report_comes_after_contexts_were_collected() -> None:
    found = last_told(
        "reference-dotnet-document", EnableSampling(8), AllocateArray(2), CollectMinor()
    )
    assert found.order == "MR"


def test_what_a_thread_allocated_another_can_read() -> None:
    actions = [AllocateNode(5, thread=1), ReadNumber(0), CheckHeap(thread=1)]
    assert last_told("reference-dotnet-document", *actions[:2]).value == 5
    assert last_told("reference-dotnet-document", *actions).graph is not None


@pytest.mark.parametrize("action", ["pin", "fork", "set_callback", "add_memory_pressure"])
def test_the_collector_with_contexts_is_not_asked_for_what_it_cannot(action: str) -> None:
    assert action not in contract_of("reference-dotnet-document").actions


# Blocks.


@each_allocator
def test_the_contracts_size_classes_are_those_of_the_model(name: str) -> None:
    layout, sizes = contract_of(name).layout, BLOCKS[name]
    edges = {size + off for size in layout.size_classes for off in (-1, 0, 1)}
    requested = [*range(5000), *edges, 2**20 - 1, 2**20]
    wrong = [
        each
        for each in requested
        if each <= layout.object_bytes_max and layout.room_bytes(each) != sizes.usable_bytes(each)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "sizes"), [("reference-jemalloc", JemallocSizes()), ("reference-tcmalloc", None)]
)
def test_a_block_has_the_size_of_its_class(name: str, sizes: Sizes | None) -> None:
    expected = (sizes or TcmallocSizes()).usable_bytes(100)
    found = told(name, Malloc(100), Calloc(4, 25), Realloc(0, 100), period_bytes=2**20)
    assert [each.size for each in found] == [expected] * 3


def test_a_sampled_block_of_gperftools_has_the_room_of_its_class() -> None:
    found = last_told("reference-gperftools", Malloc(9000), period_bytes=1)
    assert (found.samples, found.size) == (1, 9216)


def test_tcmalloc_tells_weights() -> None:
    found = last_told("reference-tcmalloc", Malloc(99), period_bytes=1)
    # With a period of 1 byte 0 is drawn, and 99 lie beyond it.
    assert found.weights == [100]


@pytest.mark.parametrize("name", ["reference-jemalloc", "reference-gperftools"])
def test_others_tell_none(name: str) -> None:
    assert last_told(name, Malloc(99), period_bytes=1).weights == []


def test_the_first_sample_is_where_the_period_of_the_header_puts_it() -> None:
    wait = Jemalloc(3).draw(2**16)
    actions = [Malloc(8)] * -(-wait // 8)
    found = told("reference-jemalloc", *actions, period_bytes=2**16, sampler_seed=3)
    assert [each.samples for each in found] == [0] * (len(actions) - 1) + [1]


def test_a_new_period_is_that_of_later_distances() -> None:
    first = Gperftools(0)
    first.draw(4096)
    later = first.draw(8)
    found = told("reference-gperftools", SetPeriod(8), Malloc(2**20), Malloc(later // 8 * 8))
    assert [each.samples for each in found] == [0, 1, int(later < 8)]


def test_while_paused_nothing_is_sampled() -> None:
    assert last_told("reference-jemalloc", PauseSampling(), Malloc(2**20)).samples == 0


@each_allocator
def test_a_profile_is_of_what_is_alive(name: str) -> None:
    found = told(name, Malloc(4096), ReadProfile(), Free(0), ReadProfile(), period_bytes=1)
    assert [found[1].profile, found[3].profile] == [[1, 4096], [0, 0]]


@each_allocator
def test_a_slot_that_is_not_there_is_an_error_and_ends_nothing(name: str) -> None:
    # Slots are legality's business: the program that asks for one that is not there is wrong.
    assert str(last_told(name, Free(3)).error).startswith("crash IndexError")
