"""The probes that only samplers other than PyPy's can reach: blocks, threads, contexts, pauses."""

import pytest

from fuzz.drawing.probes import PROBES, ProbeCounter, probes_for
from fuzz.protocol.actions import (
    Action,
    AllocateNode,
    AllocateString,
    Calloc,
    EnableSampling,
    Free,
    Malloc,
    PauseSampling,
    ReadProfile,
    Realloc,
    SetPeriod,
)
from fuzz.run import Run
from fuzz.targets import make_target

JEMALLOC, TCMALLOC = "reference-jemalloc", "reference-tcmalloc"
OF_REFERENCE = probes_for(make_target("reference").start({}))
LARGE = Malloc(2**20)
"""So many times the default period that it is sampled but for a chance of exp(-256)."""
REACHED: dict[str, tuple[str, dict[str, int], list[Action]]] = {
    "block_sampled": (JEMALLOC, {}, [LARGE]),
    "first_byte_sampled": (JEMALLOC, {"period_bytes": 1}, [Malloc(8)]),
    "last_byte_sampled": (TCMALLOC, {"period_bytes": 1}, [Malloc(0)]),
    "due_while_paused": (JEMALLOC, {}, [PauseSampling(), LARGE]),
    "sampled_by_another_thread": (JEMALLOC, {}, [Malloc(2**20, thread=1)]),
    "block_moved_and_sampled": (TCMALLOC, {}, [Malloc(8), Realloc(0, 2**20)]),
    "block_stayed": (TCMALLOC, {}, [Malloc(10), Realloc(0, 16)]),
    "period_set": (JEMALLOC, {}, [SetPeriod(8)]),
    "period_set_while_paused": (JEMALLOC, {}, [PauseSampling(), SetPeriod(8)]),
    "profile_of_samples": (JEMALLOC, {}, [Calloc(2, 2**19), ReadProfile()]),
    "sample_at_end_of_context": (
        "reference-dotnet",
        {"context_bytes": 64},
        [EnableSampling(8), AllocateNode(0), AllocateString(32)],
    ),
}
NOT_REACHED: dict[str, tuple[str, dict[str, int], list[Action]]] = {
    "block_sampled": (JEMALLOC, {"period_bytes": 2**20}, [Malloc(8)]),
    "first_byte_sampled": (JEMALLOC, {}, [LARGE]),
    "last_byte_sampled": (TCMALLOC, {}, [LARGE]),
    "due_while_paused": (JEMALLOC, {}, [PauseSampling(), Malloc(8)]),
    "sampled_by_another_thread": (JEMALLOC, {}, [LARGE, Malloc(8, thread=1)]),
    "block_moved_and_sampled": (TCMALLOC, {}, [LARGE, Realloc(0, 8)]),
    "block_stayed": (TCMALLOC, {}, [Malloc(10), Realloc(0, 17)]),
    "period_set": (JEMALLOC, {}, [SetPeriod(4096)]),
    "period_set_while_paused": (JEMALLOC, {}, [SetPeriod(8)]),
    "profile_of_samples": (JEMALLOC, {}, [LARGE, Free(0), ReadProfile()]),
    "sample_at_end_of_context": (
        "reference-dotnet",
        {"context_bytes": 64},
        [EnableSampling(8), AllocateNode(0), AllocateNode(0)],
    ),
}


def counted(target: str, configuration: dict[str, int], actions: list[Action]) -> ProbeCounter:
    probes = ProbeCounter()
    run = Run(make_target(target), configuration, probes)
    for action in actions:
        run.step(action)
    return probes


def test_where_nothing_is_drawn_no_byte_is_said_to_be() -> None:
    probes = ProbeCounter()
    run = Run(make_target("reference"), {}, probes)
    for action in (EnableSampling(8), AllocateNode(0)):
        run.step(action)
    assert run.bench.sampling.offsets == []


def test_every_probe_that_the_reference_cannot_reach_is_here() -> None:
    assert set(REACHED) == set(NOT_REACHED) == set(PROBES) - set(OF_REFERENCE)


@pytest.mark.parametrize("probe", REACHED)
def test_a_probe_is_reached(probe: str) -> None:
    assert counted(*REACHED[probe]).counts[probe] == 1


@pytest.mark.parametrize("probe", NOT_REACHED)
def test_a_probe_is_nearly_reached(probe: str) -> None:
    assert counted(*NOT_REACHED[probe]).counts[probe] == 0


@pytest.mark.parametrize("probe", REACHED)
def test_a_target_can_reach_its_probes(probe: str) -> None:
    target, configuration, _ = REACHED[probe]
    assert probe in probes_for(make_target(target).start(configuration))
