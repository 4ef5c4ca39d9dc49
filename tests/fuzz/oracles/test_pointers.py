"""The pointers oracle: sample point, limit, top and free, and nothing else."""

from typing import Any

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract

TOP = 256
NODE, CHECK, COLLECT = do.AllocateNode(0), do.CheckHeap(), do.CollectMinor()
PRESSURE, ENABLE, CALLBACK = do.AddMemoryPressure(8), do.EnableSampling(64), do.SetCallback(7)


def step(
    action: Action,
    free: int | None,
    limit: int | None,
    sample_point: int | None = None,
    *,
    top: int | None = TOP,
    **others: Any,
) -> Step:
    """An action and its answer. An allocated object has 32 bytes, right below free."""
    if action.allocates and free:
        others = {"size": 32, "outside": False, "at": free - 32, **others}
    pointers = {"free": free, "limit": limit, "sample_point": sample_point, "top": top}
    return answer(action, **{**pointers, **others})


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return Judge(attrs.evolve(contract, observes=("samples", "limit")))


FIRST = step(NODE, 32, TOP)
ON = step(ENABLE, 0, 64, 64)
PINNED = (step(do.AllocateString(0), 32, TOP), step(do.Pin(0), 32, TOP))
PARTS = (*PINNED, step(COLLECT, 0, 32, top=32, minors=1))
"""A pinned string survives a minor collection, so the nursery has two parts."""
UNPINNED = (*PARTS, step(do.Unpin(0), 0, 32, top=32))
FULL = tuple(step(NODE, 32 * number, TOP) for number in range(1, 9))


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([FIRST], id="while sampling is off, the limit is the top"),
        pytest.param([FIRST, step(NODE, 64, TOP)], id="free moves by what is allocated"),
        pytest.param(
            [FIRST, step(ENABLE, 32, 96, 96), step(NODE, 64, 96, 96)],
            id="the sample point is as far from free as the next sample",
        ),
        pytest.param(
            [step(do.EnableSampling(512), 0, TOP, 512)], id="a sample point beyond the top"
        ),
        pytest.param([ON, step(do.DisableSampling(), 0, TOP)], id="disabling moves the limit back"),
        *[
            pytest.param(
                [*PARTS, step(CHECK, free, top, top=top)],
                id=f"a part of the nursery from free {free} to {top}",
            )
            for free, top in ((0, 32), (0, 0), (32, 32), (64, 96), (64, TOP), (TOP, TOP))
        ],
        pytest.param([*PARTS, step(NODE, 96, TOP)], id="in a part, an object ends at free"),
        pytest.param(
            [
                *PARTS,
                step(do.EnableSampling(16), 0, 16, 16, top=32),
                step(ENABLE, 0, 32, 64, top=32),
            ],
            id="in a part, the limit is the smaller of sample point and top",
        ),
        pytest.param(
            [*UNPINNED, step(CHECK, 0, 32, top=32)], id="the parts stay until a collection"
        ),
        *[
            pytest.param(
                [FIRST, step(PRESSURE, free, free), step(CHECK, free, free)],
                id=f"after memory pressure, the limit may be free at {free}",
            )
            for free in (32, TOP, 0)
        ],
        pytest.param(
            [FIRST, step(PRESSURE, 32, TOP), step(NODE, 64, TOP)],
            id="memory pressure need not make a collection due",
        ),
        pytest.param([ON, step(PRESSURE, 0, 0, 64)], id="a collection is due while sampling is on"),
        pytest.param([*PARTS, step(PRESSURE, 0, 0, top=32)], id="a collection is due with parts"),
        pytest.param(
            [step(CALLBACK, 0, TOP), step(NODE, 64, TOP, minors=1)],
            id="a callback's string lies before the object",
        ),
    ],
)
def test_right_pointers(judge: Judge, steps: list[Step]) -> None:
    judge(*steps)


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        *[
            ([FIRST, step(NODE, 64, TOP, at=at)], f"at: expected 32, got {at}")
            for at in (0, 40, None)
        ],
        (
            [step(do.AllocateNode(0, nonmovable=True), 0, TOP, size=32, outside=True, at=0)],
            "at: expected None, got 0",
        ),
        *[
            (
                [step(ENABLE, 0, 64, at)],
                f"sample_point: expected 64, got {at} (free 0 + 64 bytes until the sample)",
            )
            for at in (56, 72, None)
        ],
        ([step(CHECK, 0, TOP, 64)], "sample_point: expected None, got 64"),
        ([step(ENABLE, 0, TOP, 64)], "limit: expected 64, got 256"),
        ([step(ENABLE, 0, 56, 64)], "limit: expected 64, got 56"),
        ([step(do.EnableSampling(512), 0, 512, 512)], "limit: expected 256, got 512"),
        ([step(do.EnableSampling(512), 0, 0, 512)], "limit: expected 256, got 0"),
        ([step(CHECK, 0, TOP - 8)], "limit: expected 256, got 248"),
        ([step(CHECK, 0, 248, top=248)], "top: expected 256, got 248"),
        ([step(CHECK, 0, 264, top=264)], "top: expected 256, got 264"),
        *[([step(CHECK, free, TOP)], f"free: expected 0, got {free}") for free in (-8, 8, 264)],
        ([*FULL, step(NODE, 288, TOP)], "free: expected at most 256, got 288"),
        ([step(CHECK, None, TOP)], "free: expected an offset, got None"),
        ([step(CHECK, 0, None)], "limit: expected an offset, got None"),
        ([step(CHECK, 0, TOP, top=None)], "top: expected an offset, got None"),
        # Parts of the nursery.
        ([*PARTS, step(CHECK, 0, 264, top=264)], "top: expected at most 256, got 264"),
        ([*PARTS, step(CHECK, -8, 32, top=32)], "free: expected from 0 to 32, got -8"),
        ([*PARTS, step(CHECK, 40, 32, top=32)], "free: expected from 0 to 32, got 40"),
        ([*PARTS, step(CHECK, 264, TOP)], "free: expected from 0 to 256, got 264"),
        *[
            ([*PARTS, step(CHECK, 0, limit, top=32)], f"limit: expected 32, got {limit}")
            for limit in (24, 40, 0, TOP)
        ],
        ([*PARTS, step(NODE, 128, TOP, at=64)], "at: expected 96, got 64"),
        (
            [*PARTS, step(ENABLE, 0, 32, 64, top=32), step(CHECK, 64, 64, 64)],
            "sample_point: expected 128, got 64",
        ),
        ([*PARTS, step(do.EnableSampling(16), 0, 32, 16, top=32)], "limit: expected 16, got 32"),
        ([*PINNED, step(CHECK, 32, 32, top=32)], "top: expected 256, got 32"),
        ([*UNPINNED, step(COLLECT, 0, 32, top=32, minors=1)], "top: expected 256, got 32"),
        (
            [*UNPINNED, step(COLLECT, 0, TOP, minors=1), step(CHECK, 8, TOP)],
            "free: expected 0, got 8",
        ),
        # A collection that may be due.
        ([step(PRESSURE, 0, 8)], "limit: expected 256, got 8"),
        ([step(PRESSURE, 0, TOP - 8)], "limit: expected 256, got 248"),
        ([step(PRESSURE, 8, TOP)], "free: expected 0, got 8"),
        ([step(PRESSURE, 264, TOP)], "free: expected 0, got 264"),
        ([step(CHECK, 0, 0)], "limit: expected 256, got 0"),
        ([step(PRESSURE, 0, 0), step(COLLECT, 0, 0, minors=1)], "limit: expected 256, got 0"),
        (
            [*PARTS, step(PRESSURE, 0, 0, top=32), step(CHECK, 0, 8, top=32)],
            "limit: expected 32, got 8",
        ),
        # A callback without a trace.
        ([step(CALLBACK, 0, TOP), step(NODE, 32, TOP, minors=1)], "free: expected 64, got 32"),
    ],
)
def test_wrong_pointers(judge: Judge, steps: list[Step], problem: str) -> None:
    assert str(judge.mismatch(*steps)).startswith(f"pointers: {problem}")


