"""The memory oracle: what a contract promises about the old space."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from judging import Judge, Step

from fuzz.failures.trace_files import shipped_traces
from fuzz.oracles.memory import MemoryOracle
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, OldSpace, Promise
from fuzz.protocol.observation import Report
from fuzz.replay import replay
from fuzz.targets import make_target

SCANNING, MARKING, SWEEPING = range(3)
SPACE = OldSpace(
    card_items=4,
    arena_object_bytes_max=40,
    arena_bytes=512,
    arena_pages=3,
    page_room_bytes=96,
    threshold_bytes=640,
    threshold_percent=250,
)
PROMISES: tuple[Promise, ...] = ("memory", "progress", "pressure")
LARGE = do.AllocateString(240 - 25)
NODE, STRING, FREE = do.AllocateNode(0), do.AllocateString(0), do.Free(0)


def judge_of(contract: Contract, *promises: Promise, space: OldSpace = SPACE) -> Judge:
    """The memory oracle alone, of a target that is scanning."""
    observes = ("minors", "state", "memory")
    promised = attrs.evolve(
        contract, observes=observes, promises=promises or PROMISES, old_space=space
    )
    return Judge(promised, MemoryOracle, lambda _: {"state": SCANNING})


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return judge_of(contract)


def mismatch_of(judge: Judge, steps: Sequence[Step]) -> tuple[str, object, object]:
    """The field, the expected and the wrong value of the last step."""
    mismatch = judge.mismatch(*steps)
    return mismatch.field, mismatch.expected, mismatch.got


def full(*memory: int) -> Step:
    return do.CollectFull(), {"minors": 4, "memory": [*memory]}


def minor(*figures: int, major_state: int = SCANNING) -> Step:
    """A minor collection, with these figures in its report."""
    reports = [Report([5], figures[0], figures[1], major_state)] if figures else []
    return do.CollectMinor(), {"minors": 1, "reports": reports}


def collecting(action: Action, minors: int = 1, state: int = SCANNING) -> Step:
    return action, {"minors": minors, "state": state}


def old(nodes: int) -> tuple[Step, ...]:
    """That many old nodes, 32 bytes each."""
    return (*[NODE] * nodes, minor())


STEP, BEGUN = collecting(do.CollectStep()), collecting(do.CollectStep(), state=MARKING)
ENDED = collecting(do.CollectStep(), minors=3)
PINNED_STRINGS: tuple[Step, ...] = (
    *[do.AllocateString(14)] * 17,
    *[do.Pin(slot) for slot in range(17)],
    minor(),
    *[do.Unpin(slot) for slot in range(17)],
    *[FREE] * 17,
)
RIGHT: dict[str, list[Step]] = {
    "nothing lives": [do.LoadPrebuilt(0), NODE, LARGE, do.Free(1), do.Free(1), full(0, 0)],
    "bytes are rounded up to words": [
        *(do.AllocateString(1), do.AllocateString(100), do.AllocateString(0, nonmovable=True)),
        *(do.AllocateWeakref(0), do.AllocateOldString(0), full(32 + 128 + 32 + 16 + 32, 512)),
    ],
    "a prebuilt object holds another": [
        do.LoadPrebuilt(0),
        NODE,
        do.Write(0, 0, 1),
        do.Free(1),
        FREE,
        full(32, 512),
    ],
    "an arena that was needed may remain": [*old(10), *[FREE] * 9, full(32, 1024)],
    "what a dead parent held had a page": [
        *(*old(6), STRING, do.AllocateWeakref(6), do.Write(0, 0, 6), do.Free(6), FREE),
        full(5 * 32 + 16, 1024),
    ],
    "while sweeping, objects begin new pages": [
        *([NODE] * 9 + [collecting(do.CollectStep(), 3, SWEEPING)]),
        *((STRING, {"state": SWEEPING}), full(320, 1024)),
    ],
    **{
        f"an old string in {arena_bytes} arena bytes": [
            do.AllocateOldString(0),
            full(32, arena_bytes),
        ]
        for arena_bytes in (0, 512)
    },
    **{
        f"figures in a report: {figures}": [NODE, minor(*figures)]
        for figures in ((32, 512), (32, 0), (10**6, 512))
    },
    "a report while marking": [NODE, minor(0, 512, major_state=MARKING)],
    "a report after a major collection has begun": [NODE, BEGUN, ENDED, minor(0, 512)],
    "a pinned object is still in the nursery": [
        STRING,
        do.Pin(0),
        full(0, 0),
        do.Unpin(0),
        full(32, 512),
    ],
    "a pinned object that only a dead one holds": [
        *(do.AllocateArray(1), minor(24, 512), STRING, do.Pin(1), do.Write(0, 0, 1), FREE, FREE),
        minor(24, 512),
    ],
    **{
        f"a pinned object with an identity: {memory}": [
            *(STRING, do.TakeIdentity(0), do.Pin(0)),
            *[full(*memory)] * 2,
        ]
        for memory in ((0, 0), (32, 512))
    },
    # Progress.
    "an allocation at the threshold": [*old(20), collecting(NODE)],
    "progress at the threshold": [*old(20), collecting(do.CollectProgress())],
    "a minor collection beyond the threshold": [*old(100), minor()],
    "many minor collections may be a major one": [*old(21), collecting(NODE, minors=4)],
    "the threshold is unknown after a major collection": [
        *(*old(21), BEGUN, ENDED, *old(100)),
        *(collecting(action) for action in (NODE, do.CollectProgress(), do.CollectStep())),
    ],
    "objects that die young": [*[NODE, FREE] * 100, collecting(NODE)],
    "dead objects outside are freed": [LARGE, LARGE, FREE, FREE, collecting(LARGE), LARGE],
    "pinned objects do not count": [
        *(*PINNED_STRINGS, collecting(NODE)),
        collecting(do.CollectProgress()),
    ],
    "a walk beyond the threshold": [*old(21), do.CheckHeap()],
    # Pressure.
    "less pressure": [do.AddMemoryPressure(320), do.AddMemoryPressure(320), NODE],
    "any collection is the one that was due": [do.AddMemoryPressure(641), minor(), NODE],
    "a full collection forgets the pressure": [
        *(do.AddMemoryPressure(640), full(0, 0), do.AddMemoryPressure(640)),
        NODE,
    ],
}


@pytest.mark.parametrize("steps", RIGHT.values(), ids=RIGHT)
def test_right_memory(judge: Judge, steps: list[Step]) -> None:
    judge(*steps)


NEW_MAJOR = ("state", MARKING, SCANNING)
NEW_MINOR = ("minors", 1, 0)
WRONG: dict[str, tuple[list[Step], tuple[str, object, object]]] = {
    **{
        f"{used} used bytes": ([NODE, full(used, 512)], ("memory_used_bytes", 32, used))
        for used in (31, 33, 64, -1)
    },
    "no arena": ([NODE, full(32, 0)], ("arena_bytes", 512, 0)),
    "pages of four sizes need a second arena": (
        [NODE, do.AllocateWeakref(0), do.AllocateArray(1), do.AllocateArray(3), full(112, 512)],
        ("arena_bytes", 1024, 512),
    ),
    "an arena that was never needed": ([NODE, full(32, 1024)], ("arena_bytes", 512, 1024)),
    **{
        f"{len(memory)} figures": ([full(*memory)], ("memory", "two figures", memory))
        for memory in ([], [0], [0, 0, 0])
    },
    "no figures": ([collecting(do.CollectFull(), 4)], ("memory", "two figures", None)),
    "a large string in an arena": (
        [do.AllocateOldString(16), full(48, 512)],
        ("arena_bytes", 0, 512),
    ),
    "a report of too few bytes": ([NODE, minor(31, 512)], ("memory_used_bytes", 32, 31)),
    "a report of less than nothing": (
        [NODE, minor(-1, 512, major_state=MARKING)],
        ("memory_used_bytes", 0, -1),
    ),
    "a report of too many arenas": ([NODE, minor(32, 1024)], ("arena_bytes", 512, 1024)),
    "a report of fewer than no arenas": ([NODE, minor(32, -512)], ("arena_bytes", 0, -512)),
    "more than the place of a pinned object": (
        [STRING, do.TakeIdentity(0), do.TakeIdentity(0), do.Pin(0), full(33, 512)],
        ("memory_used_bytes", 32, 33),
    ),
    "the place of a dead object after two full collections": (
        [STRING, do.TakeIdentity(0), do.Pin(0), FREE, full(32, 512), full(32, 512)],
        ("memory_used_bytes", 0, 32),
    ),
    "the place of an object that was never pinned": (
        [STRING, do.TakeIdentity(0), FREE, full(32, 512)],
        ("memory_used_bytes", 0, 32),
    ),
    "an allocation beyond the threshold": ([*old(21), collecting(NODE)], NEW_MAJOR),
    "progress beyond the threshold": ([*old(21), collecting(do.CollectProgress())], NEW_MAJOR),
    "a step": ([STEP], NEW_MAJOR),
    "the threshold depends on what a full collection left": (
        [*old(10), full(320, 1024), *old(15), collecting(NODE), *old(1), collecting(NODE)],
        NEW_MAJOR,
    ),
    "dead old objects are used": ([*old(21), *[FREE] * 21, collecting(NODE)], NEW_MAJOR),
    "an object outside beyond the threshold": ([LARGE] * 3, NEW_MINOR),
    "an old object beyond the threshold": ([do.AllocateOldString(LARGE.length)] * 3, NEW_MINOR),
    "again after dead ones were freed": (
        [LARGE, LARGE, FREE, FREE, collecting(LARGE), LARGE, LARGE],
        NEW_MINOR,
    ),
    "living objects outside": ([LARGE, LARGE, collecting(LARGE)], NEW_MAJOR),
    **{
        f"{action.length if action is LARGE else 'a node'} after pressure {pressed}": (
            [*map(do.AddMemoryPressure, pressed), action],
            NEW_MINOR,
        )
        for pressed in ([641], [320, 321], [640, 1])
        for action in (NODE, LARGE)
    },
    "pressure begins a major collection": (
        [do.AddMemoryPressure(641), collecting(NODE)],
        NEW_MAJOR,
    ),
    "pressure lowers the threshold": (
        [do.AddMemoryPressure(600), *old(2), collecting(NODE)],
        NEW_MAJOR,
    ),
}


@pytest.mark.parametrize(("steps", "mismatch"), WRONG.values(), ids=WRONG)
def test_wrong_memory(
    judge: Judge, steps: list[Step], mismatch: tuple[str, object, object]
) -> None:
    assert mismatch_of(judge, steps) == mismatch


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (
            [NODE, full(0, 512)],
            "are node #1 (32): 32 bytes; 32 bytes less, as node #1 takes, which is",
        ),
        (
            [NODE, do.AllocateArray(2), full(64, 512), FREE, full(64, 512)],
            "are array #2 (32): 32 bytes; 32 bytes more, as node #1 takes",
        ),
        (
            [NODE, full(32, 512), FREE, full(32, 512)],
            "32 bytes more, as node #1 takes, which is dead",
        ),
        ([NODE, full(33, 512)], "alive and old are node #1 (32): 32 bytes"),
        ([full(8, 512)], "nothing old lives: 0 bytes"),
        ([*[NODE] * 6, full(0, 512)], "and node #4 (32) and 2 more: 192 bytes"),
    ],
)
def test_wrong_memory_names_the_objects(judge: Judge, steps: list[Step], why: str) -> None:
    assert why in str(judge.mismatch(*steps))


def test_a_failure_of_memory_names_the_field_of_the_observation() -> None:
    name = "exhaustion-drops-pending"
    [trace] = [each for each in shipped_traces().values() if name in each.header.kills]
    failure = replay(make_target(f"reference-exhaustion+{name}"), trace, "")
    assert failure is not None
    assert failure.where == "memory, bytes in use outside the nursery"
    assert failure.identity == ("memory", "memory_used_bytes", "collect_full", "less")


@pytest.mark.parametrize(
    ("length", "card_items", "used_bytes"),
    [(300, 4, 2416 + 16), (300, 32, 2416 + 8), (300, 0, 2416), (6, 4, 64 + 8), (5, 4, 56)],
)
def test_a_large_array_has_a_bit_for_each_card(
    contract: Contract, length: int, card_items: int, used_bytes: int
) -> None:
    judge = judge_of(contract, "memory", space=attrs.evolve(SPACE, card_items=card_items))
    judge(do.AllocateArray(length), full(used_bytes, 0))


@pytest.mark.parametrize(
    ("promises", "steps"),
    [
        (["progress"], [NODE, full(99, 99)]),
        (["progress", "pressure"], [minor(-1, 10**6)]),
        (["memory"], [*old(21), collecting(NODE), collecting(do.CollectProgress()), STEP]),
        (["memory"], [LARGE, LARGE, LARGE]),
        (["memory", "progress"], [do.AddMemoryPressure(10**6), NODE]),
    ],
)
def test_what_is_not_promised_is_not_judged(
    contract: Contract, promises: list[Promise], steps: list[Step]
) -> None:
    judge_of(contract, *promises)(*steps)


def test_pressure_is_judged_without_the_promise_of_progress(contract: Contract) -> None:
    assert (
        mismatch_of(judge_of(contract, "pressure"), [do.AddMemoryPressure(641), NODE]) == NEW_MINOR
    )


def test_a_contract_that_promises_nothing_is_not_judged(contract: Contract) -> None:
    assert not MemoryOracle.can_judge(contract)
