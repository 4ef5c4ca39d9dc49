"""The other references: their contracts, and sessions without failures."""

from __future__ import annotations

import pytest
from target_helpers import first_failure

from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.observation import Observation
from fuzz.run import run_actions
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES
from gcmodel.blocks.block_heap import BlockHeap
from gcmodel.blocks.size_classes import GperftoolsSizes, JemallocSizes, TcmallocSizes
from gcmodel.sampling.distances import DotnetDocument, Geometric, Gperftools, Jemalloc

BLOCKS = {
    "reference-jemalloc": JemallocSizes(),
    "reference-tcmalloc": TcmallocSizes(),
    "reference-gperftools": GperftoolsSizes(),
}
DOCUMENT = "reference-dotnet-document"

each_reference = pytest.mark.parametrize("name", REFERENCES)
each_allocator = pytest.mark.parametrize("name", BLOCKS)


def contract_of(name: str, **configuration: int) -> Contract:
    return make_target(name).start(configuration)


def observed(name: str, *actions: Action, **configuration: int) -> list[Observation]:
    target = make_target(name)
    target.start(configuration)
    return [target.perform(action) for action in actions]


def last_of(name: str, *actions: Action, **configuration: int) -> Observation:
    return observed(name, *actions, **configuration)[-1]


# All of them.


@each_reference
def test_its_contract_has_no_problems(name: str) -> None:
    assert [*problems_of(contract_of(name))] == []


@pytest.mark.slow
@each_reference
def test_a_session_has_no_failures(name: str) -> None:
    assert first_failure(make_target(name), 4000, "references") is None


@each_reference
def test_a_setting_out_of_range_is_bad_input(name: str) -> None:
    setting = contract_of(name).settings[0]
    with pytest.raises(BadInputError, match=f"{setting.name} is {2**62};"):
        make_target(name).start({setting.name: 2**62})


@pytest.mark.parametrize("name", [DOCUMENT, *BLOCKS])
def test_the_threads_have_consecutive_seeds(name: str) -> None:
    contract = contract_of(name, threads=3, sampler_seed=7)
    assert (contract.threads, contract.sampling.seeds) == (3, (7, 8, 9))


# Random distances.


def test_the_geometric_distances_have_the_seed() -> None:
    observation = last_of("reference-geometric", do.EnableSampling(64), sampler_seed=7)
    assert observation.sample_point == Geometric(7).draw(64)


def test_a_contract_without_distances_states_no_seed() -> None:
    rule = contract_of("reference-random", sampler_seed=7).sampling
    assert (rule.distances, rule.seeds) == ("random", (0,))


# Contexts.


def test_a_sample_names_the_byte_that_was_drawn() -> None:
    seed = next(seed for seed in range(100) if DotnetDocument(seed).draw(64) < 16)
    drawn = DotnetDocument(seed)
    drawn.draw(64)  # When enabled: the thread has no context.
    offset = drawn.draw(64)
    observation = last_of(DOCUMENT, do.EnableSampling(64), do.AllocateNode(0), sampler_seed=seed)
    assert observation.offsets == ([offset] if offset < 32 else [])


def test_each_thread_has_its_own_contexts() -> None:
    actions = [do.AllocateNode(0, thread=thread) for thread in (0, 1, 0, 1)]
    places = [each.at for each in observed(DOCUMENT, *actions, context_bytes=64)]
    assert places == [0, 64, 32, 96]


def test_a_collection_with_contexts_is_followed_by_a_report() -> None:
    actions = (do.EnableSampling(8), do.AllocateArray(2), do.CollectMinor())
    assert last_of(DOCUMENT, *actions).order == "MR"


def test_a_thread_reads_the_objects_of_another() -> None:
    actions = [do.AllocateNode(5, thread=1), do.ReadNumber(0), do.CheckHeap(thread=1)]
    _, read, checked = observed(DOCUMENT, *actions)
    assert read.value == 5
    assert checked.graph is not None


@pytest.mark.parametrize("action", ["pin", "fork", "set_callback", "add_memory_pressure"])
def test_the_collector_with_contexts_has_no_action_of_pypy(action: str) -> None:
    assert action not in contract_of(DOCUMENT).actions


# Blocks.


@each_allocator
def test_the_contracts_size_classes_are_those_of_the_model(name: str) -> None:
    layout, sizes = contract_of(name).layout, BLOCKS[name]
    edges = {size + off for size in layout.size_classes for off in (-1, 0, 1)}
    requested = [*range(5000), *edges, 2**20 - 1, 2**20]
    wrong = [
        each
        for each in requested
        if each <= layout.object_bytes_max
        and layout.capacity_bytes(each) != sizes.usable_bytes(each)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["reference-jemalloc", "reference-tcmalloc"])
def test_a_block_has_the_size_of_its_class(name: str) -> None:
    blocks = observed(
        name, do.Malloc(100), do.Calloc(4, 25), do.Realloc(0, 100), period_bytes=2**20
    )
    assert [each.size for each in blocks] == [BLOCKS[name].usable_bytes(100)] * 3


def test_a_sampled_block_of_gperftools_has_the_size_of_its_class() -> None:
    observation = last_of("reference-gperftools", do.Malloc(9000), period_bytes=1)
    assert (observation.samples, observation.size) == (1, 9216)


@pytest.mark.parametrize(
    ("name", "weights"),
    # With a period of 1 byte, 0 is drawn, and 99 bytes follow it.
    [("reference-tcmalloc", [100]), ("reference-jemalloc", []), ("reference-gperftools", [])],
)
def test_only_a_sample_of_tcmalloc_has_a_weight(name: str, weights: list[int]) -> None:
    assert last_of(name, do.Malloc(99), period_bytes=1).weights == weights


@pytest.mark.slow
def test_the_first_sample_is_drawn_with_the_period_of_the_header() -> None:
    wait = Jemalloc(3).draw(2**16)
    actions = [do.Malloc(8)] * -(-wait // 8)
    blocks = observed("reference-jemalloc", *actions, period_bytes=2**16, sampler_seed=3)
    assert [each.samples for each in blocks] == [0] * (len(actions) - 1) + [1]


def test_a_new_period_counts_for_later_distances() -> None:
    first = Gperftools(0)
    first.draw(4096)
    later = first.draw(8)
    actions = (do.SetPeriod(8), do.Malloc(2**20), do.Malloc(later // 8 * 8))
    observations = observed("reference-gperftools", *actions)
    assert [each.samples for each in observations] == [0, 1, int(later < 8)]


def test_while_paused_nothing_is_sampled() -> None:
    assert last_of("reference-jemalloc", do.PauseSampling(), do.Malloc(2**20)).samples == 0


@each_allocator
def test_a_profile_is_of_what_is_alive(name: str) -> None:
    actions = (do.Malloc(4096), do.ReadProfile(), do.Free(0), do.ReadProfile())
    _, alive, _, freed = observed(name, *actions, period_bytes=1)
    assert [alive.profile, freed.profile] == [[1, 4096], [0, 0]]


@each_allocator
def test_an_unknown_slot_is_an_error(name: str) -> None:
    assert str(last_of(name, do.Free(3)).error).startswith("crash IndexError")


def test_bytes_that_a_realloc_lost_are_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a heap that loses them would be right."""
    monkeypatch.setattr(BlockHeap, "copied", lambda _heap, _block, resized, _bytes: resized)
    target = make_target("reference-jemalloc")
    failure = run_actions(target, {}, [do.Malloc(24), do.Realloc(0, 4096), do.CheckContents()])
    assert failure is not None
    assert failure.oracle == "contents"