# A contract that does not state the distances.


@pytest.fixture
def unstated(contract: Contract) -> Judge:
    rule = attrs.evolve(contract.sampling, distances="unstated")
    return Judge(attrs.evolve(contract, sampling=rule, observes=("samples", "limit")))


@pytest.mark.parametrize(("sample_point", "limit"), [(8, 8), (TOP, TOP), (2**30, TOP)])
def test_if_distances_are_unstated_the_sample_point_may_be_anywhere(
    unstated: Judge, sample_point: int, limit: int
) -> None:
    unstated(step(ENABLE, 0, limit, sample_point))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (step(ENABLE, 0, 64, 8), "limit: expected 8, got 64"),
        (step(ENABLE, 0, 64, None), "sample_point: expected an offset, got None"),
        (step(CHECK, 0, TOP, 64), "sample_point: expected None, got 64"),
    ],
)
def test_unstated_pointers_must_still_agree(unstated: Judge, wrong: Step, problem: str) -> None:
    assert str(unstated.mismatch(wrong)).startswith(f"pointers: {problem}")


def test_pointers_are_judged_if_samples_are_not_observed(contract: Contract) -> None:
    judge = Judge(attrs.evolve(contract, observes=("limit",)))
    node = answer(NODE, free=32, limit=256, top=256)
    assert judge.mismatch(node, node).oracle == "pointers"
