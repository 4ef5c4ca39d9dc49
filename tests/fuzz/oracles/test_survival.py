"""The survival oracle: each sampled object is reported once, at the next minor collection."""

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.oracles.survival import LISTED_MAX, SurvivalOracle
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Report
from fuzz.protocol.target import Target
from fuzz.run import Run

SURVIVED, OUTSIDE = 1, 2
NODE, WEAKREF, ARRAY, STRING = 1 << 2, 2 << 2, 3 << 2, 4 << 2
ALIVE = NODE | SURVIVED
A_NODE, A_STRING, MINOR, DROP = (
    do.AllocateNode(0),
    do.AllocateString(0),
    do.CollectMinor(),
    do.DisableSampling(),
)


def step(
    action: Action, *reported: int, samples: int = 0, minors: int = 0, reports: int = 1
) -> Step:
    """An action, its samples, and what its one report contains, or each of several."""
    made = [Report([*reported], 0, 0, 0)] * reports if reported or reports > 1 else []
    return answer(action, samples=samples, minors=minors, reports=made)


def collect(*reported: int, **others: int) -> Step:
    return step(MINOR, *reported, **{"minors": 1, **others})


SAMPLED = step(A_NODE, samples=1)


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return Judge(attrs.evolve(contract, observes=("minors", "reports")), SurvivalOracle)


RIGHT: dict[str, list[Step]] = {
    # An unreachable old object keeps a sampled young one alive in the minor collection with which
    # a full one begins. A session of nine million actions found that the oracle expected its death.
    "an object survives, and the same full collection frees it": [
        *(step(A_NODE), collect(), SAMPLED, step(do.AllocateWeakref(1))),
        *(step(do.Write(0, 0, 1)), step(do.Free(0)), step(do.Free(0))),
        step(do.CollectFull(), ALIVE, minors=5),
    ],
    "an object survives": [SAMPLED, collect(ALIVE)],
    "an object dies": [step(A_STRING, samples=1), step(do.Free(0)), collect(STRING)],
    "a large object": [step(do.AllocateArray(6), samples=1), collect(ARRAY | OUTSIDE | SURVIVED)],
    "a nonmovable object": [
        step(do.AllocateArray(0, nonmovable=True), samples=1),
        collect(ARRAY | OUTSIDE | SURVIVED),
    ],
    "two samples": [step(A_NODE, samples=2), collect(ALIVE, ALIVE)],
    "the entries in another order": [
        *(SAMPLED, step(A_STRING, samples=1)),
        collect(STRING | SURVIVED, ALIVE),
    ],
    "several reports": [
        step(A_NODE, samples=2),
        step(do.CollectFull(), ALIVE, minors=2, reports=2),
        collect(),
    ],
    "a collection inside an allocation reports earlier objects": [
        *(SAMPLED, step(A_STRING, ALIVE, samples=1, minors=1)),
        collect(STRING | SURVIVED),
    ],
    "dropped samples": [SAMPLED, step(DROP), collect()],
    "a string that is old from the start survives": [
        *(step(do.AllocateOldString(0), samples=1), step(do.Free(0))),
        collect(STRING | OUTSIDE | SURVIVED),
    ],
    "a pinned object that nothing holds dies": [
        *(step(A_STRING, samples=1), step(do.Pin(0)), step(do.Free(0))),
        collect(STRING),
    ],
    "disabling reports": [
        *(SAMPLED, step(do.DisableSampling(report=True), ALIVE, minors=1)),
        collect(),
    ],
    "enabling again keeps the samples": [SAMPLED, step(do.EnableSampling(8)), collect(ALIVE)],
}


@pytest.mark.parametrize("steps", RIGHT.values(), ids=RIGHT)
def test_a_right_report(judge: Judge, steps: list[Step]) -> None:
    judge(*steps)
    assert judge.bench.pending == {}


