"""The probes that only samplers other than PyPy's can reach: blocks, threads, contexts, pauses."""

import pytest

from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.reached.probes import PROBES, ProbeCounter, probes_for
from fuzz.run import Run
from fuzz.targets import make_target

Case = tuple[str, dict[str, int], list[Action]]

JEMALLOC, TCMALLOC = "reference-jemalloc", "reference-tcmalloc"
OF_REFERENCE = probes_for(make_target("reference").start({}))
LARGE = do.Malloc(2**20)
"""256 times the default period: it is sampled but for a chance of exp(-256)."""
MOVED, STAYED = [do.Malloc(8), do.Realloc(0, 2**20)], [do.Malloc(10), do.Realloc(0, 16)]
SAMPLED = [do.EnableSampling(8), do.AllocateNode(0)]
OTHER = do.Malloc(2**20, thread=1)
CONTEXT = {"context_bytes": 64}
EVERY = {"period_bytes": 1}
GROUPS, SMALL = "reference-groups", {"nursery_bytes": 128}
NODE_AND_ARRAY = do.AllocateGroup((do.Member("node"), do.Member("array")))
TWO_NODES = do.AllocateGroup((do.Member("node"), do.Member("node")))
# A trace that reaches each of them, and one that nearly does.
CASES: dict[str, tuple[Case, Case]] = {
    "block_sampled": ((JEMALLOC, {}, [LARGE]), (JEMALLOC, {"period_bytes": 2**20}, [do.Malloc(8)])),
    "first_byte_sampled": ((JEMALLOC, EVERY, [do.Malloc(8)]), (JEMALLOC, {}, [LARGE])),
    "last_byte_sampled": ((TCMALLOC, EVERY, [do.Malloc(0)]), (TCMALLOC, {}, [LARGE])),
    "due_while_paused": (
        (JEMALLOC, {}, [do.PauseSampling(), LARGE]),
        (JEMALLOC, {}, [do.PauseSampling(), do.Malloc(8)]),
    ),
    "sampled_by_another_thread": (
        (JEMALLOC, {}, [OTHER]),
        (JEMALLOC, {}, [LARGE, do.Malloc(8, thread=1)]),
    ),
    "block_moved_and_sampled": ((TCMALLOC, {}, MOVED), (TCMALLOC, {}, [LARGE, do.Realloc(0, 8)])),
    "block_stayed": ((TCMALLOC, {}, STAYED), (TCMALLOC, {}, [do.Malloc(10), do.Realloc(0, 17)])),
    "period_set": ((JEMALLOC, {}, [do.SetPeriod(8)]), (JEMALLOC, {}, [do.SetPeriod(4096)])),
    "period_set_while_paused": (
        (JEMALLOC, {}, [do.PauseSampling(), do.SetPeriod(8)]),
        (JEMALLOC, {}, [do.SetPeriod(8)]),
    ),
    "profile_of_samples": (
        (JEMALLOC, {}, [do.Calloc(2, 2**19), do.ReadProfile()]),
        (JEMALLOC, {}, [LARGE, do.Free(0), do.ReadProfile()]),
    ),
    "later_member_sampled": (
        (GROUPS, {}, [do.EnableSampling(40), TWO_NODES]),
        (GROUPS, {}, [do.EnableSampling(24), NODE_AND_ARRAY]),
    ),
    "several_members_sampled": (
        (GROUPS, {}, [do.EnableSampling(24), TWO_NODES]),
        (GROUPS, {}, [do.EnableSampling(40), TWO_NODES]),
    ),
    "group_collected_and_was_sampled": (
        (GROUPS, SMALL, [do.EnableSampling(136), *[TWO_NODES] * 3]),
        (GROUPS, SMALL, [do.EnableSampling(240), *[TWO_NODES] * 3]),
    ),
    "sample_at_end_of_context": (
        ("reference-dotnet", CONTEXT, [*SAMPLED, do.AllocateString(32)]),
        ("reference-dotnet", CONTEXT, [*SAMPLED, do.AllocateNode(0)]),
    ),
}


def count(probe: str, case: Case) -> int:
    target, configuration, actions = case
    probes = ProbeCounter()
    run = Run(make_target(target), configuration, probes)
    for action in actions:
        run.step(action)
    return probes.counts[probe]


def test_where_nothing_is_drawn_no_offset_is_known() -> None:
    run = Run(make_target("reference"), {})
    for action in SAMPLED:
        run.step(action)
    assert run.bench.sampling.offsets == []


def test_every_probe_that_the_reference_cannot_reach_is_here() -> None:
    others = ("reference-finalizers", "reference-exhaustion")
    of_others = {probe for name in others for probe in probes_for(make_target(name).start({}))}
    only_hotspot = {"exhausted_again"}
    assert set(CASES) == set(PROBES) - set(OF_REFERENCE) - of_others - only_hotspot


@pytest.mark.parametrize("probe", CASES)
def test_a_probe_is_reached_and_nearly_reached(probe: str) -> None:
    assert [count(probe, case) for case in CASES[probe]] == [1, 0]


@pytest.mark.parametrize("probe", CASES)
def test_a_target_can_reach_its_probes(probe: str) -> None:
    target, configuration, _ = CASES[probe][0]
    assert probe in probes_for(make_target(target).start(configuration))
