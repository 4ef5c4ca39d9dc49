"""The bench: each oracle is found, asked in its turn, and handed the facts that it reads."""

import ast
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

import fuzz.oracles
from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import rerun_some
from fuzz.engines.random import RandomEngine
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch
from fuzz.oracles.bench import ORACLES, states_of, tells_of_events
from fuzz.oracles.oracle import Oracle
from fuzz.protocol.actions import NAMES, Action, AllocateNode, CheckHeap, EnableSampling
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, Report
from fuzz.protocol.target import Target, full
from fuzz.run import Run
from fuzz.targets import make_target

Answered = tuple[Action, Observation]
ODD_ORACLE = """
from fuzz.oracles.oracle import Mismatch, Oracle
from fuzz.oracles.sampling import SamplingFacts, SamplingOracle
from fuzz.protocol.actions import EnableSampling

class OddMismatch(Mismatch):
    oracle = "odd"

class OddOracle(Oracle[SamplingFacts]):
    judges = ("top",)
    relies_on = (SamplingOracle,)
    told_by = SamplingOracle

    @classmethod
    def concerns(cls, action):
        return action is EnableSampling

    def check(self, action, observation, sampling):
        if sampling.period_bytes % 16:
            raise OddMismatch("top", 0, sampling.period_bytes, "odd periods are not liked here")
"""
"""An oracle in a file of its own, of which no other file knows."""
JUDGE = """
from fuzz.oracles import Bench
from fuzz.protocol.actions import EnableSampling
from fuzz.protocol.contract import Contract, Layout
from fuzz.protocol.observation import Observation

bench = Bench(Contract(64, Layout({}, 64, 8, 64), ("enable_sampling",), ()))
bench.judge(EnableSampling(16), Observation())
try:
    bench.judge(EnableSampling(24), Observation())
except Exception as mismatch:
    print(mismatch)
"""


# Who is asked, and in which order.