WRONG: dict[str, tuple[list[Step], str]] = {
    "an object without a sample": ([step(A_NODE), collect(), collect(ALIVE)], "0, got 1"),
    **{
        f"{action} drops the samples": (
            [SAMPLED, step(action), step(do.ResumeSampling()), collect(ALIVE)],
            "0, got 1",
        )
        for action in (do.PauseSampling(), do.Fork())
    },
    "a pinned object twice": (
        [step(A_STRING, samples=1), step(do.Pin(0)), *[collect(STRING | SURVIVED)] * 2],
        "0, got 1",
    ),
    "no report": ([SAMPLED, collect()], "1, got 0"),
    "an entry too many": ([SAMPLED, collect(ALIVE, ALIVE)], "1, got 2"),
    "an object in two collections": ([SAMPLED, collect(ALIVE), collect(ALIVE)], "0, got 1"),
    "a report without a collection": ([SAMPLED, step(do.CheckHeap(), ALIVE)], "0, got 1"),
}


@pytest.mark.parametrize(("steps", "numbers"), WRONG.values(), ids=WRONG)
def test_a_wrong_number_of_reported_samples(judge: Judge, steps: list[Step], numbers: str) -> None:
    assert str(judge.mismatch(*steps)).startswith(f"survival: reported: expected {numbers}")


def test_a_report_without_an_entry_is_too_many(judge: Judge) -> None:
    empty = answer(MINOR, minors=1, reports=[Report([], 0, 0, 0)])
    assert "reports: expected 0, got 1" in str(judge.mismatch(empty))


def test_a_minor_collection_makes_one_report_at_most(judge: Judge) -> None:
    steps = [step(A_NODE, samples=2), collect(ALIVE, reports=2)]
    assert "reports: expected 1, got 2" in str(judge.mismatch(*steps))


@pytest.mark.parametrize(
    ("action", "entry", "described"),
    [
        (A_NODE, NODE, ["node", "in the nursery", "died"]),
        (A_NODE, ALIVE | OUTSIDE, ["node", "outside", "survived"]),
        (A_NODE, WEAKREF | SURVIVED, ["weakref", "in the nursery", "survived"]),
        (A_NODE, 9 << 2 | SURVIVED, [9, "in the nursery", "survived"]),
        (do.AllocateOldString(0), STRING | OUTSIDE, ["string", "outside", "died"]),
    ],
)
def test_an_entry_that_is_wrong_is_described(
    judge: Judge, action: Action, entry: int, described: list[object]
) -> None:
    mismatch = judge.mismatch(step(action, samples=1), collect(entry))
    assert (mismatch.field, mismatch.got, mismatch.direction) == ("entry", described, "different")
    place = "in the nursery" if action is A_NODE else "outside"
    assert mismatch.expected == [action.kind, place, "survived"]


def test_the_sampled_objects_are_named_with_their_number_of_samples(judge: Judge) -> None:
    steps = [step(A_NODE, samples=2), step(A_STRING, samples=1), collect(NODE)]
    assert judge.mismatch(*steps).why == "sampled objects: node #1 (2 times), string #2"


def test_of_many_sampled_objects_only_some_are_named(judge: Judge) -> None:
    steps = [*[SAMPLED] * (LISTED_MAX + 2), collect(NODE)]
    assert judge.mismatch(*steps).why.endswith(f"node #{LISTED_MAX} and 2 more")


def test_the_reports_other_figures_are_not_judged(judge: Judge) -> None:
    report = Report([ALIVE], memory_used_bytes=-1, arena_bytes=-1, major_state=9)
    judge(SAMPLED, answer(MINOR, minors=1, reports=[report]))
    assert judge.bench.pending == {}


# Callbacks.

CALLBACK = do.SetCallback(7)
"""Its string takes as many bytes as a node."""


def with_callback(contract: Contract) -> Judge:
    """Sampling is on, 64 bytes were counted since the last sample, and there is a callback."""
    judge = Judge(attrs.evolve(contract, observes=("samples", "reports")))
    judge(CALLBACK, do.EnableSampling(64), node(""), node(""))
    return judge


@pytest.fixture
def calling(contract: Contract) -> Judge:
    return with_callback(contract)


@pytest.fixture
def tight(contract: Contract) -> Judge:
    """The callback's string and a node do not fit together."""
    return with_callback(attrs.evolve(contract, nursery_bytes=56))


