"""Excluded fields: what no oracle judges in a trace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest

import fuzz.oracles
from fuzz.oracles import Bench, Mismatch
from fuzz.oracles.excluded import excluded_for, field_of
from fuzz.protocol.actions import AllocateNode, EnableSampling
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import FIELDS, Observation

POINTERS = ("minors", "samples", "size", "outside", "at", "free", "limit", "top", "sample_point")
NODE = Observation(size=32, outside=False, at=0, free=32, limit=256, top=256)


def test_each_mismatch_is_in_a_field_of_an_observation() -> None:
    sources = Path(*fuzz.oracles.__path__).glob("*.py")
    named = {
        name for each in sources for name in re.findall(r'\.mismatch\(\s*"(\w+)"', each.read_text())
    }
    assert {"samples", "limit", "reports"} <= named
    assert "arena_bytes" not in FIELDS
    assert {field_of(name) for name in (*named, "arena_bytes")} <= {*FIELDS}


@pytest.mark.parametrize("field", ["error", "minors"])
def test_what_predictions_depend_on_is_never_excluded(field: str) -> None:
    assert not excluded_for(field)


def judge(contract: Contract, name: str, observation: Observation) -> None:
    observes = attrs.evolve(contract, observes=POINTERS)
    Bench(observes, excluded_for(name)).judge(AllocateNode(0), observation)


@pytest.mark.parametrize(
    ("name", "wrong"), [("size", {"size": 33}), ("at", {"at": 8}), ("limit", {"top": 128})]
)
def test_excluded_fields_may_be_wrong(name: str, wrong: dict[str, Any], contract: Contract) -> None:
    judge(contract, name, attrs.evolve(NODE, **wrong))


@pytest.mark.parametrize("wrong", [{"at": 8}, {"samples": 1}, {"limit": 255}])
def test_the_other_fields_are_judged_as_before(wrong: dict[str, Any], contract: Contract) -> None:
    with pytest.raises(Mismatch) as caught:
        judge(contract, "size", attrs.evolve(NODE, size=33, **wrong))
    assert [caught.value.field] == [*wrong]


def test_without_samples_their_weights_are_not_judged_either(contract: Contract) -> None:
    rule = attrs.evolve(contract.sampling, distances="geometric", weights="passed", seeds=(1,))
    observes = ("samples", "offsets", "weights", "size")
    bench = Bench(attrs.evolve(contract, sampling=rule, observes=observes), excluded_for("samples"))
    bench.judge(EnableSampling(8), Observation())
    bench.judge(AllocateNode(0), Observation(samples=40, weights=[1], size=32))
