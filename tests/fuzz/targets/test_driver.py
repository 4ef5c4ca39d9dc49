"""The base of the drivers: its checks, and how it completes observations."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from typing import ClassVar

import pytest

from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol import lines
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.layout import layout_of_blocks
from fuzz.protocol.observation import Observation
from fuzz.targets.process.driver import CarryOut, Driver


class FatalError(Exception):
    pass


class Counting(Driver):
    """Keeps lengths, and collects on request."""

    FATAL = (FatalError,)
    settings = (Setting("threads", 1, Range(1, 2)),)

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        self.kept: list[int] = []
        self.closed = False
        return Contract(0, layout_of_blocks(8), self.actions, ("size", "value", "minors", "graph"))

    def keep(self, length: int) -> int:
        if length == 13:
            raise FatalError
        self.kept.append(length)
        return 16 + length

    def collect(self) -> None:
        self.collections += 2

    def after_collection(self) -> None:
        self.observation.graph = [[each] for each in self.kept]

    def close(self) -> None:
        self.closed = True

    CARRY_OUT: ClassVar[CarryOut] = {
        do.AllocateString: lambda driver, each: driver.keep(each.length),
        do.ReadNumber: lambda driver, each: driver.kept[each.root],
        do.Free: lambda driver, each: driver.kept.pop(each.root),
        do.CollectFull: lambda driver, _: driver.collect(),
        do.CheckHeap: lambda driver, _: [[each] for each in driver.kept],
    }


@pytest.fixture
def driver() -> Counting:
    driver = Counting("counting")
    driver.start({"threads": 2})
    return driver


@pytest.mark.parametrize(
    ("action", "observation"),
    [
        (do.AllocateString(5), Observation(size=21)),
        (do.ReadNumber(0), Observation(value=7)),
        (do.Free(0), Observation()),
        (do.CheckHeap(), Observation(graph=[[7]])),
        (do.CollectFull(thread=1), Observation(minors=2, graph=[[7]])),
    ],
)
def test_an_answer_goes_to_the_field_that_the_action_declares(
    driver: Counting, action: Action, observation: Observation
) -> None:
    driver.perform(do.AllocateString(7))
    assert driver.perform(action) == observation


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (do.SetPeriod(8), "ValueError: counting does not carry out set_period"),
        (do.AllocateString(1, thread=2), "ValueError: there is no thread 2"),
        (do.AllocateString(1, thread=-1), "ValueError: there is no thread -1"),
        (do.Free(3), "IndexError: pop index out of range"),
    ],
)
def test_an_exception_is_the_error_of_the_answer(
    driver: Counting, action: Action, error: str
) -> None:
    driver.perform(do.AllocateString(7))
    assert driver.perform(action) == Observation(error=error)
    assert driver.perform(do.ReadNumber(0)).value == 7


def test_a_fatal_error_ends_the_program(driver: Counting) -> None:
    with pytest.raises(FatalError):
        driver.perform(do.AllocateString(13))


def test_an_illegal_setting_is_bad_input(driver: Counting) -> None:
    with pytest.raises(BadInputError, match="threads is 3; it must be from 1 to 2"):
        driver.start({"threads": 3})


def test_its_environment_asks_for_the_documented_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Counting("counting").is_as_documented
    monkeypatch.setenv("GCFUZZ_AS_DOCUMENTED", "1")
    assert Counting("counting").is_as_documented


def test_a_trace_has_one_thread_unless_its_header_has_more(driver: Counting) -> None:
    driver.start({})
    assert driver.perform(do.CollectFull(thread=1)).error == "ValueError: there is no thread 1"


def test_as_a_program_it_answers_its_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Counting] = []

    class Kept(Counting):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            started.append(self)

    monkeypatch.setattr(sys, "argv", ["driver", "counting"])
    monkeypatch.setattr(
        sys, "stdin", io.StringIO('{"gcfuzz": 2}\n{"do": "allocate_string", "length": 1}\n')
    )
    Kept.main()
    contract, observation = capsys.readouterr().out.splitlines()
    assert lines.from_line(contract) == {"contract": lines.unstructured(started[0].start({}))}
    assert observation == '{"size": 17}'