def node(order: str, *reported: int) -> Step:
    """A node whose allocation causes these events."""
    counts = {"samples": order.count("s"), "minors": order.count("M")}
    reports = [Report([*reported], 0, 0, 0)] if reported else []
    return answer(A_NODE, **counts, order=order, reports=reports, size=32, outside=False)


def minor(*reported: int) -> Step:
    reports = [Report([*reported], 0, 0, 0)] if reported else []
    return answer(MINOR, minors=1, order="M", reports=reports)


ON = step(do.EnableSampling(24))


@pytest.mark.parametrize(
    "steps",
    [
        [node("Ms"), minor(STRING)],
        [node("sM"), minor(ALIVE)],
        [node("s"), node(""), ON, node("Mss", ALIVE), minor(STRING, ALIVE)],
    ],
    ids=["the string", "the object, before it was found not to fit", "both"],
)
def test_the_next_collection_reports_what_was_sampled(calling: Judge, steps: list[Step]) -> None:
    calling(*steps)
    assert calling.bench.pending == {}


@pytest.mark.parametrize(
    ("order", "reported"),
    [
        *[("Ms", each) for each in ((), (STRING | SURVIVED,), (ALIVE,), (STRING, ALIVE))],
        ("sM", (STRING,)),
    ],
)
def test_any_other_report_is_wrong(calling: Judge, order: str, reported: tuple[int, ...]) -> None:
    assert calling.mismatch(node(order), minor(*reported)).oracle == "survival"


@pytest.mark.parametrize(
    "steps",
    [[node("MsMR", STRING), minor()], [node("s"), ON, node("MRsMRs", ALIVE, STRING), minor(ALIVE)]],
    ids=["the string", "the string, after an earlier object"],
)
def test_a_second_collection_reports_the_string(tight: Judge, steps: list[Step]) -> None:
    tight(*steps)
    assert tight.bench.pending == {}


@pytest.mark.parametrize("reported", [(), (STRING | SURVIVED,), (STRING, STRING)])
def test_a_second_collection_reports_nothing_else(tight: Judge, reported: tuple[int, ...]) -> None:
    assert tight.mismatch(node("MsM", *reported)).oracle == "survival"


def test_the_reference_reports_a_callbacks_string_with_its_action(reference: Target) -> None:
    run = Run(reference, {"nursery_bytes": 64, "large_object_bytes": 64})
    for action in (CALLBACK, do.EnableSampling(72), do.AllocateString(31)):
        run.step(action)
    answers = [run.step(do.AllocateString(38)), run.step(MINOR)]
    entries = [[report.entries for report in answer.reports] for answer in answers]
    assert entries == [[[STRING]], [[STRING | SURVIVED]]]


# A contract that does not state the distances: the callback's samples are not known.


@pytest.fixture
def unstated(contract: Contract) -> Judge:
    rule = attrs.evolve(contract.sampling, distances="unstated")
    return with_callback(attrs.evolve(contract, sampling=rule))


@pytest.mark.parametrize("entry", [STRING, ALIVE])
def test_any_report_of_unknown_samples_is_right(unstated: Judge, entry: int) -> None:
    unstated(node("Ms"), minor(entry))
    assert unstated.bench.pending == {}


@pytest.mark.parametrize(
    ("steps", "numbers"),
    [
        ([node("Ms"), node("s"), minor(STRING, ALIVE), minor(ALIVE)], "0, got 1"),
        *[
            ([node("Ms"), step(action), minor(STRING)], "0, got 1")
            for action in (DROP, do.PauseSampling(), do.Fork())
        ],
        ([node("Ms"), step(do.CheckHeap(), STRING)], "0, got 1"),
        (  # More samples than there is memory.
            [answer(A_NODE, samples=10**14, size=32, outside=False), minor(ALIVE)],
            "100000000000000, got 1",
        ),
    ],
    ids=["the next collection", "disabling", "pausing", "forking", "no collection", "many samples"],
)
def test_a_wrong_number_of_reported_samples_after_unknown_ones(
    unstated: Judge, steps: list[Step], numbers: str
) -> None:
    problem = str(unstated.mismatch(*steps))
    assert problem.startswith(f"survival: reported: expected {numbers}")
