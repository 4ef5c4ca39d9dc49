"""The bench: each oracle is found, asked in its turn, and handed the facts that it reads."""

import ast
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

import fuzz.oracles
from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import rerun_some
from fuzz.engines.random import RandomEngine
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch
from fuzz.oracles.bench import ORACLES
from fuzz.oracles.oracle import AnyOracle
from fuzz.protocol.actions import Action, AllocateNode, CheckHeap, EnableSampling
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, Report
from fuzz.protocol.target import Target
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
    actions = frozenset({EnableSampling})
    relies_on = (SamplingOracle,)

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
        *("HeapOracle", "SamplingOracle", "MajorOracle"),
        *("EstimateOracle", "SurvivalOracle", "PointersOracle"),
    ]


def test_every_field_of_an_observation_is_judged_by_some_oracle() -> None:
    judged = {field for oracle in ORACLES for field in oracle.judges}
    assert judged == {field.name for field in attrs.fields(Observation)}


def test_a_second_run_that_differs_by_itself_is_seen_before_any_that_was_changed() -> None:
    assert [*RERUN_ORACLES] == ["determinism", "transparency", "invariance"]


def test_an_oracle_is_handed_facts_of_the_types_that_it_names(contract: Contract) -> None:
    bench = Bench(contract)
    for kind, oracle in bench.oracles.items():
        [base] = kind.__orig_bases__  # type: ignore[attr-defined]
        facts = [bench.oracles[teller].facts for teller in oracle.tellers()]
        assert [type(each) for each in facts] == list(get_args(base))


# What is frozen, and who writes.


def test_facts_cannot_be_changed(contract: Contract) -> None:
    with pytest.raises(AttributeError):
        Bench(contract).sampling.period_bytes = 8  # type: ignore[misc]


def test_facts_stay_what_they_were(contract: Contract) -> None:
    bench = Bench(contract)
    before = bench.sampling
    bench.foresee(EnableSampling(40), minors=0)
    bench.foresee(AllocateNode(0), minors=0)
    assert (before.period_bytes, before.nursery_used_bytes) == (0, 0)
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


def concerned_by(bench: Bench, action: Action, observation: Observation) -> set[type[AnyOracle]]:
    """Who says that it must be asked, and those whose facts of this action it reads."""
    concerned: set[type[AnyOracle]] = set()
    for kind in reversed(bench.oracles):
        events = any(getattr(observation, field) for field in kind.events)
        if kind in concerned or type(action) in kind.actions or events:
            concerned |= {kind, *kind.tellers()}
    return concerned


def verdicts(
    contract: Contract, answered: list[Answered], only_concerned: bool
) -> list[tuple[int, str]]:
    """What each oracle says of each action, whatever the others say."""
    bench, said = Bench(contract), []
    for number, (action, observation) in enumerate(answered):
        bench.shadow.follow(action, observation.minors)
        concerned = concerned_by(bench, action, observation) if only_concerned else bench.oracles
        for kind, oracle in bench.oracles.items():
            if kind in concerned:
                try:
                    oracle.check(
                        action, observation, *[bench.oracles[each].facts for each in kind.tellers()]
                    )
                except Mismatch as mismatch:
                    said.append((number, str(mismatch)))
    return said


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

    def start(self, configuration: Any) -> Contract:  # noqa: ANN401
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
    "reports": ([], [Report([5], 0, 0, 9)]),
    "graph": (None, [[1, 0]]),
    "state": (None, 3),
    "error": ("Wrong: it is",),
    **dict.fromkeys(("size", "at", "value", "identity"), (None, 8)),
    **dict.fromkeys(("free", "limit", "top", "sample_point"), (None, 8)),
}
"""What a target may say instead, by field."""


@pytest.mark.parametrize("kin", ["", "-dotnet", "-gperftools", "-jemalloc", "-random", "-tcmalloc"])
def test_nothing_is_lost_where_an_oracle_is_asked_only_about_what_concerns_it(kin: str) -> None:
    source, blamed = random.Random(1), set()
    for contract, answered in traces(f"reference{kin}", 600):
        assert verdicts(contract, answered, only_concerned=True) == []
        for _ in range(12):
            place, field = source.randrange(len(answered)), source.choice([*WRONG])
            action, right = answered[place]
            wrong = attrs.evolve(right, **{field: source.choice(WRONG[field])})
            corrupted = [*answered[:place], (action, wrong), *answered[place + 1 :]]
            said = verdicts(contract, corrupted, only_concerned=False)
            assert verdicts(contract, corrupted, only_concerned=True) == said
            blamed |= {*said}
    assert len(blamed) >= 10


def test_a_walk_alone_does_not_concern_the_samplers(blocks: Contract) -> None:
    concerned = concerned_by(Bench(blocks), CheckHeap(), Observation())
    assert {kind.__name__ for kind in concerned} == {"HeapOracle"}


# Second runs.


@pytest.mark.parametrize(("number", "reruns"), [(1, 0), (8, 1), (16, 2), (32, 3), (96, 3)])
def test_a_trace_is_run_once_more_by_the_share_of_each_oracle(
    reference: Target, number: int, reruns: int
) -> None:
    target = Hearing(reference)
    run = Run(target, {})
    run.step(EnableSampling(8))
    rerun_some(target, run, number)
    assert len(target.runs) == 1 + reruns
