"""The oracles find a mistake in HotSpot's contract, in its driver, or in their own clock."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hotspot_sessions import AHEAD, ALLOCATED, AS_USUAL, MISTAKEN
from target_helpers import Changed, changed, first_failure, java_folder
from typing_extensions import override

from fuzz.oracles.counting.buffers import BufferClock
from fuzz.oracles.counting.distances.hotspot import Hotspot
from fuzz.oracles.counting.eden import WORD_BYTES, ThreadBuffer
from fuzz.oracles.counting.expected import ExpectedSample
from fuzz.protocol import actions as do
from fuzz.protocol.contract import Range
from fuzz.protocol.target import FullTarget, full
from fuzz.protocol.written import contents_of
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.hotspot.find import LIBRARY
from fuzz.targets.hotspot.machines import COLLECTOR, COLLECTORS, SERIAL

OTHER_CHARGES = {"ahead": "allocated", "allocated": "ahead"}
MISTAKES: dict[str, dict[str, Any]] = {
    "surplus": {"surplus": "carried"},
    "crossing": {"crosses": "beyond"},
    "distances": {"distances": "gperftools", "period_bytes": Range(1, 2**20)},
    "late": {"first_bytes": (4104,)},
    "generators": {"generators": "each"},
    "births": {"births": "draws"},
    "charges": {"charges": OTHER_CHARGES.__getitem__},
    "larger": {"desired_bytes": lambda right: right + 8},
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [None, *MISTAKES])
def test_a_mistake_in_the_contract_is_found(mistake: str | None, target: FullTarget) -> None:
    wrong = Changed(
        target,
        lambda right: changed(right, **MISTAKES[mistake] if mistake else {}),
        **AS_USUAL,
        first_bytes=4096,
        threads=2 if mistake in ("generators", "births") else 1,
    )
    failure = first_failure(wrong, 20_000 if mistake else 3000)
    assert (failure is None) == (mistake is None)


@pytest.mark.slow
def test_a_strong_weak_reference_is_found(java: Path) -> None:
    command = (sys.executable, str(MISTAKEN), "holding", str(java / LIBRARY))
    assert first_failure(make_target("process", TargetOptions(command)), 20_000) is not None


@pytest.mark.slow
def test_a_byte_that_changes_in_a_string_is_found() -> None:
    command = (sys.executable, str(MISTAKEN), "damaging", str(java_folder(ALLOCATED) / LIBRARY))
    target = make_target("process", TargetOptions(command))
    trace = [do.AllocateString(20), do.CheckContents(), do.CollectFull(), do.CheckContents()]
    for item_bytes in (1, 8):
        failure = run_actions(target, {"string_item_bytes": item_bytes}, trace)
        assert failure is not None
        assert (failure.oracle, failure.actions) == ("contents", tuple(trace))
        last = 20 * item_bytes - 1
        assert failure.expected == f"{contents_of(1, last + 1)[-1]:02x} at offset {last}"
        assert failure.got == "00"


@pytest.mark.slow
def test_an_event_with_another_object_is_found(java: Path) -> None:
    """Both objects are equal, and the number of samples is right."""
    command = (sys.executable, str(MISTAKEN), "mislabelling", str(java / LIBRARY))
    target = make_target("process", TargetOptions(command))
    trace = [do.EnableSampling(0), do.AllocateNode(1), do.AllocateNode(1)]
    failure = run_actions(target, {"first_bytes": 16}, trace)
    assert failure is not None
    assert failure.message.endswith("JavaError: the event of a sample has another object")
    assert failure.actions == tuple(trace)


class AlwaysReset(BufferClock):
    """Bytes that were charged count once, also if an object outside is allocated meanwhile."""

    @override
    def _charge_ahead(
        self, size_bytes: int, period_bytes: int, is_outside: bool
    ) -> Sequence[ExpectedSample]:
        if is_outside:
            self._charged_bytes = 0
        return super()._charge_ahead(size_bytes, period_bytes, is_outside)


class RoundedUp(ThreadBuffer):
    """The sample point is rounded up to words."""

    @override
    def end_at_sample(self, until_bytes: int) -> bool:
        return super().end_at_sample(until_bytes + WORD_BYTES - 1)


class LimitKept(ThreadBuffer):
    """A new buffer begins with the limit of the one before."""

    @override
    def _begin(self, start: int, end: int) -> None:
        limit_bytes = self._waste_limit_bytes
        super()._begin(start, end)
        self._waste_limit_bytes = max(limit_bytes, self._waste_limit_bytes)


ROUNDED = [round(entry, 3) for entry in Hotspot.TABLE]
CLOCKS = "fuzz.oracles.counting.buffers"
FINE_MISTAKES: dict[str, tuple[str, dict[str, Any] | tuple[str, Any]]] = {
    "birth": (ALLOCATED, {"birth_bytes": 0}),
    "reserve": (ALLOCATED, {"reserve_bytes": lambda right: right + 8}),
    "increment": (ALLOCATED, {"waste_increment_bytes": 0}),
    "limit kept": (ALLOCATED, (f"{CLOCKS}.ThreadBuffer", LimitKept)),
    "sample point": (ALLOCATED, (f"{CLOCKS}.ThreadBuffer", RoundedUp)),
    "table": (ALLOCATED, ("fuzz.oracles.counting.distances.hotspot.Hotspot.TABLE", ROUNDED)),
    "charges": (AHEAD, (f"{CLOCKS}.BufferClock", AlwaysReset)),
}
"""The version, and keys of the contract or a patch of the oracle."""


@pytest.mark.slow
def test_the_library_has_the_table_of_logarithms(java: Path) -> None:
    """A session rarely sees its later digits. Some entries differ in the fifteenth one."""
    library, table = (java / LIBRARY).read_bytes(), Hotspot.TABLE
    start = library.index(struct.pack("<8d", *table[:8]))
    assert struct.unpack_from("<1024d", library, start) == pytest.approx(table, rel=0, abs=1.1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [pytest.param(name, marks=[pytest.mark.night] * (name == "charges")) for name in FINE_MISTAKES],
)
def test_a_session_with_the_default_settings_finds_a_mistake(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, change = FINE_MISTAKES[mistake]
    options = TargetOptions(paths={"java": java_folder(version)})
    target = full(make_target("hotspot", options))
    if isinstance(change, dict):
        target = Changed(target, lambda right: changed(right, **change))
    else:
        monkeypatch.setattr(*change)
    # A seed draws the settings of eight processes. Some mistakes show with half of all settings:
    # many short sessions find them earlier than one long session. The seeds of started threads are
    # random: 4,000 actions find "charges" in 3 of 15 sessions, so 40 miss it once in 10,000 tries.
    assert any(first_failure(target, 4000, str(seed)) for seed in range(40))


@pytest.mark.slow
def test_half_of_the_default_actions_run_under_serial(target: FullTarget) -> None:
    [collector] = [each for each in target.default_contract().settings if each.name == COLLECTOR]
    assert 2 * collector.choices.count(COLLECTORS.index(SERIAL)) > len(collector.choices)
