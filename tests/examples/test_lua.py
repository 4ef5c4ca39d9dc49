"""Lua behind the adapter kit: clean under what it does, its manual's contract is not kept."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from night import fresh, part_of
from target_helpers import Changed, changed, first_failure
from waiting import PATIENCE_SECONDS

from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.run import run_actions
from fuzz.targets.process.program import ProcessTarget

pytestmark = pytest.mark.slow  # It has to be compiled first.

LUA = Path(__file__).parents[2] / "examples" / "lua"
CLEAN, MISMATCH = 0, 1
ACTIONS, SEVERAL_ACTIONS = 20_000, 100_000
SMALL_STEPS = {"step_bits": 4, "generational": 0, "pause": 0}
"""Lua calls finalizers many of these after a death."""
ANSWER_SECONDS = 60.0

Session = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def adapter(native: Path, need_header: Callable[[str, str], None]) -> Path:
    """The adapter, built in a copy beside that of the kit."""
    need_header("lua5.4/lua.h", "liblua5.4-dev")
    folder = native.with_name("lua")
    shutil.copytree(LUA, folder, ignore=shutil.ignore_patterns("build"))
    subprocess.run(["make"], cwd=folder, check=True, timeout=PATIENCE_SECONDS)
    return folder / "build" / "adapter"


@pytest.mark.parametrize("engine", ["random", "stateful"])
def test_a_session_is_clean(adapter: Path, session: Session, engine: str) -> None:
    count = part_of(250_000 if engine == "random" else 25_000)
    plan = ["--actions", str(count), "--seed", fresh("1"), "--engine", engine]
    assert session(adapter, *plan) == (CLEAN, [])


def test_the_schema_takes_each_line_of_the_adapter(
    adapter: Path, refused: Callable[[str], list[str]]
) -> None:
    assert refused(str(adapter)) == []


@pytest.mark.parametrize(
    ("without", "field"),
    [(["resurrect"], "memory_used_bytes"), (["unregister_finalizer"], "alive")],
)
def test_a_surprise_is_found_by_the_contract_of_the_manual(
    adapter: Path, session: Session, without: list[str], field: str
) -> None:
    left_out = [f"--without={action}" for action in without]
    code, failures = session(f"{adapter} --as-documented", "-x", *left_out)
    assert (code, [each["failure"]["field"] for each in failures]) == (MISMATCH, [field])


@pytest.mark.parametrize(("within", "problem"), [(3, None), (2, "after 2 collections")])
def test_what_was_marked_before_it_died_waits_for_a_third_collection(
    adapter: Path, within: int, problem: str | None
) -> None:
    target = ProcessTarget("lua", [str(adapter)], ANSWER_SECONDS)
    stated = Changed(target, with_finalizers(within_collections=within))
    step = do.CollectStep()
    dies = [*[do.AllocateNode(0)] * 13, do.RegisterFinalizer(0, 0), step, step, do.Free(0)]
    failure = run_actions(stated, SMALL_STEPS, [*dies, *[step] * 5, do.RunFinalizers()])
    assert (failure.why if failure else None) == problem


FINALIZERS: Mapping[str, Mapping[str, Any]] = {
    "again": {"again": "new_place"},
    "taken_back": {"taken_back": "dropped"},
    "weak_in_dead": {"weak_in_dead": "cleared"},
    "called": {"called": "in_collection"},
    "weak": {"weak": "cleared_after", "weak_in_dead": "cleared"},
    "objects": {"objects": "dead", "taken_back": "dropped"},
    "cycles": {"order": "referrer_first", "again": "new_place"},
}
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "steps": {"steps": "minor"},
    "word_bytes": {"word_bytes": 8, "large_object_bytes": 65_537},
    "crosses": {"crosses": "at"},
    "surplus": {"surplus": "dropped"},
    "samples_per_allocation": {"samples_per_allocation": "one"},
}


def with_finalizers(**keys: Any) -> Callable[[Contract], Contract]:
    def change(contract: Contract) -> Contract:
        assert contract.finalizers is not None
        return attrs.evolve(contract, finalizers=attrs.evolve(contract.finalizers, **keys))

    return change


@pytest.mark.parametrize("key", [*FINALIZERS, *OTHERS])
def test_a_contract_with_one_mistake_is_found(adapter: Path, key: str) -> None:
    """`again` is the order of the manual. A session on that reports its other failures sooner."""
    target = ProcessTarget("lua", [str(adapter)], ANSWER_SECONDS)
    change = with_finalizers(**FINALIZERS[key]) if key in FINALIZERS else None
    steps = SMALL_STEPS if key == "called" else {}
    mistaken = Changed(target, change or (lambda right: changed(right, **OTHERS[key])), **steps)
    # An object has to be read and kept between its death and its finalizer.
    count, seed = (SEVERAL_ACTIONS, "3") if steps else (ACTIONS, "2")
    assert first_failure(mistaken, count, seed) is not None


NODE, FULL, RUN = do.AllocateNode(0), do.CollectFull(), do.RunFinalizers()
FAILS = {"failures": 1}
"""Each block fails once, so that Lua collects. In the first allocation after `Free(1)` it finds the
object of that slot dead."""
KEPT_ONCE = [
    *(NODE, do.RegisterFinalizer(0, 0), NODE, do.RegisterFinalizer(1, 1)),
    *(do.UnregisterFinalizer(1), do.Write(1, 0, 0), do.Free(1), do.AllocateWeakref(0), do.Free(0)),
]
BOTH_KEPT_ONCE = [NODE, do.RegisterFinalizer(0, 0), do.UnregisterFinalizer(0), *KEPT_ONCE[2:]]
VALUE_KEPT_ONCE = [
    *KEPT_ONCE[:4],
    *(do.UnregisterFinalizer(1), do.AllocateEphemeron(1, 0), do.Free(1)),
    *(do.UnregisterFinalizer(0), do.AllocateWeakref(0), do.Free(0)),
]
RETURNED_AND_KEPT_ONCE = [
    *(NODE, do.RegisterFinalizer(0, 0), do.UnregisterFinalizer(0), NODE),
    *(do.RegisterFinalizer(1, 1), do.UnregisterFinalizer(1), do.Write(1, 0, 0), NODE),
    *(do.RegisterFinalizer(2, 2), do.UnregisterFinalizer(2), do.Free(1), do.AllocateWeakref(0)),
    *(do.Free(0), FULL, do.ReadWeakref(1, keep=True), do.Write(0, 0, 2), do.Free(0)),
    *(do.AllocateString(0), do.Free(1)),
]
KEPT_BY_QUEUED = [
    *(do.AllocateString(0), do.AllocateWeakref(0), do.AllocateWeakref(0), NODE),
    *(do.RegisterFinalizer(3, 1), NODE, do.RegisterFinalizer(4, 0), do.Write(3, 0, 1)),
    *(do.UnregisterFinalizer(4), do.Write(4, 0, 0), do.Free(0), do.Free(2), do.Free(2), do.Free(0)),
]
KEPT_BY_DEAD = [
    *(NODE, do.RegisterFinalizer(0, 0), NODE, do.RegisterFinalizer(1, 1)),
    *(do.UnregisterFinalizer(1), do.AllocateEphemeron(0, 1), do.Write(1, 0, 0), do.Free(1)),
    *(NODE, do.Write(2, 1, 0), do.Free(0), NODE, do.RegisterFinalizer(2, 2), do.Write(2, 0, 0)),
    *(do.Free(0), do.Free(1), do.AllocateString(0), do.Write(0, 1, None)),
]
"""The allocation that fails finds two dead: the node with finalizer 2, and one that it keeps."""
READ = [
    *(do.CollectStep(), do.ReadWeakref(0, keep=True), do.RunFinalizers(keep=True)),
    *(do.Resurrect(1), do.Read(2, 0), do.ReadWeakref(3)),
]


@pytest.mark.parametrize(
    ("configuration", "steps"),
    [
        pytest.param(FAILS, [*KEPT_ONCE, FULL, RUN, FULL, RUN], id="finalizer"),
        pytest.param(FAILS, [*BOTH_KEPT_ONCE, FULL, FULL, FULL], id="memory"),
        pytest.param(FAILS, [*VALUE_KEPT_ONCE, FULL, FULL, FULL], id="value"),
        pytest.param(FAILS, [*RETURNED_AND_KEPT_ONCE, FULL, FULL, FULL], id="returned"),
        pytest.param(FAILS, [*KEPT_BY_DEAD, FULL, RUN, FULL, RUN], id="dead"),
        pytest.param({}, [*KEPT_BY_QUEUED, *READ], id="weakref"),
    ],
)
def test_what_an_object_that_is_kept_once_refers_to_is_kept_too(
    adapter: Path, configuration: Mapping[str, int], steps: list[Action]
) -> None:
    target = ProcessTarget("lua", [str(adapter)], ANSWER_SECONDS)
    assert run_actions(target, configuration, steps) is None