def test_an_oracle_that_is_written_is_asked(tmp_path: Path) -> None:
    room = Path(fuzz.oracles.__file__).parent
    shutil.copytree(room.parent, tmp_path / "fuzz", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "fuzz" / "oracles" / "odd.py").write_text(ODD_ORACLE, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("COVERAGE_PROCESS_CONFIG", None)  # It would count the copy as not covered.
    command = [sys.executable, "-c", JUDGE]
    output = subprocess.check_output(command, text=True, env=environment, cwd=tmp_path)
    assert output == "odd: top: expected 0, got 24 (odd periods are not liked here)\n"


def test_oracles_are_asked_after_those_that_they_rely_on() -> None:
    for place, oracle in enumerate(ORACLES):
        assert set(oracle.relies_on) <= set(ORACLES[:place])


def test_where_none_relies_on_another_the_order_of_the_fields_decides() -> None:
    assert [oracle.__name__ for oracle in ORACLES] == [
        *("HeapOracle", "SamplingOracle", "MajorOracle", "PlacesOracle"),
        *("EstimateOracle", "SurvivalOracle", "PointersOracle", "MemoryOracle"),
        "AtOnceOracle",
    ]


def test_every_field_of_an_observation_is_judged_by_some_oracle() -> None:
    judged = {field for oracle in ORACLES for field in oracle.judges}
    assert judged == {field.name for field in attrs.fields(Observation)}


def test_a_second_run_that_differs_by_itself_is_seen_before_any_that_was_changed() -> None:
    assert [*RERUN_ORACLES] == ["determinism", "transparency", "invariance"]


def test_an_oracle_is_handed_facts_of_the_type_that_it_names(contract: Contract) -> None:
    for kind, oracle in Bench(contract).oracles.items():
        [base] = kind.__orig_bases__  # type: ignore[attr-defined]
        [named] = get_args(base)
        assert type(facts_for(oracle, Bench(contract))) is named


# What is frozen, and who writes.


def test_facts_cannot_be_changed(contract: Contract) -> None:
    with pytest.raises(AttributeError):
        Bench(contract).sampling.period_bytes = 8  # type: ignore[misc]


def test_facts_stay_what_they_were(contract: Contract) -> None:
    bench = Bench(contract)
    before = bench.sampling
    bench.predict(EnableSampling(40), minors=0)
    bench.predict(AllocateNode(0), minors=0)
    assert (before.period_bytes, before.nursery_used_bytes) == (None, 0)
    assert (bench.sampling.period_bytes, bench.sampling.nursery_used_bytes) == (40, 32)


def assigned_attributes(source: Path) -> Iterator[ast.Attribute]:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


@pytest.mark.parametrize("source", sorted(Path(fuzz.oracles.__file__).parent.glob("*.py")))
def test_an_oracle_writes_to_nobody_but_itself(source: Path) -> None:
    strangers = [
        ast.unparse(each)
        for each in assigned_attributes(source)
        if ast.unparse(each.value) != "self"
    ]
    assert strangers == []


# What an oracle must be asked about.


def facts_for(oracle: Oracle[Any], bench: Bench) -> Any:
    """What that oracle is handed."""
    return None if oracle.told_by is None else bench.oracles[oracle.told_by].facts


def verdict_of_all(contract: Contract, answered: list[Answered]) -> str | None:
    """What is said first where every oracle is asked about every action."""
    bench = Bench(contract)
    for number, (action, observation) in enumerate(answered):
        bench.shadow.follow(action, observation.minors)
        for oracle in bench.oracles.values():
            try:
                oracle.check(action, observation, facts_for(oracle, bench))
            except Mismatch as mismatch:
                return f"{number}: {mismatch}"
    return None


def verdict(contract: Contract, answered: list[Answered]) -> str | None:
    """What is said first where each is asked about what concerns it."""
    bench = Bench(contract)
    for number, (action, observation) in enumerate(answered):
        try:
            bench.judge(action, observation)
        except Mismatch as mismatch:
            return f"{number}: {mismatch}"
    return None


def traces(target: str, actions: int) -> Iterator[tuple[Contract, list[Answered]]]:
    """What the target answers to drawn actions."""
    done = number = 0
    while done < actions:
        heard = Hearing(make_target(target))
        done += RandomEngine(heard, "bench").run_slice(number, actions, ProbeCounter()).actions
        yield next(run for run in heard.runs if run[1])
        number += 1


class Hearing:
    """A target that keeps what it answered in its first run; a second one is an oracle's."""

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self._target = target
        self.runs: list[tuple[Contract, list[Answered]]] = []

    def start(self, configuration: Any) -> Contract:
        contract = self._target.start(configuration)
        self.runs.append((contract, []))
        return contract

    def perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        self.runs[-1][1].append((action, observation))
        return observation


WRONG: dict[str, tuple[Any, ...]] = {
    "samples": (0, 1, 2),
    "minors": (0, 1, 2),
    "order": ("", "s", "M", "MR"),
    "outside": (True, None),
    "alive": (None, True, False),
    "profile": (None, [9, 9]),
    "offsets": ([], [3]),
    "weights": ([], [3]),
    "reports": ([], [Report([5], 0, 0, 9)], [Report([], 0, 0, 0)]),
    "graph": (None, [[1, 0]]),
    "state": (None, 0, 3),
    "memory": (None, [0], [8, 8]),
    "tlab": (None, [0, 8, 8, 8]),
    "error": ("Wrong: it is",),
    **dict.fromkeys(("size", "at", "seed", "value", "identity"), (None, 8)),
    **dict.fromkeys(("free", "limit", "top", "sample_point"), (None, 8)),
}
"""What a target may say instead, by field."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kin", ["", "-dotnet", "-gperftools", "-hotspot", "-jemalloc", "-random", "-tcmalloc"]
)
def test_nothing_is_lost_where_an_oracle_is_asked_only_about_what_concerns_it(kin: str) -> None:
    source, blamed = random.Random(1), set()
    for contract, answered in traces(f"reference{kin}", 600):
        assert verdict(contract, answered) is None
        for _ in range(12):
            place, field = source.randrange(len(answered)), source.choice([*WRONG])
            action, right = answered[place]
            wrong = attrs.evolve(right, **{field: source.choice(WRONG[field])})
            corrupted = [*answered[:place], (action, wrong), *answered[place + 1 :]]
            said = verdict_of_all(contract, corrupted)
            assert verdict(contract, corrupted) == said
            blamed |= {said} - {None}
    assert len(blamed) >= 10


def asked_about(
    action: Action, told: Iterable[Observation], contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> list[list[str]]:
    """Who is asked about each of the observations of that action, again and again."""
    asked: list[list[str]] = []
    for kind in ORACLES:
        monkeypatch.setattr(
            kind, "check", lambda self, *_, name=kind.__name__: asked[-1].append(name)
        )
    bench = Bench(contract)
    for observation in told:
        asked.append([])
        bench.judge(action, observation)
    return asked


def test_a_walk_alone_concerns_the_heap_alone(
    blocks: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked_about(CheckHeap(), [Observation()], blocks, monkeypatch) == [["HeapOracle"]]


def test_of_a_state_an_oracle_is_asked_when_it_is_another_one(
    reference: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [Observation(top=0), Observation(top=0), Observation(top=8)]
    first, second, third = asked_about(CheckHeap(), told, reference.start({}), monkeypatch)
    assert (first, second) == (["HeapOracle", "MajorOracle", "PointersOracle"], ["HeapOracle"])
    assert third == first


@pytest.mark.parametrize("event", sorted(frozenset().union(*(each.events for each in ORACLES))))
def test_each_event_of_any_oracle_is_noticed(event: str) -> None:
    happened = next(value for value in WRONG[event] if value)
    assert tells_of_events(Observation(**{event: happened}))


@pytest.mark.parametrize("state", sorted(frozenset().union(*(each.states for each in ORACLES))))
def test_each_state_of_any_oracle_is_noticed(state: str) -> None:
    changed: Any = {state: 3}
    assert states_of(attrs.evolve(Observation(), **changed)) != states_of(Observation())


def test_what_an_oracle_is_told_of_an_action_its_teller_was_asked_about() -> None:
    for oracle in ORACLES:
        if oracle.told_by is not None and oracle.events:
            teller = oracle.told_by
            assert all(teller.concerns(each) for each in NAMES if oracle.concerns(each))
            assert oracle.events <= teller.events


# Second runs.


@pytest.mark.parametrize(("number", "reruns"), [(1, 0), (8, 1), (16, 2), (32, 3), (96, 3)])
def test_a_trace_is_run_once_more_by_the_share_of_each_oracle(
    reference: Target, number: int, reruns: int
) -> None:
    heard = Hearing(reference)
    target = full(heard)
    run = Run(target, {})
    run.step(EnableSampling(8))
    rerun_some(target, run, number)
    assert len(heard.runs) == 1 + reruns
