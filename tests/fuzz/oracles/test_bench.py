"""The bench: it finds each oracle, asks it in its turn, and passes it the state of sampling."""

import ast
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from waiting import completed

import fuzz.oracles
from fuzz.engines.engine import rerun_some
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch
from fuzz.oracles.bench import ORACLES
from fuzz.protocol.actions import AllocateNode, EnableSampling, Write
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, Report
from fuzz.protocol.target import Target, full
from fuzz.run import Run

ODD_ORACLE = """
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling import SamplingOracle

class OddOracle(Oracle):
    name = "odd"
    judges = ("top",)
    relies_on = (SamplingOracle,)

    def check(self, action, observation, sampling):
        if sampling.period_bytes % 16:
            raise self.mismatch("top", 0, sampling.period_bytes, "the period is odd")
"""
"""An oracle in a new file, which no other file names."""
JUDGE = """
from fuzz.oracles import Bench
from fuzz.protocol.actions import EnableSampling
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import Layout
from fuzz.protocol.observation import Observation

bench = Bench(Contract(64, Layout({}, 64, 8, 64), ("enable_sampling",), ()))
bench.judge(EnableSampling(16), Observation())
try:
    bench.judge(EnableSampling(24), Observation())
except Exception as mismatch:
    print(mismatch)
"""


# The oracles, and their order.


def test_the_bench_finds_an_oracle_in_a_new_file(tmp_path: Path) -> None:
    folder = Path(fuzz.oracles.__file__).parent
    shutil.copytree(folder.parent, tmp_path / "fuzz", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "fuzz" / "oracles" / "odd.py").write_text(ODD_ORACLE, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("COVERAGE_PROCESS_CONFIG", None)  # It would count the copy as not covered.
    command = [sys.executable, "-c", JUDGE]
    output = completed(command, env=environment, cwd=tmp_path).stdout
    assert output == "odd: top: expected 0, got 24 (the period is odd)\n"


def test_the_bench_asks_an_oracle_after_those_that_it_relies_on() -> None:
    for place, oracle in enumerate(ORACLES):
        assert set(oracle.relies_on) <= set(ORACLES[:place])


def test_where_no_oracle_relies_on_another_the_order_of_the_fields_decides() -> None:
    assert [oracle.__name__ for oracle in ORACLES] == [
        *("HeapOracle", "SamplingOracle", "ContentsOracle", "MajorOracle", "FinalizationOracle"),
        *("ExhaustionOracle", "MinorsOracle", "PlacesOracle"),
        *("EstimateOracle", "WeightsOracle", "MembersOracle", "SurvivalOracle"),
        *("PointersOracle", "MemoryOracle", "ConcurrencyOracle", "PlacementOracle"),
    ]


def test_every_field_of_an_observation_is_judged_by_some_oracle() -> None:
    judged = {field for oracle in ORACLES for field in oracle.judges}
    assert judged == {field.name for field in attrs.fields(Observation)}


def test_a_second_run_without_changes_comes_before_all_others() -> None:
    assert [*RERUN_ORACLES] == ["determinism", "tiers", "transparency", "invariance"]


WRONG: dict[str, Any] = {
    **dict.fromkeys(("minors", "samples"), 1),
    **dict.fromkeys(("free", "limit", "top", "sample_point", "state"), 3),
    "order": "s",
    "offsets": [3],
    "weights": [3],
    "reports": [Report([5], 0, 0, 0)],
    "error": "Wrong: it is",
}


@pytest.mark.parametrize("field", WRONG)
def test_an_action_of_few_oracles_has_no_other_effects(reference: Target, field: str) -> None:
    contract = reference.start({})
    rule = attrs.evolve(contract.sampling, weights="since")
    observes = (*contract.observes, "offsets", "weights")
    bench = Bench(attrs.evolve(contract, sampling=rule, observes=observes))
    bench.judge(AllocateNode(0), reference.perform(AllocateNode(0)))
    observation = reference.perform(Write(0, 0, 0))
    bench.judge(Write(0, 0, 0), observation)
    with pytest.raises(Mismatch):
        bench.judge(Write(0, 0, 0), observation.with_fields({field: WRONG[field]}))


# Facts.


def test_facts_cannot_be_changed(contract: Contract) -> None:
    with pytest.raises(AttributeError):
        Bench(contract).sampling.period_bytes = 8  # type: ignore[misc]  # It is frozen.


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
def test_an_oracle_writes_to_its_own_attributes_only(source: Path) -> None:
    others = [
        ast.unparse(each)
        for each in assigned_attributes(source)
        if ast.unparse(each.value) != "self"
    ]
    assert others == []


# Second runs.


@pytest.mark.parametrize(("number", "reruns"), [(1, 0), (8, 1), (16, 2), (32, 3), (96, 3)])
def test_a_trace_is_run_again_by_the_share_of_each_oracle(
    reference: Target, number: int, reruns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = full(reference)
    run = Run(target, {})
    run.step(EnableSampling(8))
    starts: list[Any] = []
    start = target.start

    def counted(configuration: Mapping[str, int]) -> Contract:
        starts.append(configuration)
        return start(configuration)

    monkeypatch.setattr(target, "start", counted)
    rerun_some(target, run, number)
    assert len(starts) == reruns
