"""Contracts that leave nothing to do: a session ends with one line, in this process or a worker."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import Gcfuzz

from fuzz.drawing.draw import NothingLegalError
from fuzz.problems import BadInputError, BrokenReferenceError, HarnessError, portable
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, SamplingRule
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.protocol.observation import Observation
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.worker import IDLE_SLICES_MAX, run_chunk

ONLY_FREE = """
import attrs
from fuzz.protocol.contract import Range, Setting
from fuzz.targets import make_target

class OnlyFree:
    name = "only-free"

    def __init__(self):
        self.target = make_target("reference")

    def start(self, configuration):
        contract = self.target.start({})
        setting = Setting("free", default=0, range=Range(0, 1))
        actions = ("free",) if configuration.get("free") else contract.actions
        return attrs.evolve(contract, settings=(setting,), actions=actions)

    def perform(self, action):
        return self.target.perform(action)
"""


class Full:
    """The smallest object that it allocates takes more than its heap has, after rounding."""

    name = "full"

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return Contract(
            nursery_bytes=1024,
            layout=Layout(
                {"string": KindLayout(type_index=1, fixed_bytes=17, item_bytes=1)},
                large_object_bytes=16,
                object_bytes_max=64,
                word_bytes=16,
            ),
            actions=("allocate_string", "free"),
            observes=("samples", "size", "exhausted", "minors"),
            sampling=SamplingRule(period_bytes=Range(1, 2**20)),
            exhaustion=Exhaustion(heap_bytes_max=20, survivable=0),
        )

    def perform(self, action: Action) -> Observation:
        raise AssertionError("nothing is legal")


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ("random", f"^full: {IDLE_SLICES_MAX} traces in a row had no legal action"),
        ("stateful", "no action that is legal here"),
    ],
)
def test_a_chunk_of_empty_traces_ends(engine: str, reason: str, tmp_path: Path) -> None:
    plan = Plan("full", engine, 1, 1, tmp_path)
    with pytest.raises(BadInputError, match=reason):
        run_chunk(plan, plan.chunk(0), Full(), SessionTotals(), lambda _: None)


@pytest.mark.slow
def test_a_setting_that_leaves_nothing_to_allocate_is_one_line_of_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gcfuzz: Gcfuzz
) -> None:
    (tmp_path / "only_free.py").write_text(ONLY_FREE)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = ["--actions", "400", "--seed", "1", "--corpus", str(tmp_path / "corpus")]
    error = gcfuzz(2, "run", "--target", "only_free:OnlyFree", *options).err.strip()
    assert error == "gcfuzz: with free=1, the contract supports no action that is legal here"
    assert "\n" not in error
    sys.modules.pop("only_free")


@pytest.mark.parametrize(
    "problem",
    [
        portable(NothingLegalError()),
        NothingLegalError(),
        BadInputError("a file: is wrong"),
        HarnessError("a worker failed"),
        BrokenReferenceError("it is wrong"),
    ],
    ids=repr,
)
def test_an_exception_that_a_worker_sends_is_the_same_in_the_parent(problem: Exception) -> None:
    problem.add_note("where")
    same = pickle.loads(pickle.dumps(problem))
    assert (type(same), str(same)) == (type(problem), str(problem))
    assert same.__notes__ == ["where"]


def test_a_problem_of_any_class_is_sent_with_its_text_and_its_notes() -> None:
    class OwnError(BadInputError):
        def __init__(self, file: str, line: int) -> None:
            super().__init__(f"{file}:{line}: is wrong")

    problem = OwnError("file", 7)
    problem.add_note("where")
    same = pickle.loads(pickle.dumps(portable(problem)))
    assert (type(same), str(same), same.__notes__) == (BadInputError, "file:7: is wrong", ["where"])
